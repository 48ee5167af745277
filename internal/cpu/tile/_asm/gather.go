package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gatherAhead is how many list entries ahead rows are prefetched: they are scattered over all of memory.
const gatherAhead = 4

// gatherer generates tile.GatherFunc. It cuts dst into columns of up to 8 vectors, keeps a column in registers while
// it walks the list, and ends with a column of one vector under a mask.
type gatherer struct {
	isa
	elem
	dst, base, stride, left, rows, w, n reg.GPVirtual
	onto                                reg.GPVirtual // 1: sums go on from dst, 0: they begin at zero
}

func gather(set isa, t elem) {
	g := gatherer{isa: set, elem: t}
	name := "gather" + set.name + t.name
	TEXT(name, NOSPLIT, fmt.Sprintf("func(dst, base *%s, dim int, rows *int32, w *%[1]s, n int, onto bool)", t.goType))
	Doc(name + " is GatherFunc, or one part of a list: onto goes on from the sums in dst.")
	Pragma("noescape")
	g.dst = Load(Param("dst"), GP64()).(reg.GPVirtual)
	g.base = Load(Param("base"), GP64()).(reg.GPVirtual)
	g.stride = Load(Param("dim"), GP64()).(reg.GPVirtual)
	g.rows = Load(Param("rows"), GP64()).(reg.GPVirtual)
	g.w = Load(Param("w"), GP64()).(reg.GPVirtual)
	g.n = Load(Param("n"), GP64()).(reg.GPVirtual)
	g.onto = Load(Param("onto"), GP8()).(reg.GPVirtual)
	SHLQ(Imm(map[int]uint64{4: 2, 8: 3}[t.size]), g.stride)
	g.left = GP64()
	MOVQ(g.stride, g.left)
	for vectors := 8; vectors >= 1; vectors /= 2 {
		g.column(vectors)
	}
	g.rest()
	VZEROUPPER()
	RET()
}

// column gathers as many columns of the given number of vectors as dst still holds.
func (g gatherer) column(vectors int) {
	label := fmt.Sprint("column", vectors)
	bytes := vectors * g.isa.bytes
	Label(label)
	CMPQ(g.left, U32(bytes))
	JLT(LabelRef(label + "_end"))
	acc := make([]reg.VecVirtual, vectors)
	for v := range acc {
		acc[v] = vector(g.isa.bytes)
		zero(acc[v], g.isa.bytes)
	}
	g.goOn(label, func() {
		for v := range acc {
			VMOVUPS(Mem{Base: g.dst, Disp: v * g.isa.bytes}, acc[v])
		}
	})
	g.eachRow(label, vectors, func(row reg.GPVirtual, w reg.VecVirtual) {
		for v := range acc {
			g.fma(Mem{Base: row, Disp: v * g.isa.bytes}, w, acc[v])
		}
	})
	for v := range acc {
		VMOVUPS(acc[v], Mem{Base: g.dst, Disp: v * g.isa.bytes})
	}
	ADDQ(U32(bytes), g.base)
	ADDQ(U32(bytes), g.dst)
	SUBQ(U32(bytes), g.left)
	JMP(LabelRef(label))
	Label(label + "_end")
}

// rest gathers the last elements, fewer than a vector, under a mask, which keeps loads and stores inside the rows.
func (g gatherer) rest() {
	TESTQ(g.left, g.left)
	JZ(LabelRef("end"))
	SHRQ(Imm(map[int]uint64{4: 2, 8: 3}[g.size]), g.left)
	acc, x := vector(g.isa.bytes), vector(g.isa.bytes)
	zero(acc, g.isa.bytes)
	if g.isa == avx512 {
		bits, mask := GP64(), K()
		MOVQ(I32(-1), bits)
		BZHIQ(g.left, bits, bits)
		KMOVW(bits.As32(), mask)
		g.goOn("rest", func() { g.moveZero(Mem{Base: g.dst}, mask, acc) })
		g.eachRow("rest", 1, func(row reg.GPVirtual, w reg.VecVirtual) {
			g.moveZero(Mem{Base: row}, mask, x)
			g.fma(x, w, acc)
		})
		g.move(acc, mask, Mem{Base: g.dst})
	} else {
		mask := YMM()
		VMOVQ(g.left, mask.AsX())
		g.broadcastIndex(mask.AsX(), mask)
		g.gtIndex(g.iota, mask, mask)
		g.goOn("rest", func() { g.maskMove(Mem{Base: g.dst}, mask, acc) })
		g.eachRow("rest", 1, func(row reg.GPVirtual, w reg.VecVirtual) {
			g.maskMove(Mem{Base: row}, mask, x)
			g.fma(x, w, acc)
		})
		g.maskMove(acc, mask, Mem{Base: g.dst})
	}
	Label("end")
}

// goOn runs load, which takes the sums of the part before from dst, if there was one.
func (g gatherer) goOn(label string, load func()) {
	TESTB(g.onto, g.onto)
	JZ(LabelRef(label + "_list"))
	load()
	Label(label + "_list")
}

// eachRow walks the list: add gets the address of a row's column and its weight in every lane.
func (g gatherer) eachRow(label string, vectors int, add func(row reg.GPVirtual, w reg.VecVirtual)) {
	e, row, weight := GP64(), GP64(), vector(g.isa.bytes)
	XORQ(e, e)
	TESTQ(g.n, g.n)
	JZ(LabelRef(label + "_sum"))
	Label(label + "_row")
	ahead := GP64()
	LEAQ(Mem{Base: e, Disp: gatherAhead}, ahead)
	CMPQ(ahead, g.n)
	CMOVQGE(e, ahead) // none so far ahead: this one
	g.address(ahead, ahead)
	for at := 0; at < vectors*g.isa.bytes; at += 64 {
		PREFETCHT0(Mem{Base: ahead, Disp: at})
	}
	g.address(e, row)
	g.broadcast(Mem{Base: g.w, Index: e, Scale: uint8(g.size)}, weight)
	add(row, weight)
	INCQ(e)
	CMPQ(e, g.n)
	JLT(LabelRef(label + "_row"))
	Label(label + "_sum")
}

// address sets out to the address of the current column of list entry e.
func (g gatherer) address(e, out reg.GPVirtual) {
	MOVLQSX(Mem{Base: g.rows, Index: e, Scale: 4}, out)
	IMULQ(g.stride, out)
	ADDQ(g.base, out)
}
