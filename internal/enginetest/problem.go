package enginetest

import (
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// problem is one input of an engine.
type problem[T layout.Float] struct {
	name  string
	b     *layout.Batch
	q, d  []T
	ds    []T // upstream gradient [bq, cols]
	shift int // where in its memory each slice begins, so that nothing is aligned
}

// output is what an engine made of a problem.
type output[T layout.Float] struct {
	scores []T
	argmax []int32
	dq, dd []T
}

// solve runs forward and backward and checks what holds for every problem: inputs untouched, nothing written outside
// the outputs, every output element written, a tape whose entries are valid tokens, zero gradients of rows that
// nobody chose.
func solve[T layout.Float](e Engine[T], p *problem[T]) (output[T], error) {
	c := newCall(p)
	tape, err := e.Forward(p.b, c.q.x, c.d.x, c.scores.x, true)
	if err != nil {
		return output[T]{}, fmt.Errorf("forward: %w", err)
	}
	argmax, err := argmaxOf(p.b, tape)
	if err != nil {
		return output[T]{}, err
	}
	if err := e.Backward(p.b, c.q.x, c.d.x, tape, c.ds.x, c.dq.x, c.dd.x); err != nil {
		return output[T]{}, fmt.Errorf("backward: %w", err)
	}
	out := output[T]{c.scores.x, argmax, c.dq.x, c.dd.x}
	if err := c.check(); err != nil {
		return out, err
	}
	return out, checkZeroRows(p.b, out)
}

// call is the memory of one forward and backward pass.
type call[T layout.Float] struct{ q, d, ds, scores, dq, dd guarded[T] }

func newCall[T layout.Float](p *problem[T]) *call[T] {
	b := p.b
	return &call[T]{
		q: guardedInput(p.q, p.shift+1), d: guardedInput(p.d, p.shift+2), ds: guardedInput(p.ds, p.shift+3),
		scores: guardedOutput[T](b.Q.Len()*b.Cols(), p.shift+4),
		dq:     guardedOutput[T](b.Q.Rows*b.Dim, p.shift+5),
		dd:     guardedOutput[T](b.D.Rows*b.Dim, p.shift+6),
	}
}

// check reports changed inputs, writes outside the outputs and unwritten elements.
func (c *call[T]) check() error {
	for _, m := range []struct {
		name   string
		g      guarded[T]
		output bool
	}{{"q", c.q, false}, {"d", c.d, false}, {"ds", c.ds, false}, {"scores", c.scores, true}, {"dq", c.dq, true}, {"dd", c.dd, true}} {
		if err := m.g.check(m.name); err != nil {
			return err
		}
		for at, v := range m.g.x {
			if m.output && sameBits(v, poison[T]()) {
				return fmt.Errorf("%s[%d] of %d was not written", m.name, at, len(m.g.x))
			}
		}
	}
	return nil
}

// argmaxOf copies the tape and checks it: a valid token of the document for every valid query token, -1 elsewhere.
func argmaxOf(b *layout.Batch, tape layout.Tape) ([]int32, error) {
	if tape == nil {
		return nil, fmt.Errorf("forward with record returned no tape")
	}
	entries, err := tape.Argmax()
	if err != nil {
		return nil, fmt.Errorf("argmax: %w", err)
	}
	if len(entries) != b.TapeLen() {
		return nil, fmt.Errorf("tape has %d entries, want %d", len(entries), b.TapeLen())
	}
	seen := make([]bool, len(entries))
	validQ, validD := validRows(&b.Q), validRows(&b.D)
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			j := b.Doc(i, k)
			empty := b.D.Valid(j) == 0
			for t := range b.Q.Tokens(i) {
				at := b.TapeAt(i, k) + t
				u := int(entries[at])
				seen[at] = true
				switch {
				case !validQ[b.Q.Cu[i]+t] || empty:
					if u != -1 {
						return nil, fmt.Errorf("argmax of query %d, document %d, token %d is %d, want -1: masked token or empty document", i, j, t, u)
					}
				case u < 0 || u >= b.D.Tokens(j) || !validD[b.D.Cu[j]+u]:
					return nil, fmt.Errorf("argmax of query %d, document %d, token %d is %d, which is no valid token", i, j, t, u)
				}
			}
		}
	}
	for at, s := range seen {
		if !s && entries[at] != -1 {
			return nil, fmt.Errorf("tape[%d] belongs to a capacity row and is %d, want -1", at, entries[at])
		}
	}
	return append([]int32(nil), entries...), nil
}

// checkZeroRows reports gradients of rows that no winner touches.
func checkZeroRows[T layout.Float](b *layout.Batch, out output[T]) error {
	chosenQ, chosenD := make([]bool, b.Q.Rows), make([]bool, b.D.Rows)
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			for t := range b.Q.Tokens(i) {
				if u := out.argmax[b.TapeAt(i, k)+t]; u >= 0 {
					chosenQ[b.Q.Cu[i]+t] = true
					chosenD[b.D.Cu[b.Doc(i, k)]+int(u)] = true
				}
			}
		}
	}
	for _, side := range []struct {
		name   string
		grad   []T
		chosen []bool
	}{{"dq", out.dq, chosenQ}, {"dd", out.dd, chosenD}} {
		for at, v := range side.grad {
			if row := at / b.Dim; !side.chosen[row] && v != 0 {
				return fmt.Errorf("%s[%d] is %g: row %d takes part in no score, its gradient is 0", side.name, at, v, row)
			}
		}
	}
	return nil
}

func validRows(s *layout.Seqs) []bool {
	valid := make([]bool, s.Rows)
	for _, r := range s.Runs {
		for row := r.Lo; row < r.Hi; row++ {
			valid[row] = true
		}
	}
	return valid
}

// sameBits reports whether two numbers are the same bits. All NaN count as one: their payload is no one's business.
func sameBits[T layout.Float](a, b T) bool {
	return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) || a != a && b != b
}

// diffBits returns an error for the first element in which two slices differ in bits.
func diffBits[T layout.Float](name string, got, want []T) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s has %d elements, want %d", name, len(got), len(want))
	}
	for at := range want {
		if !sameBits(got[at], want[at]) {
			return fmt.Errorf("%s[%d] of %d is %v, want the bits of %v", name, at, len(want), got[at], want[at])
		}
	}
	return nil
}

// diff returns an error for the first difference in bits of two outputs.
func (got output[T]) diff(want output[T]) error {
	if err := diffBits("scores", got.scores, want.scores); err != nil {
		return err
	}
	if err := diffArgmax(got.argmax, want.argmax); err != nil {
		return err
	}
	if err := diffBits("dq", got.dq, want.dq); err != nil {
		return err
	}
	return diffBits("dd", got.dd, want.dd)
}

func diffArgmax(got, want []int32) error {
	for at := range want {
		if got[at] != want[at] {
			return fmt.Errorf("tape[%d] of %d is %d, want %d", at, len(want), got[at], want[at])
		}
	}
	return nil
}
