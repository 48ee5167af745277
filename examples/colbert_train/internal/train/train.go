package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/evaluate"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/vocab"
)

// ErrInterrupted says that a run was stopped; what it had done is in the checkpoint.
var ErrInterrupted = errors.New("training was interrupted")

// Options are the surroundings of a run.
type Options struct {
	Config
	Set     *dataset.Set
	Out     string         // folder of train.jsonl and the checkpoint
	Resume  bool           // continue from the checkpoint in Out
	Device  *maxsim.Device // where MaxSim runs; nil is the CPU
	Observe func(Record)   // called after every step; may be nil
}

// Check reports settings that make no run, or none on this data.
func (o Options) Check() error {
	if err := o.Config.Check(); err != nil {
		return err
	}
	hasNegatives := func(t dataset.Triple) bool { return len(t.Negatives) > 0 }
	if o.Negatives > 0 && !slices.ContainsFunc(o.Set.Triples, hasNegatives) {
		return fmt.Errorf("train: negatives is %d, but no training example has any", o.Negatives)
	}
	return nil
}

// Outcome is the result of a finished run.
type Outcome struct {
	Model     *model.Model // the state that was best on dev
	Untrained *model.Model // the state before the first step
	Records   []Record     // all steps, those before a resumption included
	BestStep  int
	BestDev   float64 // MRR@10 on dev
}

// run is a training run under way.
type run struct {
	Options
	model   *model.Model
	best    *model.Model
	graph   *graph
	sampler *sampler
	log     *log
	state   state
}

// Run trains until the last step or until ctx ends, which gives ErrInterrupted. A resumed run goes through the same
// states as one that was never stopped, bit for bit.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	vocabulary := vocab.Learn(vocabularyTexts(o.Set), o.MinTexts)
	if vocabulary.Empty() {
		return nil, fmt.Errorf("train: min texts is %d, but no token is in so many texts", o.MinTexts)
	}
	m, err := model.New(o.Model, vocabulary, o.Seed)
	if err != nil {
		return nil, err
	}
	r := &run{Options: o, model: m, best: m.Clone(), state: state{Config: o.Config, Data: fingerprint(o.Set)}}
	untrained := m.Clone()
	if r.graph, err = newGraph(o.Config, m, o.Device); err != nil {
		return nil, err
	}
	defer r.graph.close()
	r.sampler = newSampler(o.Config, encodeExamples(m, o.Set))
	if o.Resume {
		err = r.restore()
	} else {
		err = os.RemoveAll(filepath.Join(o.Out, checkpointFile)) // of an earlier run: it must not stand beside a new log
	}
	if err != nil {
		return nil, err
	}
	if r.log, err = openLog(filepath.Join(o.Out, logFile), r.state.Step); err != nil {
		return nil, err
	}
	err = r.steps(ctx)
	if err := errors.Join(err, r.log.close()); err != nil {
		return nil, err
	}
	return &Outcome{
		Model: r.best, Untrained: untrained, Records: r.log.records,
		BestStep: r.state.BestStep, BestDev: r.state.BestDev,
	}, nil
}

// steps trains from the present state to the end.
func (r *run) steps(ctx context.Context) error {
	for step := r.state.Step + 1; step <= r.Steps; step++ {
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%w after step %d", ErrInterrupted, r.state.Step), r.save())
		}
		record, err := r.graph.step(r.sampler.next(step))
		if err != nil {
			return err
		}
		r.state.Step = step
		look := step%r.EvalEvery == 0 || step == r.Steps
		if look {
			mrr10, err := r.dev()
			if err != nil {
				return err
			}
			record.DevMRR10 = &mrr10
		}
		if err := r.log.append(record); err != nil {
			return err
		}
		if look {
			if err := r.save(); err != nil {
				return err
			}
		}
		if r.Observe != nil {
			r.Observe(record)
		}
	}
	return nil
}

// dev measures the present state on the dev queries and keeps the best; of equal states the first.
func (r *run) dev() (float64, error) {
	result, err := Evaluate(r.model, r.Set, r.Set.Dev, r.Device)
	if err != nil {
		return 0, fmt.Errorf("dev queries after step %d: %w", r.state.Step, err)
	}
	if r.state.BestStep == 0 || result.MRR10 > r.state.BestDev {
		r.state.BestStep, r.state.BestDev = r.state.Step, result.MRR10
		r.best = r.model.Clone()
	}
	return result.MRR10, nil
}

// Evaluate ranks the pool of a set for some of its queries.
func Evaluate(m *model.Model, set *dataset.Set, queries []dataset.Query, device *maxsim.Device) (evaluate.Result, error) {
	index, err := model.NewIndex(m, set.Texts(), device)
	if err != nil {
		return evaluate.Result{}, err
	}
	return evaluate.Run(queries, index.Scores)
}
