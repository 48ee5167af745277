package cuda

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// side is one side of a batch on the device: queries or documents.
type side struct {
	rows *rows
	cu   address // int32 [n+1]
	from address // int32 [total], 0 for the identity
	raw  address // the user's rows [matrix, dim]; 0 once the packed ones are all that is needed
	ld   int64   // elements of a packed row

	packed      address // [total, ld], 0 where the kernels read raw
	scale, flag address // of the split: f32 and u8 [total]

	owner address // int32 [total], for the backward pass; see owners
}

// loader brings sides to the device. What the backward pass needs goes to keep, the rest to call.
type loader[T layout.Float] struct {
	device     *Device
	storage    storage
	dim        int64
	keep, call *scope
	flagged    address // u32 of the split, shared by both sides: holds stamp if a row of the call is flagged
	stamp      int64
}

// arrange uploads the compact layout of a side.
func (l *loader[T]) arrange(r *rows) (side, error) {
	s := side{rows: r}
	// One array, one copy: cu, then from at a multiple of 16 bytes.
	at := int(roundUp(int64(len(r.cu)), 4))
	both := make([]int32, at+len(r.from))
	copy(both, r.cu)
	copy(both[at:], r.from)
	a, err := l.keep.alloc(int64(len(both)) * 4)
	if err != nil {
		return s, err
	}
	s.cu = a
	if r.from != nil {
		s.from = a + address(at*4)
	}
	return s, upload(l.device, a, both)
}

// reserveRaw allocates the user's rows of a side, which the gradients read unless they read the packed ones.
func (l *loader[T]) reserveRaw(s *side) (err error) {
	memory := l.keep
	if l.storage.ofPacked {
		memory = l.call
	}
	s.raw, err = memory.alloc(int64(s.rows.matrix) * l.dim * sizeOf[T]())
	return err
}

// reservePacked allocates the packed rows of a side, if the product reads those.
func (l *loader[T]) reservePacked(s *side) (err error) {
	st := l.storage
	if st.pack == "" {
		s.ld = l.dim
		return nil
	}
	memory := l.call
	if st.ofPacked {
		memory = l.keep
	}
	total := int64(s.rows.total)
	s.ld = st.width(l.dim)
	if s.packed, err = memory.alloc(total * s.ld * st.element); err != nil || !st.split {
		return err
	}
	if s.scale, err = l.call.alloc(total * 4); err != nil {
		return err
	}
	s.flag, err = l.call.alloc(total)
	return err
}

// rowRun is the compact rows [lo, hi) of a side.
type rowRun struct {
	side   *side
	lo, hi int64
}

// pack queues the conversion of one run of rows or two, which have arrived, in one launch, into the form that the product
// reads.
func (l *loader[T]) pack(runs ...rowRun) error {
	if l.storage.pack == "" {
		return nil
	}
	var sides [2]packSide
	for n, r := range runs {
		s := r.side.beginningAt(r.lo, l.storage, l.dim*sizeOf[T]())
		sides[n] = packSide{src: s.raw, rowMap: s.from, dst: s.packed, scale: s.scale, flag: s.flag, rows: r.hi - r.lo}
	}
	return launch(l.device, packCall(l.storage.pack, sides[0].rows, sides[1].rows), &packParams{
		first: sides[0], second: sides[1], flagged: l.flagged, stamp: l.stamp, dim: l.dim, ld: runs[0].side.ld,
	})
}

// place brings a whole side to the device; with packed, in the form that the product reads too.
func (l *loader[T]) place(s *side, user []T, packed bool) error {
	if err := l.reserveRaw(s); err != nil {
		return err
	}
	if packed {
		if err := l.reservePacked(s); err != nil {
			return err
		}
	}
	h := newShipment(l.device)
	defer h.end()
	h.add(bytesOf(user))
	if err := h.start(); err != nil {
		return err
	}
	h.open(0, s.raw, nil)
	if err := h.arrived(0); err != nil || !packed {
		return err
	}
	return l.pack(rowRun{s, 0, int64(s.rows.total)})
}

// beginningAt returns the side as kernels see it whose compact row 0 is row lo of s. rowBytes are those of a user's row.
func (s side) beginningAt(lo int64, st storage, rowBytes int64) side {
	move := func(a *address, bytes int64) {
		if *a != 0 {
			*a += address(bytes)
		}
	}
	if s.from == 0 {
		move(&s.raw, lo*rowBytes) // compact rows are the user's
	}
	move(&s.from, lo*4)
	move(&s.packed, lo*s.ld*st.element)
	move(&s.scale, lo*4)
	move(&s.flag, lo)
	return s
}

// newFlag allocates the word in which packing reports rows that the split cannot represent, by leaving the stamp of this
// call there. What it holds before does not matter: an old stamp is another, and if by chance other memory held this one,
// flags were looked at for nothing.
func (l *loader[T]) newFlag() (err error) {
	if !l.storage.split {
		return nil
	}
	l.device.stamp++
	l.stamp = int64(l.device.stamp)
	l.flagged, err = l.call.alloc(4)
	return err
}

// forTape returns the side without what belongs to the call.
func (s side) forTape(st storage) side {
	if st.ofPacked {
		s.raw = 0
	} else {
		s.packed, s.ld = 0, 0
	}
	s.scale, s.flag = 0, 0
	return s
}

// owners makes the array that says to which sequence a compact row belongs.
func (s *side) owners(d *Device, memory *scope) error {
	if s.owner != 0 || s.rows.total == 0 {
		return nil
	}
	owner, err := memory.alloc(int64(s.rows.total) * 4)
	if err != nil {
		return err
	}
	n := int64(len(s.rows.cu) - 1)
	if err := launch(d, ownerCall(n), &ownerParams{cu: s.cu, owner: owner, n: n}); err != nil {
		return err
	}
	s.owner = owner
	return nil
}
