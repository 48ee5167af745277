package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
)

// checkpointFile holds everything that a run needs to continue: weights, best weights, the moments of Adam, and the
// state as JSON in the metadata.
const checkpointFile = "checkpoint.safetensors"

// stateKey is the metadata entry of the state.
const stateKey = "state"

// state is what a checkpoint holds beside tensors.
type state struct {
	Config   Config  `json:"config"`
	Data     uint64  `json:"data"` // fingerprint
	Step     int     `json:"step"`
	BestStep int     `json:"best_step"` // 0: dev was not measured yet
	BestDev  float64 `json:"best_dev"`
}

// Names of the tensors of a checkpoint, before the name of the weight.
const (
	bestPrefix   = "best."
	firstPrefix  = "adam.m."
	secondPrefix = "adam.v."
)

// save writes the checkpoint, and the log up to it.
func (r *run) save() error {
	if err := r.log.flush(); err != nil {
		return err
	}
	text, err := json.Marshal(r.state)
	if err != nil {
		return err
	}
	tensors := map[string]*tensor.Dense{}
	adam := r.graph.adam.State()
	best := r.best.Weights()
	for i, w := range r.model.Weights() {
		tensors[w.Name] = w.Value
		tensors[bestPrefix+w.Name] = best[i].Value
		if i < len(adam.M) { // there are none before the first step
			tensors[firstPrefix+w.Name] = adam.M[i]
			tensors[secondPrefix+w.Name] = adam.V[i]
		}
	}
	return model.WriteTensors(filepath.Join(r.Out, checkpointFile), tensors, map[string]string{stateKey: string(text)})
}

// ReadConfig returns the settings of the checkpoint in folder out.
func ReadConfig(out string) (Config, error) {
	s, _, err := readCheckpoint(out)
	return s.Config, err
}

// readCheckpoint reads the state and the tensors of a checkpoint.
func readCheckpoint(out string) (state, map[string]*tensor.Dense, error) {
	path := filepath.Join(out, checkpointFile)
	tensors, metadata, err := model.ReadTensors(path)
	if errors.Is(err, os.ErrNotExist) {
		return state{}, nil, fmt.Errorf("nothing to resume: %w", err)
	}
	if err != nil {
		return state{}, nil, err
	}
	var s state
	if err := json.Unmarshal([]byte(metadata[stateKey]), &s); err != nil {
		return state{}, nil, fmt.Errorf("%s: state: %w", path, err)
	}
	return s, tensors, nil
}

// restore continues from the checkpoint, if it is of the same settings and data.
func (r *run) restore() error {
	path := filepath.Join(r.Out, checkpointFile)
	s, tensors, err := readCheckpoint(r.Out)
	if err != nil {
		return err
	}
	if s.Config != r.Config {
		return fmt.Errorf("%s: settings are %+v, expected %+v", path, s.Config, r.Config)
	}
	if s.Data != r.state.Data {
		return fmt.Errorf("%s: it was trained on other data: name the data of that run, as it was then", path)
	}
	copyOf := func(to *tensor.Dense, name string) error {
		if err := model.Restore(to, tensors[name]); err != nil {
			return fmt.Errorf("%s: %s: %w", path, name, err)
		}
		return nil
	}
	adam := colbert.AdamState{Step: s.Step}
	best := r.best.Weights()
	for i, w := range r.model.Weights() {
		err := errors.Join(copyOf(w.Value, w.Name), copyOf(best[i].Value, bestPrefix+w.Name))
		if s.Step > 0 {
			m, v := w.Value.Clone().(*tensor.Dense), w.Value.Clone().(*tensor.Dense)
			err = errors.Join(err, copyOf(m, firstPrefix+w.Name), copyOf(v, secondPrefix+w.Name))
			adam.M, adam.V = append(adam.M, m), append(adam.V, v)
		}
		if err != nil {
			return err
		}
	}
	r.state = s
	return r.graph.adam.SetState(adam)
}
