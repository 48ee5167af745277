package split

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/nearcopy"
)

// corpus makes queries in families of near copies, spread over packages that partly mirror one another.
func corpus() []Item {
	rng := rand.New(rand.NewPCG(3, 4))
	word := func() string { return fmt.Sprintf("w%c%c%c", 'a'+rng.IntN(26), 'a'+rng.IntN(26), 'a'+rng.IntN(26)) }
	var items []Item
	for family := range 400 {
		stem := fmt.Sprintf("%s %s %s %s %s", word(), word(), word(), word(), word())
		for range 1 + rng.IntN(3) {
			items = append(items, Item{Text: stem + " " + word(), Groups: []string{fmt.Sprint("pkg", family%37)}})
		}
	}
	for i := range 30 { // twins: every query of left is a near copy of one of right
		text := fmt.Sprintf("%s %s %s %s", word(), word(), word(), word())
		items = append(items,
			Item{Text: text + " left", Groups: []string{"left"}},
			Item{Text: text + " right", Groups: []string{"right"}})
		if i%10 == 0 {
			items = append(items, Item{Text: text, Groups: []string{"pkg1", "pkg2"}})
		}
	}
	return items
}

// TestAssignIsLeakFree asserts every guarantee of Assign, and that there was something to guard against.
func TestAssignIsLeakFree(t *testing.T) {
	items := corpus()
	sizes := Sizes{Dev: 60, Test: 120, Unseen: 70}
	parts := Assign(items, sizes)

	byPart := map[Part][]int{}
	texts := make([]string, len(items))
	for i, p := range parts {
		byPart[p] = append(byPart[p], i)
		texts[i] = items[i].Text
	}
	for part, want := range map[Part]int{Dev: sizes.Dev, Test: sizes.Test} {
		if n := len(byPart[part]); n < want || n >= want+largestCluster {
			t.Errorf("part %d has %d queries, want %d or a cluster more", part, n, want)
		}
	}
	if n := len(byPart[Unseen]); n < sizes.Unseen/2 {
		t.Errorf("only %d unseen queries of %d wanted", n, sizes.Unseen)
	}
	x := nearcopy.NewIndex(texts)
	copies := 0
	for i, a := range parts {
		for _, j := range x.Matches(texts[i]) {
			b := parts[j]
			if i != j {
				copies++
			}
			if a != b && a != Dropped && b != Dropped && !(a == Test && b == Unseen) && !(a == Unseen && b == Test) {
				t.Errorf("near copies in parts %d and %d: %q, %q", a, b, texts[i], texts[j])
			}
		}
	}
	if copies < 200 {
		t.Errorf("only %d near copies in the input: the test means little", copies)
	}
	seen := map[string]bool{}
	for _, p := range []Part{Train, Dev, Test} {
		for _, i := range byPart[p] {
			for _, g := range items[i].Groups {
				seen[g] = true
			}
		}
	}
	for _, i := range byPart[Unseen] {
		for _, g := range items[i].Groups {
			if seen[g] {
				t.Errorf("group %q is unseen and seen", g)
			}
			if g == "left" || g == "right" {
				t.Errorf("group %q has a twin and is no clean test", g)
			}
		}
	}
}

// TestAssignIsStable: the parts depend on the texts, not on their order.
func TestAssignIsStable(t *testing.T) {
	items := corpus()
	sizes := DefaultSizes(len(items))
	parts := Assign(items, sizes)
	if again := Assign(items, sizes); !slices.Equal(parts, again) {
		t.Fatal("a second call gave other parts")
	}
	unseen := map[string]bool{}
	for i, p := range parts {
		if p == Unseen {
			unseen[items[i].Text] = true
		}
	}
	reversed := slices.Clone(items)
	slices.Reverse(reversed)
	for i, p := range Assign(reversed, sizes) {
		if p == Unseen && !unseen[reversed[i].Text] {
			t.Fatalf("in reverse order %q became unseen", reversed[i].Text)
		}
	}
}

func TestAssignSmall(t *testing.T) {
	if parts := Assign(nil, DefaultSizes(0)); len(parts) != 0 {
		t.Fatalf("no items gave parts %v", parts)
	}
	parts := Assign([]Item{{Text: "only one query here"}}, DefaultSizes(1))
	if !slices.Equal(parts, []Part{Train}) {
		t.Fatalf("one item gave %v, want it to train", parts)
	}
}
