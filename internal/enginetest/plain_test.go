package enginetest

import (
	"math"
	"runtime"
	"sync/atomic"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// plain is a small correct engine with one flaw of the list in flaws, or none.
type plain[T layout.Float] struct {
	flaw    flaw
	scratch *[]int32      // what the flaw "shared tape memory" shares
	calls   *atomic.Int64 // how often Forward was called
}

func newPlain[T layout.Float](f flaw) plain[T] {
	return plain[T]{flaw: f, scratch: new([]int32), calls: new(atomic.Int64)}
}

// tokens lists the tokens of a sequence that take part.
func (e plain[T]) tokens(s *layout.Seqs, i int, ignoreMask bool) []int {
	var list []int
	if ignoreMask {
		for t := range s.Tokens(i) {
			list = append(list, t)
		}
		return list
	}
	for _, r := range s.RunsOf(i) {
		for row := r.Lo; row < r.Hi; row++ {
			list = append(list, row-s.Cu[i])
		}
	}
	return list
}

func (e plain[T]) dot(b *layout.Batch, q, d []T) T {
	dim := len(q)
	if e.flaw == dimTail && dim > 8 {
		dim -= dim % 8
	}
	if e.flaw == dimLimit {
		dim = min(dim, 1024)
	}
	var sum T
	if e.flaw == zerosDiffer {
		sum = T(math.Copysign(0, -1)) // or a sum of -0 would be +0
	}
	for n := range dim {
		k := n
		if e.flaw == orderByBatch && b.D.Len()%2 == 0 || e.flaw == orderByPadding && b.D.Rows%2 == 0 {
			k = dim - 1 - n
		}
		x, y := q[k], d[k]
		if e.flaw == halfFactors {
			x, y = half(x), half(y)
		}
		sum += T(x * y)
		if e.flaw == singleSums {
			sum = T(float32(sum))
		}
	}
	return sum
}

// half rounds to 11 bits, away from zero at a half.
func half[T layout.Float](x T) T {
	if math.IsInf(float64(x), 0) || x != x {
		return x
	}
	const dropped = 24 - 11
	return T(math.Float32frombits((math.Float32bits(float32(x)) + 1<<(dropped-1)) &^ (1<<dropped - 1)))
}

func (e plain[T]) Forward(b *layout.Batch, q, d, scores []T, record bool) (layout.Tape, error) {
	call := e.calls.Add(1)
	tape := make([]int32, b.TapeLen())
	if e.flaw == sharedTape {
		if len(*e.scratch) < b.TapeLen() {
			*e.scratch = make([]int32, b.TapeLen())
		}
		tape = (*e.scratch)[:b.TapeLen()]
	}
	for at := range tape {
		if tape[at] = -1; e.flaw == capacityTape {
			tape[at] = 0
		}
	}
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			j := b.Doc(i, k)
			switch {
			case e.flaw == groupIgnored && b.Group > 1:
				j = i
			case e.flaw == documentLimit:
				j = min(j, 65534)
			}
			scores[i*b.Cols()+k] = e.pair(b, q, d, i, j, tape[b.TapeAt(i, k):][:b.Q.Tokens(i)], call)
		}
	}
	e.afterForward(b, q, scores, record)
	if !record && e.flaw != tapeUnasked {
		return nil, nil
	}
	return layout.HostTape(tape), nil
}

func (e plain[T]) afterForward(b *layout.Batch, q, scores []T, record bool) {
	switch e.flaw {
	case lastScoreUnwritten:
		scores[len(scores)-1] = poison[T]()
	case inputChanged:
		if len(q) > 0 {
			q[len(q)-1] = 0
		}
	case noScoresWithoutRecord:
		if !record {
			clear(scores)
		}
	}
}

// pair scores one query against one document and fills in its part of the tape.
func (e plain[T]) pair(b *layout.Batch, q, d []T, i, j int, tape []int32, call int64) T {
	var sum T
	docs := e.tokens(&b.D, j, e.flaw == documentMaskIgnored)
	if e.flaw == crossesBoundary && b.D.Cu[j+1] < b.D.Rows && len(docs) > 0 {
		docs = append(docs, b.D.Tokens(j))
	}
	if e.flaw == longDocument && len(docs) > 4096 {
		docs = docs[:4096]
	}
	for _, t := range e.tokens(&b.Q, i, e.flaw == queryMaskIgnored) {
		row := (b.Q.Cu[i] + t) * b.Dim
		u, best := e.match(b, q[row:row+b.Dim], d, j, docs)
		if u >= 0 {
			sum += best
		} else if e.flaw == emptyMinusInf {
			sum = T(math.Inf(-1))
		} else if e.flaw == emptyArgmaxZero {
			u = 0
		}
		tape[t] = int32(u)
		if u >= 0 && e.flaw == argmaxAmongValid {
			for n, v := range docs {
				if v == u {
					tape[t] = int32(n)
				}
			}
		}
		if e.flaw == byteArgmax {
			tape[t] = int32(uint16(u) & 0xfff)
		}
	}
	if e.flaw == changing && call%2 == 0 || e.flaw == byThreads && runtime.GOMAXPROCS(0) == 3 {
		sum += sum * 1e-6
	}
	if e.flaw == minusInfIsEmpty && math.IsInf(float64(sum), -1) {
		return 0
	}
	return sum
}

