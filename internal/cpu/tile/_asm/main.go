// Command asm generates the amd64 micro-kernels of package tile. Run it with make asm; it is a module of its own so
// that nobody who imports maxsim sees avo.
package main

import . "github.com/mmcloughlin/avo/build"

//go:generate go run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg tile

func main() {
	ConstraintExpr("!purego")
	for _, t := range []elem{float32s, float64s} {
		t.ones, t.iota = t.sequence("ones", 1, 0), t.sequence("iota", 0, 1)
		for _, p := range []panel{
			{avx512, t, []int{64, 64}},
			{avx512, t, []int{64, 32}},
			{avx512, t, []int{64}},
			{avx512, t, []int{32}},
			{avx2, t, []int{32, 32}},
			{avx2, t, []int{32}},
		} {
			p.generate()
		}
		gather(avx512, t)
		gather(avx2, t)
		pack(t)
	}
	Generate()
}
