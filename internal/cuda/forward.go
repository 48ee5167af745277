package cuda

import (
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// pass is a forward pass under way.
type pass[T layout.Float] struct {
	*loader[T]
	*problem
	t      *Tape
	part   address // sums of row maxima over slabs
	scores address // 0: not wanted
	record bool
	direct bool // the product writes the scores
}

// forward runs the forward pass and leaves the scores in host memory; a nil scores is not wanted. With record it
// returns what the backward pass needs, which otherwise goes back at once.
func (e *Engine[T]) forward(p *problem, q, d, scores []T, record bool) (t *Tape, err error) {
	dev, st := e.device, storageOf[T](e.precision, p.b.Dim)
	if err := e.documents.fits(p, st.product); err != nil { // even if there is nothing to compute
		return nil, err
	}
	call, keep := &scope{pool: dev.pool}, &scope{pool: dev.pool}
	defer func() {
		if err != nil {
			dev.drain()
		}
		if err != nil || !record {
			keep.close()
		}
		call.close()
	}()
	t = &Tape{device: dev, problem: p, storage: st, documents: e.documents}
	if p.empty() {
		clear(scores)
		t.hold(keep)
		return t, nil
	}
	f := pass[T]{
		loader:  &loader[T]{device: dev, storage: st, dim: int64(p.b.Dim), keep: keep, call: call},
		problem: p, t: t, record: record,
	}
	if scores != nil {
		if f.scores, err = call.alloc(int64(len(scores)) * sizeOf[T]()); err != nil {
			return nil, err
		}
	}
	if err = f.run(e.documents, q, d); err != nil {
		return nil, err
	}
	if scores != nil {
		if err = f.sum(scores); err != nil {
			return nil, err
		}
	}
	if err = dev.finish(); err != nil {
		return nil, err
	}
	t.q, t.d = t.q.forTape(st), t.d.forTape(st)
	if record {
		t.hold(keep)
	}
	return t, nil
}

// again computes a tape whose device memory was given back, and hands it to use.
func (e *Engine[T]) again(p *problem, q, d []T, use func(*Tape) error) error {
	t, err := e.forward(p, q, d, nil, true)
	if err != nil {
		return err
	}
	defer t.Release()
	return use(t)
}

// run queues uploads, packing and product. Documents are computed while the next ones are on their way, and the first
// rows are being read while the device's memory is found.
func (f *pass[T]) run(resident *Resident, q, d []T) error {
	f.t.q.rows, f.t.d.rows = f.q, f.d
	var list []stretch[T]
	portions := []portion{f.all()}
	switch {
	case resident != nil:
		list = f.queries(q, func() error { return f.product(portions[0]) })
	case len(q) == len(d) && &q[0] == &d[0]:
		list = f.both(q)
	default:
		portions = f.portions(f.dim*sizeOf[T](), f.device.portionBytes)
		list = append(f.queries(q, nil), f.documents(d, portions)...)
	}
	h := newShipment(f.device)
	defer h.end()
	for _, c := range list {
		h.add(bytesOf(c.user[c.lo*f.b.Dim : c.hi*f.b.Dim]))
	}
	if err := h.start(); err != nil {
		return err
	}
	if err := f.reserve(resident, portions); err != nil {
		return err
	}
	return f.inOrder(h, list)
}

// reserve allocates what the pass needs beside the user's rows, and uploads the layout of both sides.
func (f *pass[T]) reserve(resident *Resident, portions []portion) (err error) {
	if err := f.newFlag(); err != nil {
		return err
	}
	if f.record {
		if f.t.argmax, err = f.keep.alloc(f.winners * f.argbytes); err != nil {
			return err
		}
	}
	if f.part, err = f.call.alloc(f.winners / slab * sizeOf[T]()); err != nil {
		return err
	}
	if f.t.q, err = f.arrange(f.q); err != nil {
		return err
	}
	if err := f.reservePacked(&f.t.q); err != nil {
		return err
	}
	if resident != nil {
		f.t.d = resident.side
		return nil
	}
	if f.t.d, err = f.arrange(f.d); err != nil {
		return err
	}
	if err := f.reservePacked(&f.t.d); err != nil {
		return err
	}
	return f.locate(portions)
}

// both is the list of MaxSim(x, x): one upload for the two sides, whose sequences may end in different rows.
func (f *pass[T]) both(x []T) []stretch[T] {
	all := stretchOf(&f.t.q, x, f.b.Q.Cu, 0, f.b.Q.Len())
	all.hi = max(all.hi, f.b.D.Cu[f.b.D.Len()])
	all.then = func() error {
		f.t.d.raw = f.t.q.raw
		if err := f.pack(rowRun{&f.t.d, 0, f.totd}); err != nil {
			return err
		}
		return f.product(f.all())
	}
	return []stretch[T]{all}
}

// product queues the fused pass over a portion: the argmax of every winner if it is recorded, and the slab sums.
func (f *pass[T]) product(c portion) error {
	dev, st, rowBytes := f.device, f.storage, f.dim*sizeOf[T]()
	q := f.t.q.beginningAt(int64(f.q.cu[c.i0]), st, rowBytes)
	d := f.t.d.beginningAt(int64(f.d.cu[c.j0]), st, rowBytes)
	winner := f.firstWinner(c)
	params := forwardParams{
		qmap: q.from, dmap: d.from, cuq: f.t.q.cu, cud: f.t.d.cu, part: f.part + address(winner/slab*sizeOf[T]()),
		bq: int64(c.i1 - c.i0), bd: int64(c.j1 - c.j0), dim: f.dim, group: f.group, maxq: f.maxq, argbytes: f.argbytes,
		totq: int64(f.q.cu[c.i1] - f.q.cu[c.i0]), totd: int64(f.d.cu[c.j1] - f.d.cu[c.j0]),
	}
	if c.cuq != 0 {
		params.cuq, params.cud = c.cuq, c.cud
	}
	if f.record {
		params.argmax = f.t.argmax + address(winner*f.argbytes)
	}
	if params.totq == 0 || params.totd == 0 {
		return nil
	}
	exact := params
	exact.q, exact.d, exact.ldq, exact.ldd = q.raw, d.raw, f.dim, f.dim
	if st.pack == "" {
		return launch(dev, exactCall(st.product, dev.properties), &exact)
	}
	params.q, params.d, params.ldq, params.ldd = q.packed, d.packed, q.ld, d.ld
	params.qscale, params.dscale = q.scale, d.scale
	if err := f.tensorCores(&params, c); err != nil || !st.split {
		return err
	}
	exact.qflag, exact.dflag, exact.flagged, exact.stamp = q.flag, d.flag, f.flagged, f.stamp
	if r := f.t.documents; r != nil && r.flagged {
		exact.flagged = 0 // what the packing of this call found does not matter
	}
	return launch(dev, exactCall("exact_f32", dev.properties), &exact)
}

// boxQ is how many query rows one copy of a tensor map brings.
const boxQ = 64

// tensorCores queues the product of packed rows.
func (f *pass[T]) tensorCores(params *forwardParams, c portion) error {
	drv, rowBytes := f.device.drv, params.ldd*f.storage.element
	k := chooseForward(f.device.properties, f.storage.product, rowBytes, f.maxq, f.record)
	if f.scores != 0 && f.problem.direct(k) {
		f.direct = true
		params.scores = f.scores + address(4*c.j0) // of one query, or of documents of one query each: those of j0 on
	}
	if !k.hopper {
		return launch(f.device, k.call, params)
	}
	hopper := forwardSm90Params{f: *params}
	var err error
	if hopper.dtile, err = drv.tensorMap(params.d, rowBytes, params.totd, k.box); err != nil {
		return err
	}
	if hopper.qtile, err = drv.tensorMap(params.q, rowBytes, params.totq, boxQ); err != nil {
		return err
	}
	return launch(f.device, k.call, &hopper)
}

// sum queues the scores and their way to the host.
func (f *pass[T]) sum(scores []T) error {
	dev := f.device
	if !f.direct {
		params := scoresParams{part: f.part, cuq: f.t.q.cu, cud: f.t.d.cu, scores: f.scores, bq: f.bq, bd: f.bd, totq: f.totq, group: f.group}
		if err := launch(dev, scoresCall("maxsim_scores_"+floatName[T](), int64(len(scores))), &params); err != nil {
			return err
		}
	}
	if err := dev.after(dev.out, dev.work); err != nil {
		return err
	}
	return download(dev, scores, f.scores)
}

func sizeOf[T layout.Float]() int64 {
	if isFloat64[T]() {
		return 8
	}
	return 4
}

func floatName[T layout.Float]() string {
	if isFloat64[T]() {
		return "f64"
	}
	return "f32"
}
