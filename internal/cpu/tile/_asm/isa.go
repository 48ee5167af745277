package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is a vector instruction set.
type isa struct {
	name  string
	bytes int // of its widest vector
}

var (
	avx512 = isa{"AVX512", 64}
	avx2   = isa{"AVX2", 32}
)

// vector returns a new vector register of the given size in bytes.
func vector(bytes int) reg.VecVirtual {
	if bytes == 64 {
		return ZMM()
	}
	return YMM()
}

// low returns the low part of v, bytes wide.
func low(v reg.VecVirtual, bytes int) reg.Register {
	if bytes == 64 {
		return v.AsZ()
	}
	return v.AsY()
}

// zero clears v.
func zero(v reg.VecVirtual, bytes int) {
	if bytes == 64 {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

// elem is an element type, with the instructions in which float32 and float64 differ. Indices have its width.
type elem struct {
	name, goType string
	size         int

	fma, broadcast, max, cmp func(...Op)
	fmaBroadcast             func(...Op)         // AVX-512
	move                     func(...Op)         // AVX-512, under an opmask
	moveZero                 func(_, _, _ Op)    // the same, zeros where it is unset
	maskMove                 func(_, _, _ Op)    // VMASKMOV: AVX2 load or store under a mask
	blend                    func(_, _, _, _ Op) // AVX2
	moveIndex                func(...Op)         // AVX-512, under an opmask
	addIndex, broadcastIndex func(...Op)
	gtIndex                  func(...Op) // AVX2
	ternlog                  func(...Op)

	ones, iota Mem // constant vectors of indices
}

var float32s = elem{
	name: "F32", goType: "float32", size: 4,
	fma: VFMADD231PS, fmaBroadcast: VFMADD231PS_BCST, broadcast: VBROADCASTSS, max: VMAXPS, cmp: VCMPPS,
	move: VMOVUPS, moveZero: VMOVUPS_Z, maskMove: VMASKMOVPS, blend: VBLENDVPS,
	moveIndex: VMOVDQA32, addIndex: VPADDD, broadcastIndex: VPBROADCASTD, gtIndex: VPCMPGTD, ternlog: VPTERNLOGD,
}

var float64s = elem{
	name: "F64", goType: "float64", size: 8,
	fma: VFMADD231PD, fmaBroadcast: VFMADD231PD_BCST, broadcast: VBROADCASTSD, max: VMAXPD, cmp: VCMPPD,
	move: VMOVUPD, moveZero: VMOVUPD_Z, maskMove: VMASKMOVPD, blend: VBLENDVPD,
	moveIndex: VMOVDQA64, addIndex: VPADDQ, broadcastIndex: VPBROADCASTQ, gtIndex: VPCMPGTQ, ternlog: VPTERNLOGQ,
}

// Predicates of cmp.
const (
	unordered   = U8(0x03)
	ordered     = U8(0x07)
	greaterThan = U8(0x1e) // ordered, quiet
)

// sequence returns a read-only vector of 32 bytes whose elements are first, first+step, …, as wide as t.
func (t elem) sequence(name string, first, step int) Mem {
	m := GLOBL(name+t.name, RODATA|NOPTR)
	for at := 0; at < 32; at += t.size {
		v := uint64(first + at/t.size*step)
		if t.size == 4 {
			DATA(at, U32(v))
		} else {
			DATA(at, U64(v))
		}
	}
	return m
}

// loadIndices loads int32 indices into a vector of t-wide ones.
func (t elem) loadIndices(m Mem, v reg.VecVirtual) {
	if t.size == 4 {
		VMOVUPS(m, v)
	} else {
		VPMOVSXDQ(m, v)
	}
}

// storeIndices stores a vector of t-wide indices as int32.
func (t elem) storeIndices(set isa, v reg.VecVirtual, m Mem) {
	switch {
	case t.size == 4:
		VMOVUPS(v, m)
	case set == avx512:
		VPMOVQD(v, m)
	default:
		high := XMM()
		VEXTRACTI128(Imm(1), v, high)
		VSHUFPS(Imm(0x88), high, v.AsX(), high) // the even halves of both
		VMOVUPS(high, m)
	}
}
