package model

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
)

// sequences are encoded texts: n of them in chunks of rows each.
type sequences struct {
	n, rows int
	chunks  []chunk
}

// chunk holds the vectors [rows, tokens, dim] of n texts and which tokens are valid; rows from n on are empty.
type chunk struct {
	n             int
	vectors, mask *tensor.Dense
	ids           *tensor.Dense
}

// encode runs texts through an encoder in chunks of at most maxRows.
func (m *Model) encode(texts []string, maxRows, width int, encoder func(*Encoder, *G.Node) (*G.Node, error)) (*sequences, error) {
	out := &sequences{n: len(texts), rows: max(1, min(maxRows, len(texts)))}
	g := G.NewGraph()
	enc, err := NewEncoder(g, m)
	if err != nil {
		return nil, err
	}
	ids := G.NewMatrix(g, tensor.Int32, G.WithShape(out.rows, width), G.WithName("ids"))
	vectors, err := encoder(enc, ids)
	if err != nil {
		return nil, err
	}
	var value G.Value
	G.Read(vectors, &value)
	vm := G.NewTapeMachine(g)
	defer vm.Close()
	for start := 0; start < len(texts); start += out.rows {
		part := texts[start:min(start+out.rows, len(texts))]
		tokens := NewTokens(out.rows, width)
		for row, text := range part {
			tokens.Set(row, m.Vocabulary.Encode(text, width))
		}
		if err := G.Let(ids, tokens.IDs); err != nil {
			return nil, err
		}
		vm.Reset()
		if err := vm.RunAll(); err != nil {
			return nil, colbert.Cause(err)
		}
		out.chunks = append(out.chunks, chunk{
			n:       len(part),
			vectors: value.(*tensor.Dense).Clone().(*tensor.Dense),
			mask:    tokens.Mask,
			ids:     tokens.IDs,
		})
	}
	return out, nil
}
