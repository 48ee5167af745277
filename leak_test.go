package maxsim

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// TestDroppedStepsAreCollected: nothing in the package keeps a graph, its machine or its tapes alive.
func TestDroppedStepsAreCollected(t *testing.T) {
	collected := make(chan struct{})
	func() {
		r := rand.New(rand.NewPCG(1, 2))
		s, err := newStep(randomTokens[float32](r, 2, 3, 4), randomTokens[float32](r, 3, 5, 4), randomTokens[float32](r, 2, 3), true)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(s.dd, func(c chan struct{}) { close(c) }, collected)
	}()
	// Finalizers and cleanups run when the scheduler lets them: as many collections as that takes, on any machine.
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		runtime.GC()
		select {
		case <-collected:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the graph of a dropped step is still reachable after a minute of collections")
}
