package casefile

import (
	"fmt"
	"slices"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Batch returns the step's shapes, masks and pairing as engines see them. Shapes that do not fit are an error.
func (c *Case) Batch(s *Step) (*layout.Batch, error) {
	rank := 3
	if c.Layout == Packed {
		rank = 2
	}
	if len(s.Q.Shape) != rank || len(s.D.Shape) != rank {
		return nil, fmt.Errorf("%s: q %v and d %v, want rank %d", c.Layout, s.Q.Shape, s.D.Shape, rank)
	}
	dim := s.Q.Shape[rank-1]
	if s.D.Shape[rank-1] != dim {
		return nil, fmt.Errorf("%s: the dim of q %v is not that of d %v", c.Layout, s.Q.Shape, s.D.Shape)
	}
	b := &layout.Batch{Dim: dim}
	bq, bd := s.Q.Shape[0], s.D.Shape[0]
	switch c.Layout {
	case Paired:
		b.Group = 1
	case Candidates:
		if b.Group = c.Options.Candidates; b.Group < 1 {
			return nil, fmt.Errorf("candidates: options.candidates is %d", b.Group)
		}
	}
	if b.Group > 0 && bd != bq*b.Group {
		return nil, fmt.Errorf("%s: %d documents for %d queries, want %d for each", c.Layout, bd, bq, b.Group)
	}
	var err error
	if b.Q, err = sequences(c.Layout, "q", s.Q, s.CuQ, s.MaskQ); err != nil {
		return nil, err
	}
	b.D, err = sequences(c.Layout, "d", s.D, s.CuD, s.MaskD)
	return b, err
}

// sequences places the sequences of one side.
func sequences(kind, name string, x *Tensor, cu []int, mask *Tensor) (layout.Seqs, error) {
	var s layout.Seqs
	if kind == Packed {
		if err := checkOffsets(cu, x.Shape[0]); err != nil {
			return s, fmt.Errorf("cu_seqlens.%s: %w", name, err)
		}
		s = layout.Packed(x.Shape[0], cu)
	} else {
		s = layout.Dense(x.Shape[0], x.Shape[1])
	}
	if mask == nil {
		return s, nil
	}
	if rows := x.Shape[:len(x.Shape)-1]; !slices.Equal(mask.Shape, rows) {
		return s, fmt.Errorf("masks.%s: shape %v, want %v", name, mask.Shape, rows)
	}
	valid := mask.Bools()
	return s.Masked(func(row int) bool { return valid[row] }), nil
}

func checkOffsets(cu []int, rows int) error {
	if len(cu) == 0 || cu[0] != 0 {
		return fmt.Errorf("%v does not begin with 0", cu)
	}
	if !slices.IsSorted(cu) {
		return fmt.Errorf("%v decreases", cu)
	}
	if last := cu[len(cu)-1]; last > rows {
		return fmt.Errorf("%v ends beyond the %d rows", cu, rows)
	}
	return nil
}

// ArgmaxOf returns an argmax tape in the order of expect.argmax: [rows, documents] in the packed layout, the tape's
// own order in the others.
func (c *Case) ArgmaxOf(b *layout.Batch, tape []int32) []int32 {
	if c.Layout != Packed {
		return tape
	}
	cols := b.Cols()
	out := make([]int32, b.TapeLen())
	for at := range out {
		out[at] = -1
	}
	for i := range b.Q.Len() {
		for k := range cols {
			for t := range b.Q.Tokens(i) {
				out[(b.Q.Cu[i]+t)*cols+k] = tape[b.TapeAt(i, k)+t]
			}
		}
	}
	return out
}
