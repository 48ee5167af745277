// Package colbert holds what a ColBERT training graph needs beside MaxSim: embedding rows, a projection, the
// normalisation of token vectors, the contrastive and the distillation loss, an optimiser, and retrieval metrics.
//
//	x      = Lookup(ids)          [B,T]      → [B,T,h]    rows of an embedding table (Embedding, or Gather)
//	y      = Linear(x, w, bias)   [B,T,h]    → [B,T,dim]  projection
//	q      = L2Normalize(y, eps)  [B,T,dim]  → [B,T,dim]  unit token vectors
//	q      = ScaleTokens(q, w)    [B,T,dim]  → [B,T,dim]  one weight per token
//	scores = maxsim.InBatch(q, d)            → [Bq,Bd]
//	loss   = InfoNCE(scores, cfg) [Bq,Bd]    → scalar
//
// # Contract of every op
//
// Inputs and gradients are float32 or float64, the same throughout one op; ids and labels are int32; masks are bool,
// or 0 and 1 in any integer or float dtype. Shapes, ranks and dtypes are checked while the graph is built and again in every run.
// Strided and column-major tensors are read correctly (at the cost of a copy). Errors wrap [ErrShape], [ErrDtype] or
// [ErrValue] and say what was given and what was expected.
//
// An op keeps no state and returns fresh memory, so it runs on a TapeMachine and on a LispMachine, in any number of
// graphs at once. Results are bit-identical from run to run and for any GOMAXPROCS; [Linear] inherits this from the
// BLAS if one was chosen with gorgonia.Use. Second derivatives are an error.
package colbert
