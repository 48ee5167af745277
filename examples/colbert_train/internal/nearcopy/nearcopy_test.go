package nearcopy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

func TestMatches(t *testing.T) {
	x := NewIndex([]string{
		"adds delta to x and returns the new value",
		"adds delta to y and returns the new value",
		"opens the named file for reading",
		"",
	})
	for _, c := range []struct {
		text string
		want []int
	}{
		{"adds delta to z and returns the new value", []int{0, 1}},
		{"Opens the named file, for reading.", []int{2}},
		{"opens a door", nil},
		{"entirely unrelated", nil},
		{"", nil},
	} {
		if got := x.Matches(c.text); !slices.Equal(got, c.want) {
			t.Errorf("Matches(%q) = %v, want %v", c.text, got, c.want)
		}
	}
}

// TestMatchesAgainstAllPairs compares the prefix filter with the definition on random short texts, where many pairs
// lie exactly on the threshold.
func TestMatchesAgainstAllPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		ws := make([]string, rng.IntN(9))
		for i := range ws {
			ws[i] = string(rune('a' + rng.IntN(12)))
		}
		return strings.Join(ws, " ")
	}
	texts := make([]string, 300)
	for i := range texts {
		texts[i] = text()
	}
	x := NewIndex(texts)
	found, exact := 0, 0
	for range 300 {
		query := text() + " unknown"[:8*rng.IntN(2)]
		var want []int
		a := words.Set(query)
		for i, other := range texts {
			b := words.Set(other)
			common := 0
			for _, w := range a {
				if slices.Contains(b, w) {
					common++
				}
			}
			union := len(a) + len(b) - common
			if union > 0 && 10*common >= 6*union {
				want = append(want, i)
				if 10*common == 6*union {
					exact++
				}
			}
		}
		if got := x.Matches(query); !slices.Equal(got, want) {
			t.Fatalf("Matches(%q) = %v, want %v", query, got, want)
		}
		found += len(want)
	}
	if found < 500 || exact < 50 {
		t.Fatalf("only %d near copies and %d on the threshold: the comparison means little", found, exact)
	}
}

func TestClusters(t *testing.T) {
	got := Clusters([]string{"a b c d", "x y z", "a b c e", "a b e f g", "x y z"})
	// 0-2 share 3 of 5 words; 3 shares 3 of 6 with 2 and stays alone.
	want := [][]int{{0, 2}, {1, 4}, {3}}
	if len(got) != len(want) {
		t.Fatalf("Clusters = %v, want %v", got, want)
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("Clusters = %v, want %v", got, want)
		}
	}
	if got := Clusters(nil); len(got) != 0 {
		t.Fatalf("Clusters(nil) = %v", got)
	}
}
