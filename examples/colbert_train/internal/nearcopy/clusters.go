package nearcopy

// Clusters joins texts that are near copies, directly or through others, and returns the clusters in the order of
// their first texts. Every text is in exactly one cluster, alone if nothing resembles it.
func Clusters(texts []string) [][]int {
	x := NewIndex(texts)
	parent := make([]int, len(texts))
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	for i, text := range texts {
		for _, j := range x.Matches(text) {
			a, b := find(i), find(j)
			parent[max(a, b)] = min(a, b) // a root is the first text of its cluster
		}
	}
	members := map[int][]int{}
	var roots []int
	for i := range texts {
		r := find(i)
		if r == i {
			roots = append(roots, i)
		}
		members[r] = append(members[r], i)
	}
	clusters := make([][]int, len(roots))
	for c, r := range roots {
		clusters[c] = members[r]
	}
	return clusters
}
