// Package dataset holds a retrieval task in memory and reads and writes it as files: a BEIR folder, or triples of
// query, positive and negatives.
package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/nearcopy"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/split"
)

// Document is one document of the pool that is searched. Text is what is indexed; Signature is only shown.
type Document struct {
	ID        string
	Text      string
	Signature string
}

// Judgement says that a document answers a query. Grade is at least 1.
type Judgement struct {
	Doc   int // index into Set.Docs
	Grade int
}

// Query is one judged query. Relevant is ascending in Doc and not empty.
type Query struct {
	ID       string
	Text     string
	Relevant []Judgement
}

// Triple is one training example outside the judged queries: a query, a text that answers it and, possibly, texts that
// do not.
type Triple struct {
	Query     string   `json:"query"`
	Positive  string   `json:"positive"`
	Negatives []string `json:"negatives,omitempty"`
}

// Set is a retrieval task. Dev is for choices, Test and Unseen are for one look at the end. Unseen holds queries whose
// documents come from groups (Go packages) without a training query; it may be empty.
type Set struct {
	Source                   string // where it comes from, for reports
	Docs                     []Document
	Train, Dev, Test, Unseen []Query
	Triples                  []Triple // training only; their texts need not be in the pool
	Dropped                  Dropped  // what was left out while reading, by reason
}

// Dropped counts rows that were left out, by reason.
type Dropped map[string]int

// String lists the reasons in alphabetical order, "3 duplicate rows, 1 …"; it is empty if nothing was dropped.
func (d Dropped) String() string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(d)) {
		out = append(out, fmt.Sprintf("%d %s", d[reason], reason))
	}
	return strings.Join(out, ", ")
}

// Texts returns what is indexed of every document of the pool.
func (s *Set) Texts() []string {
	out := make([]string, len(s.Docs))
	for i, d := range s.Docs {
		out[i] = d.Text
	}
	return out
}

// Examples returns everything that trains: one triple for each relevant document of each training query, then Triples.
func (s *Set) Examples() []Triple {
	var out []Triple
	for _, q := range s.Train {
		for _, r := range q.Relevant {
			out = append(out, Triple{Query: q.Text, Positive: s.Docs[r.Doc].Text})
		}
	}
	return append(out, s.Triples...)
}

// Leaks counts the test and unseen queries that are near copies of a training query. It is 0 for a set that package
// split has divided; a set that came divided may have some, and then measures memory as well.
func (s *Set) Leaks() int {
	var trained []string
	for _, e := range s.Examples() {
		trained = append(trained, e.Query)
	}
	x := nearcopy.NewIndex(trained)
	n := 0
	for _, q := range slices.Concat(s.Test, s.Unseen) {
		if len(x.Matches(q.Text)) > 0 {
			n++
		}
	}
	return n
}

// Check says what a set lacks to be trained and tested on, and what would help.
func (s *Set) Check() error {
	for _, part := range []struct {
		name string
		n    int
		help string
	}{
		{"documents", len(s.Docs), "there is nothing to search"},
		{"training examples", len(s.Examples()), "queries with a text that answers them are needed"},
		{"dev queries", len(s.Dev), fmt.Sprintf("where the data has none, they are held out of the training queries: "+
			"at least %d distinct ones are needed for that, and hundreds for measures to rely on", split.Least)},
		{"test queries", len(s.Test), "a BEIR folder has them in qrels/test.tsv"}, // others hold out test before dev
	} {
		if part.n == 0 {
			return fmt.Errorf("%s: no %s; %s; the data: %s", s.Source, part.name, part.help, s)
		}
	}
	return nil
}

// String sums the set up in one line.
func (s *Set) String() string {
	line := fmt.Sprintf("%d documents, %d training examples; held-out queries: %d dev, %d test, %d unseen",
		len(s.Docs), len(s.Examples()), len(s.Dev), len(s.Test), len(s.Unseen))
	if len(s.Dropped) > 0 {
		line += "; dropped: " + s.Dropped.String()
	}
	return line
}
