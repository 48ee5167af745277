package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/split"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

// ReadTriples makes a task of one or more files with one JSON object a line:
//
//	{"query": "reads a whole file", "positive": "func ReadFile", "negatives": ["func WriteFile", "func Open"]}
//
// "negatives" may be missing or empty. The pool is every positive and negative once. A part of the queries is held
// out for dev and test, near copies together; all rows of the same query go the same way.
func ReadTriples(paths ...string) (*Set, error) {
	s := &Set{Source: "triples of " + strings.Join(paths, ", "), Dropped: Dropped{}}
	triples, err := readTriples(paths, s.Dropped)
	if err != nil {
		return nil, err
	}
	pool := map[string]int{}
	add := func(text string) int {
		doc, ok := pool[text]
		if !ok {
			doc = len(s.Docs)
			pool[text] = doc
			s.Docs = append(s.Docs, Document{ID: fmt.Sprintf("d%d", doc), Text: text})
		}
		return doc
	}
	var queries []Query
	var items []split.Item
	number := map[string]int{}
	for _, t := range triples {
		doc := add(t.Positive)
		for _, n := range t.Negatives {
			add(n)
		}
		i, ok := number[t.Query]
		if !ok {
			i = len(queries)
			number[t.Query] = i
			queries = append(queries, Query{ID: fmt.Sprintf("q%d", i), Text: t.Query})
			items = append(items, split.Item{Text: t.Query})
		}
		queries[i].judge(doc, 1)
	}
	parts := split.Assign(items, split.DefaultSizes(len(items)))
	for i, q := range queries {
		switch parts[i] {
		case split.Dev:
			s.Dev = append(s.Dev, q)
		case split.Test:
			s.Test = append(s.Test, q)
		}
	}
	for _, t := range triples { // training rows stay as they are: their negatives belong to them
		if parts[number[t.Query]] == split.Train {
			s.Triples = append(s.Triples, t)
		}
	}
	return s, s.Check()
}

// readTriples reads the rows of all files. Rows that say nothing are counted in dropped.
func readTriples(paths []string, dropped Dropped) ([]Triple, error) {
	var out []Triple
	seen := map[string]bool{}
	for _, path := range paths {
		err := readLines(path, func(_ int, line []byte) error {
			t, err := parseTriple(line)
			if err != nil {
				return err
			}
			key := t.Query + "\x00" + t.Positive
			switch {
			case len(words.Split(t.Query)) == 0 || len(words.Split(t.Positive)) == 0:
				dropped["rows without a word in query or positive"]++
			case len(t.Negatives) == 0 && seen[key]:
				dropped["duplicate rows"]++
			default:
				out = append(out, t)
			}
			seen[key] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parseTriple reads one row and refuses fields that it does not know, so that a misspelt name is not lost in silence.
func parseTriple(line []byte) (Triple, error) {
	var row struct {
		Query     *string  `json:"query"`
		Positive  *string  `json:"positive"`
		Negatives []string `json:"negatives"`
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&row); err != nil {
		return Triple{}, fmt.Errorf("not a triple: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Triple{}, errors.New("not a triple: text after the object")
	}
	if row.Query == nil {
		return Triple{}, errors.New(`field "query" is missing`)
	}
	if row.Positive == nil {
		return Triple{}, errors.New(`field "positive" is missing`)
	}
	return Triple{Query: *row.Query, Positive: *row.Positive, Negatives: row.Negatives}, nil
}
