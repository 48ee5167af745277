// Package bm25 is the lexical baseline: Okapi BM25 with stop words and Porter stemming. Without these two it would be
// an opponent of straw.
package bm25

import (
	"math"

	porterstemmer "github.com/blevesearch/go-porterstemmer"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

// The usual constants: how fast a repeated term saturates, and how much a long document is discounted.
const (
	k1 = 1.2
	b  = 0.75
)

// stopWords are those of Lucene's English analyzer.
var stopWords = map[string]bool{
	"a": true, "an": true, "and": true, "are": true, "as": true, "at": true, "be": true, "but": true, "by": true,
	"for": true, "if": true, "in": true, "into": true, "is": true, "it": true, "no": true, "not": true, "of": true,
	"on": true, "or": true, "such": true, "that": true, "the": true, "their": true, "then": true, "there": true,
	"these": true, "they": true, "this": true, "to": true, "was": true, "will": true, "with": true,
}

// Terms returns the stems of the words of text that are no stop words, in order.
func Terms(text string) []string {
	var out []string
	for _, w := range words.Split(text) {
		if !stopWords[w] {
			out = append(out, porterstemmer.StemString(w))
		}
	}
	return out
}

// Index is an inverted index of documents.
type Index struct {
	docs     int
	postings map[string][]posting
}

// posting is a document with a term, and what the term adds to the score of that document:
//
//	idf · tf·(k1+1) / (tf + k1·(1-b+b·length/average))    idf = log(1 + (N-n+½)/(n+½))
type posting struct {
	doc    int
	weight float64
}

// NewIndex indexes documents.
func NewIndex(docs []string) *Index {
	x := &Index{docs: len(docs), postings: map[string][]posting{}}
	lengths := make([]float64, len(docs))
	average := 0.0
	for doc, text := range docs {
		terms := Terms(text)
		lengths[doc] = float64(len(terms))
		average += lengths[doc] / float64(len(docs))
		frequency := map[string]int{}
		for _, t := range terms {
			frequency[t]++
		}
		for t, f := range frequency {
			x.postings[t] = append(x.postings[t], posting{doc, float64(f)})
		}
	}
	for _, list := range x.postings {
		n := float64(len(list))
		idf := math.Log(1 + (float64(len(docs))-n+0.5)/(n+0.5))
		for i, p := range list {
			tf := p.weight
			list[i].weight = idf * tf * (k1 + 1) / (tf + k1*(1-b+b*lengths[p.doc]/average))
		}
	}
	return x
}

// Scores returns the score of each document for query. A term counts as often as the query repeats it.
func (x *Index) Scores(query string) []float64 {
	scores := make([]float64, x.docs)
	for _, t := range Terms(query) {
		for _, p := range x.postings[t] {
			scores[p.doc] += p.weight
		}
	}
	return scores
}
