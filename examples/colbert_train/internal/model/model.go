// Package model is a small ColBERT: one token embedding shared by queries and documents, a projection, unit token
// vectors, a learned weight for each query token, and MaxSim.
//
//	document  ids [B,T] → table rows [B,T,hidden] → projection [B,T,dim] → length 1
//	query     the same, each token vector times its weight
//	score     Σ over query tokens of the largest dot product with a document token, over the number of query tokens
package model

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/vocab"
)

// Config is the shape of a model.
type Config struct {
	Hidden      int `json:"hidden"`       // width of the token embedding
	Dim         int `json:"dim"`          // length of a token vector
	QueryTokens int `json:"query_tokens"` // longer queries are cut
	DocTokens   int `json:"doc_tokens"`   // longer documents are cut
}

// Check reports sizes that make no model.
func (c Config) Check() error {
	for _, s := range []struct {
		name string
		n    int
	}{{"hidden", c.Hidden}, {"dim", c.Dim}, {"query tokens", c.QueryTokens}, {"document tokens", c.DocTokens}} {
		if s.n < 1 {
			return fmt.Errorf("model: %s is %d, expected at least 1", s.name, s.n)
		}
	}
	return nil
}

// Model is a vocabulary and the weights, float32. Graphs share the weight tensors; training changes them in place.
type Model struct {
	Config
	Vocabulary *vocab.Vocabulary

	Table      *tensor.Dense // [vocabulary, hidden]
	Projection *tensor.Dense // [hidden, dim]
	Importance *tensor.Dense // [vocabulary, 1]; see Encoder.Queries
}

// New returns a model with random weights: token vectors in random directions, so that equal tokens match and others
// hardly do, and weight 1 for every query token.
func New(cfg Config, v *vocab.Vocabulary, seed uint64) (*Model, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, initStream))
	importance := make([]float32, v.Size())
	return &Model{
		Config:     cfg,
		Vocabulary: v,
		Table:      normal(rng, v.Size(), cfg.Hidden),
		Projection: normal(rng, cfg.Hidden, cfg.Dim),
		Importance: tensor.New(tensor.WithShape(v.Size(), 1), tensor.WithBacking(importance)),
	}, nil
}

// initStream keeps the random numbers of the weights apart from others drawn with the same seed.
const initStream = 0x57e16475

// normal returns a random [rows, cols] matrix whose rows have an expected squared length of 1.
func normal(rng *rand.Rand, rows, cols int) *tensor.Dense {
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(rng.NormFloat64() / math.Sqrt(float64(cols)))
	}
	return tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(x))
}

// Weight is a weight tensor and its name in graphs and files.
type Weight struct {
	Name  string
	Value *tensor.Dense
}

// Weights returns the weights in a fixed order.
func (m *Model) Weights() []Weight {
	return []Weight{
		{"token_embedding.weight", m.Table},
		{"projection.weight", m.Projection},
		{"query_importance.weight", m.Importance},
	}
}

// Clone returns a model with its own copies of the weights.
func (m *Model) Clone() *Model {
	c := *m
	c.Table = m.Table.Clone().(*tensor.Dense)
	c.Projection = m.Projection.Clone().(*tensor.Dense)
	c.Importance = m.Importance.Clone().(*tensor.Dense)
	return &c
}
