package model

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/nlpodyssey/safetensors"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/vocab"
)

// The files of a model folder.
const (
	weightsFile    = "model.safetensors"
	vocabularyFile = "vocab.txt"
	configFile     = "config.json"
)

// Save writes the model into a folder: weights, vocabulary and config.json.
func (m *Model) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config, err := json.MarshalIndent(m.Config, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, configFile), append(config, '\n'), 0o644); err != nil {
		return err
	}
	if err := m.Vocabulary.Save(filepath.Join(dir, vocabularyFile)); err != nil {
		return err
	}
	tensors := map[string]*tensor.Dense{}
	for _, w := range m.Weights() {
		tensors[w.Name] = w.Value
	}
	return WriteTensors(filepath.Join(dir, weightsFile), tensors, nil)
}

// Remove removes the files that Save writes from a folder, if they are there.
func Remove(dir string) error {
	var err error
	for _, name := range []string{weightsFile, vocabularyFile, configFile} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	return err
}

// Load reads a model that Save wrote.
func Load(dir string) (*Model, error) {
	path := filepath.Join(dir, configFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cfg Config
	if err := json.Unmarshal(content, &cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	v, err := vocab.Load(filepath.Join(dir, vocabularyFile))
	if err != nil {
		return nil, err
	}
	m, err := New(cfg, v, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	path = filepath.Join(dir, weightsFile)
	tensors, _, err := ReadTensors(path)
	if err != nil {
		return nil, err
	}
	for _, w := range m.Weights() {
		if err := Restore(w.Value, tensors[w.Name]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, w.Name, err)
		}
	}
	return m, nil
}

// Restore copies the values of a tensor that was read over one of the same shape.
func Restore(to, from *tensor.Dense) error {
	if from == nil {
		return errors.New("tensor is missing")
	}
	if !from.Shape().Eq(to.Shape()) {
		return fmt.Errorf("tensor has shape %v, expected %v", from.Shape(), to.Shape())
	}
	copy(to.Float32s(), from.Float32s())
	return nil
}

// WriteTensors writes float32 tensors and a text of keys and values as a safetensors file. The file is there as a whole
// or not at all: an interrupted run leaves the one before.
func WriteTensors(path string, tensors map[string]*tensor.Dense, metadata map[string]string) (err error) {
	views := map[string]safetensors.TensorView{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		data := make([]byte, 0, 4*t.Size())
		for _, v := range t.Float32s() {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		shape := make([]uint64, t.Dims())
		for k, n := range t.Shape() {
			shape[k] = uint64(n)
		}
		if views[name], err = safetensors.NewTensorView(safetensors.F32, shape, data); err != nil {
			return fmt.Errorf("%s: %s: %w", path, name, err)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = safetensors.SerializeToWriter(views, metadata, f)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// ReadTensors reads the float32 tensors and the metadata of a safetensors file.
func ReadTensors(path string) (map[string]*tensor.Dense, map[string]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	file, err := safetensors.Deserialize(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	_, header, err := safetensors.ReadMetadata(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	out := map[string]*tensor.Dense{}
	for _, t := range file.Tensors() {
		if t.TensorView.DType() != safetensors.F32 {
			return nil, nil, fmt.Errorf("%s: %s is %v, expected F32", path, t.Name, t.TensorView.DType())
		}
		var shape tensor.Shape
		for _, n := range t.TensorView.Shape() {
			shape = append(shape, int(n))
		}
		data := t.TensorView.Data()
		values := make([]float32, len(data)/4)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		out[t.Name] = tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
	}
	return out, header.Metadata(), nil
}
