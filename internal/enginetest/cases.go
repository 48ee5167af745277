package enginetest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// caseChecks runs the files of testdata/cases as they are and rewritten in other layouts. Cases that ask for an error
// are the ops' business: an engine is called with what has been checked.
func caseChecks[T layout.Float](e Engine[T], o Options) []check {
	dir, err := caseDir()
	if err != nil {
		return []check{{"files", func() error { return err }}}
	}
	cases, err := casefile.LoadDir(dir)
	if err != nil {
		return []check{{"files", func() error { return err }}}
	}
	var list []check
	for _, c := range cases {
		if c.ErrorReason != "" || c.Options.Heavy {
			continue
		}
		for n := range c.Steps {
			s := &c.Steps[n]
			name := c.Name
			if n > 0 {
				name = fmt.Sprintf("%s,step=%d", c.Name, n)
			}
			list = append(list, check{name, func() error { return runCase(e, o, c, s) }})
		}
	}
	return list
}

// caseDir finds testdata/cases from the folder of any package of the module.
func caseDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		cases := filepath.Join(dir, "testdata", "cases")
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return cases, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = parent
	}
}

func runCase[T layout.Float](e Engine[T], o Options, c *casefile.Case, s *casefile.Step) error {
	b, err := c.Batch(s)
	if err != nil {
		return err
	}
	p := &problem[T]{name: c.Name, b: b, q: casefile.Values[T](s.Q), d: casefile.Values[T](s.D), ds: make([]T, b.Q.Len()*b.Cols())}
	if s.Upstream != nil {
		p.ds = casefile.Values[T](s.Upstream)
	}
	if o.Largest > 0 && (beyond(&b.Q, b.Dim, p.q, o.Largest) || beyond(&b.D, b.Dim, p.d, o.Largest)) {
		return nil
	}
	got, err := solve(e, p)
	if err != nil {
		return err
	}
	if err := compareCase(o, c, s, b, got); err != nil {
		return err
	}
	for _, r := range rewrites(p) {
		other, err := solve(e, r.problem)
		if err == nil {
			err = compareCase(o, c, s, b, r.back(other))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.problem.name, err)
		}
	}
	return nil
}

// beyond reports whether a valid row holds a finite value of greater magnitude than largest.
func beyond[T layout.Float](s *layout.Seqs, dim int, rows []T, largest float64) bool {
	for _, run := range s.Runs {
		for _, x := range rows[run.Lo*dim : run.Hi*dim] {
			if a := math.Abs(float64(x)); a > largest && !math.IsInf(a, 0) {
				return true
			}
		}
	}
	return false
}

// compareCase holds an output to the file. A reduced precision has wider tolerances, and its argmax counts only where
// the file's margin is beyond its error.
func compareCase[T layout.Float](o Options, c *casefile.Case, s *casefile.Step, b *layout.Batch, got output[T]) error {
	scoreTol, gradTol := s.Expect.ScoreTol(), s.Expect.GradTol()
	for _, tol := range []*casefile.Tol{&scoreTol, &gradTol} {
		tol.RTol += 4 * o.Roundoff
		tol.ATol += 4 * o.Roundoff * float64(b.Dim)
	}
	argmax, gradients := s.Expect.Argmax, s.Upstream != nil
	if o.Roundoff > 0 && s.Expect.MinMargin < 8*o.Roundoff*float64(b.Dim) {
		argmax, gradients = nil, false
	}
	if err := compare("scores", got.scores, s.Expect.Scores, scoreTol); err != nil {
		return err
	}
	if err := compare("argmax", c.ArgmaxOf(b, got.argmax), argmax, casefile.Exact); err != nil {
		return err
	}
	if !gradients {
		return nil
	}
	if err := compare("dq", got.dq, s.Expect.DQ, gradTol); err != nil {
		return err
	}
	return compare("dd", got.dd, s.Expect.DD, gradTol)
}

func compare[T casefile.Element](name string, got []T, want *casefile.Expected, tol casefile.Tol) error {
	if want == nil {
		return nil
	}
	return casefile.Compare(name, got, want, tol)
}
