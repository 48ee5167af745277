//go:build maxsim_cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cudrv"
)

// libcuda is the driver over gorgonia.org/cu, on the primary context of a GPU: the one that other CUDA libraries in the
// same program share.
type libcuda struct {
	device  cu.Device
	context cu.CUContext
	about   Properties
	modules []module

	mu        sync.Mutex
	functions map[string]*function
}

// module is a loaded image: the kernels whose names end in suffix.
type module struct {
	cu.Module
	suffix string
	awaits bool // see image
}

// function is a kernel, and the dynamic shared memory that its launches may ask for so far.
type function struct {
	handle cu.Function
	shared uint32
	awaits bool
}

func newLibcuda(device cu.Device, about Properties) (*libcuda, error) {
	context, err := device.RetainPrimaryCtx()
	if err != nil {
		return nil, cudrv.Explain(err)
	}
	l := &libcuda{device: device, context: context, about: about, functions: map[string]*function{}}
	for _, image := range imagesFor(about) {
		err := l.do(func() error {
			m, err := cudrv.Load(image.code)
			if err == nil {
				l.modules = append(l.modules, module{m, image.suffix, image.awaits})
			}
			return err
		})
		if err != nil {
			return nil, errors.Join(explainImage(image.name, about, err), l.close())
		}
	}
	return l, nil
}

// explainImage says what a refused kernel image means.
func explainImage(name string, about Properties, err error) error {
	switch {
	case errors.Is(err, cudrv.UnsupportedVersion):
		return fmt.Errorf("the driver is too old for kernel image %s, it supports CUDA %d.%d: %w", name, about.Driver/1000, about.Driver%1000/10, err)
	case errors.Is(err, cudrv.NoBinaryForGPU):
		return fmt.Errorf("kernel image %s is not for compute capability %d.%d: %w", name, about.Major, about.Minor, err)
	}
	return fmt.Errorf("kernel image %s: %w", name, err)
}

// do runs f on a thread on which the context is current. A context belongs to a thread, and a goroutine to none.
func (l *libcuda) do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.SetCurrentContext(l.context); err != nil {
		return cudrv.Explain(err)
	}
	return cudrv.Explain(f())
}

func (l *libcuda) properties() Properties { return l.about }

func (l *libcuda) memory() (free int64, err error) {
	err = l.do(func() (err error) { free, _, err = cu.MemInfo(); return err })
	return free, err
}

func (l *libcuda) alloc(bytes int64) (a address, err error) {
	err = l.do(func() error {
		p, err := cu.MemAlloc(bytes)
		a = address(p)
		return err
	})
	if errors.Is(err, cudrv.OutOfMemory) {
		return 0, fmt.Errorf("%w: %w", errCardFull, err)
	}
	return a, err
}

func (l *libcuda) free(a address) error {
	return l.do(func() error { return cu.MemFree(cu.DevicePtr(a)) })
}

func (l *libcuda) pin(bytes int64) (p unsafe.Pointer, err error) {
	err = l.do(func() (err error) { p, err = cudrv.HostAlloc(bytes); return err })
	return p, err
}

func (l *libcuda) unpin(p unsafe.Pointer) error {
	return l.do(func() error { return cudrv.HostFree(p) })
}

func (l *libcuda) copyUncached(dst, src []byte) { cudrv.CopyUncached(dst, src) }

func (l *libcuda) register(p unsafe.Pointer, bytes int64) error {
	return l.do(func() error { return cudrv.HostRegister(p, bytes) })
}

func (l *libcuda) unregister(p uintptr) error {
	return l.do(func() error { return cudrv.HostUnregister(p) })
}

func (l *libcuda) tensorMap(a address, rowBytes, rows int64, boxRows int) (m tensorMap, err error) {
	err = l.do(func() error {
		return cudrv.EncodeRows((*[128]byte)(&m), cu.DevicePtr(a), rowBytes, rows, boxRows)
	})
	return m, err
}

