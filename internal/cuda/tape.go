package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// Tape is what a forward pass leaves on the device for the backward pass: the argmax, the token rows in the form that
// the gradient kernels read, and, once a gradient has asked for it, the inverse of the argmax. Nothing of it is
// uploaded again, and nothing of it reaches the host unless [Tape.Argmax] is called.
//
// Its device memory goes back to the pool at the first of these:
//
//   - as many gradients and argmaxes have been taken from it as [Tape.Expect] announced;
//   - [Tape.Release] is called;
//   - the garbage collector finds it unreachable; the Device forces a collection before it runs out of memory.
//
// A gradient that is taken later is still right: the engine computes the tape again, at the price of a forward pass.
// Only the argmax itself is lost then, unless it has been asked for before.
type Tape struct {
	device  *Device
	problem *problem
	storage storage
	held    *holding

	documents *Resident // whose memory d lies in, or nil

	q, d         side
	argmax       address // 2 or 4 bytes a winner
	rowptr, list address // the inverse of argmax, 0 until it is built
	upstream     address // the upstream gradient of the last call, 0 until there was one
	received     []byte  // its content; nil: it is not there

	mu   sync.Mutex
	host []int32 // what Argmax has returned
}

// holding is the device memory of a tape, apart from it so that a cleanup can outlive the tape.
type holding struct {
	mu       sync.Mutex
	memory   *scope
	expected int // gradients and argmaxes still to come; negative: unknown
	released bool
}

// hold makes memory the tape's, to be given back as the documentation of Tape says.
func (t *Tape) hold(memory *scope) {
	t.held = &holding{memory: memory, expected: -1}
	runtime.AddCleanup(t, (*holding).release, t.held)
}

// Expect announces how many gradients (dq and dd count one each) and argmaxes will be taken from the tape from now on.
// After the last of them its device memory is given back. A wrong number costs time or memory, never correctness.
func (t *Tape) Expect(n int) {
	h := t.held
	h.mu.Lock()
	h.expected = n
	h.mu.Unlock()
	if n <= 0 {
		t.Release()
	}
}

// Release gives the device memory back now. The tape must not be in use by a call under way.
func (t *Tape) Release() { t.held.release() }

// consumed counts what a call has taken from the tape. The call still has the device for itself.
func (t *Tape) consumed(taken ...bool) {
	h := t.held
	h.mu.Lock()
	for _, one := range taken {
		if one && h.expected > 0 {
			h.expected--
		}
	}
	last := h.expected == 0
	h.mu.Unlock()
	if last {
		h.release()
	}
}

func (h *holding) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.released {
		h.released = true
		h.memory.close()
	}
}

func (h *holding) gone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.released
}

// errGone is the error of an Argmax after the device memory was given back.
var errGone = errors.New("the argmax tape was given back to the device before anybody asked for it")

// Argmax implements [layout.Tape]: it brings the argmax to the host, once.
func (t *Tape) Argmax() ([]int32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.host != nil {
		return t.host, nil
	}
	host := make([]int32, t.problem.b.TapeLen())
	err := t.device.exclusively(func() error {
		if t.held.gone() {
			return errGone
		}
		if err := t.documents.there(); err != nil { // their layout is what the argmax is counted with
			return err
		}
		if err := t.fetch(host); err != nil {
			return err
		}
		t.consumed(true)
		return nil
	})
	runtime.KeepAlive(t)
	if err != nil {
		return nil, err
	}
	t.host = host
	return host, nil
}

// fetch writes the tape into host, in the order of layout.Batch.TapeAt and counting masked tokens.
func (t *Tape) fetch(host []int32) (err error) {
	p, dev := t.problem, t.device
	if p.empty() {
		for k := range host {
			host[k] = -1
		}
		return nil
	}
	call := &scope{pool: dev.pool}
	defer func() {
		if err != nil {
			dev.drain()
		}
		call.close()
	}()
	out, err := call.alloc(int64(len(host)) * 4)
	if err != nil {
		return err
	}
	// The user's own offsets: both sides in one array, one copy.
	both := append(offsets(&p.b.Q), offsets(&p.b.D)...)
	users, err := call.alloc(int64(len(both)) * 4)
	if err != nil {
		return err
	}
	if err := upload(dev, users, both); err != nil {
		return err
	}
	if err := dev.after(dev.work, dev.in); err != nil {
		return err
	}
	if err := dev.work.fill(out, 0xff, int64(len(host))*4); err != nil { // -1 everywhere
		return err
	}
	if err := t.q.owners(dev, t.held.memory); err != nil {
		return err
	}
	err = launch(dev, argmaxCall(p.bd, p.maxq), &argmaxParams{
		argmax: t.argmax, qmap: t.q.from, dmap: t.d.from, cuq: t.q.cu, cud: t.d.cu, qowner: t.q.owner,
		ucuq: users, ucud: users + address(4*len(p.b.Q.Cu)), out: out,
		bq: p.bq, bd: p.bd, totq: p.totq, group: p.group, argbytes: p.argbytes,
	})
	if err != nil {
		return err
	}
	if err := dev.after(dev.out, dev.work); err != nil {
		return err
	}
	if err := download(dev, host, out); err != nil {
		return err
	}
	return dev.finish()
}

func (t *Tape) String() string {
	return fmt.Sprintf("argmax tape on %v, %d winners of %d bytes", t.device, t.problem.winners, t.problem.argbytes)
}
