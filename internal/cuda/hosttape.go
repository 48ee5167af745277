package cuda

import "fmt"

// fromHost brings an argmax tape in host memory to the device, with the token rows that the wanted gradients read, and
// hands it to use.
func (e *Engine[T]) fromHost(p *problem, q, d []T, argmax []int32, wantQ, wantD bool, use func(*Tape) error) (err error) {
	dev := e.device
	memory := &scope{pool: dev.pool}
	defer func() {
		if err != nil {
			dev.drain()
		}
		memory.close()
	}()
	l := &loader[T]{device: dev, storage: storageOf[T](e.precision, p.b.Dim), dim: int64(p.b.Dim), keep: memory, call: memory}
	t := &Tape{device: dev, problem: p, storage: l.storage, held: &holding{memory: memory}}
	if err := e.documents.fits(p, l.storage.product); err != nil {
		return err
	}
	if p.empty() {
		return use(t)
	}
	if p.argbytes == 2 {
		err = uploadWinners[uint16](t, argmax)
	} else {
		err = uploadWinners[uint32](t, argmax)
	}
	if err != nil {
		return err
	}
	if t.q, err = e.operandSide(l, p.q, q, wantD); err != nil { // dd is a sum of rows of q
		return err
	}
	if e.documents != nil {
		t.d = e.documents.side
	} else if t.d, err = e.operandSide(l, p.d, d, wantQ); err != nil {
		return err
	}
	return use(t)
}

// operandSide brings the layout of a side to the device, and with wanted what the gradient kernels read of its rows.
func (e *Engine[T]) operandSide(l *loader[T], r *rows, user []T, wanted bool) (side, error) {
	s, err := l.arrange(r)
	if err == nil && wanted {
		err = l.place(&s, user, l.storage.ofPacked)
	}
	return s, err
}

// uploadWinners uploads argmax in the order of the winners and counting compact rows.
func uploadWinners[I uint16 | uint32](t *Tape, argmax []int32) error {
	winners, err := winnersOf[I](t.problem, argmax)
	if err != nil {
		return err
	}
	if t.argmax, err = t.held.memory.alloc(t.problem.winners * t.problem.argbytes); err != nil {
		return err
	}
	return upload(t.device, t.argmax, winners)
}

// winnersOf turns a tape in the order of layout.Batch.TapeAt into the device's order: document by document, for each
// one entry for every compact row of the queries it meets; see winner in kernels/params.cuh. Padding rows get 0.
func winnersOf[I uint16 | uint32](p *problem, argmax []int32) ([]I, error) {
	if len(argmax) != p.b.TapeLen() {
		return nil, fmt.Errorf("argmax tape of %d entries, expected %d query rows × %d columns", len(argmax), p.b.Q.Rows, p.cols)
	}
	out := make([]I, p.winners)
	for i := range int(p.bq) {
		for k := range int(p.cols) {
			j := p.b.Doc(i, k)
			at := p.winnerAt(i, k)
			tape := argmax[p.b.TapeAt(i, k):]
			for _, run := range p.b.Q.RunsOf(i) {
				for row := run.Lo; row < run.Hi; row++ {
					u := tape[row-p.b.Q.Cu[i]]
					c := p.compactToken(j, int(u))
					if c < 0 && p.d.cu[j] != p.d.cu[j+1] {
						return nil, fmt.Errorf("argmax %d of query %d, token %d is no valid token of document %d of %d tokens",
							u, i, row-p.b.Q.Cu[i], j, p.b.D.Tokens(j))
					}
					out[at] = I(max(c, 0))
					at++
				}
			}
		}
	}
	return out, nil
}

// winnerAt returns the index of the winner of query i's first row in the document of column k.
func (p *problem) winnerAt(i, k int) int {
	lo, hi := int(p.q.cu[i]), int(p.q.cu[i+1])
	if p.group == 0 {
		return k*int(p.totq) + lo
	}
	return lo*int(p.group) + k*(hi-lo)
}

// compactToken returns the place of token u among the valid tokens of document j, -1 if it is none of them.
func (p *problem) compactToken(j, u int) int {
	row, before := p.b.D.Cu[j]+u, 0
	for _, run := range p.b.D.RunsOf(j) {
		if row >= run.Lo && row < run.Hi && u >= 0 {
			return before + row - run.Lo
		}
		before += run.Hi - run.Lo
	}
	return -1
}
