package cuda

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

func TestCompactRows(t *testing.T) {
	masked := layout.Packed(12, []int{0, 5, 5, 10}).Masked(func(row int) bool { return row != 1 && row < 8 })
	for _, c := range []struct {
		name                string
		of                  layout.Seqs
		pad                 int
		cu, from            []int32
		equal, valid, total int
	}{
		{"dense", layout.Dense(2, 4), 4, []int32{0, 4, 8}, nil, 4, 8, 8},
		{"dense, padded", layout.Dense(2, 3), 4, []int32{0, 4, 8}, []int32{0, 1, 2, -1, 3, 4, 5, -1}, 4, 6, 8},
		{"capacity beyond", layout.Packed(9, []int{0, 4}), 4, []int32{0, 4}, nil, 4, 4, 4},
		{"masked", masked, 1, []int32{0, 4, 4, 7}, []int32{0, 2, 3, 4, 5, 6, 7}, 0, 7, 7},
		{"masked, padded", masked, 4, []int32{0, 4, 4, 8}, []int32{0, 2, 3, 4, 5, 6, 7, -1}, 0, 7, 8},
		{"empty", layout.Dense(3, 0), 4, []int32{0, 0, 0, 0}, nil, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := compact(&c.of, c.pad)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.cu, c.cu) || !slices.Equal(r.from, c.from) || (r.from == nil) != (c.from == nil) {
				t.Errorf("cu %v from %v, expected %v %v", r.cu, r.from, c.cu, c.from)
			}
			if r.equal != c.equal || r.valid != c.valid || r.total != c.total {
				t.Errorf("equal %d valid %d total %d, expected %d %d %d", r.equal, r.valid, r.total, c.equal, c.valid, c.total)
			}
		})
	}
}

// TestWinnersFollowTheTape puts a number on every entry of a tape and looks for it where the kernels would.
func TestWinnersFollowTheTape(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	seqs := func(n int) layout.Seqs {
		cu := make([]int, n+1)
		for s := range n {
			cu[s+1] = cu[s] + rng.IntN(7)
		}
		all := layout.Packed(cu[n]+rng.IntN(3), cu)
		return all.Masked(func(int) bool { return rng.IntN(4) > 0 })
	}
	for range 200 {
		b := layout.Batch{Dim: 8, Group: rng.IntN(3)}
		bq := rng.IntN(4) + 1
		bd := rng.IntN(5)
		if b.Group > 0 {
			bd = bq * b.Group
		}
		b.Q, b.D = seqs(bq), seqs(bd)
		p, err := newProblem(&b)
		if err != nil {
			t.Fatal(err)
		}
		tape := make([]int32, b.TapeLen())
		for k := range tape {
			tape[k] = -1
		}
		for i := range b.Q.Len() {
			for k := range b.Cols() {
				j := b.Doc(i, k)
				valid := tokensOf(&b.D, j)
				for _, x := range tokensOf(&b.Q, i) {
					if len(valid) > 0 {
						tape[b.TapeAt(i, k)+x] = int32(valid[rng.IntN(len(valid))])
					}
				}
			}
		}
		winners, err := winnersOf[uint16](p, tape)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Q.Len() {
			for k := range b.Cols() {
				j := b.Doc(i, k)
				valid := tokensOf(&b.D, j)
				for n, x := range tokensOf(&b.Q, i) {
					got := winners[p.winnerAt(i, k)+n]
					if u := tape[b.TapeAt(i, k)+x]; u >= 0 && valid[got] != int(u) {
						t.Fatalf("query %d token %d column %d: compact token %d is %d, expected %d", i, x, k, got, valid[got], u)
					}
				}
			}
		}
	}
}

// tokensOf returns the valid tokens of sequence s, counted from its start.
func tokensOf(s *layout.Seqs, i int) []int {
	var tokens []int
	for _, r := range s.RunsOf(i) {
		for row := r.Lo; row < r.Hi; row++ {
			tokens = append(tokens, row-s.Cu[i])
		}
	}
	return tokens
}

func TestWrongTapeIsAnError(t *testing.T) {
	b := layout.Batch{Q: layout.Dense(1, 2), D: layout.Dense(1, 3).Masked(func(row int) bool { return row != 1 }), Dim: 4}
	p, err := newProblem(&b)
	if err != nil {
		t.Fatal(err)
	}
	for name, tape := range map[string][]int32{"too short": {0}, "beyond": {0, 3}, "none": {-1, 0}, "masked": {1, 0}} {
		if _, err := winnersOf[uint16](p, tape); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := winnersOf[uint16](p, []int32{0, 2}); err != nil {
		t.Error(err)
	}
}
