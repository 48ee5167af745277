package cpu

import (
	"runtime"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// TestBrokenTapeIsAnError: a tape that does not belong to the batch is an error of every backward pass, for any number of
// threads, never a read outside the rows. A sound call after it is none the worse.
func TestBrokenTapeIsAnError(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	b := &layout.Batch{Q: layout.Dense(2, 2), D: layout.Dense(2, 3), Dim: 4}
	rows := func(n int) []float32 { return make([]float32, n*b.Dim) }
	for _, path := range tile.Available() {
		e := mustWith[float32](t, path)
		for _, threads := range []int{1, 3} {
			runtime.GOMAXPROCS(threads)
			for _, c := range []struct {
				tape layout.Tape
				want string
			}{
				{nil, "needs the argmax tape"},
				{layout.HostTape{0, 0, 0}, "argmax tape of 3 entries, expected 4 query rows × 2 columns"},
				{layout.HostTape{0, 0, 0, 3, 0, 0, 0, 0}, "argmax 3 of query 0, token 1 is no token of document 1, expected -1 to 2"},
				{layout.HostTape{0, 0, 0, 0, 0, 0, 0, -2}, "argmax -2 of query 1, token 1 is no token of document 1"},
				{layout.HostTape{0, 1, 2, -1, 0, 1, 2, -1}, ""},
			} {
				check := func(pass string, err error) {
					t.Helper()
					if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
						t.Errorf("%s, %d threads, tape %v: %s: error %v, expected %q", path, threads, c.tape, pass, err, c.want)
					}
				}
				ds := make([]float32, 4)
				check("dq", e.Backward(b, rows(4), rows(6), c.tape, ds, rows(4), nil))
				check("dd", e.Backward(b, rows(4), rows(6), c.tape, ds, nil, rows(6)))
				_, _, err := e.BackwardDocRows(b, rows(4), c.tape, ds)
				check("document rows", err)
			}
		}
	}
}

// TestSliceOfAnotherLengthIsAnError names the slice, its length and the one expected.
func TestSliceOfAnotherLengthIsAnError(t *testing.T) {
	b := &layout.Batch{Q: layout.Dense(2, 2), D: layout.Dense(2, 3), Dim: 4}
	e := New[float64]()
	tape := layout.HostTape{0, 1, 2, -1, 0, 1, 2, -1}
	type slices struct{ q, d, scores, ds, dq, dd int }
	for want, n := range map[string]slices{
		"q has 15 elements, expected 4 × 4":     {15, 24, 4, 4, 16, 24},
		"d has 25 elements, expected 6 × 4":     {16, 25, 4, 4, 16, 24},
		"scores has 3 elements, expected 2 × 2": {16, 24, 3, 4, 16, 24},
		"ds has 5 elements, expected 2 × 2":     {16, 24, 4, 5, 16, 24},
		"dq has 17 elements, expected 4 × 4":    {16, 24, 4, 4, 17, 24},
		"dd has 23 elements, expected 6 × 4":    {16, 24, 4, 4, 16, 23},
	} {
		of := func(n int) []float64 { return make([]float64, n) }
		_, err := e.Forward(b, of(n.q), of(n.d), of(n.scores), true)
		if err == nil {
			err = e.Backward(b, of(n.q), of(n.d), tape, of(n.ds), of(n.dq), of(n.dd))
		}
		if err == nil || err.Error() != want {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}
