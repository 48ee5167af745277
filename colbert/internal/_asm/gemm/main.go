// Command gemm generates the amd64 micro-kernels of package gemm. Generators are a module of their own so that nobody
// who imports colbert sees avo; go generate ./... runs them.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

//go:generate go run . -out ../../gemm/kernels_amd64.s -stubs ../../gemm/kernels_amd64.go -pkg gemm

// isa is a vector instruction set and the tile of c that its registers hold beside two vectors of b and one of a.
type isa struct {
	name  string
	bytes int // of a vector
	rows  int // of the tile
	new   func() reg.VecVirtual
	zero  func(v reg.VecVirtual)
}

var isas = []isa{
	{"AVX512", 64, 8, ZMM, func(v reg.VecVirtual) { VPXORD(v, v, v) }},
	{"AVX2", 32, 6, YMM, func(v reg.VecVirtual) { VXORPS(v, v, v) }},
}

// elem is an element type and its instructions.
type elem struct {
	name, goType              string
	fma, broadcast, move, add func(...Op)
}

var elems = []elem{
	{"F32", "float32", VFMADD231PS, VBROADCASTSS, VMOVUPS, VADDPS},
	{"F64", "float64", VFMADD231PD, VBROADCASTSD, VMOVUPD, VADDPD},
}

func main() {
	ConstraintExpr("!purego")
	for _, set := range isas {
		for _, t := range elems {
			tile(set, t, set.rows)
			tile(set, t, 1)
		}
	}
	Generate()
}

const vectors = 2 // width of a tile

// tile generates a tileFunc for a tile of the given number of rows: it keeps the tile in registers and, for each l,
// multiplies a row of b by one broadcast element of a for each row.
func tile(set isa, t elem, rows int) {
	name := fmt.Sprintf("tile%s%sx%d", set.name, t.name, rows)
	TEXT(name, NOSPLIT, fmt.Sprintf("func(depth int, a *%s, rowStride, colStride int, b, c *%[1]s, stride int)", t.goType))
	Doc(fmt.Sprintf("%s is tileFunc for tiles of %d × %d.", name, rows, vectors*set.bytes/map[string]int{"F32": 4, "F64": 8}[t.name]))
	Pragma("noescape")
	depth := Load(Param("depth"), GP64())
	a := Load(Param("a"), GP64()).(reg.GPVirtual)
	rowStride := Load(Param("rowStride"), GP64()).(reg.GPVirtual)
	colStride := Load(Param("colStride"), GP64())
	b := Load(Param("b"), GP64()).(reg.GPVirtual)

	row := addresses(a, rowStride, rows)
	acc := make([][vectors]reg.VecVirtual, rows)
	for r := range acc {
		for v := range acc[r] {
			acc[r][v] = set.new()
			set.zero(acc[r][v])
		}
	}
	Label("depth")
	var bs [vectors]reg.VecVirtual
	for v := range bs {
		bs[v] = set.new()
		t.move(Mem{Base: b, Disp: v * set.bytes}, bs[v])
	}
	for r := range acc {
		x := set.new()
		t.broadcast(row[r], x)
		for v := range bs {
			t.fma(bs[v], x, acc[r][v])
		}
	}
	ADDQ(colStride, a)
	ADDQ(U32(vectors*set.bytes), b)
	DECQ(depth)
	JNZ(LabelRef("depth"))

	c := Load(Param("c"), GP64()).(reg.GPVirtual)
	stride := Load(Param("stride"), GP64())
	for r := range acc {
		for v := range acc[r] {
			at := Mem{Base: c, Disp: v * set.bytes}
			t.add(at, acc[r][v], acc[r][v])
			t.move(acc[r][v], at)
		}
		if r+1 < rows {
			ADDQ(stride, c)
		}
	}
	VZEROUPPER()
	RET()
}

// addresses returns a, a+s, a+2s, … as operands that follow a when it moves.
func addresses(a, s reg.GPVirtual, n int) []Mem {
	at := []Mem{{Base: a}, {Base: a, Index: s, Scale: 1}, {Base: a, Index: s, Scale: 2}, {}, {Base: a, Index: s, Scale: 4}}
	if n <= 1 {
		return at[:1]
	}
	odd := func(times uint8, from reg.GPVirtual) reg.GPVirtual { // from + times·s
		r := GP64()
		LEAQ(Mem{Base: from, Index: s, Scale: times}, r)
		return r
	}
	s3 := odd(2, s)
	at[3] = Mem{Base: a, Index: s3, Scale: 1}
	s5 := odd(4, s)
	at = append(at, Mem{Base: a, Index: s5, Scale: 1})
	if n > 6 {
		at = append(at, Mem{Base: a, Index: s3, Scale: 2}, Mem{Base: a, Index: odd(4, s3), Scale: 1})
	}
	return at[:n]
}