func (l *libcuda) newQueue() (queue, error) {
	q := &cuStream{libcuda: l}
	err := l.do(func() (err error) { q.handle, err = cu.MakeStream(cu.NonBlocking); return err })
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (l *libcuda) newMark() (mark, error) {
	m := &cuEvent{libcuda: l}
	err := l.do(func() (err error) { m.handle, err = cu.MakeEvent(cu.DefaultEvent); return err })
	if err != nil {
		return nil, err
	}
	return m, nil
}

// function looks a kernel up once, in its image, and lets it have the shared memory that a launch asks for. The common
// image comes last and takes every name.
func (l *libcuda) function(kernel string, shared uint32) (*function, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.functions[kernel]
	if f == nil {
		at := slices.IndexFunc(l.modules, func(m module) bool { return strings.HasSuffix(kernel, m.suffix) })
		handle, err := l.modules[at].Function(kernel)
		if err != nil {
			return nil, fmt.Errorf("no kernel image has it: %w", cudrv.Explain(err))
		}
		f = &function{handle: handle, awaits: l.modules[at].awaits}
		l.functions[kernel] = f
	}
	if shared > f.shared {
		if err := cudrv.SetDynamicShared(f.handle, int(shared)); err != nil {
			return nil, fmt.Errorf("%d bytes of shared memory: %w", shared, err)
		}
		f.shared = shared
	}
	return f, nil
}

// close unloads the kernels and gives the context back to its other users.
func (l *libcuda) close() error {
	var failed error
	for _, m := range l.modules {
		failed = errors.Join(failed, l.do(m.Unload))
	}
	return errors.Join(failed, cudrv.Explain(l.device.ReleasePrimaryCtx()))
}

// cuStream is a queue.
type cuStream struct {
	*libcuda
	handle cu.Stream
}

func (q *cuStream) upload(dst address, src unsafe.Pointer, bytes int64) error {
	return q.do(func() error { return cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src, bytes, q.handle) })
}

func (q *cuStream) download(dst unsafe.Pointer, src address, bytes int64) error {
	return q.do(func() error { return cu.MemcpyDtoHAsync(dst, cu.DevicePtr(src), bytes, q.handle) })
}

func (q *cuStream) fill(dst address, value byte, bytes int64) error {
	return q.do(func() error { return cu.MemsetD8Async(cu.DevicePtr(dst), value, bytes, q.handle) })
}

func (q *cuStream) launch(c call, params unsafe.Pointer) error {
	return q.do(func() error {
		f, err := q.function(c.kernel, c.shared)
		if err != nil {
			return err
		}
		launch := cudrv.Launch
		if f.awaits && !c.late {
			launch = cudrv.LaunchOverlapped
		}
		return launch(f.handle, cudrv.Dim{X: c.grid.x, Y: c.grid.y, Z: c.grid.z}, cudrv.Dim{X: c.block.x, Y: c.block.y, Z: c.block.z},
			c.shared, q.handle, params)
	})
}

func (q *cuStream) record(m mark) error {
	return q.do(func() error { return m.(*cuEvent).handle.Record(q.handle) })
}

func (q *cuStream) wait(m mark) error {
	return q.do(func() error { return q.handle.Wait(m.(*cuEvent).handle, 0) })
}

func (q *cuStream) sync() error { return q.do(q.handle.Synchronize) }

func (q *cuStream) close() error { return q.do(q.handle.Destroy) }

// cuEvent is a mark.
type cuEvent struct {
	*libcuda
	handle cu.Event
}

func (m *cuEvent) sync() error { return m.do(m.handle.Synchronize) }

func (m *cuEvent) over() (bool, error) {
	err := m.do(m.handle.Query)
	if errors.Is(err, cudrv.NotReady) {
		return false, nil
	}
	return err == nil, err
}

func (m *cuEvent) since(start mark) (ms float64, err error) {
	err = m.do(func() (err error) { ms, err = start.(*cuEvent).handle.Elapsed(m.handle); return err })
	return ms, err
}

func (m *cuEvent) close() error {
	return m.do(func() error { return cu.DestroyEvent(&m.handle) })
}

var _ driver = (*libcuda)(nil)
