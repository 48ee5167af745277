// Package casefile reads the cases of testdata/cases: JSON files with the inputs of a MaxSim operator and the values
// it must return. The format is described in testdata/cases/README.md.
//
// A file that does not say clearly what it asks is an error that names the file and the field. A case that asks for an
// error (ErrorReason) may have shapes that do not fit; those show when it is turned into a batch or a graph.
package casefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// The layouts of a case.
const (
	AllPairs   = "all_pairs"
	Paired     = "paired"
	Candidates = "candidates"
	Packed     = "packed"
)

// Case is one file.
type Case struct {
	Name        string
	Kind        string
	Description string
	Layout      string
	Options     Options

	// Steps are the runs of one compiled graph, one after the other: the case itself, then its "then" steps. What a
	// step leaves out has been taken over from the step before it.
	Steps []Step

	// ErrorReason says why building or running the case must fail; empty where it must not.
	ErrorReason string
}

// Step is one run: inputs and what must come out.
type Step struct {
	Q, D *Tensor

	// MaskQ and MaskD have the shapes of Q and D without the last axis and hold 0 and 1. nil is all valid, in every
	// step: where one step has a mask, the others have one of ones.
	MaskQ, MaskD *Tensor

	// CuQ and CuD are the offsets of the packed layout.
	CuQ, CuD []int

	// Upstream is d loss / d scores; nil where gradients are not checked.
	Upstream *Tensor

	Expect Expect
}

// Options are the case's settings; the zero value is the default.
type Options struct {
	Candidates int    // C of the candidates layout
	DType      string // storage type: float32, float64 or float16
	Loss       *Loss
	Repeat     int // run this many times: the bits must be the same
	AllowError bool
	Heavy      bool

	// Storage holds, for "q" and "d", the order in which the axes are stored; the tensor is handed over as a
	// transposed view.
	Storage map[string][]int
}

// Loss is a loss on the scores of which Upstream is the derivative.
type Loss struct {
	Name        string  `json:"name"`
	Temperature float64 `json:"temperature"`
	Labels      []int   `json:"labels"`
	Teacher     *Tensor `json:"teacher"`
	Reduction   string  `json:"reduction"`
}

// Load reads one case.
func Load(path string) (*Case, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if want := strings.TrimSuffix(filepath.Base(path), ".json"); c.Name != want {
		return nil, fmt.Errorf("%s: name is %q, the file's name says %q", path, c.Name, want)
	}
	return c, nil
}

// LoadDir reads every case in dir and below it, in the order of their paths. A folder without cases is an error.
func LoadDir(dir string) ([]*Case, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".json" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no cases (*.json)", dir)
	}
	sort.Strings(paths)
	cases := make([]*Case, len(paths))
	for i, path := range paths {
		if cases[i], err = Load(path); err != nil {
			return nil, err
		}
	}
	return cases, nil
}

// stepFile is a step as the file holds it; nil is left out.
type stepFile struct {
	Q        *Tensor      `json:"q"`
	D        *Tensor      `json:"d"`
	Cu       *offsetsFile `json:"cu_seqlens"`
	Masks    *masksFile   `json:"masks"`
	Upstream *Tensor      `json:"upstream_grad"`
	Expect   *Expect      `json:"expect"`
}

type offsetsFile struct {
	Q []int `json:"q"`
	D []int `json:"d"`
}

type masksFile struct {
	Q *Tensor `json:"q"`
	D *Tensor `json:"d"`
}

// caseFile is the whole file.
type caseFile struct {
	Name        string          `json:"name"`
	Kind        string          `json:"kind"`
	Description string          `json:"description"`
	Layout      string          `json:"layout"`
	Options     json.RawMessage `json:"options"`
	stepFile
	ExpectError *struct {
		Reason string `json:"reason"`
	} `json:"expect_error"`
	Then []stepFile `json:"then"`
}

func parse(text []byte) (*Case, error) {
	var f caseFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	c := &Case{Name: f.Name, Kind: f.Kind, Description: f.Description, Layout: f.Layout}
	switch {
	case f.Name == "":
		return nil, errors.New("name is missing")
	case !slices.Contains([]string{AllPairs, Paired, Candidates, Packed}, f.Layout):
		return nil, fmt.Errorf("layout %q is not one of all_pairs, paired, candidates, packed", f.Layout)
	case f.Q == nil || f.D == nil:
		return nil, errors.New("q and d are needed")
	case (f.Expect == nil) == (f.ExpectError == nil):
		return nil, errors.New("exactly one of expect and expect_error is needed")
	case f.Layout == Packed && f.Cu == nil:
		return nil, errors.New("the packed layout needs cu_seqlens")
	}
	var err error
	if c.Options, err = parseOptions(f.Options); err != nil {
		return nil, err
	}
	if f.ExpectError != nil {
		c.ErrorReason = f.ExpectError.Reason
		if c.ErrorReason == "" {
			c.ErrorReason = "not said"
		}
	}
	var last Step
	for n, file := range append([]stepFile{f.stepFile}, f.Then...) {
		last = file.after(last)
		if err := last.check(); err != nil && c.ErrorReason == "" {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		c.Steps = append(c.Steps, last)
	}
	c.completeMasks()
	return c, nil
}

// after returns the step that follows last: what f leaves out stays as it was.
func (f stepFile) after(last Step) Step {
	s := last
	if f.Q != nil {
		s.Q = f.Q
	}
	if f.D != nil {
		s.D = f.D
	}
	if f.Cu != nil {
		s.CuQ, s.CuD = f.Cu.Q, f.Cu.D
	}
	if f.Masks != nil {
		s.MaskQ, s.MaskD = f.Masks.Q, f.Masks.D
	}
	if f.Upstream != nil {
		s.Upstream = f.Upstream
	}
	if f.Expect != nil {
		s.Expect = *f.Expect
	}
	return s
}

// check reports what would make the step say nothing: masks that are neither 0 nor 1, or expectations that cannot be
// compared.
func (s *Step) check() error {
	for name, mask := range map[string]*Tensor{"masks.q": s.MaskQ, "masks.d": s.MaskD} {
		if mask == nil {
			continue
		}
		for at, v := range Values[float64](mask) {
			if v != 0 && v != 1 {
				return fmt.Errorf("%s: element %d is %g, want 0 or 1", name, at, v)
			}
		}
	}
	if s.Expect.Scores == nil {
		return errors.New("expect.scores is missing")
	}
	if (s.Expect.DQ != nil || s.Expect.DD != nil) && s.Upstream == nil {
		return errors.New("expect has gradients, but upstream_grad is missing")
	}
	return nil
}

// completeMasks gives every step a mask where one has it, so that one graph can run them all.
func (c *Case) completeMasks() {
	var q, d bool
	for _, s := range c.Steps {
		q, d = q || s.MaskQ != nil, d || s.MaskD != nil
	}
	for n := range c.Steps {
		s := &c.Steps[n]
		if q && s.MaskQ == nil {
			s.MaskQ = ones(s.Q.Shape[:len(s.Q.Shape)-1])
		}
		if d && s.MaskD == nil {
			s.MaskD = ones(s.D.Shape[:len(s.D.Shape)-1])
		}
	}
}
