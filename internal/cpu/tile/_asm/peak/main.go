// Command peak generates the loops of package peak: nothing but multiply-adds, on enough accumulators to hide their
// latency.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

//go:generate go run . -out ../../../peak/fma_amd64.s -stubs ../../../peak/fma_amd64.go -pkg peak

// accumulators is a multiple of what any processor needs: latency 4 or 5, two a cycle.
const accumulators = 12

func main() {
	ConstraintExpr("!purego")
	loop("fmaAVX512F32", ZMM, VFMADD231PS)
	loop("fmaAVX512F64", ZMM, VFMADD231PD)
	loop("fmaAVX2F32", YMM, VFMADD231PS)
	loop("fmaAVX2F64", YMM, VFMADD231PD)
	Generate()
}

func loop(name string, vector func() reg.VecVirtual, fma func(...Op)) {
	TEXT(name, NOSPLIT, "func(n int)")
	Doc(name + " does 12 vector multiply-adds n times, n > 0.")
	n := Load(Param("n"), GP64())
	x := vector()
	zero(x)
	acc := make([]reg.VecVirtual, accumulators)
	for i := range acc {
		acc[i] = vector()
		zero(acc[i])
	}
	Label("loop")
	for _, a := range acc {
		fma(x, x, a)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// zero clears v, whatever its width.
func zero(v reg.VecVirtual) {
	VXORPS(v.AsX(), v.AsX(), v.AsX())
}
