package colbert

import (
	"fmt"
	"math"
	"slices"

	"gorgonia.org/tensor"
)

// contrast is what InfoNCE reads from its inputs: scores over temperature, and who competes with whom.
type contrast struct {
	logits  []float64 // [bq,bd]
	bq, bd  int
	label   []int
	weight  []float64
	total   float64 // of the weights of rows that count
	exclude []bool  // nil: nothing
	rows    []int   // that count, ascending
}

func (k infoNCE[T]) batch(in []*tensor.Dense) (*contrast, error) {
	shape := in[0].Shape()
	b := &contrast{bq: shape[0], bd: shape[1]}
	b.logits = make([]float64, b.bq*b.bd)
	for i, s := range slice[T](in[0]) {
		b.logits[i] = float64(s) / k.temperature
	}
	rest := in[1:]
	var labels []int32
	if k.labelled {
		labels, rest = rest[0].Int32s(), rest[1:]
	}
	var weights []T
	if k.weighted {
		weights, rest = slice[T](rest[0]), rest[1:]
	}
	if k.excluded {
		var err error
		if b.exclude, err = flags(rest[0]); err != nil {
			return nil, err
		}
		if k.maskDims == 1 { // the same documents for every query
			b.exclude = slices.Repeat(b.exclude, b.bq)
		}
	}
	b.label, b.weight = make([]int, b.bq), make([]float64, b.bq)
	for i := range b.bq {
		b.label[i], b.weight[i] = k.offset+i*k.stride, 1
		if labels != nil {
			b.label[i] = int(labels[i])
		}
		if weights != nil {
			b.weight[i] = float64(weights[i])
		}
		if b.label[i] < -1 || b.label[i] >= b.bd {
			return nil, fmt.Errorf("%w: InfoNCE: label of row %d is %d, expected -1 (none) or a column of scores %v", ErrValue, i, b.label[i], shape)
		}
		if !(b.weight[i] >= 0) || math.IsInf(b.weight[i], 1) {
			return nil, fmt.Errorf("%w: InfoNCE: weight of row %d is %v, expected a finite number ≥ 0", ErrValue, i, b.weight[i])
		}
	}
	b.count()
	return b, nil
}

// count finds the rows that count and their weight.
func (b *contrast) count() {
	counts := make([]bool, b.bq)
	parallel(b.bq, grain(b.bd), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			counts[i] = b.weight[i] > 0 && b.label[i] >= 0 && !b.asQuery(i).empty()
		}
	})
	for i, yes := range counts {
		if yes {
			b.rows = append(b.rows, i)
			b.total += b.weight[i]
		}
	}
}

// share is the weight of row i in the mean.
func (b *contrast) share(i int) float64 { return b.weight[i] / b.total }

// eachQuery calls f for every row that counts. Calls for different rows run at once.
func (b *contrast) eachQuery(f func(i int)) {
	parallel(len(b.rows), grain(8*b.bd), func(lo, hi int) {
		for _, i := range b.rows[lo:hi] {
			f(i)
		}
	})
}

// eachDocument calls f for every row that counts. Calls for rows with different labels run at once.
func (b *contrast) eachDocument(f func(i int)) {
	labels := make([]int32, len(b.rows))
	for n, i := range b.rows {
		labels[n] = int32(b.label[i])
	}
	idx := indexRows(labels, b.bd)
	parallel(len(idx.rows), grain(8*len(b.rows)), func(lo, hi int) {
		for _, n := range idx.pos[idx.first[lo]:idx.first[hi]] {
			f(b.rows[n])
		}
	})
}

// choice is one softmax among competing scores with one right answer.
type choice struct {
	b     *contrast
	at    []int // where the competing scores are in the matrix
	right int   // where the right one is
}

// asQuery is the choice of query i among the documents.
func (b *contrast) asQuery(i int) choice {
	c := choice{b: b, at: make([]int, 0, b.bd), right: i*b.bd + b.label[i]}
	for j := range b.bd {
		if at := i*b.bd + j; at == c.right || b.exclude == nil || !b.exclude[at] {
			c.at = append(c.at, at)
		}
	}
	return c
}

// asDocument is the choice of the label of query i among the queries that count.
func (b *contrast) asDocument(i int) choice {
	c := choice{b: b, at: make([]int, 0, len(b.rows)), right: i*b.bd + b.label[i]}
	for _, r := range b.rows {
		if at := r*b.bd + b.label[i]; at == c.right || b.exclude == nil || !b.exclude[at] {
			c.at = append(c.at, at)
		}
	}
	return c
}

// empty reports whether every competing score is -Inf.
func (c choice) empty() bool {
	for _, at := range c.at {
		if !math.IsInf(c.b.logits[at], -1) {
			return false
		}
	}
	return true
}

// top returns the largest logit, NaN if there is one, and the sum of exp(logit - top).
func (c choice) top() (top, sum float64) {
	top = math.Inf(-1)
	for _, at := range c.at {
		top = max(top, c.b.logits[at])
	}
	for _, at := range c.at {
		sum += math.Exp(c.b.logits[at] - top)
	}
	return top, sum
}

// crossEntropy is 0 if there is nothing to choose from.
func (c choice) crossEntropy() float64 {
	if c.empty() {
		return 0
	}
	top, sum := c.top()
	return math.Log(sum) + (top - c.b.logits[c.right])
}

// addGradient adds factor times the gradient of the cross entropy by the logits: softmax, less 1 at the right answer.
func (c choice) addGradient(out []float64, factor float64) {
	if c.empty() {
		return
	}
	top, sum := c.top()
	for _, at := range c.at {
		out[at] += factor * math.Exp(c.b.logits[at]-top) / sum
	}
	out[c.right] -= factor
}
