package colbert

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// InfoNCEConfig says which document answers which query, and what else the loss takes into account. The zero value
// is in-batch training at temperature 1: document i answers query i.
type InfoNCEConfig struct {
	// Temperature divides the scores; 0 means 1.
	Temperature float64
	// Offset and Stride place the label of row i in column Offset + i*Stride; a Stride of 0 means 1. The offset is
	// for a batch that is a part of a larger one, the stride for documents that come as groups of a positive
	// followed by its hard negatives.
	Offset, Stride int
	// Symmetric adds the same loss with documents as queries, over the columns that are labels, and halves the sum.
	Symmetric bool
	// Labels [Bq], int32, is the column of the label of each row, in place of Offset and Stride, which must be 0 then;
	// -1 for none: the row does not count. The scores of maxsim.Candidates need it: there the label of every row is the
	// same column.
	Labels *gorgonia.Node
	// Weights [Bq], dtype of scores, ≥ 0, is how much each row counts: 0 for the padding of a batch that is not full.
	Weights *gorgonia.Node
	// Exclude [Bq,Bd] or [Bd], a mask, marks documents that are no negatives: of one query (a second positive, a copy of
	// it) or of any (padding). Marked entries leave the denominator; a marked label stays.
	Exclude *gorgonia.Node
}

// InfoNCE is the contrastive loss of a matrix of scores, the mean over rows of the cross entropy against the label.
//
//	loss = Σ_i weight_i · (log Σ_j exp(scores[i,j]/T) − scores[i,label_i]/T) / Σ_i weight_i
//
//	scores [Bq,Bd]   float32 or float64
//	loss   scalar    dtype of scores
//
// A batch that is not full is padded: its padding rows have weight 0, and the documents of its padding are excluded.
//
// Sums are in float64 after the largest score of a row has been taken off, so any temperature is stable for which
// scores/T is finite; a row with no negative (B = 1) has loss 0 and gradient 0. A score of -Inf is a document with
// probability 0; if it is the label, the loss is +Inf and the gradient stays finite. A row of which every score is -Inf
// has nothing to choose from and does not count, like a row of weight 0; whatever such a row holds, its gradient is 0.
// If no row counts the loss is 0. NaN and +Inf in a row that counts make the loss NaN. A label out of range and a
// weight below 0 are errors.
//
// With Symmetric a row's second term is the cross entropy of its label's column against the row, over all rows that
// count and are not excluded from it.
func InfoNCE(scores *gorgonia.Node, cfg InfoNCEConfig) (*gorgonia.Node, error) {
	if err := floatNode("InfoNCE", "scores", scores); err != nil {
		return nil, err
	}
	if cfg.Temperature == 0 {
		cfg.Temperature = 1
	}
	if err := checkTemperature("InfoNCE", cfg.Temperature); err != nil {
		return nil, err
	}
	if cfg.Labels != nil && (cfg.Offset != 0 || cfg.Stride != 0) {
		return nil, fmt.Errorf("%w: InfoNCE: labels beside offset %d and stride %d, expected one or the other", ErrValue, cfg.Offset, cfg.Stride)
	}
	if cfg.Stride == 0 {
		cfg.Stride = 1
	}
	if cfg.Exclude != nil {
		if err := maskNode("InfoNCE", "exclude", cfg.Exclude); err != nil {
			return nil, err
		}
		if n := cfg.Exclude.Dims(); n != 1 && n != 2 {
			return nil, fmt.Errorf("%w: InfoNCE: exclude has shape %v, expected [Bq,Bd] or [Bd]", ErrShape, cfg.Exclude.Shape())
		}
	}
	if scores.Dtype() == tensor.Float32 {
		return infoNCENode[float32](scores, cfg)
	}
	return infoNCENode[float64](scores, cfg)
}

