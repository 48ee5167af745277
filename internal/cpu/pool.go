package cpu

import (
	"sync"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// pools keep the memory of finished calls for later ones, so that a training step in its steady state allocates
// little more than its tape.
type pools[T layout.Float] struct {
	forward   sync.Pool // of *forward[T]
	maxima    sync.Pool // of *maxima[T]
	fragments sync.Pool // of *fragments[T]
	backward  sync.Pool // of *backward[T]
	gather    sync.Pool // of *gather[T]
}

var (
	pools32 pools[float32]
	pools64 pools[float64]
)

// poolsOf returns the pools of T.
func poolsOf[T layout.Float]() *pools[T] {
	if p, ok := any(&pools32).(*pools[T]); ok {
		return p
	}
	return any(&pools64).(*pools[T])
}

// take returns a value from pool, or a zero one.
func take[S any](pool *sync.Pool) *S {
	if s, ok := pool.Get().(*S); ok {
		return s
	}
	return new(S)
}
