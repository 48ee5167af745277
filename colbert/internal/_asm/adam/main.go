// Command adam generates the amd64 loops of package adam.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

//go:generate go run . -out ../../adam/kernels_amd64.s -stubs ../../adam/kernels_amd64.go -pkg adam

// isa is a vector instruction set.
type isa struct {
	name  string
	bytes int // of a vector
	new   func() reg.VecVirtual
}

// elem is an element type and its instructions.
type elem struct {
	name, goType                              string
	size                                      int
	broadcast, move, mul, add, sub, div, sqrt func(...Op)
}

func main() {
	ConstraintExpr("!purego")
	for _, set := range []isa{{"AVX512", 64, ZMM}, {"AVX2", 32, YMM}} {
		update(set, elem{"F32", "float32", 4, VBROADCASTSS, VMOVUPS, VMULPS, VADDPS, VSUBPS, VDIVPS, VSQRTPS})
		update(set, elem{"F64", "float64", 8, VBROADCASTSD, VMOVUPD, VMULPD, VADDPD, VSUBPD, VDIVPD, VSQRTPD})
	}
	Generate()
}

// update generates the loop of adam.Update over whole vectors, with its operations in its order and none fused.
func update(set isa, t elem) {
	name := "update" + set.name + t.name
	TEXT(name, NOSPLIT, fmt.Sprintf("func(rates, w, m, v, grad *%s, n int)", t.goType))
	Doc(fmt.Sprintf("%s is Update for n > 0, a multiple of %d.", name, set.bytes/t.size))
	Pragma("noescape")
	r := Load(Param("rates"), GP64())
	w, m, v, g := Load(Param("w"), GP64()), Load(Param("m"), GP64()), Load(Param("v"), GP64()), Load(Param("grad"), GP64())
	n := Load(Param("n"), GP64())

	var rates [9]reg.VecVirtual // in the order of the fields of adam.Rates
	for i := range rates {
		rates[i] = set.new()
		t.broadcast(Mem{Base: r, Disp: i * t.size}, rates[i])
	}
	clip, beta1, beta2, rest1, rest2, keep, step, root, epsilon :=
		rates[0], rates[1], rates[2], rates[3], rates[4], rates[5], rates[6], rates[7], rates[8]

	Label("loop")
	gi, x, y, z := set.new(), set.new(), set.new(), set.new()
	t.mul(Mem{Base: g}, clip, gi)
	t.mul(Mem{Base: m}, beta1, x)
	t.mul(gi, rest1, y)
	t.add(y, x, x)
	t.move(x, Mem{Base: m})

	t.mul(gi, rest2, z)
	t.mul(gi, z, z)
	t.mul(Mem{Base: v}, beta2, y)
	t.add(z, y, y)
	t.move(y, Mem{Base: v})

	t.sqrt(y, y)
	t.mul(y, root, y)
	t.add(y, epsilon, y)
	t.mul(x, step, x)
	t.div(y, x, x)
	t.mul(Mem{Base: w}, keep, z)
	t.sub(x, z, z)
	t.move(z, Mem{Base: w})

	for _, p := range []reg.Register{w, m, v, g} {
		ADDQ(U32(set.bytes), p)
	}
	SUBQ(U32(set.bytes/t.size), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
