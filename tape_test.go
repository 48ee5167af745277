package maxsim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A machine that copies a tape as the int32 tensor it is loses the scores and the sequences that ride on it. The ops
// then compute them again, from the same inputs, to the same bits.
func TestOpsWithoutWhatRidesOnTheTape(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	q, d, up := randomTokens[float32](r, 2, 3, 5), randomTokens[float32](r, 4, 6, 5), randomTokens[float32](r, 2, 4)
	for _, record := range []bool{false, true} {
		s := spec{form: inBatch}
		op := &tapeOp{spec: s}
		op.record.Store(record)
		whole, err := op.Do(q, d)
		if err != nil {
			t.Fatal(err)
		}
		bare := whole.(*tape).Dense.Clone().(*tensor.Dense)
		for name, do := range map[string]func(tape gorgonia.Value) (gorgonia.Value, error){
			"scores": func(tape gorgonia.Value) (gorgonia.Value, error) { return (&scoresOp{spec: s}).Do(q, d, tape) },
			"argmax": func(tape gorgonia.Value) (gorgonia.Value, error) { return (&argmaxOp{spec: s}).Do(q, d, tape) },
			"dq":     func(tape gorgonia.Value) (gorgonia.Value, error) { return (&gradOp{spec: s}).Do(q, d, tape, up) },
			"dd": func(tape gorgonia.Value) (gorgonia.Value, error) {
				return (&gradOp{spec: s, side: 1}).Do(q, d, tape, up)
			},
		} {
			want, err := do(whole)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := do(bare)
			if err != nil {
				t.Fatalf("%s without the tape's riders: %v", name, err)
			}
			same := false
			switch x := got.Data().(type) {
			case []float32:
				same = slices.Equal(x, want.Data().([]float32))
			case []int32:
				same = slices.Equal(x, want.Data().([]int32))
			}
			if !same || !got.Shape().Eq(want.Shape()) {
				t.Errorf("%s: %v without the tape's riders, %v with them", name, got, want)
			}
		}
	}
}
