package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/vocab"
)

// search prints the best documents for a query and, for each of them, which of its tokens every query token matched.
func search(o *options, device *maxsim.Device, w io.Writer) error {
	m, err := model.Load(filepath.Join(o.out, modelFolder))
	if err != nil {
		return fmt.Errorf("no trained model: %w", err)
	}
	unknown, all := m.Vocabulary.Unknown(o.query)
	if all {
		return fmt.Errorf("-query %q: the model knows none of its words", o.query)
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
	out := bufio.NewWriter(w) // keeps its first error for Flush
	fmt.Fprintf(out, "%q among %d documents; below each, query token → document token it matched, and its part of the score\n",
		o.query, len(docs))
	if len(unknown) > 0 {
		fmt.Fprintf(out, "%s for words that the model does not know: %s\n", m.Vocabulary.Token(vocab.Unknown), strings.Join(unknown, ", "))
	}
	for rank, i := range best(rows[0], o.top) {
		matches, err := index.Explain(o.query, i)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%2d. %-50s %.3f\n    %s\n", rank+1, docs[i].ID, rows[0][i], cmp.Or(docs[i].Signature, docs[i].Text))
		for _, line := range wrap(matches) {
			fmt.Fprintf(out, "      %s\n", line)
		}
	}
	return out.Flush()
}

// best returns the indices of the n highest scores, the highest first, equal ones in order.
func best(scores []float64, n int) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order[:min(n, len(order))]
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
		item := fmt.Sprintf("%s → %s %.3f", m.QueryToken, m.DocToken, m.Part)
		if line != "" && len(line)+len(item) > lineWidth {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+"   "+item, "   ")
	}
	return append(lines, line)
}
