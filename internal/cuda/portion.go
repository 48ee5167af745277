package cuda

// portion is a run of documents [j0, j1) with the queries [i0, i1) that they meet: all queries, or, where queries have
// their own documents, those whose documents they are. It is computed as soon as its documents have arrived.
type portion struct {
	i0, i1, j0, j1 int
	cuq, cud       address // offsets of its sequences from its first rows; 0: those of the whole batch
}

const (
	// defaultPortionBytes is what is worth a copy of its own: it takes much longer than the launches that go with it.
	defaultPortionBytes = 8 << 20
	mostPortions        = 8
)

// all is the whole batch as one portion.
func (p *problem) all() portion { return portion{i1: int(p.bq), j1: int(p.bd)} }

// portions cuts the documents, whose rows have rowBytes bytes, into runs of about equal size of at least portionBytes.
func (p *problem) portions(rowBytes, portionBytes int64) []portion {
	step := max(1, int(p.group))
	ends := cut(p.b.D.Cu, step, rowBytes, portionBytes)
	list := make([]portion, len(ends))
	for n, end := range ends {
		c := p.all()
		if n > 0 {
			c.j0 = ends[n-1]
		}
		c.j1 = end
		if p.group > 0 {
			c.i0, c.i1 = c.j0/step, c.j1/step
		}
		list[n] = c
	}
	return list
}

// cut divides the sequences of cu into at most mostPortions runs of about equal size of at least portionBytes, in multiples
// of step sequences, and returns where each ends.
func cut(cu []int, step int, rowBytes, portionBytes int64) []int {
	sequences := len(cu) - 1
	rows := int64(cu[sequences])
	n := max(1, min(rows*rowBytes/portionBytes, mostPortions))
	var ends []int
	for s := 0; s < sequences; {
		until := rows * int64(len(ends)+1) / n
		for s += step; s < sequences && int64(cu[s]) < until; s += step {
		}
		if int64(len(ends)+1) == n { // the last, with the sequences after the last row
			s = sequences
		}
		ends = append(ends, s)
	}
	return ends
}

// firstWinner returns the index of a portion's first winner; its winners follow one another.
func (p *problem) firstWinner(c portion) int64 {
	if p.group > 0 {
		return p.group * int64(p.q.cu[c.i0])
	}
	return int64(c.j0) * p.totq
}

// locate uploads the offsets of every portion, counted from its own first rows.
func (f *pass[T]) locate(list []portion) error {
	if len(list) == 1 {
		return nil
	}
	var all []int32
	relative := func(cu []int32) int {
		at := len(all)
		for _, row := range cu {
			all = append(all, row-cu[0])
		}
		return at
	}
	type place struct{ q, d int }
	places := make([]place, len(list))
	for n, c := range list {
		places[n] = place{relative(f.q.cu[c.i0 : c.i1+1]), relative(f.d.cu[c.j0 : c.j1+1])}
	}
	a, err := f.call.alloc(int64(len(all)) * 4)
	if err != nil {
		return err
	}
	for n := range list {
		list[n].cuq, list[n].cud = a+address(4*places[n].q), a+address(4*places[n].d)
	}
	return upload(f.device, a, all)
}
