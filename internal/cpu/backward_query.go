package cpu

import "github.com/flash-maxsim/gorgonia-maxsim/internal/csr"

// listEntries bounds the rows that a worker lists before it gathers them, so that its lists stay in cache.
const listEntries = 1 << 14

// queries writes every row of dq. A unit of work is a range of tokens of one query; it owns their rows.
func (g *backward[T]) queries(d, dq []T) {
	b := g.b
	capacity := b.Q.Cu[b.Q.Len()]
	clear(dq[capacity*b.Dim:])
	cols := b.Cols()
	tokens := max(min(listEntries/max(cols, 1), (capacity+unitsPerWorker*workers()-1)/(unitsPerWorker*workers())), 1)
	var units []queryTokens
	for i := range b.Q.Len() {
		for lo := 0; lo < b.Q.Tokens(i); lo += tokens {
			units = append(units, queryTokens{i, lo, min(lo+tokens, b.Q.Tokens(i))})
		}
	}
	pools := poolsOf[T]()
	parallel(len(units), func(unit int) {
		list := take[gather[T]](&pools.gather)
		defer pools.gather.Put(list)
		u := units[unit]
		if err := g.listDocuments(list, u); err != nil {
			g.fail(err)
			return
		}
		stride := listStride(cols)
		for t := range u.hi - u.lo {
			row := (b.Q.Cu[u.i] + u.lo + t) * b.Dim
			at := t * stride
			n := list.counts[t]
			g.kernels.Gather(dq[row:row+b.Dim], d, list.rows[at:at+n], list.weights[at:at+n])
		}
	})
}

// queryTokens are the tokens [lo, hi) of query i.
type queryTokens struct{ i, lo, hi int }

// listStride returns the distance between the lists of two tokens, off the powers of two that share cache sets.
func listStride(cols int) int { return cols + 16 }

// listDocuments lists, for every token of q, the document rows it chose, and their upstream gradients.
func (g *backward[T]) listDocuments(list *gather[T], q queryTokens) error {
	b, n, cols := g.b, q.hi-q.lo, g.b.Cols()
	stride := listStride(cols)
	rows, weights, counts := grow(&list.rows, n*stride), grow(&list.weights, n*stride), grow(&list.counts, n)
	clear(counts)
	for k := range cols {
		j := b.Doc(q.i, k)
		start, tokens := b.D.Cu[j], b.D.Tokens(j)
		w := g.ds[q.i*cols+k]
		at := b.TapeAt(q.i, k)
		for t, u := range g.tape[at+q.lo : at+q.hi] {
			if uint(u) >= uint(tokens) {
				if u == -1 {
					continue
				}
				return csr.EntryError(b, q.i, q.lo+t, j, u)
			}
			e := t*stride + counts[t]
			rows[e], weights[e] = int32(start)+u, w
			counts[t]++
		}
	}
	return nil
}
