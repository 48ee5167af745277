package cpu

import (
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// panels are the valid query rows of a batch, packed for the kernels. They are cut into blocks: query rows that meet
// the same documents. A block is all queries, or, where each query has documents of its own, one query. Inside a
// block the rows are flattened before they are cut into panels, so that short and ragged queries share lanes.
type panels[T layout.Float] struct {
	all    []panel
	blocks []block
	packed []T // panel by panel, K-major; lanes without a row are zero
	rows   []int32
}

// panel is lanes positions of a block.
type panel struct {
	lanes int
	pos   int // first position inside the block
	rows  int // index of the first row in panels.rows
	n     int // positions that hold a row, ≤ lanes
	at    int // offset of the panel in panels.packed
}

// block is a range of panels.
type block struct {
	first, last int
	width       int // positions, those of empty lanes included
}

// cut lays out the panels of b for kernels of the given widths, without packing them.
func (p *panels[T]) cut(b *layout.Batch, k *tile.Kernels[T]) {
	p.all, p.blocks, p.rows = p.all[:0], p.blocks[:0], p.rows[:0]
	if b.Group == 0 {
		p.cutBlock(b, k, 0, b.Q.Len())
		return
	}
	for i := range b.Q.Len() {
		p.cutBlock(b, k, i, i+1)
	}
}

func (p *panels[T]) cutBlock(b *layout.Batch, k *tile.Kernels[T], first, last int) {
	blk := block{first: len(p.all)}
	rows := len(p.rows)
	for _, run := range b.Q.Runs[b.Q.First[first]:b.Q.First[last]] {
		for row := run.Lo; row < run.Hi; row++ {
			p.rows = append(p.rows, int32(row))
		}
	}
	at := 0
	if len(p.all) > 0 {
		at = p.all[len(p.all)-1].end(b.Dim)
	}
	for rows < len(p.rows) {
		left := len(p.rows) - rows
		lanes := k.Width(left)
		next := panel{lanes: lanes, pos: blk.width, rows: rows, n: min(left, lanes), at: at}
		p.all = append(p.all, next)
		blk.width += lanes
		rows += next.n
		at = next.end(b.Dim)
	}
	blk.last = len(p.all)
	p.blocks = append(p.blocks, blk)
}

// end returns the offset in panels.packed after the panel.
func (p panel) end(dim int) int { return p.at + p.lanes*dim }

// pack copies the query rows into the panels.
func (p *panels[T]) pack(q []T, dim int, k *tile.Kernels[T]) {
	if len(p.all) == 0 {
		return
	}
	grow(&p.packed, p.all[len(p.all)-1].end(dim))
	parallel(len(p.all), func(i int) {
		next := p.all[i]
		dst := p.packed[next.at:next.end(dim)]
		if next.n < next.lanes {
			clear(dst)
		}
		k.Pack(dst, next.lanes, q, p.rows[next.rows:next.rows+next.n], dim)
	})
}

// of returns the panels that document j meets, and the number of their positions.
func (p *panels[T]) of(b *layout.Batch, j int) ([]panel, int) {
	blk := p.blocks[0]
	if b.Group > 0 {
		i, _, _ := b.Queries(j)
		blk = p.blocks[i]
	}
	return p.all[blk.first:blk.last], blk.width
}
