package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pack generates the transposition of a few query rows into a panel: as many rows as a vector of 32 bytes has elements,
// and a square block of that many coordinates at a time. It leaves the last coordinates, fewer than a block.
func pack(t elem) {
	block := 32 / t.size
	name := fmt.Sprintf("packAVX2%sx%d", t.name, block)
	TEXT(name, NOSPLIT, fmt.Sprintf("func(panel *%s, lanes int, q *%[1]s, rows *int32, dim int)", t.goType))
	Doc(fmt.Sprintf("%s sets panel[k*lanes+r] = q[rows[r]*dim+k] for r < %d and k < dim - dim%%%[2]d.", name, block))
	Pragma("noescape")
	panel := Load(Param("panel"), GP64()).(reg.GPVirtual)
	stride := Load(Param("lanes"), GP64()).(reg.GPVirtual)
	q := Load(Param("q"), GP64()).(reg.GPVirtual)
	list := Load(Param("rows"), GP64()).(reg.GPVirtual)
	dim := Load(Param("dim"), GP64()).(reg.GPVirtual)
	rows := make([]reg.GPVirtual, block)
	for r := range rows {
		rows[r] = GP64()
		MOVLQSX(Mem{Base: list, Disp: 4 * r}, rows[r])
		IMULQ(dim, rows[r])
		LEAQ(Mem{Base: q, Index: rows[r], Scale: uint8(t.size)}, rows[r])
	}
	SHLQ(Imm(map[int]uint64{4: 2, 8: 3}[t.size]), stride)
	Label("block")
	SUBQ(U32(block), dim)
	JLT(LabelRef("end"))
	x := make([]reg.VecVirtual, block)
	for r := range x {
		x[r] = YMM()
		VMOVUPS(Mem{Base: rows[r]}, x[r])
		ADDQ(U32(32), rows[r])
	}
	for _, column := range t.transpose(x) {
		VMOVUPS(column, Mem{Base: panel})
		ADDQ(stride, panel)
	}
	JMP(LabelRef("block"))
	Label("end")
	VZEROUPPER()
	RET()
}

// transpose returns the columns of a square block.
func (t elem) transpose(rows []reg.VecVirtual) []reg.VecVirtual {
	if t.size == 8 {
		return t.joinHalves(interleave(VUNPCKLPD, VUNPCKHPD, rows))
	}
	var out []reg.VecVirtual
	pairs := interleave(VUNPCKLPS, VUNPCKHPS, rows)
	for at := 0; at < len(pairs); at += 4 { // 0 1 of rows a b, 2 3 of a b, 0 1 of c d, 2 3 of c d; then the next four rows
		for half := range 2 {
			low, high := YMM(), YMM()
			VUNPCKLPD(pairs[at+2+half], pairs[at+half], low)
			VUNPCKHPD(pairs[at+2+half], pairs[at+half], high)
			out = append(out, low, high)
		}
	}
	return t.joinHalves(out)
}

// interleave interleaves the elements of every two rows: the low ones of both, then the high ones.
func interleave(low, high func(...Op), rows []reg.VecVirtual) []reg.VecVirtual {
	var out []reg.VecVirtual
	for r := 0; r < len(rows); r += 2 {
		l, h := YMM(), YMM()
		low(rows[r+1], rows[r], l)
		high(rows[r+1], rows[r], h)
		out = append(out, l, h)
	}
	return out
}

// joinHalves joins the 128-bit halves of vectors half the block apart: all the low halves, then the high ones.
func (t elem) joinHalves(x []reg.VecVirtual) []reg.VecVirtual {
	var out []reg.VecVirtual
	n := len(x) / 2
	for _, halves := range []U8{0x20, 0x31} {
		for c := range n {
			joined := YMM()
			VPERM2F128(halves, x[n+c], x[c], joined)
			out = append(out, joined)
		}
	}
	return out
}
