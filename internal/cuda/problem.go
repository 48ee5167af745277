package cuda

import (
	"fmt"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// problem is the arithmetic of a batch on the device: how many winners there are and how wide their indices.
type problem struct {
	b                   layout.Batch // a copy: the caller may change its own
	q, d                *rows
	bq, bd, cols, group int64
	totq, totd          int64
	maxq                int64 // most compact query rows that a document meets
	winners             int64 // (query row, document) pairs, padding rows included
	argbytes, listbytes int64 // of a document token among the winners, of a query row in the inverse
}

// narrow is the number of values that 2 bytes tell apart.
const narrow = 1 << 16

// mostTokens bounds a document: the kernels carry the place of the maximum as a float32, which counts no further.
const mostTokens = 1 << 24

func newProblem(b *layout.Batch) (*problem, error) {
	q, err := compact(&b.Q, slab)
	if err != nil {
		return nil, fmt.Errorf("queries: %w", err)
	}
	d, err := compact(&b.D, 1)
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	if d.longest > mostTokens {
		return nil, fmt.Errorf("a document has %d tokens, expected at most %d", d.longest, mostTokens)
	}
	p := &problem{
		b: layout.Batch{Q: b.Q.Clone(), D: b.D.Clone(), Dim: b.Dim, Group: b.Group}, q: q, d: d,
		bq: int64(b.Q.Len()), bd: int64(b.D.Len()), cols: int64(b.Cols()), group: int64(b.Group),
		totq: int64(q.total), totd: int64(d.total),
	}
	p.maxq, p.winners = p.totq, p.bd*p.totq
	if p.group > 0 {
		p.maxq, p.winners = int64(q.longest), p.group*p.totq
	}
	p.argbytes, p.listbytes = 4, 4
	if d.longest <= narrow {
		p.argbytes = 2
	}
	if p.maxq <= narrow {
		p.listbytes = 2
	}
	return p, nil
}

// same returns an error if b is not of the sizes of the batch that the problem was made from.
func (p *problem) same(b *layout.Batch) error {
	of := func(b *layout.Batch) [6]int {
		return [6]int{b.Q.Len(), b.Q.Rows, b.D.Len(), b.D.Rows, b.Dim, b.Group}
	}
	if got, want := of(b), of(&p.b); got != want {
		return fmt.Errorf("the batch has bq, query rows, bd, document rows, dim, group %v, the tape was recorded with %v", got, want)
	}
	return nil
}

// empty reports whether there is no pair of tokens: scores and gradients are zero then, and nothing need be computed.
func (p *problem) empty() bool { return p.totq == 0 || p.totd == 0 }

// sizes checks the lengths of a call's slices.
func (p *problem) sizes(given ...sized) error {
	for _, s := range given {
		if s.wanted && int64(s.got) != s.want {
			return fmt.Errorf("%s has %d elements, expected %d", s.name, s.got, s.want)
		}
	}
	return nil
}

type sized struct {
	name   string
	wanted bool
	got    int
	want   int64
}
