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

// TestPortionsCoverTheBatch cuts at sequences: every document once, in order, with the queries it meets.
func TestPortionsCoverTheBatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 500 {
		b := layout.Batch{Dim: 4, Group: rng.IntN(3)}
		bq, bd := rng.IntN(5)+1, rng.IntN(30)+1
		if b.Group > 0 {
			bd = bq * b.Group
		}
		cu := make([]int, bd+1)
		for j := range bd {
			cu[j+1] = cu[j] + rng.IntN(9)
		}
		b.Q, b.D = layout.Dense(bq, 3), layout.Packed(cu[bd]+2, cu)
		p, err := newProblem(&b)
		if err != nil {
			t.Fatal(err)
		}
		list := p.portions(16, 256)
		if len(list) == 0 || len(list) > mostPortions {
			t.Fatalf("%d portions", len(list))
		}
		next, winner := 0, int64(0)
		for _, c := range list {
			if c.j0 != next || c.j1 <= c.j0 || p.firstWinner(c) != winner {
				t.Fatalf("portions %+v, first winner %d of the last, expected %d", list, p.firstWinner(c), winner)
			}
			meets := p.totq
			if b.Group > 0 {
				if c.i0*b.Group != c.j0 || c.i1*b.Group != c.j1 {
					t.Fatalf("portion %+v with groups of %d", c, b.Group)
				}
				meets = int64(p.q.cu[c.i1]-p.q.cu[c.i0]) / int64(c.i1-c.i0)
			}
			winner += int64(c.j1-c.j0) * meets
			next = c.j1
		}
		if next != bd || winner != p.winners {
			t.Fatalf("portions %+v of %d documents cover %d of %d winners", list, bd, winner, p.winners)
		}
	}
}
