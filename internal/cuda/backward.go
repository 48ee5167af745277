package cuda

import (
	"bytes"
	"math/bits"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// backward computes the gradients that are wanted from a tape on the device:
//
//	dq[i,t,:] = Σ_k ds[i,k] · d[j, argmax[i,k,t], :]
//	dd[j,u,:] = Σ_{(i,t) : argmax[i,k,t] = u} ds[i,k] · q[i,t,:]
//
// The inverse of the argmax, which occupies little of the GPU, is sorted while dq is computed, dq is on its way to the host
// while dd is computed, and parts of dd while later parts are.
func backward[T layout.Float](t *Tape, ds, dq, dd []T) (err error) {
	dev, p := t.device, t.problem
	if p.empty() {
		clear(dq)
		clear(dd)
		return nil
	}
	if t.documents != nil && t.documents.gone {
		return errResidentGone
	}
	call := &scope{pool: dev.pool}
	defer func() {
		if err != nil {
			dev.drain()
		}
		call.close()
	}()
	if err := t.receive(bytesOf(ds)); err != nil {
		return err
	}
	g := gradients[T]{Tape: t, call: call}
	if err := g.q.owners(dev, t.held.memory); err != nil {
		return err
	}
	if dd != nil {
		if err := g.d.owners(dev, t.held.memory); err != nil {
			return err
		}
	}
	var queries func() error
	if dq != nil {
		if queries, err = g.queries(dq); err != nil {
			return err
		}
		if err := dev.after(dev.beside, dev.work); err != nil {
			return err
		}
	}
	if dd != nil {
		if err := g.invert(call); err != nil { // before dq, whose blocks would leave it no places
			return err
		}
	}
	if dq != nil {
		if err := queries(); err != nil {
			return err
		}
	}
	if dd != nil {
		if err := g.documents(dd); err != nil {
			return err
		}
	}
	return g.deliver()
}

// receive brings the upstream gradient to the device, unless it is there: dq and dd of one step are asked for one after
// the other, with the same.
func (t *Tape) receive(ds []byte) (err error) {
	if t.upstream != 0 && bytes.Equal(ds, t.received) {
		return nil
	}
	t.received = nil
	if t.upstream == 0 {
		if t.upstream, err = t.held.memory.alloc(int64(len(ds))); err != nil {
			return err
		}
	}
	if err := upload(t.device, t.upstream, ds); err != nil {
		return err
	}
	t.received = bytes.Clone(ds)
	return t.device.after(t.device.work, t.device.in)
}

// gradients is a backward pass under way.
type gradients[T layout.Float] struct {
	*Tape
	call    *scope
	results []result[T]
}

// result is a part of a gradient: where it will be on the device when the mark of its number is passed, and where it
// goes.
type result[T layout.Float] struct {
	from address
	to   []T
}

// due notes that what was queued on q until now makes a result.
func (g *gradients[T]) due(q queue, from address, to []T) error {
	g.results = append(g.results, result[T]{from, to})
	return q.record(g.device.ready[len(g.results)-1])
}

// deliver copies the results in the order in which they are made, and waits until all are there.
func (g *gradients[T]) deliver() error {
	dev := g.device
	for n, r := range g.results {
		if err := dev.out.wait(dev.ready[n]); err != nil {
			return err
		}
		if err := download(dev, r.to, r.from); err != nil {
			return err
		}
	}
	return dev.finish()
}

// output allocates a gradient, cleared if its kernel does not write every row.
func (g *gradients[T]) output(of *rows, to []T) (address, error) {
	size := int64(len(to)) * sizeOf[T]()
	out, err := g.call.alloc(size)
	if err == nil && !of.covers() {
		err = g.device.work.fill(out, 0, size)
	}
	return out, err
}

// operand returns where the gradient kernels read a side, with the map that leads there.
func (t *Tape) operand(s side) (at, through address, ld int64) {
	if t.storage.ofPacked {
		return s.packed, 0, s.ld
	}
	return s.raw, s.from, int64(t.problem.b.Dim)
}

// queries prepares dq and returns what queues it, beside the work queue: documents ascending for every query row.
func (g *gradients[T]) queries(dq []T) (queue func() error, err error) {
	p, dev := g.problem, g.device
	out, err := g.output(p.q, dq)
	if err != nil {
		return nil, err
	}
	params := gradQParams{
		qowner: g.q.owner, qmap: g.q.from, cuq: g.q.cu, cud: g.d.cu, argmax: g.argmax, ds: g.upstream, dq: out,
		bq: p.bq, bd: p.bd, totq: p.totq, totd: p.totd, group: p.group, dim: int64(p.b.Dim), argbytes: p.argbytes,
	}
	params.d, params.dmap, params.ldd = g.operand(g.d)
	return func() error {
		if err := launchIn(dev, dev.beside, gradQCall(g.storage.operand, p.totq, params.dim, g.storage.size), &params); err != nil {
			return err
		}
		return g.due(dev.beside, out, dq)
	}, nil
}

// documents queues dd: for every document row its list of query rows, ascending; portion by portion.
func (g *gradients[T]) documents(dd []T) error {
	p, rowBytes := g.problem, int64(g.problem.b.Dim)*sizeOf[T]()
	out, err := g.output(p.d, dd)
	if err != nil {
		return err
	}
	params := gradDParams{
		qowner: g.q.owner, cuq: g.q.cu, cud: g.d.cu, list: g.list, ds: g.upstream,
		bq: p.bq, bd: p.bd, totq: p.totq, group: p.group, dim: int64(p.b.Dim), listbytes: p.listbytes,
	}
	params.q, params.qmap, params.ldq = g.operand(g.q)
	params.qmul, params.qshift = reciprocal(int64(p.q.equal))
	portions := p.portions(rowBytes, g.device.portionBytes)
	for n, c := range portions {
		// Every array over compact document rows begins at the portion's first; sequences keep their numbers.
		lo := p.d.cu[c.j0]
		params.downer, params.rowptr = g.d.owner+address(4*lo), g.rowptr+address(4*lo)
		params.totd = int64(p.d.cu[c.j1] - lo)
		params.dd = out
		if g.d.from != 0 {
			params.dmap = g.d.from + address(4*lo)
		} else {
			params.dd += address(int64(lo) * rowBytes)
		}
		if err := launch(g.device, gradDCall(g.storage.operand, params.totd, p.winners*params.totd/p.totd, params.dim, g.storage.size, g.device.properties), &params); err != nil {
			return err
		}
		from, to := p.b.D.Cu[c.j0], p.b.D.Cu[c.j1]
		if n == len(portions)-1 {
			to = p.b.D.Rows // the capacity rows go with the last
		}
		if err := g.due(g.device.work, out+address(int64(from)*rowBytes), dd[from*p.b.Dim:to*p.b.Dim]); err != nil {
			return err
		}
	}
	return nil
}

// invert queues the inverse of the argmax, unless the tape has it.
func (t *Tape) invert(call *scope) (err error) {
	if t.list != 0 {
		return nil
	}
	p, dev := t.problem, t.device
	memory := &scope{pool: dev.pool}
	defer memory.close() // unless the tape adopts it
	rowptr, err := memory.alloc(4 * (p.totd + p.bd))
	if err != nil {
		return err
	}
	list, err := memory.alloc(p.winners * p.listbytes)
	if err != nil {
		return err
	}
	plan := planCSR(p.bd, int64(p.d.longest), p.maxq, dev.properties.Multiprocessors)
	params := csrParams{
		argmax: t.argmax, qmap: t.q.from, cuq: t.q.cu, cud: t.d.cu, rowptr: rowptr, list: list,
		bq: p.bq, bd: p.bd, totq: p.totq, totd: p.totd, group: p.group,
		argbytes: p.argbytes, listbytes: p.listbytes, utile: plan.utile, segs: plan.segs,
	}
	if !plan.fused {
		if params.counts, err = call.alloc(4 * plan.segs * p.totd); err != nil {
			return err
		}
	}
	for _, c := range plan.calls(p.bd) {
		if err := launch(dev, c, &params); err != nil {
			dev.drain() // before the memory goes back
			return err
		}
	}
	t.held.memory.adopt(memory)
	t.rowptr, t.list = rowptr, list
	return nil
}

// reciprocal returns the multiplier and shift with which x/n is umulhi(x, mul) >> shift for every x below 2^31; zeros
// for n = 0, when the queries differ in length.
func reciprocal(n int64) (mul, shift int64) {
	if n == 0 {
		return 0, 0
	}
	shift = int64(bits.Len64(uint64(n-1))) - 1
	return (1<<(32+shift) + n - 1) / n, shift
}
