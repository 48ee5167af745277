package cuda

import (
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// slab is the number of query rows whose maxima a kernel first adds up: queries are padded to a multiple of it.
const slab = 4

// rows are the compact rows of one side: what is left when masked tokens and capacity are dropped.
//
//	sequence s owns the compact rows [cu[s], cu[s+1])
//	compact row r is row from[r] of the user's matrix, padding if from[r] is -1
//
// A nil from is the identity: compact row r is row r.
type rows struct {
	cu      []int32
	from    []int32
	total   int  // compact rows, padding included
	valid   int  // of those, tokens
	longest int  // most compact rows of a sequence
	equal   int  // compact rows of every sequence, 0 if they differ
	gaps    bool // whether a sequence has none
	matrix  int  // rows of the user's matrix
}

// compact drops what no kernel should see, and pads every sequence to a multiple of pad rows.
func compact(s *layout.Seqs, pad int) (*rows, error) {
	n := s.Len()
	r := &rows{cu: make([]int32, n+1), matrix: s.Rows}
	whole := true // the identity so far
	for i := range n {
		valid := s.Valid(i)
		padded := (valid + pad - 1) / pad * pad
		r.valid += valid
		r.total += padded
		if r.total > math.MaxInt32 {
			return nil, fmt.Errorf("more than %d token rows, in sequence %d of %d", math.MaxInt32, i, n)
		}
		r.cu[i+1] = int32(r.total)
		r.longest = max(r.longest, padded)
		r.gaps = r.gaps || padded == 0
		whole = whole && valid == s.Tokens(i) && valid == padded
	}
	if n > 0 && r.longest*n == r.total {
		r.equal = r.longest
	}
	if whole {
		return r, nil
	}
	r.from = make([]int32, 0, r.total)
	for i := range n {
		for _, run := range s.RunsOf(i) {
			for row := run.Lo; row < run.Hi; row++ {
				r.from = append(r.from, int32(row))
			}
		}
		for len(r.from) < int(r.cu[i+1]) {
			r.from = append(r.from, -1)
		}
	}
	return r, nil
}

// covers reports whether the compact rows are all rows of the user's matrix, so that a kernel which writes every
// compact row leaves none unwritten.
func (r *rows) covers() bool { return r.valid == r.matrix }

// offsets returns cu_seqlens of the user's matrix in 32 bits.
func offsets(s *layout.Seqs) []int32 {
	cu := make([]int32, len(s.Cu))
	for i, at := range s.Cu {
		cu[i] = int32(at)
	}
	return cu
}
