package cuda

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// small is a batch with masks on both sides, so that every buffer that can occur does.
func small() (b layout.Batch, q, d, scores, dq, dd []float32) {
	b = layout.Batch{Q: layout.Dense(3, 5), D: layout.Dense(4, 7), Dim: 40}
	b.Q = b.Q.Masked(func(row int) bool { return row%5 != 3 })
	b.D = b.D.Masked(func(row int) bool { return row%3 != 1 })
	return b, make([]float32, 3*5*40), make([]float32, 4*7*40), make([]float32, 12), make([]float32, 3*5*40), make([]float32, 4*7*40)
}

func used(t *testing.T, d *Device) int64 {
	t.Helper()
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	return m.Used
}

// TestNothingLeaksWhereverItFails lets every single call of the driver fail, one after the other: alone, which nothing may
// overlook, and with all calls after it.
func TestNothingLeaksWhereverItFails(t *testing.T) {
	for _, precision := range []Precision{Float32, BF16} {
		for _, portionBytes := range []int64{defaultPortionBytes, 1 << 10} { // as a whole, and in parts that take turns
			for _, registered := range []bool{false, true} {
				for _, once := range []bool{false, true} {
					nothingLeaks(t, precision, portionBytes, registered, once)
				}
			}
		}
	}
}

func nothingLeaks(t *testing.T, precision Precision, portionBytes int64, registered, once bool) {
	b, q, d, scores, dq, dd := small()
	for n := 0; ; n++ {
		dev, f := openFake(t, 1<<26)
		dev.portionBytes = portionBytes
		if registered {
			dd = Alloc[float32](dev, leastRegistered/4)[:len(dd)]
		}
		e := NewEngine[float32](dev, precision)
		if err := dev.Trace(n%2 == 1); err != nil {
			t.Fatal(err)
		}
		f.countdown, f.once = n, once
		tape, err := e.Forward(&b, q, d, scores, true)
		if err == nil {
			err = e.Backward(&b, q, d, tape, scores, dq, dd)
		}
		if err == nil {
			_, err = tape.Argmax()
		}
		if err == nil && once && f.countdown < 0 {
			t.Fatalf("%v: call %d failed, and nobody noticed", precision, n)
		}
		f.countdown = -1
		if tape != nil {
			tape.(*Tape).Release()
		}
		if err == nil && n%2 == 1 { // the even one before was not traced, and made fewer calls
			t.Logf("%v, portions of %d bytes, registered %t: %d calls", precision, portionBytes, registered, n)
			break
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, errFake) {
			t.Fatalf("call %d: %v", n, err)
		}
		if left := used(t, dev); left != 0 {
			t.Fatalf("%v: %d bytes in use after call %d failed", precision, left, n)
		}
		if f.flying != [4]bool{} {
			t.Fatalf("%v: call %d failed, and nobody waited for queues %v", precision, n, f.flying)
		}
		again, err := e.Forward(&b, q, d, scores, true)
		if err != nil {
			t.Fatalf("call %d failed, and the device is not usable: %v", n, err)
		}
		again.(*Tape).Release()
	}
}

