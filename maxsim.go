package maxsim

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/machine"
)

// Precision is how the products of float32 inputs are computed. Sums are always at least float32; float64 inputs stay
// float64 whatever is chosen.
type Precision uint8

const (
	// Float32 is as accurate as a plain float32 loop, on every device.
	Float32 Precision = iota
	// TF32, BF16 and FP16 round the inputs to that format before they are multiplied. CUDA devices only.
	TF32
	BF16
	FP16
)

var precisionNames = [...]string{"float32", "tf32", "bf16", "fp16"}

func (p Precision) String() string {
	if int(p) < len(precisionNames) {
		return precisionNames[p]
	}
	return fmt.Sprintf("precision(%d)", uint8(p))
}

// Config sets what a MaxSim node does. The zero value is the default: every token valid, sums, gradients to both sides,
// float32-accurate, on the CPU.
type Config struct {
	// QueryMask and DocMask are graph inputs that say which tokens are valid: 1 is, 0 is not, in any pattern (prefix,
	// left padding, holes, skip lists), and they may change from run to run. Shape: that of q or d without the last
	// axis. Dtype: bool, or any integer or float type holding only 0 and 1. nil: every token is valid.
	QueryMask, DocMask *gorgonia.Node

	// Mean divides each score by the number of valid query tokens (by 1 where there is none).
	Mean bool

	// FrozenQueries and FrozenDocs say that this side needs no gradient: it then costs neither time nor memory in the
	// backward pass. Gorgonia computes the gradients of both sides even when only one is asked for. Asking Grad for the
	// gradient of a frozen side is an error of Gorgonia's.
	FrozenQueries, FrozenDocs bool

	// Precision of float32 inputs. The CPU knows only Float32.
	Precision Precision

	// Device runs the node; nil is the CPU.
	Device *Device

	// ResidentDocs stand for the values of d: the node uploads no documents. See [Device.KeepDocs].
	ResidentDocs *ResidentDocs

	// Profile, if set, adds up the time that the node's passes take.
	Profile *Profile
}

// InBatch scores every query against every document: the in-batch negatives of contrastive training.
//
//	scores[i,j] = Σ_t max_u ⟨q[i,t,:], d[j,u,:]⟩
//
//	q       [bq, tq, dim]   float32 or float64
//	d       [bd, td, dim]   the same dtype; bd may differ from bq (hard negatives)
//	scores  [bq, bd]        the same dtype
//
// The similarities [bq, bd, tq, td] are never stored. A graph that differentiates the scores, or asks for [Argmax],
// stores one int32 per (i, j, t); any other graph stores nothing.
//
// Ties go to the lowest u, which alone receives the gradient. A query or document without a valid token scores 0 and
// receives no gradient. A NaN in a similarity of valid tokens makes that score NaN and no other. Masked tokens have no
// effect whatever they hold. Nothing is normalised: these are raw dot products. The gradients are not differentiable
// again: a second derivative is an error of gorgonia.Grad.
//
// Scores, argmax and gradients are the same bits from run to run and for any GOMAXPROCS; the score of a pair does not
// depend on the rest of its batch or on padding.
//
// Errors: [ErrNode], [ErrShape], [ErrDtype], [ErrConfig] while the graph is built; while it runs also [ErrMask] and
// [ErrDevice], found through [Cause].
//
// Late interaction: Khattab and Zaharia, "ColBERT", SIGIR 2020, section 3.3.
func InBatch(q, d *gorgonia.Node, cfg Config) (*gorgonia.Node, error) {
	return build(spec{form: inBatch}, cfg, q, d)
}

// Paired scores query i against document i alone; everything else is as in [InBatch].
//
//	q       [b, tq, dim]
//	d       [b, td, dim]
//	scores  [b]
func Paired(q, d *gorgonia.Node, cfg Config) (*gorgonia.Node, error) {
	return build(spec{form: paired, group: 1}, cfg, q, d)
}

