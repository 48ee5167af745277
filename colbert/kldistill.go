package colbert

import (
	"fmt"
	"math"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// KLDistillConfig is the zero value for a student at temperature 1 and candidates that are all there.
type KLDistillConfig struct {
	// Temperature divides the student's scores; 0 means 1. Divide the teacher's before, if they need it.
	Temperature float64
	// Mask [Bq,C], a mask, is true where a query has a candidate. Nil: everywhere.
	Mask *gorgonia.Node
}

// KLDistill is the distance of a student's scores from a teacher's over the candidates of each query.
//
//	loss = mean over rows of Σ_k p_k (log p_k − log s_k),   p = softmax(teacher[i,:]),  s = softmax(scores[i,:]/T)
//
//	scores, teacher [Bq,C]   float32 or float64, the same
//	loss            scalar   dtype of scores
//
// Both softmaxes run over the candidates of the mask; the others have no effect whatever they hold, and gradient 0. A
// row without a candidate, or with none that the teacher scores above -Inf, does not count in the mean; if no row counts
// the loss is 0. A candidate that the teacher scores -Inf has p = 0 and adds nothing; one that only the student scores
// -Inf makes the loss +Inf. NaN, and a row that the student scores -Inf throughout, make the loss NaN. The teacher has
// no gradient. Sums are in float64, with the largest score taken off.
func KLDistill(scores, teacher *gorgonia.Node, cfg KLDistillConfig) (*gorgonia.Node, error) {
	if err := floatNode("KLDistill", "scores", scores); err != nil {
		return nil, err
	}
	if cfg.Temperature == 0 {
		cfg.Temperature = 1
	}
	if err := checkTemperature("KLDistill", cfg.Temperature); err != nil {
		return nil, err
	}
	nodes := gorgonia.Nodes{scores, teacher}
	var mask tensor.Dtype
	if cfg.Mask != nil {
		if err := maskNode("KLDistill", "mask", cfg.Mask); err != nil {
			return nil, err
		}
		mask = cfg.Mask.Dtype()
		nodes = append(nodes, cfg.Mask)
	}
	if scores.Dtype() == tensor.Float32 {
		return apply(klDistill[float32]{cfg.Temperature, cfg.Mask != nil, mask}, nodes...)
	}
	return apply(klDistill[float64]{cfg.Temperature, cfg.Mask != nil, mask}, nodes...)
}

type klDistill[T layout.Float] struct {
	temperature float64
	masked      bool
	mask        tensor.Dtype
}

func (klDistill[T]) name() string { return "KLDistill" }
func (klDistill[T]) rank() int    { return 0 }

func (k klDistill[T]) operands() []operand {
	dt := dtypeOf[T]()
	ops := []operand{{"scores", 2, dt, true}, {"teacher", 2, dt, false}}
	if k.masked {
		ops = append(ops, operand{"mask", 2, k.mask, false})
	}
	return ops
}

func (k klDistill[T]) output(in []tensor.Shape) (tensor.Shape, error) {
	for i, o := range k.operands() {
		if !in[i].Eq(in[0]) {
			return nil, fmt.Errorf("%w: KLDistill: %s has shape %v, scores %v", ErrShape, o.name, in[i], in[0])
		}
	}
	return tensor.ScalarShape(), nil
}

func (k klDistill[T]) forward(in []*tensor.Dense, out []T) error {
	rows, err := k.rows(in)
	if err != nil || len(rows) == 0 {
		return err
	}
	loss := 0.0
	for _, r := range rows {
		for n, logp := range r.logp {
			if p := math.Exp(logp); p != 0 {
				loss += p * (logp - r.logs[n])
			}
		}
	}
	out[0] = T(loss / float64(len(rows)))
	return nil
}

// backward: the gradient by scores[i,k] is (s_k − p_k)/(T·rows).
func (k klDistill[T]) backward(_ int, in []*tensor.Dense, g, ds []T) error {
	rows, err := k.rows(in)
	if err != nil {
		return err
	}
	factor := float64(g[0]) / (k.temperature * float64(len(rows)))
	for _, r := range rows {
		for n, at := range r.at {
			ds[at] = T(factor * (math.Exp(r.logs[n]) - math.Exp(r.logp[n])))
		}
	}
	return nil
}

// distillRow is a row that counts.
type distillRow struct {
	at         []int     // where its candidates are in the matrix
	logp, logs []float64 // log softmax of the teacher and of the student over them
}

// rows returns the rows that count.
func (k klDistill[T]) rows(in []*tensor.Dense) ([]distillRow, error) {
	scores, teacher := slice[T](in[0]), slice[T](in[1])
	var mask []bool
	if k.masked {
		var err error
		if mask, err = flags(in[2]); err != nil {
			return nil, err
		}
	}
	bq, c := in[0].Shape()[0], in[0].Shape()[1]
	var rows []distillRow
	for i := range bq {
		var r distillRow
		for a := i * c; a < (i+1)*c; a++ {
			if mask == nil || mask[a] {
				r.at = append(r.at, a)
				r.logp = append(r.logp, float64(teacher[a]))
				r.logs = append(r.logs, float64(scores[a])/k.temperature)
			}
		}
		if len(r.at) > 0 && !math.IsInf(slices.Max(r.logp), -1) {
			logSoftmax(r.logp)
			logSoftmax(r.logs)
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// logSoftmax replaces x by its log softmax.
func logSoftmax(x []float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	for i, v := range x {
		x[i] = v - top - math.Log(sum)
	}
}
