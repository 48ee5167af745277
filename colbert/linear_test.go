package colbert

import (
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gorgonia.org/gorgonia"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
)

// countingBLAS is a BLAS of the user's choice.
type countingBLAS struct {
	gonum.Implementation
	calls *int
}

func (b countingBLAS) Sgemm(ta, tb blas.Transpose, m, n, k int, alpha float32, x []float32, ldx int, y []float32, ldy int, beta float32, z []float32, ldz int) {
	*b.calls++
	b.Implementation.Sgemm(ta, tb, m, n, k, alpha, x, ldx, y, ldy, beta, z, ldz)
}

func (b countingBLAS) Dgemm(ta, tb blas.Transpose, m, n, k int, alpha float64, x []float64, ldx int, y []float64, ldy int, beta float64, z []float64, ldz int) {
	*b.calls++
	b.Implementation.Dgemm(ta, tb, m, n, k, alpha, x, ldx, y, ldy, beta, z, ldz)
}

// useBLAS makes Gorgonia use b until the test ends.
func useBLAS(t testing.TB, b gorgonia.BLAS) {
	old := gorgonia.WhichBLAS()
	gorgonia.Use(b)
	t.Cleanup(func() { gorgonia.Use(old) })
}

// TestLinearByChosenBLAS: a BLAS that was chosen does the work, and gives what the kernels give.
func TestLinearByChosenBLAS(t *testing.T) {
	for _, f := range fixtures() {
		if len(f.name) < 6 || f.name[:6] != "Linear" {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			want := f.outputs(t, "tape", f.inputs)
			calls := 0
			useBLAS(t, countingBLAS{calls: &calls})
			got := f.outputs(t, "tape", f.inputs)
			if calls != 4 { // forward twice, two gradients
				t.Errorf("%d calls of the chosen BLAS, want 4", calls)
			}
			for k := range want {
				for n := range want[k] {
					if !close(got[k][n], want[k][n], 1e-14) {
						t.Errorf("output %d at %d is %v by BLAS, %v by kernels", k, n, got[k][n], want[k][n])
					}
				}
			}
		})
	}
}

// TestLinearByPath runs every path that MAXSIM_CPU can name.
func TestLinearByPath(t *testing.T) {
	f := wide()[1]
	want := f.outputs(t, "tape", f.inputs)
	for _, path := range tile.Available() {
		t.Setenv(cpu.PathVariable, path)
		for k, got := range f.outputs(t, "tape", f.inputs) {
			for n := range got {
				// Two orders of a sum of at most 2000 products of normal numbers, weighted by one.
				if !close(got[n], want[k][n], 1e-3) {
					t.Fatalf("%s: output %d at %d is %v, by %s %v", path, k, n, got[n], tile.Available()[0], want[k][n])
				}
			}
		}
	}
	t.Setenv(cpu.PathVariable, "abacus")
	_, err := evaluate(linear[float32]{dims: 2}, []gorgonia.Value{random(1, 2, 3), random(2, 3, 4)})
	wantError(t, err, ErrValue, `Linear: CPU kernels "abacus" cannot run here, expected one of`)
}
