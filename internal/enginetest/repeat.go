package enginetest

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// repeatChecks demand the same bits from run to run, for any number of threads, and with many callers at once.
func repeatChecks[T layout.Float](e Engine[T]) []check {
	problems := floatProblems[T]()
	// Rows that many query tokens choose: their gradient is a long sum, in which another order shows.
	problems = append(problems, newProblem[T](77, shape{16, 32, 6, 11, 48}, 0, holes, prefix, normal, normal, normal))
	return []check{
		{"run to run", func() error {
			return eachSame(e, problems, func(int) func() { return func() {} })
		}},
		{"GOMAXPROCS", func() error {
			return eachSame(e, problems, func(n int) func() {
				was := runtime.GOMAXPROCS([]int{1, 2, 3, 7}[n])
				return func() { runtime.GOMAXPROCS(was) }
			})
		}},
		{"concurrent callers", func() error { return concurrent(e, problems) }},
	}
}

// eachSame solves every problem in four settings and compares the bits.
func eachSame[T layout.Float](e Engine[T], problems []*problem[T], set func(n int) (undo func())) error {
	for _, p := range problems {
		want, err := solve(e, p)
		for n := 0; n < 4 && err == nil; n++ {
			undo := set(n)
			var got output[T]
			if got, err = solve(e, p); err == nil {
				err = got.diff(want)
			}
			undo()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// concurrent solves the problems from many goroutines, each in another order.
func concurrent[T layout.Float](e Engine[T], problems []*problem[T]) error {
	const callers = 8
	want := make([]output[T], len(problems))
	for n, p := range problems {
		var err error
		if want[n], err = solve(e, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	errs := make([]error, callers)
	var wait sync.WaitGroup
	for c := range callers {
		wait.Go(func() {
			for step := range problems {
				n := (c*5 + step) % len(problems)
				got, err := solve(e, problems[n])
				if err == nil {
					err = got.diff(want[n])
				}
				if err != nil {
					errs[c] = fmt.Errorf("%s: %w", problems[n].name, err)
					return
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
