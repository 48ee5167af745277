package colbert

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// PairedRandomisation tests whether two systems differ on the same queries. It returns the two-sided p value of the
// paired randomisation (sign-flip) test of Fisher on the mean difference: how often a difference at least as large
// appears when the two results of each query are swapped at random.
//
//	p = (1 + #{trials with |mean| ≥ |observed mean|}) / (1 + trials)
//
// a and b hold one finite result for each query, in the same order. The same seed gives the same p.
func PairedRandomisation(a, b []float64, trials int, seed uint64) (float64, error) {
	if len(a) != len(b) || len(a) == 0 || trials < 1 {
		return 0, fmt.Errorf("%w: PairedRandomisation: %d and %d results in %d trials, expected as many of both and at least one",
			ErrShape, len(a), len(b), trials)
	}
	diff := make([]float64, 0, len(a))
	observed, scale := 0.0, 0.0
	for i := range a {
		d := a[i] - b[i]
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return 0, fmt.Errorf("%w: PairedRandomisation: results of query %d are %v and %v", ErrValue, i, a[i], b[i])
		}
		observed += d
		scale += math.Abs(d)
		if d != 0 { // swapping equal results changes nothing
			diff = append(diff, d)
		}
	}
	// Sums of the same numbers in another order of signs may differ in their last bits: count them as equal.
	limit := math.Abs(observed) - 1e-12*scale
	rng := rand.New(rand.NewPCG(seed, 0))
	extreme := 1
	for range trials {
		sum := 0.0
		var bits uint64
		for i, d := range diff {
			if i%64 == 0 {
				bits = rng.Uint64()
			}
			if bits&1 == 0 {
				d = -d
			}
			bits >>= 1
			sum += d
		}
		if math.Abs(sum) >= limit {
			extreme++
		}
	}
	return float64(extreme) / float64(1+trials), nil
}
