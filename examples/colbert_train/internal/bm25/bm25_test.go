package bm25

import (
	"math"
	"slices"
	"testing"
)

func TestTerms(t *testing.T) {
	if got, want := Terms("The readers are reading io.ReadAll"), []string{"reader", "read", "io", "read", "all"}; !slices.Equal(got, want) {
		t.Errorf("Terms = %q, want %q", got, want)
	}
}

// TestScoresByHand: three documents of 2, 4 and 3 terms, average 3.
//
//	read is in two of them: idf = ln(1 + 1.5/2.5) = ln 1.6; close in one: idf = ln(1 + 2.5/1.5) = ln(8/3)
//	document 0: read once, length 2: 1·2.2/(1 + 1.2·(0.25+0.75·2/3)) = 2.2/1.9
//	document 1: read twice, length 4: 2·2.2/(2 + 1.2·(0.25+0.75·4/3)) = 4.4/3.5
//	document 2: close once, length 3: 2.2/2.2 = 1
func TestScoresByHand(t *testing.T) {
	x := NewIndex([]string{"read file", "reads the file, reading bytes", "close a network connection"})
	read, closing := math.Log(1.6), math.Log(8.0/3)
	for _, c := range []struct {
		query string
		want  []float64
	}{
		{"reading", []float64{read * 2.2 / 1.9, read * 4.4 / 3.5, 0}},
		{"closes", []float64{0, 0, closing}},
		{"read, read or close", []float64{2 * read * 2.2 / 1.9, 2 * read * 4.4 / 3.5, closing}},
		{"the unknown", []float64{0, 0, 0}},
		{"", []float64{0, 0, 0}},
	} {
		got := x.Scores(c.query)
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("Scores(%q) = %v, want %v", c.query, got, c.want)
				break
			}
		}
	}
}

func TestNoDocuments(t *testing.T) {
	if got := NewIndex(nil).Scores("read"); len(got) != 0 {
		t.Errorf("no documents have scores %v", got)
	}
}