func TestTapeIsGivenBackAfterItsLastConsumer(t *testing.T) {
	b, q, d, scores, dq, dd := small()
	dev, _ := openFake(t, 1<<26)
	e := NewEngine[float32](dev, Float32)
	for name, consume := range map[string]func(*Tape) error{
		"both at once": func(tape *Tape) error { tape.Expect(2); return e.Backward(&b, q, d, tape, scores, dq, dd) },
		"dq, then dd": func(tape *Tape) error {
			tape.Expect(2)
			return errors.Join(e.Backward(&b, q, d, tape, scores, dq, nil), e.Backward(&b, q, d, tape, scores, nil, dd))
		},
		"dd, then dq": func(tape *Tape) error {
			tape.Expect(2)
			return errors.Join(e.Backward(&b, q, d, tape, scores, nil, dd), e.Backward(&b, q, d, tape, scores, dq, nil))
		},
		"frozen documents": func(tape *Tape) error { tape.Expect(1); return e.Backward(&b, q, d, tape, scores, dq, nil) },
		"argmax": func(tape *Tape) error {
			tape.Expect(1)
			_, err := tape.Argmax()
			return err
		},
		"nobody": func(tape *Tape) error { tape.Expect(0); return nil },
	} {
		recorded, err := e.Forward(&b, q, d, scores, true)
		if err != nil {
			t.Fatal(err)
		}
		if used(t, dev) == 0 {
			t.Errorf("%s: the tape holds nothing", name)
		}
		if err := consume(recorded.(*Tape)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left := used(t, dev); left != 0 {
			t.Errorf("%s: %d bytes in use after the last consumer", name, left)
		}
		if err := e.Backward(&b, q, d, recorded, scores, dq, dd); err != nil {
			t.Errorf("%s: a late gradient: %v", name, err)
		}
		if left := used(t, dev); left != 0 {
			t.Errorf("%s: %d bytes in use after a late gradient", name, left)
		}
	}
}

func TestNothingIsUploadedTwice(t *testing.T) {
	b, q, d, scores, dq, dd := small()
	dev, f := openFake(t, 1<<26)
	counting := &countingQueue{queue: dev.in}
	dev.in = counting
	e := NewEngine[float32](dev, Float32)
	tape, err := e.Forward(&b, q, d, scores, true)
	if err != nil {
		t.Fatal(err)
	}
	counting.bytes = 0
	for _, call := range []func() error{
		func() error { return e.Backward(&b, q, d, tape, scores, dq, nil) },
		func() error { return e.Backward(&b, q, d, tape, scores, nil, dd) },
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	if want := int64(4 * len(scores)); counting.bytes != want {
		t.Errorf("two gradients uploaded %d bytes, expected the upstream gradient's %d", counting.bytes, want)
	}
	scores[3]++
	if err := e.Backward(&b, q, d, tape, scores, dq, dd); err != nil || counting.bytes != int64(2*4*len(scores)) {
		t.Errorf("%v; another upstream gradient, and %d bytes uploaded in all", err, counting.bytes)
	}
	inversions := 0
	for _, l := range f.launches {
		if strings.Contains(l.kernel, "csr") {
			inversions++
		}
	}
	if inversions != 1 {
		t.Errorf("the inverse was built %d times", inversions)
	}
	same := q
	bx := layout.Batch{Q: b.Q, D: b.Q, Dim: b.Dim}
	counting.bytes = 0
	if _, err := e.Forward(&bx, same, same, make([]float32, 9), false); err != nil {
		t.Fatal(err)
	}
	if counting.bytes >= int64(2*4*len(q)) {
		t.Errorf("MaxSim(x, x) uploaded %d bytes, x has %d", counting.bytes, 4*len(q))
	}
}

type countingQueue struct {
	queue
	mu    sync.Mutex
	bytes int64
}

func (q *countingQueue) upload(dst address, src unsafe.Pointer, bytes int64) error {
	q.mu.Lock()
	q.bytes += bytes
	q.mu.Unlock()
	return q.queue.upload(dst, src, bytes)
}

// TestThousandStepsWithoutGC keeps no tape, never releases one, and has the collector switched off.
func TestThousandStepsWithoutGC(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b, q, d, scores, dq, dd := small()
	dev, f := openFake(t, 1<<30)
	const bound = 1 << 20
	if err := dev.SetMemoryLimit(bound); err != nil {
		t.Fatal(err)
	}
	e := NewEngine[float32](dev, Float32)
	for step := range 1000 {
		tape, err := e.Forward(&b, q, d, scores, true)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if err := e.Backward(&b, q, d, tape, scores, dq, dd); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if f.used > bound {
			t.Fatalf("step %d: %d bytes taken from the card, bound %d", step, f.used, bound)
		}
	}
}

func TestOutOfMemoryLeavesTheDeviceUsable(t *testing.T) {
	b, q, d, scores, _, _ := small()
	dev, _ := openFake(t, 1<<26)
	if err := dev.SetMemoryLimit(16 << 10); err != nil {
		t.Fatal(err)
	}
	e := NewEngine[float32](dev, Float32)
	if _, err := e.Forward(&b, q, d, scores, true); !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), "asked for") {
		t.Errorf("got %v", err)
	}
	if left := used(t, dev); left != 0 {
		t.Errorf("%d bytes in use", left)
	}
	if err := dev.SetMemoryLimit(0); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Forward(&b, q, d, scores, false); err != nil {
		t.Error(err)
	}
}

func TestDeviceErrorsNameTheKernel(t *testing.T) {
	b, q, d, scores, _, _ := small()
	dev, f := openFake(t, 1<<26)
	e := NewEngine[float32](dev, Float32)
	f.failed = errors.New("illegal address")
	_, err := e.Forward(&b, q, d, scores, false)
	f.failed = nil
	if err == nil || !strings.Contains(err.Error(), "kernel maxsim_scores_f32, grid (1,1,1), block (256,1,1)") || !strings.Contains(err.Error(), "cuda:0: ") {
		t.Errorf("got %v", err)
	}
}

