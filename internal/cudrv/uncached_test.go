//go:build maxsim_cuda && cgo && linux

package cudrv

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// TestCopyUncached copies every length around whole rounds from every alignment, and nothing else.
func TestCopyUncached(t *testing.T) {
	const room = 400
	src := make([]byte, room)
	for k := range src {
		src[k] = byte(k*37 + 1)
	}
	dst := aligned(room)
	for n := range room - 64 {
		for from := range 17 {
			clear(dst)
			CopyUncached(dst, src[from:from+n])
			if !bytes.Equal(dst[:n], src[from:from+n]) || !bytes.Equal(dst[n:], make([]byte, room-n)) {
				t.Fatalf("%d bytes from offset %d: got %v", n, from, dst)
			}
		}
	}
}

// BenchmarkCopyUncached fills rings of several sizes from memory that no cache holds, in turn past the caches and as Go
// copies, and reports the ratio of the two rates: above 1 CopyUncached is faster.
func BenchmarkCopyUncached(b *testing.B) {
	const total, slot = 24 << 20, 128 << 10
	sources := make([][]byte, 6)
	for k := range sources {
		sources[k] = make([]byte, total)
		for at := range sources[k] {
			sources[k][at] = byte(at)
		}
	}
	for _, ring := range []int{2 << 20, 8 << 20, 32 << 20} {
		memory := aligned(ring)
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("ring=%dMiB/workers=%d", ring>>20, workers), func(b *testing.B) {
				var times [2][]float64
				turn := 0
				for b.Loop() {
					for way, store := range []func(dst, src []byte){CopyUncached, func(dst, src []byte) { copy(dst, src) }} {
						src := sources[turn%len(sources)]
						turn++
						start := time.Now()
						var next atomic.Int64
						var all sync.WaitGroup
						for range workers {
							all.Go(func() {
								for lo := int(next.Add(slot)) - slot; lo < total; lo = int(next.Add(slot)) - slot {
									store(memory[lo%ring:], src[lo:lo+slot])
								}
							})
						}
						all.Wait()
						times[way] = append(times[way], time.Since(start).Seconds())
					}
				}
				uncached, copied := quartile(times[0]), quartile(times[1])
				b.ReportMetric(copied/uncached, "x-copy")
				b.ReportMetric(total/uncached/1e9, "GB/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func quartile(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/4]
}

// aligned returns n bytes from a multiple of 64 on.
func aligned(n int) []byte {
	memory := make([]byte, n+64)
	skip := -int(uintptr(unsafe.Pointer(&memory[0]))) & 63
	return memory[skip : skip+n : skip+n]
}
