// Package nearcopy finds texts that say nearly the same. A random split of such texts puts a query into training and
// its twin ("adds delta to x", "adds delta to y") into test, which then measures memory, not retrieval.
package nearcopy

import (
	"cmp"
	"slices"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

// Threshold is the word Jaccard similarity |A∩B| / |A∪B| from which two texts count as near copies.
const Threshold = 0.6

// Index answers which of its texts are near copies of another text, exactly and without comparing all pairs.
//
// Words are ordered from rare to common. Two sets with a Jaccard similarity of at least τ share at least ⌈τ|A|⌉ words,
// so they share one of the first |A|-⌈τ|A|⌉+1 words of each: only these prefixes are indexed and looked up.
type Index struct {
	rank   map[string]int // rare words first
	sets   [][]int        // the ranks of each text's words, ascending
	byWord map[int][]int  // rank → texts that have it in their prefix, ascending
}

// NewIndex indexes texts.
func NewIndex(texts []string) *Index {
	count := map[string]int{}
	split := make([][]string, len(texts))
	for i, text := range texts {
		split[i] = words.Set(text)
		for _, w := range split[i] {
			count[w]++
		}
	}
	vocabulary := make([]string, 0, len(count))
	for w := range count {
		vocabulary = append(vocabulary, w)
	}
	slices.SortFunc(vocabulary, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[a], count[b]), cmp.Compare(a, b))
	})
	x := &Index{rank: make(map[string]int, len(count)), byWord: map[int][]int{}}
	for r, w := range vocabulary {
		x.rank[w] = r
	}
	for i, set := range split {
		ranks := x.ranks(set)
		x.sets = append(x.sets, ranks)
		for _, r := range prefix(ranks, len(ranks)) {
			x.byWord[r] = append(x.byWord[r], i)
		}
	}
	return x
}

// Matches returns, ascending, the indexed texts that are near copies of text, an indexed text itself included.
// A text without words is a near copy of nothing.
func (x *Index) Matches(text string) []int {
	set := words.Set(text)
	ranks := x.ranks(set)
	candidates := map[int]bool{}
	for _, r := range prefix(ranks, len(set)) {
		for _, i := range x.byWord[r] {
			candidates[i] = true
		}
	}
	var out []int
	for i := range candidates {
		if common := overlap(ranks, x.sets[i]); near(common, len(set), len(x.sets[i])) {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out
}

// ranks returns the known words of set as ascending ranks.
func (x *Index) ranks(set []string) []int {
	out := make([]int, 0, len(set))
	for _, w := range set {
		if r, ok := x.rank[w]; ok {
			out = append(out, r)
		}
	}
	slices.Sort(out)
	return out
}

// prefix cuts ranks, the known words of a set of n words, to those of which a near copy must share one. Words that the
// index does not know rank before all others and use up the prefix.
func prefix(ranks []int, n int) []int {
	shared := 0 // the least number of words shared with a near copy
	for shared < n && !near(shared, n, shared) {
		shared++
	}
	unknown := n - len(ranks)
	return ranks[:max(0, min(len(ranks), n-shared+1-unknown))]
}

// near says whether sets of n and m words with common words in common are near copies.
func near(common, n, m int) bool {
	return common > 0 && float64(common) >= Threshold*float64(n+m-common)
}

// overlap counts the common elements of two ascending slices.
func overlap(a, b []int) int {
	n := 0
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			n, a, b = n+1, a[1:], b[1:]
		}
	}
	return n
}
