package evaluate

import (
	"math"
	"math/rand/v2"
)

// flips is how many random sign patterns SignFlip draws; the standard error of p = .05 is then .0015.
const flips = 20000

// SignFlip is the two-sided paired randomisation test. If a and b, two systems on the same queries, did not differ,
// each difference could as well have the other sign: p is the share of random signs for which the summed difference
// is at least as large as the observed one, that one included. The draws are the same in every call.
func SignFlip(a, b []float64) float64 {
	var diffs []float64
	observed := 0.0
	for i := range a {
		if d := a[i] - b[i]; d != 0 { // a zero has no sign
			diffs = append(diffs, d)
			observed += d
		}
	}
	const slack = 1e-12 // sums that differ only by rounding are equal
	rng := rand.New(rand.NewPCG(1, 0))
	atLeast := 1
	for range flips {
		sum := 0.0
		var bits uint64
		for i, d := range diffs {
			if i%64 == 0 {
				bits = rng.Uint64()
			}
			if bits&1 == 0 {
				sum += d
			} else {
				sum -= d
			}
			bits >>= 1
		}
		if math.Abs(sum) >= math.Abs(observed)-slack {
			atLeast++
		}
	}
	return float64(atLeast) / (flips + 1)
}
