package maxsim

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// BenchmarkMemory reports bytes at bq=bd=128, tq=32, td=300, dim=128, float32:
//
//	what=engine       one forward and backward on slices. extra-B is all it allocates, hence at least its peak beyond
//	                  the inputs, the gradients and the scores that the caller owns; B/(i,j,t) is the same per tape entry
//	what=tapemachine  a steady-state training step with the fused op; peak-B is the live heap before the step plus all
//	                  that the step allocates, hence at least its peak, inputs included
//	what=composed     the same graph from built-in ops
func BenchmarkMemory(b *testing.B) {
	const bq, bd, tq, td, dim = 128, 128, 32, 300, 128
	r := rand.New(rand.NewPCG(1, 2))
	q, d, w := randomTokens[float32](r, bq, tq, dim), randomTokens[float32](r, bd, td, dim), randomTokens[float32](r, bq, bd)
	b.Run("what=engine", func(b *testing.B) {
		batch := &layout.Batch{Q: layout.Dense(bq, tq), D: layout.Dense(bd, td), Dim: dim}
		qs, ds, up := q.Data().([]float32), d.Data().([]float32), w.Data().([]float32)
		scores, dq, dd := make([]float32, bq*bd), make([]float32, len(qs)), make([]float32, len(ds))
		var extra uint64
		for b.Loop() {
			extra = max(extra, allocated(func() {
				engine, err := engineOf[float32](Config{})
				if err != nil {
					b.Fatal(err)
				}
				tape, err := engine.Forward(batch, qs, ds, scores, true)
				if err != nil {
					b.Fatal(err)
				}
				if err := engine.Backward(batch, qs, ds, tape, up, dq, dd); err != nil {
					b.Fatal(err)
				}
			}))
		}
		b.ReportMetric(float64(extra), "extra-B")
		b.ReportMetric(float64(extra)/(bq*bd*tq), "B/(i,j,t)")
	})
	for _, what := range []string{"tapemachine", "composed"} {
		b.Run("what="+what, func(b *testing.B) {
			s, err := newStep(q, d, w, what == "tapemachine")
			if err != nil {
				b.Fatal(err)
			}
			if err := s.run(); err != nil { // steady state: the values of the last run stay bound to the nodes
				b.Fatal(err)
			}
			var peak uint64
			for b.Loop() {
				runtime.GC()
				var before runtime.MemStats
				runtime.ReadMemStats(&before)
				peak = max(peak, before.HeapAlloc+allocated(func() {
					if err := s.run(); err != nil {
						b.Fatal(err)
					}
				}))
			}
			b.ReportMetric(float64(peak), "peak-B")
		})
	}
}

// allocated returns the bytes that f allocates, nothing being collected or reused from a pool meanwhile.
func allocated(f func()) uint64 {
	runtime.GC() // twice: what a sync.Pool holds survives one collection
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
