package cuda

import (
	"math/bits"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// backward computes the gradients that are wanted from a tape on the device:
//
//	dq[i,t,:] = Σ_k ds[i,k] · d[j, argmax[i,k,t], :]
//	dd[j,u,:] = Σ_{(i,t) : argmax[i,k,t] = u} ds[i,k] · q[i,t,:]
//
// dq is on its way to the host while dd is computed.
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
	upstream, err := call.alloc(int64(len(ds)) * sizeOf[T]())
	if err != nil {
		return err
	}
	if err := upload(dev, upstream, ds); err != nil {
		return err
	}
	if err := dev.after(dev.work, dev.in); err != nil {
		return err
	}
	var dqOut, ddOut address
	if dq != nil {
		if dqOut, err = t.gradQ(call, upstream, int64(len(dq))*sizeOf[T]()); err != nil {
			return err
		}
		if err := dev.after(dev.out, dev.work); err != nil {
			return err
		}
	}
	if dd != nil {
		if ddOut, err = t.gradD(call, upstream, int64(len(dd))*sizeOf[T]()); err != nil {
			return err
		}
	}
	if dq != nil {
		if err := download(dev, dq, dqOut); err != nil {
			return err
		}
	}
	if dd != nil {
		if err := dev.after(dev.out, dev.work); err != nil {
			return err
		}
		if err := download(dev, dd, ddOut); err != nil {
			return err
		}
	}
	return dev.finish()
}

// output allocates a gradient, cleared if its kernel does not write every row.
func (t *Tape) output(call *scope, of *rows, bytes int64) (address, error) {
	out, err := call.alloc(bytes)
	if err != nil || of.covers() {
		return out, err
	}
	return out, t.device.work.fill(out, 0, bytes)
}

// operand returns where the gradient kernels read a side, with the map that leads there.
func (t *Tape) operand(s side) (at, through address, ld int64) {
	if t.storage.ofPacked {
		return s.packed, 0, s.ld
	}
	return s.raw, s.from, int64(t.problem.b.Dim)
}

// gradQ queues dq: documents ascending for every query row.
func (t *Tape) gradQ(call *scope, upstream address, bytes int64) (out address, err error) {
	p := t.problem
	if out, err = t.output(call, p.q, bytes); err != nil {
		return 0, err
	}
	if err = t.q.owners(t.device, t.held.memory); err != nil {
		return 0, err
	}
	params := gradQParams{
		qowner: t.q.owner, qmap: t.q.from, cuq: t.q.cu, cud: t.d.cu, argmax: t.argmax, ds: upstream, dq: out,
		bq: p.bq, bd: p.bd, totq: p.totq, totd: p.totd, group: p.group, dim: int64(p.b.Dim), argbytes: p.argbytes,
	}
	params.d, params.dmap, params.ldd = t.operand(t.d)
	return out, launch(t.device, gradQCall(t.storage.operand, p.totq, params.dim, params.ldd, t.storage.size), &params)
}

// gradD queues dd: for every document row its list of query rows, ascending.
func (t *Tape) gradD(call *scope, upstream address, bytes int64) (out address, err error) {
	p := t.problem
	if out, err = t.output(call, p.d, bytes); err != nil {
		return 0, err
	}
	if err = t.q.owners(t.device, t.held.memory); err != nil {
		return 0, err
	}
	if err = t.d.owners(t.device, t.held.memory); err != nil {
		return 0, err
	}
	if err = t.invert(call); err != nil {
		return 0, err
	}
	params := gradDParams{
		qowner: t.q.owner, downer: t.d.owner, dmap: t.d.from, cuq: t.q.cu, cud: t.d.cu, rowptr: t.rowptr, list: t.list,
		ds: upstream, dd: out, bq: p.bq, bd: p.bd, totq: p.totq, totd: p.totd, group: p.group,
		dim: int64(p.b.Dim), listbytes: p.listbytes,
	}
	params.q, params.qmap, params.ldq = t.operand(t.q)
	params.qmul, params.qshift = reciprocal(int64(p.q.equal))
	return out, launch(t.device, gradDCall(t.storage.operand, p.totd, params.dim, t.storage.size), &params)
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
	plan := planCSR(p.bd, int64(p.d.longest), p.maxq, p.winners, dev.properties.Multiprocessors)
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
