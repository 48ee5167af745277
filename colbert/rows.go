package colbert

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// rowIndex is the inverse of a list of ids: which positions chose each row. Rows ascend and so do the positions of a
// row, whatever the number of cores, so that sums over them are reproducible.
type rowIndex struct {
	rows  []int32 // the rows that were chosen, ascending
	first []int32 // positions of rows[n] are pos[first[n]:first[n+1]]
	pos   []int32
}

// indexRows inverts ids, all in [0, v), by a stable counting sort.
func indexRows(ids []int32, v int) rowIndex {
	count := make([]int32, v)
	for _, id := range ids {
		count[id]++
	}
	var idx rowIndex
	var at int32
	for r, c := range count {
		if c == 0 {
			continue
		}
		idx.rows = append(idx.rows, int32(r))
		idx.first = append(idx.first, at)
		count[r] = at // from here on: where the next position of r goes
		at += c
	}
	idx.first = append(idx.first, at)
	idx.pos = make([]int32, len(ids))
	for p, id := range ids {
		idx.pos[count[id]] = int32(p)
		count[id]++
	}
	return idx
}

// sumChosen writes the sum of row(p) over the positions p of idx.rows[n] into out.
func sumChosen[T layout.Float](idx *rowIndex, n int, out []T, row func(p int) []T) {
	positions := idx.pos[idx.first[n]:idx.first[n+1]]
	copy(out, row(int(positions[0])))
	for _, p := range positions[1:] {
		src := row(int(p))
		src = src[:len(out)]
		for k := range out {
			out[k] += src[k]
		}
	}
}
