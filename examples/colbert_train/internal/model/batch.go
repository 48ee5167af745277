package model

import (
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/vocab"
)

// Tokens is a batch of token sequences of different lengths in the fixed shape [rows, width] of a graph input.
type Tokens struct {
	IDs  *tensor.Dense // int32; padding where Mask is false
	Mask *tensor.Dense // bool
}

// NewTokens returns a batch of padding only. Its rows are empty sequences: they score 0 and have no gradient.
func NewTokens(rows, width int) Tokens {
	return Tokens{
		IDs:  tensor.New(tensor.WithShape(rows, width), tensor.Of(tensor.Int32)),
		Mask: tensor.New(tensor.WithShape(rows, width), tensor.Of(tensor.Bool)),
	}
}

// Set makes ids the sequence of a row; nil empties it. Longer sequences are cut.
func (t Tokens) Set(row int, ids []int32) {
	width := t.IDs.Shape()[1]
	rowIDs := t.IDs.Int32s()[row*width : (row+1)*width]
	rowMask := t.Mask.Bools()[row*width : (row+1)*width]
	n := copy(rowIDs, ids)
	for u := range width {
		rowMask[u] = u < n
		if u >= n {
			rowIDs[u] = vocab.Padding
		}
	}
}

// Drop masks a token. Its id stays, without effect.
func (t Tokens) Drop(row, u int) { t.Mask.Bools()[row*t.IDs.Shape()[1]+u] = false }
