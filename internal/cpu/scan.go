package cpu

import (
	"math"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

const (
	// callRows bounds the document rows of one kernel call: assembly cannot be preempted, and a garbage collection
	// waits for it.
	callRows = 2048
	// callBytes bounds their size, so that every panel after the first finds them in the second-level cache.
	callBytes = 3 << 17
	// tileRows is how many rows the kernels take at once. Runs of valid rows that are shorter are worth moving together.
	tileRows = 12
)

// rowsPerCall returns how many document rows one kernel call takes.
func (f *forward[T]) rowsPerCall() int {
	var x T
	rowBytes := max(f.b.Dim, 1) * int(unsafe.Sizeof(x))
	return max(min(callRows, callBytes/rowBytes/tileRows*tileRows), tileRows)
}

// scan makes m the row maxima of the given panels over the valid rows of document j inside span, with -1 for the index
// if there are none.
func (f *forward[T]) scan(m *maxima[T], j int, panels []panel, span layout.Span) {
	dim, start, call := f.b.Dim, f.b.D.Cu[j], f.rowsPerCall()
	runs := clip(f.b.D.RunsOf(j), span)
	if fragmented(runs, span) {
		f.scanFragments(m, j, panels, runs, span)
		return
	}
	first := -1
	if len(runs) > 0 {
		first = max(runs[0].Lo, span.Lo) - start
	}
	m.reset(panels, first)
	for _, run := range runs {
		lo, hi := max(run.Lo, span.Lo), min(run.Hi, span.Hi)
		step := even(hi-lo, call)
		for ; lo < hi; lo += step {
			n := min(hi-lo, step)
			f.fold(m, panels, f.d[lo*dim:(lo+n)*dim], n, lo-start)
		}
	}
}

// even returns how many of n rows each call takes so that none takes more than most and the last is not much shorter
// than the others: it loads as many panels.
func even(n, most int) int {
	calls := max((n+most-1)/most, 1)
	rows := (n + calls - 1) / calls
	return min((rows+tileRows-1)/tileRows*tileRows, most)
}

// fold takes n document rows, of which the first has index base, into the maxima of the given panels.
func (f *forward[T]) fold(m *maxima[T], panels []panel, rows []T, n, base int) {
	dim := f.b.Dim
	for _, p := range panels {
		f.kernels.Max(f.panels.packed[p.at:p.end(dim)], rows, n, dim,
			m.mx[p.pos:p.pos+p.lanes], m.ix[p.pos:p.pos+p.lanes], base)
	}
}

// fragments is where a worker moves the rows of a fragmented document together.
type fragments[T layout.Float] struct {
	rows   []T     // as many as one call takes
	tokens []int32 // the index inside the document of every valid row of the scan
}

// scanFragments is scan for a mask with many holes: it copies valid rows together, which costs a small part of
// what kernels lose on runs shorter than a tile, and gives the maxima their tokens at the end.
func (f *forward[T]) scanFragments(m *maxima[T], j int, panels []panel, runs []layout.Span, span layout.Span) {
	pool := &poolsOf[T]().fragments
	c := take[fragments[T]](pool)
	defer pool.Put(c)
	dim, start, call := f.b.Dim, f.b.D.Cu[j], f.rowsPerCall()
	rows := grow(&c.rows, call*dim)
	c.tokens = c.tokens[:0]
	m.reset(panels, 0)
	n := 0
	for _, run := range runs {
		for row := max(run.Lo, span.Lo); row < min(run.Hi, span.Hi); row++ {
			copy(rows[n*dim:(n+1)*dim], f.d[row*dim:])
			c.tokens = append(c.tokens, int32(row-start))
			if n++; n == call {
				f.fold(m, panels, rows, n, len(c.tokens)-n)
				n = 0
			}
		}
	}
	f.fold(m, panels, rows[:n*dim], n, len(c.tokens)-n)
	for _, p := range panels {
		for l, at := range m.ix[p.pos : p.pos+p.lanes] {
			m.ix[p.pos+l] = c.tokens[at]
		}
	}
}

// clip returns the runs that share rows with span.
func clip(runs []layout.Span, span layout.Span) []layout.Span {
	if span.Lo == span.Hi {
		return nil
	}
	for len(runs) > 0 && runs[0].Hi <= span.Lo {
		runs = runs[1:]
	}
	for len(runs) > 0 && runs[len(runs)-1].Lo >= span.Hi {
		runs = runs[:len(runs)-1]
	}
	return runs
}

// fragmented reports whether the runs in span are on average shorter than a tile.
func fragmented(runs []layout.Span, span layout.Span) bool {
	valid := 0
	for _, run := range runs {
		valid += min(run.Hi, span.Hi) - max(run.Lo, span.Lo)
	}
	return len(runs) > 1 && valid < tileRows*len(runs)
}

// reset starts the running maxima of the given panels: every similarity but -Inf and NaN exceeds them, and token u wins
// if all are -Inf.
func (m *maxima[T]) reset(panels []panel, u int) {
	lowest := T(math.Inf(-1))
	for _, p := range panels {
		mx, ix := m.mx[p.pos:p.pos+p.lanes], m.ix[p.pos:p.pos+p.lanes]
		for l := range mx {
			mx[l] = lowest
		}
		for l := range ix {
			ix[l] = int32(u)
		}
	}
}
