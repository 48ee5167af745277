package colbert

import "math"

// Schedule is the factor on the learning rate in a step; the first step is 1.
type Schedule func(step int) float64

// Constant keeps the learning rate.
func Constant() Schedule { return func(int) float64 { return 1 } }

// WarmupLinear rises linearly to 1 over the first warmup steps and then falls linearly, to reach 0 in the step after
// the total-th. Without warm-up the first step has factor 1.
//
//	step/warmup                                step ≤ warmup
//	(total + 1 − step) / (total + 1 − warmup)  warmup < step ≤ total
//	0                                          after
func WarmupLinear(warmup, total int) Schedule {
	return warmupThen(warmup, total, func(left float64) float64 { return left })
}

// WarmupCosine rises linearly to 1 over the first warmup steps and then falls along half a cosine, to reach 0 in the
// step after the total-th.
func WarmupCosine(warmup, total int) Schedule {
	return warmupThen(warmup, total, func(left float64) float64 { return (1 - math.Cos(math.Pi*left)) / 2 })
}

// warmupThen is the factor fall(left) after the warm-up, where left goes from 1 to 0.
func warmupThen(warmup, total int, fall func(left float64) float64) Schedule {
	warmup = max(warmup, 1)
	return func(step int) float64 {
		switch {
		case step <= warmup:
			return float64(step) / float64(warmup)
		case step > total:
			return 0
		}
		return fall(float64(total+1-step) / float64(total+1-warmup))
	}
}
