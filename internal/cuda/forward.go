package cuda

import (
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// forward runs the forward pass and leaves the scores in host memory; a nil scores is not wanted. With record it
// returns what the backward pass needs, which otherwise goes back at once.
func (e *Engine[T]) forward(p *problem, q, d, scores []T, record bool) (t *Tape, err error) {
	dev := e.device
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
	l := &loader[T]{device: dev, storage: storageOf[T](e.precision, p.b.Dim), dim: int64(p.b.Dim), keep: keep, call: call}
	t = &Tape{device: dev, problem: p, storage: l.storage, documents: e.documents}
	if p.empty() {
		clear(scores)
		t.hold(keep)
		return t, nil
	}
	if err = l.newFlag(e.documents != nil && e.documents.flagged); err != nil {
		return nil, err
	}
	// The packing of the queries runs while the documents are on their way.
	if t.q, err = l.arrange(p.q); err != nil {
		return nil, err
	}
	if err = l.load(&t.q, q); err != nil {
		return nil, err
	}
	if err = l.pack(&t.q); err != nil {
		return nil, err
	}
	if t.d, err = e.placeDocuments(l, p, d, &t.q, q); err != nil {
		return nil, err
	}
	if err = e.product(l, t, record); err != nil {
		return nil, err
	}
	if scores != nil {
		if err = e.sum(l, t, scores); err != nil {
			return nil, err
		}
	}
	if err = dev.finish(); err != nil {
		return nil, err
	}
	t.q, t.d = t.q.forTape(l.storage), t.d.forTape(l.storage)
	t.part = 0
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

// placeDocuments brings the documents to the device, unless they are there: resident, or the queries' own rows.
func (e *Engine[T]) placeDocuments(l *loader[T], p *problem, d []T, queries *side, q []T) (side, error) {
	if e.documents != nil {
		return e.documents.side, e.documents.fits(p, l.storage.product)
	}
	s, err := l.arrange(p.d)
	if err != nil {
		return s, err
	}
	if len(q) == len(d) && &q[0] == &d[0] && queries.raw != 0 {
		s.raw = queries.raw
	} else if err := l.load(&s, d); err != nil {
		return s, err
	}
	return s, l.pack(&s)
}

// product queues the fused pass: the argmax of every winner if it is recorded, and the sums of row maxima.
func (e *Engine[T]) product(l *loader[T], t *Tape, record bool) (err error) {
	p := t.problem
	if record {
		if t.argmax, err = l.keep.alloc(p.winners * p.argbytes); err != nil {
			return err
		}
	}
	if t.part, err = l.call.alloc(p.winners / slab * sizeOf[T]()); err != nil {
		return err
	}
	params := forwardParams{
		qmap: t.q.from, dmap: t.d.from, cuq: t.q.cu, cud: t.d.cu, argmax: t.argmax, part: t.part,
		bq: p.bq, bd: p.bd, totq: p.totq, totd: p.totd, dim: l.dim, group: p.group, maxq: p.maxq, argbytes: p.argbytes,
	}
	exact := params
	exact.q, exact.d, exact.ldq, exact.ldd = t.q.raw, t.d.raw, l.dim, l.dim
	if l.storage.pack == "" {
		return launch(e.device, exactCall(l.storage.product, e.device.properties), &exact)
	}
	params.q, params.d, params.ldq, params.ldd = t.q.packed, t.d.packed, t.q.ld, t.d.ld
	params.qscale, params.dscale = t.q.scale, t.d.scale
	if err := e.tensorCores(l, p, &params, record); err != nil || !l.storage.split {
		return err
	}
	exact.qflag, exact.dflag, exact.flagged = t.q.flag, t.d.flag, l.flagged
	return launch(e.device, exactCall("exact_f32", e.device.properties), &exact)
}

// Boxes of the tensor maps: 128 bytes of as many rows as a kernel multiplies at once.
const (
	boxQ = 64
	boxD = 128
)

// tensorCores queues the product of packed rows.
func (e *Engine[T]) tensorCores(l *loader[T], p *problem, params *forwardParams, record bool) error {
	rowBytes := params.ldd * l.storage.element
	k := chooseForward(e.device.properties, l.storage.product, rowBytes, p.maxq, record)
	if !k.hopper {
		return launch(e.device, k.call, params)
	}
	hopper := forwardSm90Params{f: *params}
	var err error
	if hopper.dtile, err = e.device.drv.tensorMap(params.d, rowBytes, p.totd, boxD); err != nil {
		return err
	}
	if hopper.qtile, err = e.device.drv.tensorMap(params.q, rowBytes, p.totq, boxQ); err != nil {
		return err
	}
	return launch(e.device, k.call, &hopper)
}

// sum queues the scores and their way to the host.
func (e *Engine[T]) sum(l *loader[T], t *Tape, scores []T) error {
	p := t.problem
	out, err := l.call.alloc(int64(len(scores)) * sizeOf[T]())
	if err != nil {
		return err
	}
	params := scoresParams{part: t.part, cuq: t.q.cu, cud: t.d.cu, scores: out, bq: p.bq, bd: p.bd, totq: p.totq, group: p.group}
	if err := launch(e.device, scoresCall("maxsim_scores_"+floatName[T](), int64(len(scores))), &params); err != nil {
		return err
	}
	if err := e.device.after(e.device.out, e.device.work); err != nil {
		return err
	}
	return download(e.device, scores, out)
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
