package model

import (
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
)

// Encoder is the part of one graph that turns token ids into token vectors.
type Encoder struct {
	table, importance *colbert.Embedding
	projection        *G.Node
}

// normEpsilon is the length below which a token vector is taken for zero.
const normEpsilon = 1e-6

// NewEncoder puts the weights of m into graph g.
func NewEncoder(g *G.ExprGraph, m *Model) (*Encoder, error) {
	nodes := map[string]*G.Node{}
	for _, w := range m.Weights() {
		nodes[w.Name] = G.NewMatrix(g, tensor.Float32, G.WithShape(w.Value.Shape()...), G.WithName(w.Name), G.WithValue(w.Value))
	}
	weights := m.Weights()
	table, err := colbert.NewEmbedding(nodes[weights[0].Name])
	if err != nil {
		return nil, err
	}
	importance, err := colbert.NewEmbedding(nodes[weights[2].Name])
	if err != nil {
		return nil, err
	}
	return &Encoder{table: table, projection: nodes[weights[1].Name], importance: importance}, nil
}

// Documents turns ids [B,T] into unit vectors [B,T,dim].
func (e *Encoder) Documents(ids *G.Node) (*G.Node, error) {
	x, err := e.table.Lookup(ids)
	if err != nil {
		return nil, err
	}
	if x, err = colbert.Linear(x, e.projection, nil); err != nil {
		return nil, err
	}
	return colbert.L2Normalize(x, normEpsilon)
}

// importanceGain makes the importance learn faster than the rest at the same learning rate: one number has to move as
// far as the many of a vector together.
const importanceGain = 10

// Queries turns ids [B,T] into vectors [B,T,dim] whose length is the weight of their token:
//
//	weight = softplus(gain · importance[id] + log(e-1))    1 for an importance of 0, never negative
func (e *Encoder) Queries(ids *G.Node) (*G.Node, error) {
	unit, err := e.Documents(ids)
	if err != nil {
		return nil, err
	}
	w, err := e.importance.Lookup(ids)
	if err != nil {
		return nil, err
	}
	if w, err = G.Mul(w, G.NewConstant(float32(importanceGain))); err != nil {
		return nil, err
	}
	if w, err = G.Add(w, G.NewConstant(float32(math.Log(math.E-1)))); err != nil {
		return nil, err
	}
	if w, err = G.Softplus(w); err != nil {
		return nil, err
	}
	return colbert.ScaleTokens(unit, w)
}

// Differentiable returns the nodes to differentiate a loss by, once every look-up is in the graph.
func (e *Encoder) Differentiable() G.Nodes {
	return append(append(e.table.Lookups(), e.projection), e.importance.Lookups()...)
}

// Parameters returns what an optimiser changes, in the order of Model.Weights.
func (e *Encoder) Parameters() []G.ValueGrad {
	return []G.ValueGrad{e.table, e.projection, e.importance}
}
