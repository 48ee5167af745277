package tile

import (
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// The portable kernels. Every product is rounded before it is added (the conversions T(…) forbid fusing), so that they
// return the same bits on every architecture; the assembly fuses and may differ from them in the last bits.

// genericLanes times two document rows are eight accumulators, four query and two document elements: they fit into
// the sixteen registers of the smallest machines.
const genericLanes = 4

func genericMax[T layout.Float](qp, doc []T, n, dim int, mx []T, ix []int32, base int) {
	qp = qp[:genericLanes*dim]
	u := 0
	for ; u+2 <= n; u += 2 {
		x0 := doc[u*dim : u*dim+dim]
		x1 := doc[(u+1)*dim : (u+1)*dim+dim]
		var a0, a1, a2, a3, b0, b1, b2, b3 T
		q := qp
		for k := 0; k < len(x0) && k < len(x1) && len(q) >= genericLanes; k++ {
			x, y := x0[k], x1[k]
			a0 += T(q[0] * x)
			b0 += T(q[0] * y)
			a1 += T(q[1] * x)
			b1 += T(q[1] * y)
			a2 += T(q[2] * x)
			b2 += T(q[2] * y)
			a3 += T(q[3] * x)
			b3 += T(q[3] * y)
			q = q[genericLanes:]
		}
		fold(mx, ix, base+u, [genericLanes]T{a0, a1, a2, a3})
		fold(mx, ix, base+u+1, [genericLanes]T{b0, b1, b2, b3})
	}
	if u < n {
		var a [genericLanes]T
		q := qp
		for _, x := range doc[u*dim : u*dim+dim] {
			for l := range a {
				a[l] += T(q[l] * x)
			}
			q = q[genericLanes:]
		}
		fold(mx, ix, base+u, a)
	}
}

// fold takes the similarities of one document token into the running maxima.
func fold[T layout.Float](mx []T, ix []int32, u int, s [genericLanes]T) {
	for l, s := range s {
		if s > mx[l] {
			mx[l], ix[l] = s, int32(u)
		} else if s != s {
			mx[l] = T(math.NaN())
		}
	}
}

func genericGather[T layout.Float](dst, base []T, rows []int32, w []T) {
	clear(dst)
	for e, row := range rows {
		x := base[int(row)*len(dst):][:len(dst)]
		for k := range dst {
			dst[k] += T(w[e] * x[k])
		}
	}
}

func genericPack[T layout.Float](panel []T, lanes int, q []T, rows []int32, dim int) {
	l := 0
	for ; l+4 <= len(rows); l += 4 { // four at once touch every line of the panel less often
		row := func(r int) []T { return q[int(rows[l+r])*dim:][:dim] }
		a, b, c, d := row(0), row(1), row(2), row(3)
		for k := range dim {
			dst := panel[k*lanes+l:][:4]
			dst[0], dst[1], dst[2], dst[3] = a[k], b[k], c[k], d[k]
		}
	}
	for ; l < len(rows); l++ {
		for k, x := range q[int(rows[l])*dim:][:dim] {
			panel[k*lanes+l] = x
		}
	}
}
