package train

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
)

// example is a training triple as token ids. Equal texts have equal numbers.
type example struct {
	query, positive text
	negatives       []text
}

// text is a sequence of tokens and the number of the text it comes from.
type text struct {
	number int
	ids    []int32
}

// examples are all training examples and which texts answer which queries, so that a batch does not take an answer
// for a negative.
type examples struct {
	all     []example
	answers map[[2]int]bool // {query, document}
}

// encodeExamples turns the training examples of a set into token ids.
func encodeExamples(m *model.Model, set *dataset.Set) *examples {
	x := &examples{answers: map[[2]int]bool{}}
	numbers := map[string]int{}
	encode := func(s string, maxTokens int) text {
		number, ok := numbers[s]
		if !ok {
			number = len(numbers)
			numbers[s] = number
		}
		return text{number, m.Vocabulary.Encode(s, maxTokens)}
	}
	for _, t := range set.Examples() {
		e := example{query: encode(t.Query, m.QueryTokens), positive: encode(t.Positive, m.DocTokens)}
		for _, n := range t.Negatives {
			e.negatives = append(e.negatives, encode(n, m.DocTokens))
		}
		x.all = append(x.all, e)
		x.answers[[2]int{e.query.number, e.positive.number}] = true
	}
	return x
}

// vocabularyTexts returns what the vocabulary is learned from: the pool and the training examples, no held-out query. A
// document is there once for the pool and once more for each training query that it answers: the words of what is trained
// on get in sooner.
func vocabularyTexts(set *dataset.Set) []string {
	out := set.Texts()
	for _, t := range set.Examples() {
		out = append(out, t.Query, t.Positive)
	}
	return out
}

// fingerprint tells the data of two runs apart: documents, training examples and dev queries, in order.
func fingerprint(set *dataset.Set) uint64 {
	h := fnv.New64a()
	write := func(s string) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	for _, s := range vocabularyTexts(set) {
		write(s)
	}
	for _, t := range set.Triples {
		for _, n := range t.Negatives {
			write(n)
		}
	}
	for _, q := range set.Dev {
		write(q.Text)
	}
	return h.Sum64()
}
