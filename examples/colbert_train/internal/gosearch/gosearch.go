package gosearch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/nearcopy"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/split"
)

// Build makes the task of all Go source under root. source describes it in reports.
//
// The pool is the public functions. Their doc comments are split by package split; the groups are import paths.
// Functions that nobody outside can call (cmd/, internal/, unexported) are further training pairs, unless they resemble
// a held-out query or belong to an unseen package.
func Build(root, source string) (*dataset.Set, error) {
	functions, skipped, err := readTree(root)
	if err != nil {
		return nil, err
	}
	public, private := functions, []function(nil)
	if i := slices.IndexFunc(functions, func(f function) bool { return !f.public }); i >= 0 {
		public, private = functions[:i], functions[i:]
	}

	if len(public) == 0 {
		return nil, fmt.Errorf("%s: no documents: none of %d documented functions is exported by a package that others can import (%d files are not Go)",
			source, len(functions), skipped)
	}

	s := &dataset.Set{Source: source, Dropped: dataset.Dropped{}}
	for _, f := range public {
		s.Docs = append(s.Docs, dataset.Document{ID: f.id, Text: f.text, Signature: f.signature})
	}
	queries, items := publicQueries(public)
	parts := split.Assign(items, split.DefaultSizes(len(items)))
	unseen := map[string]bool{}
	var held []string
	for i, q := range queries {
		switch parts[i] {
		case split.Train:
			s.Train = append(s.Train, q)
		case split.Dev:
			s.Dev = append(s.Dev, q)
		case split.Test:
			s.Test = append(s.Test, q)
		case split.Unseen:
			s.Unseen = append(s.Unseen, q)
			for _, pkg := range items[i].Groups {
				unseen[pkg] = true
			}
		case split.Dropped:
			s.Dropped["queries of an unseen package that are also training queries or near copies of one"]++
		}
		if parts[i] != split.Train {
			held = append(held, q.Text)
		}
	}
	s.Triples = privatePairs(private, queries, held, unseen)
	if skipped > 0 {
		s.Dropped["files that are not Go"] = skipped
	}
	return s, s.Check()
}

// publicQueries turns equal doc sentences into one query with several relevant documents. Items say where each query's
// documents are from.
func publicQueries(public []function) ([]dataset.Query, []split.Item) {
	var queries []dataset.Query
	var items []split.Item
	number := map[string]int{}
	for doc, f := range public {
		key := strings.ToLower(f.query)
		i, ok := number[key]
		if !ok {
			i = len(queries)
			number[key] = i
			queries = append(queries, dataset.Query{ID: fmt.Sprintf("q%05d", i), Text: f.query})
			items = append(items, split.Item{Text: f.query})
		}
		queries[i].Relevant = append(queries[i].Relevant, dataset.Judgement{Doc: doc, Grade: 1})
		if !slices.Contains(items[i].Groups, f.pkg) {
			items[i].Groups = append(items[i].Groups, f.pkg)
		}
	}
	return queries, items
}

// privatePairs returns the training pairs outside the pool: no text of a public query, no near copy of a held-out one,
// nothing of an unseen package, nothing twice.
func privatePairs(private []function, queries []dataset.Query, held []string, unseen map[string]bool) []dataset.Triple {
	seen := map[string]bool{}
	for _, q := range queries {
		seen[strings.ToLower(q.Text)] = true
	}
	heldOut := nearcopy.NewIndex(held)
	var out []dataset.Triple
	for _, f := range private {
		key := strings.ToLower(f.query)
		pair := key + "\x00" + f.text
		if seen[key] || seen[pair] || unseen[f.pkg] || len(heldOut.Matches(f.query)) > 0 {
			continue
		}
		seen[pair] = true
		out = append(out, dataset.Triple{Query: f.query, Positive: f.text})
	}
	return out
}
