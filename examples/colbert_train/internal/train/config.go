// Package train fits a model to the training examples of a task: in-batch negatives, InfoNCE, Adam. It looks at dev
// queries to keep the best state, never at test queries.
package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
)

// Config is everything that decides the course of a run.
type Config struct {
	Model model.Config `json:"model"`

	Seed         uint64  `json:"seed"`
	Steps        int     `json:"steps"`
	Batch        int     `json:"batch"`         // queries in a step; each has the others' documents as negatives
	Negatives    int     `json:"negatives"`     // further negatives of each query, where the data has them
	LearningRate float64 `json:"learning_rate"` // highest; linear warm-up and decay
	Warmup       int     `json:"warmup"`        // steps
	Temperature  float64 `json:"temperature"`   // of the InfoNCE loss
	Dropout      float64 `json:"dropout"`       // share of tokens that are masked, in queries and documents
	ClipNorm     float64 `json:"clip_norm"`     // largest norm of the gradient; 0: no clipping
	MinTexts     int     `json:"min_texts"`     // a token must be in so many texts to get into the vocabulary
	EvalEvery    int     `json:"eval_every"`    // steps between two looks at dev, with a checkpoint each
}

// Default returns the settings that the README reports; they were chosen on dev queries.
func Default() Config {
	return Config{
		Model:        model.Config{Hidden: 128, Dim: 128, QueryTokens: 40, DocTokens: 24},
		Seed:         1,
		Steps:        4000,
		Batch:        64,
		LearningRate: 0.006,
		Warmup:       50,
		Temperature:  1.0 / 60,
		Dropout:      0.2,
		ClipNorm:     1,
		MinTexts:     2,
		EvalEvery:    400,
	}
}

// Check reports settings that make no run.
func (c Config) Check() error {
	if err := c.Model.Check(); err != nil {
		return err
	}
	for _, s := range []struct {
		name  string
		value float64
		least float64
	}{
		{"steps", float64(c.Steps), 1}, {"batch", float64(c.Batch), 1}, {"negatives", float64(c.Negatives), 0},
		{"warmup", float64(c.Warmup), 0}, {"clip norm", c.ClipNorm, 0}, {"min texts", float64(c.MinTexts), 1},
		{"eval every", float64(c.EvalEvery), 1},
	} {
		if !(s.value >= s.least) {
			return fmt.Errorf("train: %s is %v, expected at least %v", s.name, s.value, s.least)
		}
	}
	switch {
	case c.Batch == 1 && c.Negatives == 0:
		return errors.New("train: batch is 1 and negatives is 0: a query needs the documents of others, or negatives of its own")
	case !(c.LearningRate > 0) || math.IsInf(c.LearningRate, 1):
		return fmt.Errorf("train: learning rate is %v, expected a finite number above 0", c.LearningRate)
	case !(c.Temperature > 0) || math.IsInf(c.Temperature, 1):
		return fmt.Errorf("train: temperature is %v, expected a finite number above 0", c.Temperature)
	case math.IsInf(c.ClipNorm, 1):
		return fmt.Errorf("train: clip norm is %v, expected a finite number; 0 does not clip", c.ClipNorm)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("train: dropout is %v, expected 0 ≤ dropout < 1", c.Dropout)
	}
	return nil
}