// Candidates scores query i against its own n documents (n-way training, distillation, reranking); everything else is
// as in [InBatch].
//
//	q       [bq, tq, dim]
//	d       [bq·n, td, dim]   row i·n+k is candidate k of query i
//	scores  [bq, n]
func Candidates(q, d *gorgonia.Node, n int, cfg Config) (*gorgonia.Node, error) {
	if n < 1 || n > math.MaxInt32 {
		return nil, fmt.Errorf("%w: candidates per query must be at least 1 and at most %d, got %d", ErrShape, math.MaxInt32, n)
	}
	return build(spec{form: candidates, group: n}, cfg, q, d)
}

// Packed scores every query against every document, both stored without padding; everything else is as in [InBatch].
//
//	q       [rows, dim]    token rows of all queries, one after the other
//	cuQ     [bq+1] int32   cu_seqlens: query i owns rows [cuQ[i], cuQ[i+1]); lengths may be 0
//	d       [rows, dim]    token rows of all documents
//	cuD     [bd+1] int32
//	scores  [bq, bd]
//
// Gorgonia's shapes are static, so rows is a capacity: the last offset may be smaller, and rows beyond it have no effect
// whatever they hold and receive gradient 0. For a last, smaller batch repeat the last offset: those queries or
// documents are then empty and score 0. Offsets that do not start at 0, decrease or end beyond rows are [ErrOffsets]
// when the graph runs. Masks have shape [rows].
func Packed(q, cuQ, d, cuD *gorgonia.Node, cfg Config) (*gorgonia.Node, error) {
	return build(spec{form: packed}, cfg, q, d, cuQ, cuD)
}

// Argmax returns the node that holds which document token each query token chose, for a scores node of this package.
// It works in training and in inference graphs and must be called before the VM is made.
//
//	InBatch, Candidates   int32 [bq, cols, tq]
//	Paired                int32 [b, tq]
//	Packed                int32 [rows, bd], rows as in q
//
// The value is the index of the token inside its document, masked tokens counted; -1 for a masked query token, an empty
// document, or a row beyond the offsets; the document's first valid token where a similarity is NaN. Read it with
// gorgonia.Read; a LispMachine that computes gradients accepts no roots but scalars, there use [LastArgmax].
func Argmax(scores *gorgonia.Node) (*gorgonia.Node, error) {
	children, err := scoresInputs(scores)
	if err != nil {
		return nil, err
	}
	tape, err := recordArgmax(children)
	if err != nil {
		return nil, err
	}
	tape.consumers.Add(1)
	return apply(&argmaxOp{spec: scores.Op().(*scoresOp).spec}, children...)
}

// build checks the inputs and wires tape = run(q, d, …), scores = out(q, d, …, tape).
func build(s spec, cfg Config, inputs ...*gorgonia.Node) (*gorgonia.Node, error) {
	s.hasQueryMask, s.hasDocMask = cfg.QueryMask != nil, cfg.DocMask != nil
	for _, mask := range []*gorgonia.Node{cfg.QueryMask, cfg.DocMask} {
		if mask != nil {
			inputs = append(inputs, mask)
		}
	}
	cfg.QueryMask, cfg.DocMask = nil, nil
	s.cfg = cfg
	if err := s.checkNodes(inputs); err != nil {
		return nil, err
	}
	tape, err := apply(&tapeOp{spec: s}, inputs...)
	if err != nil {
		return nil, err
	}
	return apply(&scoresOp{spec: s}, append(inputs, tape)...)
}

// apply adds an op to the graph of its inputs. They have been checked: what Gorgonia still objects to is a bug here.
func apply(op gorgonia.Op, inputs ...*gorgonia.Node) (_ *gorgonia.Node, err error) {
	defer machine.Guard(&err, ErrInternal)
	n, err := gorgonia.ApplyOp(op, inputs...)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrInternal, err)
	}
	return n, nil
}
