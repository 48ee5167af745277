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
	flagged    address // u32 of the split, shared by both sides
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

// load uploads the user's rows of a side.
func (l *loader[T]) load(s *side, user []T) (err error) {
	memory := l.keep
	if l.storage.ofPacked {
		memory = l.call
	}
	b := bytesOf(user)
	if s.raw, err = memory.alloc(int64(len(b))); err != nil {
		return err
	}
	return upload(l.device, s.raw, b)
}

// pack queues the conversion of a side's uploaded rows into the form that the product reads.
func (l *loader[T]) pack(s *side) (err error) {
	st := l.storage
	if st.pack == "" {
		s.ld = l.dim
		return l.device.after(l.device.work, l.device.in)
	}
	memory := l.call
	if st.ofPacked {
		memory = l.keep
	}
	total := int64(s.rows.total)
	s.ld = st.width(l.dim)
	if s.packed, err = memory.alloc(total * s.ld * st.element); err != nil {
		return err
	}
	if st.split {
		if s.scale, err = l.call.alloc(total * 4); err != nil {
			return err
		}
		if s.flag, err = l.call.alloc(total); err != nil {
			return err
		}
	}
	if err := l.device.after(l.device.work, l.device.in); err != nil {
		return err
	}
	return launch(l.device, packCall(st.pack, total), &packParams{
		src: s.raw, rowMap: s.from, dst: s.packed, scale: s.scale, flag: s.flag, flagged: l.flagged,
		rows: total, dim: l.dim, ld: s.ld,
	})
}

// newFlag allocates the word in which packing reports rows that the split cannot represent; flagged says that there are
// some already.
func (l *loader[T]) newFlag(flagged bool) (err error) {
	if !l.storage.split {
		return nil
	}
	if l.flagged, err = l.call.alloc(4); err != nil {
		return err
	}
	var first byte
	if flagged {
		first = 1
	}
	return l.device.work.fill(l.flagged, first, 4)
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