func TestWrongSizesAreErrors(t *testing.T) {
	b, q, d, scores, dq, dd := small()
	dev, _ := openFake(t, 1<<26)
	e := NewEngine[float32](dev, Float32)
	if _, err := e.Forward(&b, q[1:], d, scores, false); err == nil || !strings.Contains(err.Error(), "q has 599 elements, expected 600") {
		t.Errorf("got %v", err)
	}
	tape, err := e.Forward(&b, q, d, scores, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Backward(&b, q, d, tape, scores, dq, dd[1:]); err == nil {
		t.Error("a short dd is no error")
	}
	if err := e.Backward(&b, q, d, nil, scores, dq, dd); err == nil {
		t.Error("no tape is no error")
	}
}

func TestClosedDevice(t *testing.T) {
	b, q, d, scores, dq, dd := small()
	dev, _ := openFake(t, 1<<26)
	e := NewEngine[float32](dev, Float32)
	tape, err := e.Forward(&b, q, d, scores, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dev.Close(), dev.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Forward(&b, q, d, scores, false); !errors.Is(err, ErrClosed) {
		t.Errorf("forward: %v", err)
	}
	if err := e.Backward(&b, q, d, tape, scores, dq, dd); !errors.Is(err, ErrClosed) {
		t.Errorf("backward: %v", err)
	}
	if _, err := dev.Memory(); !errors.Is(err, ErrClosed) {
		t.Errorf("memory: %v", err)
	}
	tape.(*Tape).Release()
	runtime.KeepAlive(tape)
}

func TestTraceTimesEveryKernel(t *testing.T) {
	b, q, d, scores, dq, dd := small()
	dev, f := openFake(t, 1<<26)
	e := NewEngine[float32](dev, Float32)
	if err := dev.Trace(true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		tape, err := e.Forward(&b, q, d, scores, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Backward(&b, q, d, tape, scores, dq, dd); err != nil {
			t.Fatal(err)
		}
	}
	launches, seconds := 0, 0.0
	for _, k := range dev.Traced() {
		launches += k.Launches
		seconds += k.Seconds
	}
	if launches != len(f.launches) || seconds < 0.9e-3*float64(launches) || seconds > 1.1e-3*float64(launches) {
		t.Errorf("traced %d launches and %g s, expected %d of 1 ms each", launches, seconds, len(f.launches))
	}
}

func TestManyGoroutines(t *testing.T) {
	dev, f := openFake(t, 1<<26)
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			b, q, d, scores, dq, dd := small()
			e := NewEngine[float32](dev, Float32)
			for range 20 {
				tape, err := e.Forward(&b, q, d, scores, true)
				if err != nil {
					t.Error(err)
					return
				}
				tape.(*Tape).Expect(2)
				if err := errors.Join(e.Backward(&b, q, d, tape, scores, nil, dd), e.Backward(&b, q, d, tape, scores, dq, nil)); err != nil {
					t.Error(err)
				}
				_ = Alloc[float32](dev, 1<<15)
			}
		}()
	}
	all.Wait()
	if left := used(t, dev); left != 0 {
		t.Errorf("%d bytes in use", left)
	}
	_ = f
}

// TestResidentDocumentsHoldPackedRowsOnly: the user's float32 rows, twice as large, used to stay beside the packed ones.
func TestResidentDocumentsHoldPackedRowsOnly(t *testing.T) {
	dev, f := openFake(t, 1<<26)
	seqs := layout.Dense(64, 64)
	const dim, rows = 64, 64 * 64
	docs := make([]float32, rows*dim)
	e := NewEngine[float32](dev, BF16)
	r, err := e.Keep(&seqs, dim, docs)
	if err != nil {
		t.Fatal(err)
	}
	if held := used(t, dev); held > rows*dim*2+rows {
		t.Errorf("%d bytes in use for %d of packed rows", held, rows*dim*2)
	}
	r.Release()
	for n := 0; ; n++ { // nothing stays where keeping them fails
		f.countdown = n
		r, err := e.Keep(&seqs, dim, docs)
		f.countdown = -1
		if err == nil {
			r.Release()
			break
		}
		if left := used(t, dev); left != 0 {
			t.Fatalf("%d bytes in use after call %d failed", left, n)
		}
	}
}

func TestLimitsOfWhatKernelsCount(t *testing.T) {
	b := layout.Batch{Q: layout.Dense(1, 1), D: layout.Dense(2, mostTokens), Dim: 1}
	if _, err := newProblem(&b); err != nil {
		t.Errorf("the longest documents: %v", err)
	}
	b.D = layout.Dense(1, mostTokens+1)
	if _, err := newProblem(&b); err == nil || !strings.Contains(err.Error(), "16777217 tokens, expected at most 16777216") {
		t.Errorf("a document that is too long: %v", err)
	}
}
