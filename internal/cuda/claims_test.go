package cuda

import (
	"sync/atomic"
	"testing"
)

// TestTransferDoesNotWaitForGoroutinesThatHaveNotRun: on a host whose processors were slow to wake, every upload and
// download waited for the last of its goroutines to start, and to find that there was nothing left to do.
func TestTransferDoesNotWaitForGoroutinesThatHaveNotRun(t *testing.T) {
	var c claims
	c.expect(3)
	always := func(int64) bool { return true }
	c.take(always, func(int64) {})
	c.end() // would hang, if there were anything to wait for: nobody else runs
	if !c.over() || c.take(always, func(k int64) { t.Errorf("piece %d was begun after the end", k) }) {
		t.Error("a goroutine that runs late finds a piece")
	}
}

// TestTransferWaitsForPiecesUnderWay, whose memory may be somebody else's after the end.
func TestTransferWaitsForPiecesUnderWay(t *testing.T) {
	var c claims
	c.expect(3)
	var brought atomic.Bool
	begun, finish, ended := make(chan bool), make(chan bool), make(chan bool)
	go c.take(func(k int64) bool { return k == 0 }, func(int64) {
		close(begun)
		<-finish
		brought.Store(true)
	})
	<-begun
	go func() {
		c.end()
		if !brought.Load() {
			t.Error("the end did not wait")
		}
		close(ended)
	}()
	until(c.over) // no more pieces
	close(finish)
	<-ended
}

// TestPiecesGoToOneGoroutineEach, in order and each once, however many try.
func TestPiecesGoToOneGoroutineEach(t *testing.T) {
	var c claims
	c.expect(1000)
	var times [1000]atomic.Int32
	for range 4 {
		go func() {
			for !c.over() {
				c.take(func(k int64) bool { return k%7 > 0 || k == 0 || times[k-7].Load() > 0 }, func(k int64) { times[k].Add(1) })
			}
		}()
	}
	until(c.over)
	c.end()
	for k := range times {
		if n := times[k].Load(); n != 1 {
			t.Errorf("piece %d was brought %d times", k, n)
		}
	}
}
