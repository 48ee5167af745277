// Package cuda is the engine for NVIDIA GPUs, compute capability 8.0 and later: the host's half of it. The kernels are
// in folder kernels.
//
// All of it but the driver compiles and is tested anywhere: how masks and sequences become compact rows, launch
// geometry, parameters, memory pools, staging, the order of copies and kernels. With the build tag maxsim_cuda a
// [Device] drives libcuda through gorgonia.org/cu; without it [Open] returns an error that says so, no cgo is used and
// no kernel image is in the program.
//
// # Memory
//
// Device memory comes from a pool with a bound ([Device.SetMemoryLimit]). A forward pass that records keeps on the
// device what the backward pass needs: argmax, token rows in the form the kernels read, later the inverse of the
// argmax. [Tape] says when that is given back.
//
// Host memory from [Alloc] is ordinary Go memory that the driver knows: it is copied directly. Other host memory is
// copied by several goroutines to or from a page-locked ring, and by the card between the ring and its memory.
//
// # Order
//
// A Device runs one engine call at a time, whoever calls: its copies in, its kernels and its copies out are in three
// queues. Large inputs and results are cut into portions at document boundaries, so that a portion is computed while the
// next is uploaded, and downloaded while the next is computed. A call returns when its results are in host memory, so
// what it used on the device is free for the next.
package cuda
