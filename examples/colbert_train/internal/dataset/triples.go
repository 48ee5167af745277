package dataset

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/split"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

// ReadTriples makes a task of one or more files with one JSON object a line:
//
//	{"query": "reads a whole file", "positive": "func ReadFile", "negatives": ["func WriteFile", "func Open"]}
//
// "negatives" may be missing or empty. Other fields, such as the ids of many data sets, are ignored and counted in
// Set.Dropped by name. The pool is every positive and negative once. A part of the queries is held
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
			t, err := parseTriple(line, dropped)
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

// parseTriple reads one row. Fields that it does not know are counted in dropped by name, so that a misspelt one is not
// lost in silence.
func parseTriple(line []byte, dropped Dropped) (Triple, error) {
	var row map[string]json.RawMessage
	if err := parseObject(line, &row); err != nil {
		return Triple{}, err
	}
	var t Triple
	for _, f := range []struct {
		name     string
		value    any
		is       string
		required bool
	}{
		{"query", &t.Query, "a text", true},
		{"positive", &t.Positive, "a text", true},
		{"negatives", &t.Negatives, "a list of texts", false},
	} {
		content, ok := row[f.name]
		delete(row, f.name)
		if !ok || string(content) == "null" {
			if f.required {
				return Triple{}, fmt.Errorf("field %q is missing", f.name)
			}
			continue
		}
		if err := json.Unmarshal(content, f.value); err != nil {
			return Triple{}, fmt.Errorf("field %q is not %s", f.name, f.is)
		}
	}
	for name := range row {
		dropped[fmt.Sprintf("values of the unknown field %q", name)]++
	}
	return t, nil
}
