package cuda

import (
	"bytes"

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
	if err := t.documents.there(); err != nil {
		return err
	}
	if p.empty() {
		clear(dq)
		clear(dd)
		return nil
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
	var queries func() error
	if dq != nil {
		if queries, err = g.queries(dq); err != nil {
			return err
		}
	}
	var documents *documentGradient[T]
	if dd != nil {
		if documents, err = g.documents(dd); err != nil {
			return err
		}
		if err := g.invert(documents.memory); err != nil { // before dq, whose blocks would leave it no places
			return err
		}
	}
	if dq != nil {
		if err := queries(); err != nil {
			return err
		}
	}
	if dd != nil {
		if err := documents.start(); err != nil {
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

// planInverse chooses how the inverse of the argmax is sorted.
func (t *Tape) planInverse() csrPlan {
	p := t.problem
	return planCSR(p.bd, int64(p.d.longest), p.maxq, t.device.properties.Multiprocessors)
}

// scratch returns the bytes that invert needs beside what stays.
func (t *Tape) scratch() int64 {
	if t.list != 0 {
		return 0
	}
	return t.planInverse().counts(t.problem.totd)
}

// invert queues the inverse of the argmax, unless the tape has it. What is queued behind it may overwrite the scratch.
func (t *Tape) invert(scratch address) (err error) {
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
	plan := t.planInverse()
	params := csrParams{
		argmax: t.argmax, qmap: t.q.from, cuq: t.q.cu, cud: t.d.cu, rowptr: rowptr, list: list,
		bq: p.bq, bd: p.bd, totq: p.totq, totd: p.totd, group: p.group,
		argbytes: p.argbytes, listbytes: p.listbytes, utile: plan.utile, segs: plan.segs,
	}
	if !plan.fused {
		params.counts = scratch
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
