//go:build linux

// Package guardtest gives tests memory beside pages that fault: assembly that reads or writes one byte too far crashes.
package guardtest

import (
	"syscall"
	"testing"
	"unsafe"
)

// Memory is memory between two pages that fault.
type Memory[E any] struct{ all []E }

// New returns memory for at least n elements.
func New[E any](t testing.TB, n int) Memory[E] {
	t.Helper()
	var e E
	page := syscall.Getpagesize()
	size := (max(n, 1)*int(unsafe.Sizeof(e)) + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{mem[:page], mem[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return Memory[E]{unsafe.Slice((*E)(unsafe.Pointer(&mem[page])), size/int(unsafe.Sizeof(e)))}
}

// Hold copies s so that it ends right before a page that faults, or starts right after one.
func (m Memory[E]) Hold(s []E, end bool) []E {
	at := 0
	if end {
		at = len(m.all) - len(s)
	}
	held := m.all[at : at+len(s)]
	copy(held, s)
	return held
}

// Hold is New and Hold for one use.
func Hold[E any](t testing.TB, s []E, end bool) []E {
	t.Helper()
	return New[E](t, len(s)).Hold(s, end)
}
