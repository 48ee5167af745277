//go:build linux

// Package guardtest gives tests memory beside pages that fault: assembly that reads or writes one byte too far crashes.
package guardtest

import (
	"syscall"
	"testing"
	"unsafe"
)

// Hold returns a copy of s that ends right before a page that faults, or starts right after one.
func Hold[E any](t testing.TB, s []E, end bool) []E {
	t.Helper()
	var e E
	page, bytes := syscall.Getpagesize(), len(s)*int(unsafe.Sizeof(e))
	size := (bytes + page - 1) / page * page
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
	at := page
	if end {
		at += size - bytes
	}
	held := unsafe.Slice((*E)(unsafe.Pointer(&mem[at])), len(s))
	copy(held, s)
	return held
}
