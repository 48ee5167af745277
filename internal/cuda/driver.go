package cuda

import "unsafe"

// address is a place in device memory.
type address uint64

// dim3 is the extent of a grid in blocks or of a block in threads.
type dim3 struct{ x, y, z uint32 }

// tensorMap is an encoded descriptor of a matrix, for the copy engine of compute capability 9.0.
type tensorMap [128]byte

// driver is what a [Device] needs from the GPU's driver. One implementation drives libcuda (build tag maxsim_cuda),
// another, in the tests, keeps books. Every method may be called from any goroutine on any thread.
type driver interface {
	properties() Properties
	// memory reports the free bytes of the card, other programs counted.
	memory() (free int64, err error)
	// alloc wraps errCardFull when the card has no room.
	alloc(bytes int64) (address, error)
	free(a address) error
	// pin returns page-locked host memory that is no Go memory; unpin releases it.
	pin(bytes int64) (unsafe.Pointer, error)
	unpin(p unsafe.Pointer) error
	// copyUncached copies src to the beginning of dst, which is pinned, at a multiple of 16 bytes, and read by the card next.
	copyUncached(dst, src []byte)
	// register page-locks Go memory, which must stay reachable until unregister.
	register(p unsafe.Pointer, bytes int64) error
	unregister(p uintptr) error
	// tensorMap describes rows of rowBytes bytes each from a on, of which boxes of 128 bytes by boxRows are copied.
	tensorMap(a address, rowBytes, rows int64, boxRows int) (tensorMap, error)
	newQueue() (queue, error)
	newMark() (mark, error)
	// close gives back all that belongs to the driver; queues and marks are closed before.
	close() error
}

// queue is a stream: what is put into it happens on the device in that order, later than the call returns.
type queue interface {
	upload(dst address, src unsafe.Pointer, bytes int64) error
	download(dst unsafe.Pointer, src address, bytes int64) error
	fill(dst address, value byte, bytes int64) error
	// launch copies the kernel's parameter struct, to which params points, before it returns.
	launch(c call, params unsafe.Pointer) error
	record(m mark) error
	// wait holds everything put into the queue later until the device has passed m; the caller is not held.
	wait(m mark) error
	// sync holds the caller until the queue is empty, and reports what failed in it.
	sync() error
	close() error
}

// mark is an event: a point in a queue.
type mark interface {
	sync() error
	// over reports whether the device has passed the mark; the caller is not held.
	over() (bool, error)
	// since returns the milliseconds on the device between two recorded and passed marks.
	since(start mark) (float64, error)
	close() error
}
