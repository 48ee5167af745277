package csr

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// batchOf draws sequences of the given seed and a tape over them: any layout, empty sequences, -1 anywhere.
func batchOf(seed uint64, queries, docs, group uint8, longest uint8) (*layout.Batch, []int32) {
	r := rand.New(rand.NewPCG(seed, 3))
	b := &layout.Batch{Group: int(group % 4)}
	q, d := int(queries%9), int(docs%9)
	if b.Group > 0 {
		d = q * b.Group
	}
	lengths := func(n int) layout.Seqs {
		cu := make([]int, n+1)
		for i := range n {
			cu[i+1] = cu[i] + r.IntN(int(longest)+1)
		}
		return layout.Packed(cu[n]+r.IntN(3), cu)
	}
	b.Q, b.D = lengths(q), lengths(d)
	tape := make([]int32, b.TapeLen())
	for at := range tape {
		tape[at] = -1
	}
	for i := range q {
		for k := range b.Cols() {
			for t := range b.Q.Tokens(i) {
				tape[b.TapeAt(i, k)+t] = int32(r.IntN(b.D.Tokens(b.Doc(i, k))+1)) - 1
			}
		}
	}
	return b, tape
}

// plainInverse appends query rows to the document rows they chose, in the order of the tape.
func plainInverse(b *layout.Batch, tape []int32) [][]int32 {
	rows := make([][]int32, b.D.Rows)
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			for t := range b.Q.Tokens(i) {
				if u := tape[b.TapeAt(i, k)+t]; u >= 0 {
					r := b.D.Cu[b.Doc(i, k)] + int(u)
					rows[r] = append(rows[r], int32(b.Q.Cu[i]+t))
				}
			}
		}
	}
	return rows
}

func FuzzCSR(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(4), uint8(0), uint8(7))
	f.Add(uint64(2), uint8(5), uint8(0), uint8(2), uint8(33))
	f.Add(uint64(3), uint8(0), uint8(6), uint8(0), uint8(5))
	f.Add(uint64(4), uint8(6), uint8(1), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, queries, docs, group, longest uint8) {
		b, tape := batchOf(seed, queries, docs, group, longest)
		want := plainInverse(b, tape)
		m, err := Invert(b, tape)
		if err != nil {
			t.Fatal(err)
		}
		checkRows(t, m, want)
		for j := range b.D.Len() {
			n := b.D.Tokens(j)
			for _, part := range [][2]int{{0, n}, {0, n / 2}, {n / 2, n}} {
				if err := m.InvertDocument(b, tape, j, part[0], part[1]); err != nil {
					t.Fatal(err)
				}
				checkRows(t, m, want[b.D.Cu[j]+part[0]:b.D.Cu[j]+part[1]])
			}
		}
	})
}

func checkRows(t *testing.T, m *Matrix, want [][]int32) {
	t.Helper()
	if len(m.Offsets) != len(want)+1 || m.Offsets[0] != 0 || m.Offsets[len(want)] != len(m.Columns) {
		t.Fatalf("offsets %v of %d columns, expected %d rows", m.Offsets, len(m.Columns), len(want))
	}
	for r := range want {
		if !slices.Equal(m.Row(r), want[r]) {
			t.Fatalf("row %d is %v, expected %v", r, m.Row(r), want[r])
		}
		if !slices.IsSorted(m.Row(r)) {
			t.Fatalf("row %d is %v, expected ascending columns", r, m.Row(r))
		}
	}
}

func TestInvertRefusesForeignTape(t *testing.T) {
	b := &layout.Batch{Q: layout.Dense(2, 2), D: layout.Dense(2, 3)}
	for _, test := range []struct {
		tape []int32
		want string
	}{
		{make([]int32, 7), "argmax tape of 7 entries, expected 4 query rows × 2 columns"},
		{[]int32{0, 0, 0, 3, 0, 0, 0, 0}, "argmax 3 of query 0, token 1 is no token of document 1, expected -1 to 2"},
		{[]int32{0, 0, 0, 0, -2, 0, 0, 0}, "argmax -2 of query 1, token 0 is no token of document 0"},
	} {
		if _, err := Invert(b, test.tape); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("tape %v: error %v, expected %q", test.tape, err, test.want)
		}
		var m Matrix
		err := m.InvertDocument(b, test.tape, 0, 0, 3)
		if err == nil {
			err = m.InvertDocument(b, test.tape, 1, 0, 3)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("document of tape %v: error %v, expected %q", test.tape, err, test.want)
		}
	}
}
