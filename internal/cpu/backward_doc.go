package cpu

// documents writes every row of dd. A unit of work is a document or, where there are few, a range of its tokens; it
// owns their rows.
func (g *backward[T]) documents(q, dd []T) {
	b := g.b
	clear(dd[b.D.Cu[b.D.Len()]*b.Dim:])
	parts := g.documentParts()
	g.mapQueries()
	pools := poolsOf[T]()
	parallel(b.D.Len()*parts, func(unit int) {
		list := take[gather[T]](&pools.gather)
		defer pools.gather.Put(list)
		j, part := unit/parts, unit%parts
		tokens := b.D.Tokens(j)
		lo, hi := tokens*part/parts, tokens*(part+1)/parts
		if !g.invert(list, j, lo, hi) {
			return
		}
		first := b.D.Cu[j] + lo
		out := dd[first*b.Dim : (first+hi-lo)*b.Dim]
		sparse := len(list.inverse.Columns) < (hi-lo)/2
		if sparse {
			clear(out) // in one go, not row by row
		}
		for r := range hi - lo {
			if columns := list.inverse.Row(r); len(columns) > 0 || !sparse {
				at := list.inverse.Offsets[r]
				g.kernels.Gather(out[r*b.Dim:(r+1)*b.Dim], q, columns, list.weights[at:at+len(columns)])
			}
		}
	})
}

// documentRows returns the touched rows of ∇d: once over the tape to count them, once to fill them.
func (g *backward[T]) documentRows(q []T) (rows []int, grads []T) {
	b := g.b
	g.mapQueries()
	start := make([]int, b.D.Len()+1)
	g.eachDocument(func(list *gather[T], j int) {
		for r := range b.D.Tokens(j) {
			if len(list.inverse.Row(r)) > 0 {
				start[j+1]++
			}
		}
	})
	for j := range b.D.Len() {
		start[j+1] += start[j]
	}
	rows = make([]int, start[b.D.Len()])
	grads = make([]T, len(rows)*b.Dim)
	if g.err != nil {
		return nil, nil
	}
	g.eachDocument(func(list *gather[T], j int) {
		next := start[j]
		for r := range b.D.Tokens(j) {
			columns := list.inverse.Row(r)
			if len(columns) == 0 {
				continue
			}
			rows[next] = b.D.Cu[j] + r
			at := list.inverse.Offsets[r]
			g.kernels.Gather(grads[next*b.Dim:(next+1)*b.Dim], q, columns, list.weights[at:at+len(columns)])
			next++
		}
	})
	return rows, grads
}

// eachDocument calls f for every document with the inverse of its tape in list, in parallel.
func (g *backward[T]) eachDocument(f func(list *gather[T], j int)) {
	pools := poolsOf[T]()
	parallel(g.b.D.Len(), func(j int) {
		list := take[gather[T]](&pools.gather)
		defer pools.gather.Put(list)
		if g.invert(list, j, 0, g.b.D.Tokens(j)) {
			f(list, j)
		}
	})
}

// invert inverts the tape for the tokens [lo, hi) of document j and lists the upstream gradient of every column index.
// It reports whether the tape was sound.
func (g *backward[T]) invert(list *gather[T], j, lo, hi int) bool {
	if err := list.inverse.InvertDocument(g.b, g.tape, j, lo, hi); err != nil {
		g.fail(err)
		return false
	}
	cols := g.b.Cols()
	_, _, k := g.b.Queries(j)
	weights := grow(&list.weights, len(list.inverse.Columns))
	for e, row := range list.inverse.Columns {
		weights[e] = g.ds[int(g.queryOf[row])*cols+k]
	}
	return true
}

// mapQueries fills queryOf.
func (g *backward[T]) mapQueries() {
	grow(&g.queryOf, g.b.Q.Rows)
	for i := range g.b.Q.Len() {
		for row := g.b.Q.Cu[i]; row < g.b.Q.Cu[i+1]; row++ {
			g.queryOf[row] = int32(i)
		}
	}
}

// documentParts returns into how many parts every document is cut: more than one only where documents are too few to
// keep every core busy.
func (g *backward[T]) documentParts() int {
	docs, want := g.b.D.Len(), unitsPerWorker*workers()
	if workers() == 1 || docs == 0 || docs >= want {
		return 1
	}
	return (want + docs - 1) / docs
}