func infoNCENode[T layout.Float](scores *gorgonia.Node, cfg InfoNCEConfig) (*gorgonia.Node, error) {
	k := infoNCE[T]{temperature: cfg.Temperature, offset: cfg.Offset, stride: cfg.Stride, symmetric: cfg.Symmetric}
	nodes := gorgonia.Nodes{scores}
	if cfg.Labels != nil {
		k.labelled = true
		nodes = append(nodes, cfg.Labels)
	}
	if cfg.Weights != nil {
		k.weighted = true
		nodes = append(nodes, cfg.Weights)
	}
	if cfg.Exclude != nil {
		k.excluded, k.mask, k.maskDims = true, cfg.Exclude.Dtype(), cfg.Exclude.Dims()
		nodes = append(nodes, cfg.Exclude)
	}
	return apply(k, nodes...)
}

func checkTemperature(op string, t float64) error {
	if !(t > 0) || math.IsInf(t, 1) {
		return fmt.Errorf("%w: %s: temperature is %v, expected a finite number above 0", ErrValue, op, t)
	}
	return nil
}

type infoNCE[T layout.Float] struct {
	temperature                             float64
	offset, stride                          int
	symmetric, labelled, weighted, excluded bool
	mask                                    tensor.Dtype // of exclude
	maskDims                                int
}

func (infoNCE[T]) name() string { return "InfoNCE" }
func (infoNCE[T]) rank() int    { return 0 }

func (k infoNCE[T]) operands() []operand {
	dt := dtypeOf[T]()
	ops := []operand{{"scores", 2, dt, true}}
	if k.labelled {
		ops = append(ops, operand{"labels", 1, tensor.Int32, false})
	}
	if k.weighted {
		ops = append(ops, operand{"weights", 1, dt, false})
	}
	if k.excluded {
		ops = append(ops, operand{"exclude", k.maskDims, k.mask, false})
	}
	return ops
}

func (k infoNCE[T]) output(in []tensor.Shape) (tensor.Shape, error) {
	bq, bd := in[0][0], in[0][1]
	for i, o := range k.operands()[1:] {
		got, want := in[i+1], tensor.Shape{bq}
		if o.name == "exclude" {
			want = in[0][2-k.maskDims:]
		}
		if !got.Eq(want) {
			return nil, fmt.Errorf("%w: InfoNCE: %s has shape %v, expected %v for scores %v", ErrShape, o.name, got, want, in[0])
		}
	}
	if last := k.offset + (bq-1)*k.stride; !k.labelled && (min(k.offset, last) < 0 || max(k.offset, last) >= bd) {
		return nil, fmt.Errorf("%w: InfoNCE: labels from %d to %d (offset %d, stride %d) are not all columns of scores %v",
			ErrShape, k.offset, last, k.offset, k.stride, in[0])
	}
	return tensor.ScalarShape(), nil
}

func (k infoNCE[T]) forward(in []*tensor.Dense, out []T) error {
	b, err := k.batch(in)
	if err != nil {
		return err
	}
	losses := make([]float64, b.bq)
	b.eachQuery(func(i int) { losses[i] = b.asQuery(i).crossEntropy() })
	if k.symmetric {
		b.eachDocument(func(i int) { losses[i] = (losses[i] + b.asDocument(i).crossEntropy()) / 2 })
	}
	loss := 0.0
	for _, i := range b.rows {
		loss += b.share(i) * losses[i]
	}
	out[0] = T(loss)
	return nil
}

func (k infoNCE[T]) backward(_ int, in []*tensor.Dense, g, ds []T) error {
	b, err := k.batch(in)
	if err != nil {
		return err
	}
	sum := make([]float64, len(ds))
	factor := float64(g[0]) / k.temperature
	if k.symmetric {
		factor /= 2
	}
	b.eachQuery(func(i int) { b.asQuery(i).addGradient(sum, factor*b.share(i)) })
	if k.symmetric {
		b.eachDocument(func(i int) { b.asDocument(i).addGradient(sum, factor*b.share(i)) })
	}
	for i, v := range sum {
		ds[i] = T(v)
	}
	return nil
}
