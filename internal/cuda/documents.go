package cuda

import (
	"math/bits"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// documentGradient is dd under way: for every document row its list of query rows, ascending; portion by portion. Large
// portions take turns in the same memory, of which one is computed while another leaves: a copy takes several times as long
// as the kernel, so the bus does not rest.
type documentGradient[T layout.Float] struct {
	*gradients[T]
	portions []stretch[T]
	inTurns  bool
	memory   address
	rowBytes int64
	params   gradDParams // but for what differs from portion to portion
}

// documents prepares dd. Its memory has room for the inverse's scratch too, which is free when the first portion begins.
func (g *gradients[T]) documents(dd []T) (*documentGradient[T], error) {
	p := g.problem
	out := &documentGradient[T]{gradients: g, rowBytes: int64(p.b.Dim) * sizeOf[T]()}
	for _, c := range p.portions(out.rowBytes, g.device.portionBytes) {
		out.portions = append(out.portions, stretchOf(&g.d, dd, p.b.D.Cu, c.j0, c.j1))
	}
	out.portions[len(out.portions)-1].hi = p.b.D.Rows // the capacity rows go with the last
	if err := out.locate(); err != nil {
		return nil, err
	}
	if err := g.d.owners(g.device, g.held.memory); err != nil {
		return nil, err
	}
	out.params = gradDParams{
		qowner: g.q.owner, cuq: g.q.cu, cud: g.d.cu, ds: g.upstream,
		bq: p.bq, bd: p.bd, totq: p.totq, group: p.group, dim: int64(p.b.Dim), listbytes: p.listbytes,
	}
	out.params.q, out.params.qmap, out.params.ldq = g.operand(g.q)
	out.params.qmul, out.params.qshift = reciprocal(int64(p.q.equal))
	return out, nil
}

// locate says where every portion is computed: in memory of its own, or, if that is less, in turns.
func (g *documentGradient[T]) locate() (err error) {
	rows, most := g.problem.b.D.Rows, longest(g.portions)
	if turns*most < rows {
		g.inTurns, rows = true, turns*most
	}
	if g.memory, err = g.call.alloc(max(int64(rows)*g.rowBytes, g.scratch())); err != nil {
		return err
	}
	if g.inTurns {
		takeTurns(g.portions, g.memory, most, g.rowBytes)
		return nil
	}
	for n := range g.portions {
		g.portions[n].origin = g.memory
	}
	return nil
}

// start queues the portions that have a place at once, after the inverse.
func (g *documentGradient[T]) start() error {
	for n := range g.portions {
		if g.inTurns && n == turns {
			break
		}
		if err := g.queue(n); err != nil {
			return err
		}
	}
	return nil
}

// queue queues a portion. The one whose turn it is then follows when it has left.
func (g *documentGradient[T]) queue(n int) error {
	p, dev, c := g.problem, g.device, &g.portions[n]
	rows, at := c.last-c.first, c.origin+address(int64(c.lo)*g.rowBytes)
	if bytes := int64(c.hi-c.lo) * g.rowBytes; rows*g.rowBytes < bytes { // the kernel does not write every row
		if err := dev.work.fill(at, 0, bytes); err != nil {
			return err
		}
	}
	params := g.params
	params.list = g.list
	// Every array over compact document rows begins at the portion's first; sequences keep their numbers.
	params.downer, params.rowptr, params.totd = g.d.owner+address(4*c.first), g.rowptr+address(4*c.first), rows
	if params.dd = at; g.d.from != 0 { // by the user's rows
		params.dmap, params.dd = g.d.from+address(4*c.first), c.origin
	}
	kernel := gradDCall(g.storage.operand, rows, p.winners*rows/p.totd, params.dim, g.storage.size, dev.properties)
	if err := launch(dev, kernel, &params); err != nil {
		return err
	}
	made := result[T]{from: at, to: c.user[c.lo*p.b.Dim : c.hi*p.b.Dim]}
	if g.inTurns && n+turns < len(g.portions) {
		made.then = func() error { return g.queue(n + turns) }
	}
	return g.due(dev.work, made)
}

// reciprocal returns the multiplier and shift with which x/n is umulhi(x, mul) >> shift for every x below 2^31; zeros
// for n = 0, when the queries differ in length.
func reciprocal(n int64) (mul, shift int64) {
	if n == 0 {
		return 0, 0
	}
	shift = int64(bits.Len64(uint64(n-1))) - 1
	return (1<<(32+shift) + n - 1) / n, shift
}
