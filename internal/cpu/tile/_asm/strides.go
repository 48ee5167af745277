package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// strides hold odd multiples of the distance between document rows. With the scales 1, 2, 4 and 8 of an address they
// reach every row of a tile from one pointer.
type strides map[int]reg.GPVirtual

// newStrides turns dim into the strides of tiles of up to rows rows.
func newStrides(dim reg.GPVirtual, size, rows int) strides {
	SHLQ(Imm(map[int]uint64{4: 2, 8: 3}[size]), dim)
	s := strides{1: dim}
	if rows <= 3 {
		return s
	}
	two := GP64()
	LEAQ(Mem{Base: dim, Index: dim, Scale: 1}, two)
	for odd := 3; odd < rows; odd += 2 {
		s[odd] = GP64()
		LEAQ(Mem{Base: s[odd-2], Index: two, Scale: 1}, s[odd])
	}
	return s
}

// bytes returns the register with the distance between rows.
func (s strides) bytes() reg.GPVirtual { return s[1] }

// row returns the address disp bytes into row r from base.
func (s strides) row(base reg.GPVirtual, r, disp int) Mem {
	if r == 0 {
		return Mem{Base: base, Disp: disp}
	}
	odd, scale := r, 1
	for odd%2 == 0 && scale < 8 {
		odd, scale = odd/2, scale*2
	}
	index, ok := s[odd]
	if !ok {
		panic(fmt.Sprintf("row %d of a tile is out of reach", r))
	}
	return Mem{Base: base, Index: index, Scale: uint8(scale), Disp: disp}
}
