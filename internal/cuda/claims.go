package cuda

import "sync/atomic"

// claims hands out the pieces of a transfer in order, each to one goroutine, which brings it to its place.
//
// A goroutine is waited for only while it has a piece. One that gets to run late, because its thread or its processor had
// to wake, finds that nothing is left and does nothing.
type claims struct {
	next atomic.Int64  // piece that nobody has begun
	done []atomic.Bool // pieces that are in their place
}

// expect is called once, before any other method, with the number of pieces.
func (c *claims) expect(pieces int) { c.done = make([]atomic.Bool, pieces) }

// take brings the next piece to its place, if there is one that may be begun.
func (c *claims) take(may func(piece int64) bool, bring func(piece int64)) bool {
	k := c.next.Load()
	if k >= int64(len(c.done)) || !may(k) || !c.next.CompareAndSwap(k, k+1) {
		return false
	}
	bring(k)
	c.done[k].Store(true)
	return true
}

// over reports whether all pieces have been begun.
func (c *claims) over() bool { return c.next.Load() >= int64(len(c.done)) }

// end lets no further piece be begun, and returns when those that were are in their place. It is called once.
func (c *claims) end() {
	begun := min(c.next.Swap(int64(len(c.done))), int64(len(c.done)))
	for k := range begun {
		until(c.done[k].Load)
	}
}
