package train

import (
	"fmt"
	"time"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
)

// graph is the training graph with its machine and optimiser:
//
//	scores = MaxSim(queries, documents)   loss = InfoNCE(scores)   Adam on the weights
type graph struct {
	vm                 G.VM
	q, d, qMask, dMask *G.Node
	exclude            *G.Node
	*readings
	parameters []G.ValueGrad
	adam       *colbert.Adam
	profile    *maxsim.Profile
}

// readings are what the last step left. They lie apart from the machine, which has a finalizer and reaches them through
// its graph: if they reached it back, it would never be collected.
type readings struct{ loss, scores G.Value }

// newGraph builds the graph over the weights of m, which its steps change in place.
func newGraph(cfg Config, m *model.Model, device *maxsim.Device) (*graph, error) {
	g := G.NewGraph()
	rows, documents := cfg.Batch, cfg.Batch*(1+cfg.Negatives)
	matrix := func(name string, dt tensor.Dtype, rows, cols int) *G.Node {
		return G.NewMatrix(g, dt, G.WithShape(rows, cols), G.WithName(name))
	}
	t := &graph{
		q:       matrix("query ids", tensor.Int32, rows, cfg.Model.QueryTokens),
		qMask:   matrix("query mask", tensor.Bool, rows, cfg.Model.QueryTokens),
		d:       matrix("document ids", tensor.Int32, documents, cfg.Model.DocTokens),
		dMask:   matrix("document mask", tensor.Bool, documents, cfg.Model.DocTokens),
		exclude: matrix("no negatives", tensor.Bool, rows, documents),
		profile: &maxsim.Profile{}, readings: new(readings),
	}
	enc, err := model.NewEncoder(g, m)
	if err != nil {
		return nil, err
	}
	q, err := enc.Queries(t.q)
	if err != nil {
		return nil, err
	}
	d, err := enc.Documents(t.d)
	if err != nil {
		return nil, err
	}
	scores, err := maxsim.InBatch(q, d, maxsim.Config{
		QueryMask: t.qMask, DocMask: t.dMask, Mean: true, Device: device, Profile: t.profile,
	})
	if err != nil {
		return nil, err
	}
	loss, err := colbert.InfoNCE(scores, colbert.InfoNCEConfig{
		Temperature: cfg.Temperature, Stride: 1 + cfg.Negatives, Symmetric: true, Exclude: t.exclude,
	})
	if err != nil {
		return nil, err
	}
	G.Read(scores, &t.scores)
	G.Read(loss, &t.loss)
	if _, err := colbert.Grad(loss, enc.Differentiable()...); err != nil {
		return nil, err
	}
	t.parameters = enc.Parameters()
	t.adam, err = colbert.NewAdam(colbert.AdamConfig{
		LearningRate: cfg.LearningRate, Beta2: 0.99, MaxNorm: cfg.ClipNorm,
		Schedule: colbert.WarmupLinear(cfg.Warmup, cfg.Steps),
	})
	if err != nil {
		return nil, err
	}
	t.vm = G.NewTapeMachine(g, G.BindDualValues(enc.Differentiable()...))
	return t, nil
}

// step runs the graph on a batch and updates the weights.
func (t *graph) step(b *batch) (Record, error) {
	for _, in := range []struct {
		node  *G.Node
		value *tensor.Dense
	}{
		{t.q, b.queries.IDs}, {t.qMask, b.queries.Mask}, {t.d, b.documents.IDs}, {t.dMask, b.documents.Mask}, {t.exclude, b.exclude},
	} {
		if err := G.Let(in.node, in.value); err != nil {
			return Record{}, err
		}
	}
	t.profile.Reset()
	start := time.Now()
	t.vm.Reset()
	if err := t.vm.RunAll(); err != nil {
		return Record{}, fmt.Errorf("step %d: %w", t.adam.Steps()+1, colbert.Cause(maxsim.Cause(err)))
	}
	ran := time.Now()
	if err := t.adam.Step(t.parameters); err != nil {
		return Record{}, err
	}
	optimiser := time.Since(ran)
	_, forward := t.profile.Forward()
	_, backward := t.profile.Backward()
	return Record{
		Step:         t.adam.Steps(),
		Loss:         float64(t.loss.Data().(float32)),
		Accuracy:     t.accuracy(b),
		LearningRate: t.adam.LearningRate(),
		GradNorm:     t.adam.GradNorm(),
		Tokens:       b.tokens,
		Seconds: Seconds{
			Encoder:        (ran.Sub(start) - forward - backward).Seconds(),
			MaxSimForward:  forward.Seconds(),
			MaxSimBackward: backward.Seconds(),
			Optimiser:      optimiser.Seconds(),
		},
	}, nil
}

// accuracy returns the share of queries that score their own document above all others.
func (t *graph) accuracy(b *batch) float64 {
	scores, exclude := t.scores.Data().([]float32), b.exclude.Bools()
	rows, cols := t.scores.Shape()[0], t.scores.Shape()[1]
	group := cols / rows
	right := 0
	for i := range rows {
		own, best := scores[i*cols+i*group], true
		for j := range cols {
			if j != i*group && !exclude[i*cols+j] && scores[i*cols+j] >= own {
				best = false
			}
		}
		if best {
			right++
		}
	}
	return float64(right) / float64(rows)
}

func (t *graph) close() { t.vm.Close() }
