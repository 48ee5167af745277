package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// A fold takes a tile of similarities into the running maxima. Strictly greater, in ascending order of rows, makes the
// lowest row win. VMAX returns its second source if either is a NaN, or both are zeros: the running maximum, which
// therefore ignores NaN and, once it is NaN, stays NaN. NaN similarities are found by comparing two at a time.

func (p panel) loadMaxima() maxima {
	var m maxima
	for v, bytes := range p.vectors {
		max, index, ordered := vector(bytes), vector(bytes), K()
		VMOVUPS(p.vectorAt("mx", v, p.size), max)
		p.loadIndices(p.vectorAt("ix", v, 4), index)
		KXNORW(ordered, ordered, ordered)
		m.max, m.index, m.ordered = append(m.max, max), append(m.index, index), append(m.ordered, ordered)
	}
	return m
}

// foldAVX512 compares, takes the maximum and moves the row index under the comparison's opmask. Comparison and
// maximum do not wait for each other.
func (p panel) foldAVX512(s state) {
	acc, row, one, t := s.acc, s.query[0], s.element, GP64()
	MOVQ(U32(1), t)
	if p.size == 4 {
		p.broadcastIndex(s.base.As32(), row)
		p.broadcastIndex(t.As32(), one)
	} else {
		p.broadcastIndex(s.base, row)
		p.broadcastIndex(t, one)
	}
	m := s.maxima
	for r := range acc {
		if r > 0 {
			p.addIndex(one, row, row)
		}
		for v, bytes := range p.vectors {
			greater := K()
			p.cmp(greaterThan, m.max[v], acc[r][v], greater)
			p.max(m.max[v], acc[r][v], m.max[v])
			p.moveIndex(low(row, bytes), greater, m.index[v])
			if r%2 == 1 || r == len(acc)-1 {
				p.cmp(ordered, acc[r][v], acc[r&^1][v], m.ordered[v], m.ordered[v])
			}
		}
	}
}

func (p panel) storeMaxima(m maxima) {
	for v := range p.vectors {
		nan := K()
		KNOTW(m.ordered[v], nan)
		p.ternlog(Imm(0xff), m.max[v], m.max[v], nan, m.max[v]) // all ones are a NaN
		VMOVUPS(m.max[v], p.vectorAt("mx", v, p.size))
		p.storeIndices(p.isa, m.index[v], p.vectorAt("ix", v, 4))
	}
}

// foldAVX2 keeps the maxima in memory between tiles: the accumulators need the registers.
func (p panel) foldAVX2(s state) {
	acc := s.acc
	for v := range p.vectors {
		max, index, row, greater := YMM(), YMM(), YMM(), YMM()
		mx, ix := p.vectorAt("mx", v, p.size), p.vectorAt("ix", v, 4)
		VMOVUPS(mx, max)
		p.loadIndices(ix, index)
		VMOVQ(s.base, row.AsX())
		p.broadcastIndex(row.AsX(), row)
		for r := range acc {
			if r > 0 {
				p.addIndex(p.ones, row, row)
			}
			a := acc[r][v]
			p.cmp(greaterThan, max, a, greater)
			p.max(max, a, max)
			p.blend(greater, row, index, index)
		}
		nan := acc[0][v] // the accumulators are free now
		for r := 0; r < len(acc); r += 2 {
			a, b := acc[r][v], acc[min(r+1, len(acc)-1)][v]
			p.cmp(unordered, b, a, a)
			if r > 0 {
				VORPS(a, nan, nan)
			}
		}
		VORPS(nan, max, max) // all ones are a NaN
		VMOVUPS(max, mx)
		p.storeIndices(p.isa, index, ix)
	}
}
