// Package maxsim is a fused, exact, differentiable MaxSim operator for Gorgonia: the late interaction of ColBERT and
// ColPali as one op in a training graph.
//
//	scores[i,j] = Σ_t max_u ⟨q[i,t,:], d[j,u,:]⟩
//
// [InBatch], [Paired], [Candidates] and [Packed] add it to a graph in place of Mul → Reshape → Max → Sum. The forward
// pass folds the row maximum into the product and keeps only the scores and the argmax: the similarity tensor
// [bq, bd, tq, td] never exists. The backward pass gathers ∇q through the argmax and ∇d through its inverse ([CSR]), so
// that every gradient row has one owner: no atomics on floats, the same bits every run.
//
// Give every input of a graph a name of its own: to Gorgonia, unnamed inputs of one type and shape are one node, so that
// queries would be scored against themselves. And take scores that a graph computes on from by gorgonia.Read: its
// elementwise ops may overwrite what they read. What its Reshape returns lies in the memory of what was reshaped: let no
// elementwise op read that as well.
//
// On the CPU the environment variable MAXSIM_CPU=avx512|avx2|generic names the kernels; unset, they are the fastest that
// the machine has. The assembled ones agree in every bit, portable Go differs in the last ones: see docs/numerics.md.
//
// What a ColBERT graph needs beside it (embedding look-up, projection, normalisation, losses, metrics, an optimiser) is
// in package colbert; examples/colbert_train trains one on real text.
package maxsim

import (
	// Gorgonia's tensors rest on this module, which must be new enough for the Go version in use or every program
	// stops at its start. Importing it here makes module selection give the right one to users of this package.
	_ "go4.org/unsafe/assume-no-moving-gc"
)
