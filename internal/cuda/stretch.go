package cuda

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// stretch is a run of a side's rows that is copied on its own: of tokens, which are uploaded and packed, with what can be
// computed then, or of a gradient.
type stretch[T layout.Float] struct {
	side   *side
	user   []T
	lo, hi int   // the user's rows
	first  int64 // compact rows [first, last)
	last   int64
	then   func() error // nil: nothing
	origin address      // where row 0 of the user's rows would be
}

// stretchOf returns the stretch of the sequences [from, to) of a side.
func stretchOf[T layout.Float](s *side, user []T, cu []int, from, to int) stretch[T] {
	return stretch[T]{side: s, user: user, lo: cu[from], hi: cu[to], first: int64(s.rows.cu[from]), last: int64(s.rows.cu[to])}
}

// queries returns the stretches of the queries; then follows the last. There is one unless rows take turns.
func (f *pass[T]) queries(q []T, then func() error) []stretch[T] {
	ends := []int{f.b.Q.Len()}
	if f.storage.ofPacked {
		ends = cut(f.b.Q.Cu, 1, f.dim*sizeOf[T](), f.device.portionBytes)
	}
	list := make([]stretch[T], len(ends))
	from := 0
	for n, end := range ends {
		list[n] = stretchOf(&f.t.q, q, f.b.Q.Cu, from, end)
		from = end
	}
	list[len(list)-1].then = then
	return list
}

// documents returns a stretch for every portion, which is computed when it has been packed. Portions are located before.
func (f *pass[T]) documents(d []T, portions []portion) []stretch[T] {
	list := make([]stretch[T], len(portions))
	for n, c := range portions {
		list[n] = stretchOf(&f.t.d, d, f.b.D.Cu, c.j0, c.j1)
		list[n].then = func() error { return f.product(portions[n]) }
	}
	return list
}

// turns is how many stretches of the user's rows are on the device at a time where they take turns.
const turns = 2

// inOrder brings the stretches, whose rows h has, to the device, packs and computes one after the other, each while later
// ones are on their way. Where the packed rows are all that is needed afterwards, the user's rows take turns in the same
// memory; else a stretch after which there is nothing to compute, the queries, is packed with the next, in one launch.
func (f *pass[T]) inOrder(h *shipment, list []stretch[T]) error {
	inTurns := f.storage.ofPacked && len(list) > turns
	if err := f.locateRows(list, inTurns); err != nil {
		return err
	}
	place := func(n int, free mark) {
		h.open(n, list[n].origin+address(int64(list[n].lo)*f.dim*sizeOf[T]()), free)
	}
	for n := range list {
		if !inTurns || n < turns {
			place(n, nil)
		}
	}
	var runs []rowRun // arrived and not packed
	for n, c := range list {
		c.side.raw = c.origin
		if err := h.arrived(n); err != nil {
			return err
		}
		runs = append(runs, rowRun{c.side, c.first, c.last})
		if c.then == nil && !inTurns && len(runs) == 1 && n+1 < len(list) {
			continue
		}
		if err := f.pack(runs...); err != nil {
			return err
		}
		runs = runs[:0]
		if inTurns && n+turns < len(list) { // the stretch after next goes where this one is
			free := f.device.packed[n%turns]
			if err := f.device.work.record(free); err != nil {
				return err
			}
			place(n+turns, free)
		}
		if c.then == nil {
			continue
		}
		if err := c.then(); err != nil {
			return err
		}
	}
	return nil
}

// locateRows says where the rows of every stretch go.
func (f *pass[T]) locateRows(list []stretch[T], inTurns bool) error {
	rowBytes := f.dim * sizeOf[T]()
	if !inTurns {
		for n := range list {
			s := list[n].side
			if s.raw == 0 {
				if err := f.reserveRaw(s); err != nil {
					return err
				}
			}
			list[n].origin = s.raw
		}
		return nil
	}
	most := longest(list)
	memory, err := f.call.alloc(turns * int64(most) * rowBytes)
	if err == nil {
		takeTurns(list, memory, most, rowBytes)
	}
	return err
}

// longest returns the rows of the longest stretch.
func longest[T layout.Float](list []stretch[T]) (rows int) {
	for _, c := range list {
		rows = max(rows, c.hi-c.lo)
	}
	return rows
}

// takeTurns places stretches of at most so many rows in memory for turns times as many.
func takeTurns[T layout.Float](list []stretch[T], memory address, rows int, rowBytes int64) {
	for n := range list {
		list[n].origin = memory + address(int64(n%turns*rows)*rowBytes) - address(int64(list[n].lo)*rowBytes)
	}
}
