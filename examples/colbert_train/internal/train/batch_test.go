package train

import (
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/vocab"
)

// newTinySampler returns a sampler over the examples of a set.
func newTinySampler(t *testing.T, cfg Config, set *dataset.Set) *sampler {
	t.Helper()
	m, err := model.New(cfg.Model, vocab.Learn(vocabularyTexts(set), 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	return newSampler(cfg, encodeExamples(m, set))
}

// TestEpochs: every example comes once before any comes again, in another order each time, for any batch size.
func TestEpochs(t *testing.T) {
	cfg := tinyConfig()
	s := newTinySampler(t, cfg, tinySet())
	n := len(s.from.all)
	var orders [][]int
	for epoch := range 3 {
		var order []int
		for i := range n {
			order = append(order, s.example(epoch*n+i).query.number)
		}
		sorted := slices.Sorted(slices.Values(order))
		if len(slices.Compact(sorted)) != n {
			t.Errorf("epoch %d: queries %v", epoch, order)
		}
		orders = append(orders, order)
	}
	if slices.Equal(orders[0], orders[1]) || slices.Equal(orders[1], orders[2]) {
		t.Errorf("equal orders %v", orders)
	}
}

// TestBatchDependsOnSeedAndStepOnly: a batch is the same whatever was drawn before.
func TestBatchDependsOnSeedAndStepOnly(t *testing.T) {
	cfg := tinyConfig()
	content := func(s *sampler, step int) (ids []int32, mask []bool) {
		b := s.next(step)
		return slices.Concat(b.queries.IDs.Int32s(), b.documents.IDs.Int32s()), slices.Concat(b.queries.Mask.Bools(), b.documents.Mask.Bools())
	}
	s := newTinySampler(t, cfg, tinySet())
	ids, mask := content(s, 7)
	content(s, 3)
	againIDs, againMask := content(s, 7)
	if !slices.Equal(ids, againIDs) || !slices.Equal(mask, againMask) {
		t.Error("step 7 has another batch after step 3")
	}
	cfg.Seed++
	if otherIDs, otherMask := content(newTinySampler(t, cfg, tinySet()), 7); slices.Equal(ids, otherIDs) && slices.Equal(mask, otherMask) {
		t.Error("another seed has the same batch")
	}
}

// TestExclude: an answer of another row and a missing negative are no negatives; everything else is.
func TestExclude(t *testing.T) {
	set := &dataset.Set{Triples: []dataset.Triple{
		{Query: "first", Positive: "shared", Negatives: []string{"wrong"}},
		{Query: "second", Positive: "shared"},
		{Query: "first", Positive: "other"},
	}}
	cfg := tinyConfig()
	cfg.Batch, cfg.Negatives, cfg.Dropout = 3, 1, 0
	s := newTinySampler(t, cfg, set)
	b := s.next(1)
	exclude, mask := b.exclude.Bools(), b.documents.Mask.Bools()
	for i := range 3 {
		query := s.example(i)
		for j := range 3 {
			doc := s.example(j)
			want := i != j && s.from.answers[[2]int{query.query.number, doc.positive.number}]
			if got := exclude[i*6+2*j]; got != want {
				t.Errorf("query %d, positive of %d: excluded %t, want %t", i, j, got, want)
			}
			missing := len(doc.negatives) == 0
			if got := exclude[i*6+2*j+1]; got != missing {
				t.Errorf("query %d, negative of %d: excluded %t, want %t", i, j, got, missing)
			}
			if empty := !slices.Contains(mask[(2*j+1)*cfg.Model.DocTokens:(2*j+2)*cfg.Model.DocTokens], true); empty != missing {
				t.Errorf("negative of %d is empty: %t, want %t", j, empty, missing)
			}
		}
	}
	if n := len(s.from.answers); n != 3 {
		t.Errorf("%d pairs of query and answer, want 3", n)
	}
}

// TestDropout: about the wanted share of tokens is masked and no text loses all.
func TestDropout(t *testing.T) {
	cfg := tinyConfig()
	cfg.Dropout, cfg.Negatives = 0.5, 0
	s := newTinySampler(t, cfg, tinySet())
	kept, all := 0, 0
	for step := range 50 {
		b := s.next(step + 1)
		kept += b.tokens
		for i := range cfg.Batch {
			e := s.example(step*cfg.Batch + i)
			all += len(e.query.ids) + len(e.positive.ids)
			width := cfg.Model.QueryTokens
			if !slices.Contains(b.queries.Mask.Bools()[i*width:(i+1)*width], true) {
				t.Fatalf("step %d, query %d has no token left", step+1, i)
			}
		}
	}
	if share := float64(kept) / float64(all); share < 0.45 || share > 0.6 {
		t.Errorf("%.2f of the tokens are kept, want about half", share)
	}
}
