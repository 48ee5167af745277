//go:build maxsim_cuda && cgo && linux

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// sample is a batch of ragged, masked sequences with random rows, and room for what is computed.
type sample[T layout.Float] struct {
	b        layout.Batch
	q, d, ds []T
	scores   []T
	dq, dd   []T
	argmax   []int32
}

func newSample[T layout.Float](seed uint64, group int) *sample[T] {
	rng := rand.New(rand.NewPCG(seed, 1))
	ragged := func(n, longest int) layout.Seqs {
		cu := make([]int, n+1)
		for s := range n {
			cu[s+1] = cu[s] + rng.IntN(longest+1)
		}
		return layout.Packed(cu[n]+3, cu).Masked(func(int) bool { return rng.IntN(8) > 0 })
	}
	s := &sample[T]{b: layout.Batch{Dim: 32, Group: group}}
	bq, bd := 5, 7
	if group > 0 {
		bd = bq * group
	}
	s.b.Q, s.b.D = ragged(bq, 13), ragged(bd, 37)
	fill := func(n int) []T {
		x := make([]T, n)
		for k := range x {
			x[k] = T(rng.NormFloat64())
		}
		return x
	}
	s.q, s.d, s.ds = fill(s.b.Q.Rows*s.b.Dim), fill(s.b.D.Rows*s.b.Dim), fill(bq*s.b.Cols())
	s.scores = make([]T, len(s.ds))
	s.dq, s.dd = make([]T, len(s.q)), make([]T, len(s.d))
	return s
}

// run computes everything, both gradients in one call.
func (s *sample[T]) run(e layout.Engine[T]) error {
	tape, err := e.Forward(&s.b, s.q, s.d, s.scores, true)
	if err != nil {
		return err
	}
	if s.argmax, err = tape.Argmax(); err != nil {
		return err
	}
	return e.Backward(&s.b, s.q, s.d, tape, s.ds, s.dq, s.dd)
}

// sameBits reports where two samples differ, if they do.
func sameBits[T layout.Float](a, b *sample[T]) error {
	for _, c := range []struct {
		name string
		x, y []T
	}{{"scores", a.scores, b.scores}, {"dq", a.dq, b.dq}, {"dd", a.dd, b.dd}} {
		if !bytes.Equal(bytesOf(c.x), bytesOf(c.y)) {
			return fmt.Errorf("%s differ", c.name)
		}
	}
	if a.argmax != nil && b.argmax != nil && !slices.Equal(a.argmax, b.argmax) {
		return errors.New("argmax differs")
	}
	return nil
}

// setRing makes the device's next transfers go through a new ring, of that size. Goroutines of earlier transfers may still
// look at the old one.
func setRing(t testing.TB, d *Device, slot, slots int) {
	if err := d.exclusively(d.staging.close); err != nil {
		t.Fatal(err)
	}
	d.staging = newStager(d.drv)
	d.staging.ring.slot, d.staging.ring.slots = slot, int64(slots)
}

