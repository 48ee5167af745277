package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// panel generates tile.MaxFunc for one panel width.
//
// A tile is rows document rows × the vectors of the panel, all accumulators in registers. Each step of k loads the
// panel's vectors and broadcasts one element of every row: for 12 rows × 2 vectors, 14 loads to 24 multiply-adds, so
// that arithmetic and not loading is the bound. The rows that remain get tiles of exactly their number.
type panel struct {
	isa
	elem
	vectors []int // sizes in bytes
}

const (
	unroll       = 8  // steps of k; with prefetching, what makes streaming from memory as fast as from cache
	prefetchRows = 12 // how far ahead, in document rows; fewer come late, more have left the first-level cache again
)

// lanes returns the width of the panel.
func (p panel) lanes() int { return p.offset(len(p.vectors)) / p.size }

// newVectors returns a register for every vector of the panel.
func (p panel) newVectors() []reg.VecVirtual {
	var vs []reg.VecVirtual
	for _, bytes := range p.vectors {
		vs = append(vs, vector(bytes))
	}
	return vs
}

// offset returns where vector v starts in a panel's row, in bytes.
func (p panel) offset(v int) int {
	sum := 0
	for _, bytes := range p.vectors[:v] {
		sum += bytes
	}
	return sum
}

// rows returns the height of a tile. AVX2 has half the registers.
func (p panel) rows() int {
	if p.isa == avx2 {
		return 12 / len(p.vectors)
	}
	return 12
}

// maxima are the running maxima that AVX-512 keeps in registers. ordered has a bit for every lane without a NaN so far.
type maxima struct {
	max, index []reg.VecVirtual
	ordered    []reg.OpmaskVirtual
}

// state is the kernel's registers. With 24 accumulators nearly every vector register has its fixed purpose.
type state struct {
	doc, n, base reg.GPVirtual
	strides      strides
	acc          [][]reg.VecVirtual // [row][vector of the panel]
	query        []reg.VecVirtual   // [vector of the panel]
	element      reg.VecVirtual     // of a document row, in every lane
	maxima       maxima
}

func (p panel) generate() {
	name := fmt.Sprintf("max%s%sx%d", p.isa.name, p.elem.name, p.lanes())
	TEXT(name, NOSPLIT, fmt.Sprintf("func(qp, doc *%s, n, dim int, mx *%[1]s, ix *int32, base int)", p.goType))
	Doc(fmt.Sprintf("%s is MaxFunc for panels of %d lanes.", name, p.lanes()))
	Pragma("noescape")
	var s state
	s.doc = Load(Param("doc"), GP64()).(reg.GPVirtual)
	s.n = Load(Param("n"), GP64()).(reg.GPVirtual)
	s.base = Load(Param("base"), GP64()).(reg.GPVirtual)
	s.strides = newStrides(Load(Param("dim"), GP64()).(reg.GPVirtual), p.size, p.rows())
	s.acc = make([][]reg.VecVirtual, p.rows())
	for r := range s.acc {
		s.acc[r] = p.newVectors()
	}
	s.query, s.element = p.newVectors(), vector(p.vectors[0])
	if p.isa == avx512 {
		s.maxima = p.loadMaxima()
	}

	// Two tiles at least are left: one of full height. The rest is one tile, or two if n is more than one takes.
	Label("tile")
	CMPQ(s.n, U32(p.rows()+p.busyRows()))
	JL(LabelRef("rest"))
	Label("full")
	p.tile(s, p.rows(), "full")
	p.next(s, p.rows())
	JMP(LabelRef("tile"))

	Label("rest")
	rows := GP64()
	MOVQ(s.n, rows)
	CMPQ(s.n, U32(p.rows()))
	JEQ(LabelRef("full"))
	JLT(LabelRef("dispatch"))
	INCQ(rows)
	SHRQ(Imm(1), rows)
	Label("dispatch")
	for r := 1; r < p.rows(); r++ {
		CMPQ(rows, U32(r))
		JEQ(LabelRef(fmt.Sprint("rest", r)))
	}
	JMP(LabelRef("done"))
	for r := 1; r < p.rows(); r++ {
		Label(fmt.Sprint("rest", r))
		p.tile(s, r, fmt.Sprint("rest", r))
		p.next(s, r)
		JMP(LabelRef("rest"))
	}

	Label("done")
	if p.isa == avx512 {
		p.storeMaxima(s.maxima)
	}
	VZEROUPPER()
	RET()
}

