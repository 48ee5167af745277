package cpu

import (
	"math"
	"sync/atomic"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Forward implements layout.Engine. The tape it returns is a layout.HostTape that keeps neither slice.
func (e *Engine[T]) Forward(b *layout.Batch, q, d, scores []T, record bool) (layout.Tape, error) {
	err := e.check(b,
		argument{"q", len(q), b.Q.Rows, b.Dim},
		argument{"d", len(d), b.D.Rows, b.Dim},
		argument{"scores", len(scores), b.Q.Len(), b.Cols()})
	if err != nil {
		return nil, err
	}
	pools := poolsOf[T]()
	f := take[forward[T]](&pools.forward)
	defer pools.forward.Put(f)
	f.b, f.kernels, f.d, f.scores, f.tape = b, e.kernels, d, scores, nil
	if record {
		f.tape = make([]int32, b.TapeLen())
		capacity := f.tape[b.Q.Cu[b.Q.Len()]*b.Cols():]
		for at := range capacity {
			capacity[at] = -1
		}
	}
	tape := f.tape
	f.run(q)
	f.b, f.d, f.scores, f.tape = nil, nil, nil, nil
	if !record {
		return nil, nil
	}
	return layout.HostTape(tape), nil
}

// forward is one forward pass, and the memory that the next one uses again.
type forward[T layout.Float] struct {
	b         *layout.Batch
	kernels   *tile.Kernels[T]
	d, scores []T
	tape      []int32 // nil if not recorded

	panels panels[T]
	split  split
	parts  []maxima[T]    // [documents × row parts], if documents are split
	left   []atomic.Int32 // [documents] parts to come
}

// maxima are the running row maxima of a block against one document, one for each position. ix is the index of the
// winning token, -1 before the first token.
type maxima[T layout.Float] struct {
	mx []T
	ix []int32
}

func (m *maxima[T]) resize(width int) {
	grow(&m.mx, width)
	grow(&m.ix, width)
}

// run scores every document. A unit of work is a document or, where there are fewer documents than the cores need,
// a part of one.
func (f *forward[T]) run(q []T) {
	f.panels.cut(f.b, f.kernels)
	f.panels.pack(q, f.b.Dim, f.kernels)
	f.split = f.newSplit()
	if f.split.parts() > 1 {
		f.runParts()
		return
	}
	pool := &poolsOf[T]().maxima
	parallel(f.b.D.Len(), func(j int) {
		m := take[maxima[T]](pool)
		defer pool.Put(m)
		panels, width := f.panels.of(f.b, j)
		m.resize(width)
		f.scan(m, j, panels, layout.Span{Lo: f.b.D.Cu[j], Hi: f.b.D.Cu[j+1]})
		f.finish(m, j)
	})
}

// runParts scores documents in parts: ranges of their panels and rows. Whoever completes the last part of a document
// merges and finishes it.
func (f *forward[T]) runParts() {
	docs, rows := f.b.D.Len(), f.split.rows
	grow(&f.parts, docs*rows)
	f.left = make([]atomic.Int32, docs)
	for j := range docs {
		f.left[j].Store(int32(f.split.parts()))
		_, width := f.panels.of(f.b, j)
		for c := range rows {
			f.parts[j*rows+c].resize(width)
		}
	}
	parallel(docs*f.split.parts(), func(unit int) {
		j, c, p := f.split.at(unit)
		parts := f.parts[j*rows : (j+1)*rows]
		panels, _ := f.panels.of(f.b, j)
		panels = panels[len(panels)*p/f.split.panels : len(panels)*(p+1)/f.split.panels]
		f.scan(&parts[c], j, panels, f.split.span(f.b, j, c))
		if f.left[j].Add(-1) == 0 {
			for c := 1; c < rows; c++ {
				parts[0].merge(&parts[c])
			}
			f.finish(&parts[0], j)
		}
	})
}

// merge folds the maxima of later tokens into m.
func (m *maxima[T]) merge(later *maxima[T]) {
	for l, x := range later.mx {
		if later.ix[l] < 0 {
			continue
		}
		if m.ix[l] < 0 || x > m.mx[l] {
			m.mx[l], m.ix[l] = x, later.ix[l]
		} else if x != x {
			m.mx[l] = x
		}
	}
}

// finish writes the scores and the tape of document j from its row maxima, adding them in the order of t.
func (f *forward[T]) finish(m *maxima[T], j int) {
	cols := f.b.Cols()
	firstQuery, lastQuery, k := f.b.Queries(j)
	first := -1 // the document's first valid token
	if runs := f.b.D.RunsOf(j); len(runs) > 0 {
		first = runs[0].Lo - f.b.D.Cu[j]
	}
	pos := 0
	for i := firstQuery; i < lastQuery; i++ {
		runs := f.b.Q.RunsOf(i)
		n := 0
		for _, run := range runs {
			n += run.Hi - run.Lo
		}
		mx, ix := m.mx[pos:pos+n], m.ix[pos:pos+n]
		pos += n
		var sum T
		if first >= 0 {
			for _, x := range mx {
				sum += x
			}
			if sum != sum {
				sum = T(math.NaN())
				settleNaN(mx, ix, first)
			}
		}
		f.scores[i*cols+k] = sum
		if f.tape != nil {
			at := f.b.TapeAt(i, k)
			writeTape(f.tape[at:at+f.b.Q.Tokens(i)], ix, runs, f.b.Q.Cu[i])
		}
	}
}

// settleNaN gives every NaN maximum the document's first valid token, however the document was cut into calls.
func settleNaN[T layout.Float](mx []T, ix []int32, first int) {
	for l, x := range mx {
		if x != x {
			ix[l] = int32(first)
		}
	}
}

// writeTape spreads the indices of the valid query tokens over all tokens of a query that starts at row start.
func writeTape(tape, ix []int32, runs []layout.Span, start int) {
	if len(ix) == len(tape) {
		copy(tape, ix)
		return
	}
	for t := range tape {
		tape[t] = -1
	}
	for _, run := range runs {
		n := copy(tape[run.Lo-start:run.Hi-start], ix)
		ix = ix[n:]
	}
}
