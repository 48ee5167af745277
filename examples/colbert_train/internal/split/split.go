// Package split divides queries into training, tuning and test parts so that nothing leaks: near copies of a query
// stay on one side, and whole groups (Go packages) are kept back that training never sees.
package split

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/nearcopy"
)

// Part says what a query is used for.
type Part int

// The parts. Dropped queries would leak: they belong to a held-out group and to training at once, by their relevant
// documents or by their wording.
const (
	Train Part = iota
	Dev
	Test
	Unseen
	Dropped
)

// Item is one query: its text and the groups that its relevant documents belong to, without duplicates.
type Item struct {
	Text   string
	Groups []string
}

// Sizes are the wanted numbers of queries; what is left over trains. Clusters and groups stay whole, so a part can be
// a few queries larger.
type Sizes struct{ Dev, Test, Unseen int }

// Least is the least number of queries of which DefaultSizes holds some out for both dev and test.
const Least = 15

// DefaultSizes are the sizes for n queries: at most 500 for test, 200 for dev, 300 of unseen groups.
func DefaultSizes(n int) Sizes {
	return Sizes{Dev: min(200, n/Least), Test: min(500, n/6), Unseen: min(300, n/10)}
}

// largestCluster is the largest cluster of near copies that is tested: the members of a large family answer for one
// another, so they only train.
const largestCluster = 5

// Assign gives every item its part. It depends on the texts only, not on a seed: items are ordered by hashes, and one
// more or less moves few of the others.
//
// Guarantees: a test, dev or unseen query is no near copy of a training query, an unseen query none of a dev query and
// a test query none of a dev query; no group of an unseen query is the group of a training, dev or test query.
func Assign(items []Item, sizes Sizes) []Part {
	parts := make([]Part, len(items))
	held := unseenGroups(items, sizes.Unseen)
	var rest []int
	for i, item := range items {
		in := 0
		for _, g := range item.Groups {
			if held[g] {
				in++
			}
		}
		switch {
		case in == 0:
			rest = append(rest, i)
		case in == len(item.Groups):
			parts[i] = Unseen
		default:
			parts[i] = Dropped
		}
	}
	assignClusters(items, rest, sizes, parts)

	var known []string // what tuning has looked at
	for _, i := range rest {
		if parts[i] != Test {
			known = append(known, items[i].Text)
		}
	}
	x := nearcopy.NewIndex(known)
	for i, item := range items {
		if parts[i] == Unseen && len(x.Matches(item.Text)) > 0 {
			parts[i] = Dropped
		}
	}
	return parts
}

// assignClusters divides items[i] for i in rest into Test, Dev and Train, whole clusters of near copies at a time.
func assignClusters(items []Item, rest []int, sizes Sizes, parts []Part) {
	clusters := nearcopy.Clusters(texts(items, rest))
	slices.SortStableFunc(clusters, func(a, b []int) int {
		return cmp.Compare(hash("q", items[rest[a[0]]].Text), hash("q", items[rest[b[0]]].Text))
	})
	test, dev := 0, 0
	for _, cluster := range clusters {
		part := Train
		switch {
		case len(cluster) > largestCluster:
		case test < sizes.Test:
			part, test = Test, test+len(cluster)
		case dev < sizes.Dev:
			part, dev = Dev, dev+len(cluster)
		}
		for _, c := range cluster {
			parts[rest[c]] = part
		}
	}
}

// unseenGroups picks groups in hash order until they have at least n queries together. Large groups are passed over,
// and so are groups with a twin: where more than a quarter of the queries have near copies in other groups (bytes and
// strings, math/rand and math/rand/v2), holding one out would be no clean test.
func unseenGroups(items []Item, n int) map[string]bool {
	all := make([]int, len(items))
	for i := range all {
		all[i] = i
	}
	x := nearcopy.NewIndex(texts(items, all))
	size, copies := map[string]int{}, map[string]int{}
	for _, item := range items {
		for _, g := range item.Groups {
			size[g]++
			for _, j := range x.Matches(item.Text) {
				if !slices.Contains(items[j].Groups, g) || len(items[j].Groups) > 1 {
					copies[g]++
					break
				}
			}
		}
	}
	groups := make([]string, 0, len(size))
	for g := range size {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b string) int {
		return cmp.Or(cmp.Compare(hash("pkg", a), hash("pkg", b)), cmp.Compare(a, b))
	})
	held := map[string]bool{}
	largest := max(1, len(items)/25)
	for _, g := range groups {
		if n <= 0 {
			break
		}
		if size[g] <= largest && 4*copies[g] <= size[g] {
			held[g] = true
			n -= size[g]
		}
	}
	return held
}

// texts returns the texts of items[i] for i in which.
func texts(items []Item, which []int) []string {
	out := make([]string, len(which))
	for k, i := range which {
		out[k] = items[i].Text
	}
	return out
}

// hash orders strings in a way that has nothing to do with their content: FNV-1a with the finaliser of MurmurHash3.
func hash(kind, s string) uint64 {
	f := fnv.New64a()
	f.Write([]byte(kind + "\x00" + s))
	x := f.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
