package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
)

// search prints the best documents for a query and, for each of them, which of its tokens every query token matched.
func search(o *options, device *maxsim.Device, w io.Writer) error {
	m, err := model.Load(filepath.Join(o.out, modelFolder))
	if err != nil {
		return fmt.Errorf("no trained model: %w", err)
	}
	docs, err := pool(o)
	if err != nil {
		return err
	}
	texts := make([]string, len(docs))
	for i, d := range docs {
		texts[i] = d.Text
	}
	index, err := model.NewIndex(m, texts, device)
	if err != nil {
		return err
	}
	rows, err := index.Scores([]string{o.query})
	if err != nil {
		return err
	}
	best := make([]int, len(docs))
	for i := range best {
		best[i] = i
	}
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(rows[0][b], rows[0][a]) })

	fmt.Fprintf(w, "%q among %d documents; below each, query token → document token it matched, and its share of the score\n",
		o.query, len(docs))
	for rank, i := range best[:min(o.top, len(best))] {
		matches, err := index.Explain(o.query, i)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%2d. %-50s %.3f\n    %s\n", rank+1, docs[i].ID, rows[0][i], cmp.Or(docs[i].Signature, docs[i].Text))
		for _, line := range wrap(matches) {
			fmt.Fprintf(w, "      %s\n", line)
		}
	}
	return nil
}

// pool returns the documents to search: those of the trained model unless the options name others.
func pool(o *options) ([]dataset.Document, error) {
	if o.data == "" && o.goSrc == "" {
		return dataset.ReadCorpus(filepath.Join(o.out, poolFile))
	}
	set, err := task(o)
	if err != nil {
		return nil, err
	}
	return set.Docs, nil
}

// lineWidth is the width of the lines that list matches.
const lineWidth = 100

// wrap lists matches in lines.
func wrap(matches []model.Match) []string {
	var lines []string
	line := ""
	for _, m := range matches {
		item := fmt.Sprintf("%s → %s %.3f", m.QueryToken, m.DocToken, m.Share)
		if line != "" && len(line)+len(item) > lineWidth {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+"   "+item, "   ")
	}
	return append(lines, line)
}
