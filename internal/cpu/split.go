package cpu

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// partRows is the least number of document rows that are worth a unit of their own.
const partRows = 256

// split says into how many parts every document is cut: along its panels (query tokens), and along its rows. Neither
// changes a bit of the result: panels are independent, and maxima merge exactly.
type split struct{ panels, rows int }

func (s split) parts() int { return s.panels * s.rows }

// at returns which part of which document a unit of work is.
func (s split) at(unit int) (j, row, panel int) {
	j, part := unit/s.parts(), unit%s.parts()
	return j, part / s.panels, part % s.panels
}

// span returns the rows of row part c of document j.
func (s split) span(b *layout.Batch, j, c int) layout.Span {
	lo, n := b.D.Cu[j], b.D.Tokens(j)
	return layout.Span{Lo: lo + n*c/s.rows, Hi: lo + n*(c+1)/s.rows}
}

// newSplit cuts documents only where they are too few to keep every core busy, along panels first: that costs nothing.
func (f *forward[T]) newSplit() split {
	docs := f.b.D.Len()
	want := unitsPerWorker * workers()
	if workers() == 1 || docs == 0 || docs >= want {
		return split{1, 1}
	}
	panels, rows := 1, 1
	for _, blk := range f.panels.blocks {
		panels = max(panels, blk.last-blk.first)
	}
	for j := range docs {
		rows = max(rows, f.b.D.Tokens(j)/partRows)
	}
	want = (want + docs - 1) / docs
	panels = min(panels, want)
	return split{panels, min(rows, (want+panels-1)/panels)}
}