// busyRows returns the rows from which a tile keeps the multiply-add units busy: 8 accumulators, at a latency of 4 cycles
// and two additions in each. A remainder below is not left to itself; the last full tile shares its rows with it.
func (p panel) busyRows() int { return 8 / len(p.vectors) }

// next moves on by rows document rows.
func (p panel) next(s state, rows int) {
	ADDQ(U32(rows), s.base)
	LEAQ(s.strides.row(s.doc, rows, 0), s.doc)
	SUBQ(U32(rows), s.n)
}

// tile folds the next rows document rows. A full tile runs k unrolled and prefetches; one of the remaining rows does
// not, its code would be large and it runs once.
func (p panel) tile(s state, rows int, label string) {
	s.acc = s.acc[:rows]
	for r := range s.acc {
		for v, bytes := range p.vectors {
			zero(s.acc[r][v], bytes)
		}
	}
	d, q, k := GP64(), GP64(), GP64()
	MOVQ(s.doc, d)
	Load(Param("qp"), q)
	MOVQ(s.strides.bytes(), k)
	if rows == p.rows() {
		ahead := GP64()
		IMUL3Q(U32(prefetchRows), s.strides.bytes(), ahead)
		ADDQ(s.doc, ahead)
		CMPQ(k, U32(unroll*p.size))
		JLT(LabelRef(label + "_kRest"))
		Label(label + "_k")
		block := unroll * p.size * rows // bytes of a tile that unroll steps consume
		for x := range unroll {
			p.step(s, d, q, x)
			for at := (x*block/unroll + 63) / 64 * 64; at < (x+1)*block/unroll; at += 64 {
				PREFETCHT0(Mem{Base: ahead, Disp: at})
			}
		}
		ADDQ(U32(block), ahead)
		p.advance(d, q, k, unroll)
		CMPQ(k, U32(unroll*p.size))
		JGE(LabelRef(label + "_k"))
	}
	Label(label + "_kRest")
	TESTQ(k, k)
	JZ(LabelRef(label + "_fold"))
	Label(label + "_k1")
	p.step(s, d, q, 0)
	p.advance(d, q, k, 1)
	JNZ(LabelRef(label + "_k1"))
	Label(label + "_fold")
	if p.isa == avx512 {
		p.foldAVX512(s)
	} else {
		p.foldAVX2(s)
	}
}

// step adds the products of coordinate x. With one vector, every broadcast would serve a single multiply-add: AVX-512
// has an instruction that does both.
func (p panel) step(s state, d, q reg.GPVirtual, x int) {
	width := p.offset(len(p.vectors))
	for v := range p.vectors {
		VMOVUPS(Mem{Base: q, Disp: x*width + p.offset(v)}, s.query[v])
	}
	for r := range s.acc {
		element := s.strides.row(d, r, x*p.size)
		if p.isa == avx512 && len(p.vectors) == 1 {
			p.fmaBroadcast(element, s.query[0], s.acc[r][0])
			continue
		}
		p.broadcast(element, s.element)
		for v, bytes := range p.vectors {
			p.fma(s.query[v], low(s.element, bytes), s.acc[r][v])
		}
	}
}

// advance moves on by steps of k. The flags tell whether any remain.
func (p panel) advance(d, q, k reg.GPVirtual, steps int) {
	ADDQ(U32(steps*p.size), d)
	ADDQ(U32(steps*p.offset(len(p.vectors))), q)
	SUBQ(U32(steps*p.size), k)
}

// vectorAt returns the memory of vector v of a parameter with elements of size bytes.
func (p panel) vectorAt(param string, v, size int) Mem {
	base := Load(Param(param), GP64()).(reg.GPVirtual)
	return Mem{Base: base, Disp: p.offset(v) / p.size * size}
}