// match returns the best of the document's tokens, -1 if there is none.
func (e plain[T]) match(b *layout.Batch, q, d []T, j int, docs []int) (int, T) {
	u, best := -1, T(math.Inf(-1))
	switch e.flaw {
	case startsAtZero:
		best = 0
	case sentinel:
		best = -1e4
	}
	for _, v := range docs {
		row := (b.D.Cu[j] + v) * b.Dim
		sim := e.dot(b, q, d[row:row+b.Dim])
		better := sim > best || u < 0
		switch e.flaw {
		case lastOnTies:
			better = sim >= best || u < 0
		case startsAtZero, sentinel, minusInfNoWinner:
			better = sim > best
		case zerosDiffer:
			better = better || sim == 0 && best == 0 && math.Signbit(float64(best)) && !math.Signbit(float64(sim))
		}
		if better {
			u, best = v, sim
		}
		switch nan := sim != sim; {
		case nan && e.flaw == nanIgnored:
			if u == v {
				u, best = v, T(math.Inf(-1))
			}
		case nan && e.flaw == nanFirstOnly:
		case nan && e.flaw == nanByBatch && b.D.Len()%2 == 0:
			return docs[0], sim
		case nan:
			return v, sim
		}
	}
	return u, best
}

func (e plain[T]) Backward(b *layout.Batch, q, d []T, tape layout.Tape, ds, dq, dd []T) error {
	argmax, err := tape.Argmax()
	if err != nil {
		return err
	}
	if e.flaw == onlyOwnTape {
		argmax = *e.scratch
	}
	if e.flaw == needsBoth && (dq == nil) != (dd == nil) {
		dq, dd = nil, nil
	}
	if e.flaw != dqAccumulates {
		clear(dq)
	}
	if e.flaw != ddUnwritten {
		clear(dd)
	}
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			for t := range b.Q.Tokens(i) {
				u := argmax[b.TapeAt(i, k)+t]
				if u < 0 {
					continue
				}
				qrow, drow := (b.Q.Cu[i]+t)*b.Dim, (b.D.Cu[b.Doc(i, k)]+int(u))*b.Dim
				e.accumulate(b, q, d, ds[i*b.Cols()+k], dq, dd, qrow, drow, b.Doc(i, k))
			}
		}
	}
	return nil
}

// accumulate adds the gradient that one winner passes on.
func (e plain[T]) accumulate(b *layout.Batch, q, d []T, up T, dq, dd []T, qrow, drow, j int) {
	switch {
	case e.flaw == negativeUpstreamLost:
		up = max(0, up)
	case e.flaw == nanUpstreamLost && up != up:
		return
	}
	for c := range b.Dim {
		if dq != nil {
			dq[qrow+c] += up * d[drow+c]
		}
		if dd == nil {
			continue
		}
		switch e.flaw {
		case splitOnTies, everyTie:
			copies := e.ties(b, q[qrow:qrow+b.Dim], d, drow, j)
			for _, row := range copies {
				share := up
				if e.flaw == splitOnTies {
					share /= T(len(copies))
				}
				dd[row*b.Dim+c] += share * q[qrow+c]
			}
		case oneHot: // as a product with a one-hot matrix does it
			for row := range b.D.Rows {
				var hot T
				if row*b.Dim == drow {
					hot = up
				}
				dd[row*b.Dim+c] += hot * q[qrow+c]
			}
		case gradientOrder:
			dd[drow+c] = T(float32(dd[drow+c]+up*q[qrow+c]) * (1 + 1e-6*float32(runtime.GOMAXPROCS(0)%3)))
		default:
			dd[drow+c] += up * q[qrow+c]
		}
	}
}

// ties lists the rows of document j that match q as well as the row at drow does.
func (e plain[T]) ties(b *layout.Batch, q, d []T, drow, j int) []int {
	var list []int
	best := e.dot(b, q, d[drow:drow+b.Dim])
	for _, u := range e.tokens(&b.D, j, false) {
		row := b.D.Cu[j] + u
		if sim := e.dot(b, q, d[row*b.Dim:(row+1)*b.Dim]); sim == best || row*b.Dim == drow {
			list = append(list, row)
		}
	}
	return list
}