// TestWaysToTheSameGradient takes the gradients on every way that there is, and expects the same bits.
func TestWaysToTheSameGradient(t *testing.T) {
	d := openFirst(t)
	for _, precision := range []Precision{Float32, TF32, BF16, FP16} {
		for _, group := range []int{0, 2} {
			t.Run(fmt.Sprintf("%v,group=%d", precision, group), func(t *testing.T) {
				e := NewEngine[float32](d, precision)
				want := newSample[float32](11, group)
				if err := want.run(e); err != nil {
					t.Fatal(err)
				}
				for name, way := range map[string]func(s *sample[float32], tape layout.Tape) error{
					"dq, then dd": func(s *sample[float32], tape layout.Tape) error {
						return errors.Join(e.Backward(&s.b, s.q, s.d, tape, s.ds, s.dq, nil), e.Backward(&s.b, s.q, s.d, tape, s.ds, nil, s.dd))
					},
					"dd, then dq": func(s *sample[float32], tape layout.Tape) error {
						return errors.Join(e.Backward(&s.b, s.q, s.d, tape, s.ds, nil, s.dd), e.Backward(&s.b, s.q, s.d, tape, s.ds, s.dq, nil))
					},
					"from the host": func(s *sample[float32], tape layout.Tape) error {
						host, err := tape.Argmax()
						return errors.Join(err, e.Backward(&s.b, s.q, s.d, layout.HostTape(host), s.ds, s.dq, s.dd))
					},
					"after release": func(s *sample[float32], tape layout.Tape) error {
						tape.(*Tape).Release()
						return e.Backward(&s.b, s.q, s.d, tape, s.ds, s.dq, s.dd)
					},
					"into registered memory": func(s *sample[float32], tape layout.Tape) error {
						s.dq, s.dd = Alloc[float32](d, 1<<20)[:len(s.dq)], Alloc[float32](d, 1<<20)[:len(s.dd)]
						return e.Backward(&s.b, s.q, s.d, tape, s.ds, s.dq, s.dd)
					},
					"in portions, through a ring smaller than they": func(s *sample[float32], _ layout.Tape) error {
						defer func(bytes int64) { d.portionBytes = bytes }(d.portionBytes)
						d.portionBytes = 1024
						defer setRing(t, d, defaultSlot, defaultSlots)
						setRing(t, d, 64, 3)
						clear(s.scores)
						tape, err := e.Forward(&s.b, s.q, s.d, s.scores, true)
						if err != nil {
							return err
						}
						s.argmax, err = tape.Argmax()
						return errors.Join(err, e.Backward(&s.b, s.q, s.d, tape, s.ds, s.dq, s.dd))
					},
					"resident documents": func(s *sample[float32], _ layout.Tape) error {
						r, err := e.Keep(&s.b.D, s.b.Dim, s.d)
						if err != nil {
							return err
						}
						defer r.Release()
						with, err := e.With(r)
						if err != nil {
							return err
						}
						clear(s.scores)
						tape, err := with.Forward(&s.b, s.q, nil, s.scores, true)
						if err != nil {
							return err
						}
						return with.Backward(&s.b, s.q, nil, tape, s.ds, s.dq, s.dd)
					},
				} {
					s := newSample[float32](11, group)
					tape, err := e.Forward(&s.b, s.q, s.d, s.scores, true)
					if err != nil {
						t.Fatal(err)
					}
					if err := way(s, tape); err != nil {
						t.Errorf("%s: %v", name, err)
					} else if err := sameBits(s, want); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
	}
}

// TestPortionsInTheMemoryOfOthers: a portion of dd is computed where another has been, which may be on its way still, and
// whose rows are no zeros where this one's are masked or capacity.
func TestPortionsInTheMemoryOfOthers(t *testing.T) {
	d := openFirst(t)
	const docs, tokens, dim = 64, 512, 128
	defer func(bytes int64) { d.portionBytes = bytes }(d.portionBytes)
	for _, masked := range []bool{false, true} {
		b := layout.Batch{Q: layout.Dense(2, 4), D: layout.Dense(docs, tokens), Dim: dim}
		if masked {
			b.D = layout.Packed(docs*tokens+9, b.D.Cu).Masked(func(row int) bool { return row%97 < row/tokens })
		}
		rng := rand.New(rand.NewPCG(23, 1))
		random := func(x []float32) []float32 {
			for k := range x {
				x[k] = float32(rng.NormFloat64())
			}
			return x
		}
		s := &sample[float32]{b: b, q: random(make([]float32, b.Q.Rows*dim)), d: random(make([]float32, b.D.Rows*dim)),
			scores: make([]float32, 2*docs), ds: make([]float32, 2*docs)}
		e := NewEngine[float32](d, BF16)
		tape, err := e.Forward(&s.b, s.q, s.d, s.scores, true)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			random(s.ds)
			gradient := func(portionBytes int64, dd []float32) []float32 {
				d.portionBytes = portionBytes
				if err := e.Backward(&s.b, s.q, s.d, tape, s.ds, nil, dd); err != nil {
					t.Fatal(err)
				}
				return dd
			}
			want := gradient(1<<40, make([]float32, len(s.d)))
			for name, dd := range map[string][]float32{"registered": Alloc[float32](d, len(s.d)), "pageable": make([]float32, len(s.d))} {
				if !bytes.Equal(bytesOf(gradient(1<<20, dd)), bytesOf(want)) {
					t.Errorf("masked %t, %s memory: dd in portions is another", masked, name)
				}
			}
		}
	}
}

// resident keeps the sample's documents on the device, and returns an engine that uses them.
func (s *sample[T]) resident(t *testing.T, e *Engine[T]) (*Resident, *Engine[T]) {
	t.Helper()
	r, err := e.Keep(&s.b.D, s.b.Dim, s.d)
	if err != nil {
		t.Fatal(err)
	}
	with, err := e.With(r)
	if err != nil {
		t.Fatal(err)
	}
	return r, with
}

func TestResidentDocumentsMustFit(t *testing.T) {
	d := openFirst(t)
	e := NewEngine[float32](d, Float32)
	s := newSample[float32](12, 0)
	r, with := s.resident(t, e)
	other := newSample[float32](13, 0)
	if _, err := with.Forward(&other.b, other.q, nil, make([]float32, len(other.scores)), false); err == nil || !strings.Contains(err.Error(), "resident documents have 7 sequences") {
		t.Errorf("other documents: %v", err)
	}
	tape, err := with.Forward(&s.b, s.q, nil, s.scores, true)
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	if _, err := with.Forward(&s.b, s.q, nil, s.scores, false); !errors.Is(err, errResidentGone) {
		t.Errorf("after release: %v", err)
	}
	if err := with.Backward(&s.b, s.q, nil, tape, s.ds, s.dq, s.dd); !errors.Is(err, errResidentGone) {
		t.Errorf("gradient after release: %v", err)
	}
}

// TestResidentDocumentsOfNothing must fit, too, and be there: a batch without a pair of valid tokens used to be computed
// before anybody looked.
func TestResidentDocumentsOfNothing(t *testing.T) {
	d := openFirst(t)
	e := NewEngine[float32](d, Float32)
	s := newSample[float32](12, 0)
	r, with := s.resident(t, e)
	masked := func(side layout.Seqs) layout.Seqs { return side.Masked(func(int) bool { return false }) }
	docs, queries := s.b, s.b
	docs.D, queries.Q = masked(s.b.D), masked(s.b.Q)
	nothing := layout.HostTape(slices.Repeat([]int32{-1}, s.b.TapeLen()))
	const differ = "or its masks differ"
	if _, err := with.Forward(&docs, s.q, nil, s.scores, true); err == nil || !strings.Contains(err.Error(), differ) {
		t.Errorf("no document token: %v", err)
	}
	if err := with.Backward(&docs, s.q, nil, nothing, s.ds, s.dq, nil); err == nil || !strings.Contains(err.Error(), differ) {
		t.Errorf("gradient without a document token: %v", err)
	}
	tape, err := with.Forward(&queries, s.q, nil, s.scores, true)
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	_, forward := with.Forward(&queries, s.q, nil, s.scores, false)
	for name, err := range map[string]error{
		"forward": forward, "backward": with.Backward(&queries, s.q, nil, tape, s.ds, s.dq, nil),
		"backward of a tape in host memory": with.Backward(&queries, s.q, nil, nothing, s.ds, s.dq, nil),
	} {
		if !errors.Is(err, errResidentGone) {
			t.Errorf("%s after release: %v", name, err)
		}
	}
}

// TestManyThreads has several goroutines, some locked to a thread, on two Devices of the same GPU, and on a second GPU
// if there is one.
func TestManyThreads(t *testing.T) {
	devices := []*Device{openFirst(t), openFirst(t)}
	if second, err := Open(1); err == nil {
		defer second.Close()
		devices = append(devices, second)
	}
	want := newSample[float32](14, 0)
	if err := want.run(NewEngine[float32](devices[0], Float32)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 4 * len(devices) {
		all.Add(1)
		go func() {
			defer all.Done()
			if n%2 == 0 {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			e := NewEngine[float32](devices[n%len(devices)], Float32)
			for range 5 {
				s := newSample[float32](14, 0)
				if err := s.run(e); err != nil {
					t.Error(err)
				} else if err := sameBits(s, want); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		}()
	}
	all.Wait()
}

// TestCallerReusesItsOffsets between the passes, as who packs every batch into the same slices does.
func TestCallerReusesItsOffsets(t *testing.T) {
	d := openFirst(t)
	e := NewEngine[float32](d, Float32)
	for _, group := range []int{0, 2} {
		want, s := newSample[float32](18, group), newSample[float32](18, group)
		if err := want.run(e); err != nil {
			t.Fatal(err)
		}
		tape, err := e.Forward(&s.b, s.q, s.d, s.scores, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, side := range []*layout.Seqs{&s.b.Q, &s.b.D} {
			clear(side.Cu)
			clear(side.Runs)
			clear(side.First)
		}
		if s.argmax, err = tape.Argmax(); err != nil {
			t.Fatal(err)
		}
		if err := e.Backward(&want.b, s.q, s.d, tape, s.ds, s.dq, s.dd); err != nil {
			t.Fatal(err)
		}
		if err := sameBits(s, want); err != nil {
			t.Errorf("group %d: %v", group, err)
		}
	}
}

// TestTapeOfAnotherPrecision serves as the argmax alone: its token rows are in a form that the engine's kernels do not read.
func TestTapeOfAnotherPrecision(t *testing.T) {
	d := openFirst(t)
	float32s, bf16, tf32 := NewEngine[float32](d, Float32), NewEngine[float32](d, BF16), NewEngine[float32](d, TF32)
	for name, c := range map[string][2]*Engine[float32]{"float32, bf16": {float32s, bf16}, "bf16, float32": {bf16, float32s},
		"tf32, bf16": {tf32, bf16}, "float32, tf32": {float32s, tf32}} {
		t.Run(name, func(t *testing.T) {
			gradientsOfTape(t, c[0], c[1], newSample[float32](16, 0), newSample[float32](16, 0))
		})
	}
	t.Run("float32, float64", func(t *testing.T) {
		gradientsOfTape(t, float32s, NewEngine[float64](d, Float32), newSample[float32](17, 2), newSample[float64](17, 2))
	})
}

// gradientsOfTape gives b's gradients the tape of a's forward pass, and expects what its argmax in host memory gives.
func gradientsOfTape[A, B layout.Float](t *testing.T, a *Engine[A], b *Engine[B], forward *sample[A], backward *sample[B]) {
	t.Helper()
	tape, err := a.Forward(&forward.b, forward.q, forward.d, forward.scores, true)
	if err != nil {
		t.Fatal(err)
	}
	argmax, err := tape.Argmax()
	if err != nil {
		t.Fatal(err)
	}
	want := *backward
	want.dq, want.dd = make([]B, len(want.q)), make([]B, len(want.d))
	if err := b.Backward(&want.b, want.q, want.d, layout.HostTape(argmax), want.ds, want.dq, want.dd); err != nil {
		t.Fatal(err)
	}
	if err := b.Backward(&backward.b, backward.q, backward.d, tape, backward.ds, backward.dq, backward.dd); err != nil {
		t.Fatal(err)
	}
	if err := sameBits(backward, &want); err != nil {
		t.Error(err)
	}
}

// TestThousandStepsOnTheCard keeps no tape, never releases one, and has the collector switched off.
func TestThousandStepsOnTheCard(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	d := openFirst(t)
	const bound = 4 << 20
	if err := d.SetMemoryLimit(bound); err != nil {
		t.Fatal(err)
	}
	e, s := NewEngine[float32](d, Float32), newSample[float32](15, 0)
	want := newSample[float32](15, 0)
	if err := want.run(e); err != nil {
		t.Fatal(err)
	}
	memory := func() MemoryReport {
		m, err := d.Memory()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for tries := 1; ; tries++ {
		before := memory()
		for step := range 1000 {
			tape, err := e.Forward(&s.b, s.q, s.d, s.scores, true)
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if err := e.Backward(&s.b, s.q, s.d, tape, s.ds, s.dq, s.dd); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		after := memory()
		if after.Held > bound {
			t.Errorf("held %d bytes, bound %d", after.Held, bound)
		}
		lost := before.Free - after.Free
		if lost <= bound+64<<20 {
			break
		}
		if tries == 5 { // another process on the card may take memory meanwhile, but not every time
			t.Fatalf("the card has %d bytes less", lost)
		}
	}
	if err := sameBits(s, want); err != nil {
		t.Errorf("the last step: %v", err)
	}
}

func TestCardWithoutRoom(t *testing.T) {
	d := openFirst(t)
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	memory := &scope{pool: d.pool}
	defer memory.close()
	if _, err := memory.alloc(m.Free + m.Free/2); !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), fmt.Sprintf("asked for %d bytes", m.Free+m.Free/2)) {
		t.Errorf("got %v", err)
	}
	s := newSample[float32](16, 0)
	if err := s.run(NewEngine[float32](d, Float32)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestTwoHundredFiftyRuns expects the same bits from every run of a batch that fills the card, with results in memory
// that held others before.
func TestTwoHundredFiftyRuns(t *testing.T) {
	d := openFirst(t)
	b := layout.Batch{Q: layout.Dense(128, 32), D: layout.Dense(128, 300), Dim: 128}
	if d.Properties().Name == "stand-in" {
		b = layout.Batch{Q: layout.Dense(2, 5), D: layout.Dense(3, 9), Dim: 40}
	}
	b.D = b.D.Masked(func(row int) bool { return row%17 != 3 })
	rng := rand.New(rand.NewPCG(17, 1))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for k := range x {
			x[k] = float32(rng.NormFloat64())
		}
		return x
	}
	q, docs, ds := random(b.Q.Rows*b.Dim), random(b.D.Rows*b.Dim), random(b.Q.Len()*b.Cols())
	for _, precision := range []Precision{Float32, TF32, BF16, FP16} {
		e := NewEngine[float32](d, precision)
		var first *sample[float32]
		for run := range 250 {
			s := &sample[float32]{b: b, q: q, d: docs, ds: ds,
				scores: Alloc[float32](d, len(ds)), dq: Alloc[float32](d, len(q)), dd: Alloc[float32](d, len(docs))}
			if run%50 == 0 {
				if err := s.run(e); err != nil { // with the argmax
					t.Fatal(err)
				}
			} else {
				tape, err := e.Forward(&s.b, s.q, s.d, s.scores, true)
				if err != nil {
					t.Fatal(err)
				}
				tape.(*Tape).Expect(2)
				if err := e.Backward(&s.b, s.q, s.d, tape, s.ds, s.dq, s.dd); err != nil {
					t.Fatal(err)
				}
			}
			if first == nil {
				first = s
			} else if err := sameBits(s, first); err != nil {
				t.Fatalf("%v, run %d: %v", precision, run, err)
			}
		}
	}
}

// TestSplitIsAsGoodAsTheLoop measures float32 scores of the tensor cores against the float32 loop, both against float64,
// in units of the roundoff times the sum of the products' magnitudes.
func TestSplitIsAsGoodAsTheLoop(t *testing.T) {
	d := openFirst(t)
	e := NewEngine[float32](d, Float32)
	for _, dim := range []int{32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 4096} {
		worst, loop := 0.0, 0.0
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, uint64(dim)))
			b := layout.Batch{Q: layout.Dense(8, 4), D: layout.Dense(8, 1), Dim: dim}
			rows := func(n int) []float32 {
				x := make([]float32, n)
				for k := range x {
					x[k] = float32(rng.NormFloat64())
				}
				return x
			}
			q, docs := rows(b.Q.Rows*dim), rows(b.D.Rows*dim)
			scores := make([]float32, 64)
			if _, err := e.Forward(&b, q, docs, scores, false); err != nil {
				t.Fatal(err)
			}
			exact, naive := oracle.Forward[float64](&b, q, docs), oracle.Forward[float32](&b, q, docs)
			for k := range scores {
				unit := 0x1p-24 * exact.Scale[k]
				worst = max(worst, math.Abs(float64(scores[k])-exact.Scores[k])/unit)
				loop = max(loop, math.Abs(float64(naive.Scores[k])-exact.Scores[k])/unit)
			}
		}
		t.Logf("dim %4d: largest error %.3f units, of the loop %.3f", dim, worst, loop)
		if worst > 2*max(loop, 1) {
			t.Errorf("dim %d: error %.3f units, the loop has %.3f", dim, worst, loop)
		}
	}
}

// TestOneMatrixWithOtherSequencesOnBothSides: where q and d were the same memory, only the rows of the queries' sequences
// were uploaded, and documents that go beyond them were scored on whatever the device's memory held.
func TestOneMatrixWithOtherSequencesOnBothSides(t *testing.T) {
	d := openFirst(t)
	const dim = 40
	rng := rand.New(rand.NewPCG(18, 1))
	x := make([]float32, 20*dim)
	for k := range x {
		x[k] = float32(rng.IntN(7) - 3)
	}
	for _, b := range []layout.Batch{
		{Q: layout.Packed(20, []int{0, 3, 8}), D: layout.Packed(20, []int{0, 11, 19}), Dim: dim},
		{Q: layout.Packed(20, []int{0, 9, 17}), D: layout.Packed(20, []int{0, 2, 4, 5, 7}), Dim: dim, Group: 2},
	} {
		for _, precision := range []Precision{Float32, BF16} {
			run := func(documents []float32) *sample[float32] {
				s := &sample[float32]{b: b, q: x, d: documents, scores: make([]float32, b.Q.Len()*b.Cols()),
					dq: make([]float32, len(x)), dd: make([]float32, len(x))}
				s.ds = make([]float32, len(s.scores))
				for k := range s.ds {
					s.ds[k] = float32(k%3 - 1)
				}
				if err := s.run(NewEngine[float32](d, precision)); err != nil {
					t.Fatal(err)
				}
				return s
			}
			if err := sameBits(run(x), run(slices.Clone(x))); err != nil {
				t.Errorf("%v, group %d: %v", precision, b.Group, err)
			}
		}
	}
}
