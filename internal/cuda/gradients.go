package cuda

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// gradients is a backward pass under way.
type gradients[T layout.Float] struct {
	*Tape
	call    *scope
	results []result[T]
}

// result is a part of a gradient: where it will be on the device when the mark of its number is passed, where it goes,
// and what may be queued then.
type result[T layout.Float] struct {
	from address
	to   []T
	then func() error // queues what takes the same memory; nil: nothing does
}

// due notes that what was queued on q until now makes a result.
func (g *gradients[T]) due(q queue, r result[T]) error {
	g.results = append(g.results, r)
	return q.record(g.device.ready[len(g.results)-1])
}

// deliver copies the results in the order in which they are made, and waits until all are there. A part that takes the memory
// of one that has left is a result more.
func (g *gradients[T]) deliver() error {
	dev := g.device
	for n := 0; n < len(g.results); n++ {
		r := g.results[n]
		if err := dev.out.wait(dev.ready[n]); err != nil {
			return err
		}
		if err := download(dev, r.to, r.from); err != nil {
			return err
		}
		if r.then == nil {
			continue
		}
		if err := dev.after(dev.work, dev.out); err != nil {
			return err
		}
		if err := r.then(); err != nil {
			return err
		}
	}
	return dev.finish()
}

// operand returns where the gradient kernels read a side, with the map that leads there.
func (t *Tape) operand(s side) (at, through address, ld int64) {
	if t.storage.ofPacked {
		return s.packed, 0, s.ld
	}
	return s.raw, s.from, int64(t.problem.b.Dim)
}

// queries prepares dq and returns what queues it, beside what the work queue gets from now on: documents ascending for
// every query row. It is whole on the device: the kernel finds the winners of a query row by the number of query rows that
// there are.
func (g *gradients[T]) queries(dq []T) (queue func() error, err error) {
	p, dev, bytes := g.problem, g.device, int64(len(dq))*sizeOf[T]()
	out, err := g.call.alloc(bytes)
	if err != nil {
		return nil, err
	}
	if !p.q.covers() { // the kernel does not write every row
		if err := dev.work.fill(out, 0, bytes); err != nil {
			return nil, err
		}
	}
	params := gradQParams{
		qowner: g.q.owner, qmap: g.q.from, cuq: g.q.cu, cud: g.d.cu, argmax: g.argmax, ds: g.upstream, dq: out,
		bq: p.bq, bd: p.bd, totq: p.totq, totd: p.totd, group: p.group, dim: int64(p.b.Dim), argbytes: p.argbytes,
	}
	params.d, params.dmap, params.ldd = g.operand(g.d)
	if err := dev.after(dev.beside, dev.work); err != nil {
		return nil, err
	}
	return func() error {
		if err := launchIn(dev, dev.beside, gradQCall(g.storage.operand, p.totq, params.dim, g.storage.size), &params); err != nil {
			return err
		}
		return g.due(dev.beside, result[T]{from: out, to: dq})
	}, nil
}
