package layout

// Engine computes MaxSim and its gradients on slices. It knows no graph; everything has been checked before it is
// called, so that only a device can fail.
//
//	scores[i,k] = Σ_t max_u ⟨q[i,t,:], d[j,u,:]⟩    j = b.Doc(i,k); t and u over valid tokens
//
// Contract, the same for every engine and proven by package enginetest:
//
//   - ties: the lowest u wins; a document without a valid token scores 0 with argmax -1; a masked query token
//     contributes 0 with argmax -1; a NaN in any similarity of a valid pair of tokens makes that score NaN;
//     if every similarity is -Inf the score is -Inf and the lowest valid u wins. The argmax of a query token with a
//     NaN similarity is some valid token of the document, the same in every run and batch;
//   - memory that is masked or beyond the last sequence has no effect, whatever it holds;
//   - the score and the argmax of a pair are the same bits alone and in any batch, at any padding, for any number of
//     threads and from run to run; gradients are the same bits for any number of threads and from run to run;
//   - products and sums are at least float32.
//
// An Engine is safe for use by many goroutines at once.
type Engine[T Float] interface {
	// Forward writes every element of scores [bq, cols] and, if record is set, returns the argmax tape.
	// q is [b.Q.Rows, b.Dim], d is [b.D.Rows, b.Dim], both row-major. It keeps neither slice unless a tape is
	// returned and the engine documents it, and never b, whose slices the caller may use for the next batch.
	Forward(b *Batch, q, d, scores []T, record bool) (Tape, error)

	// Backward writes every element of dq and dd, the gradients of Σ ds[i,k]·scores[i,k]; a nil dq or dd is not
	// wanted and costs nothing. tape is what Forward returned for the same b, q and d, or a HostTape of the same
	// content. Rows that are masked, capacity, or never chosen get exactly 0.
	Backward(b *Batch, q, d []T, tape Tape, ds, dq, dd []T) error
}

// Tape is the argmax of a forward pass, wherever it lives.
type Tape interface {
	// Argmax returns the tape in host memory in the order of Batch.TapeAt: the index u of the winning token inside
	// its document (masked tokens counted), -1 for a masked query token, an empty document or a capacity row.
	// The caller must not change it.
	Argmax() ([]int32, error)
}

// HostTape is a tape in host memory.
type HostTape []int32

// Argmax returns the tape itself.
func (t HostTape) Argmax() ([]int32, error) { return t, nil }
