package train

import (
	"math/rand/v2"

	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
)

// batch is the input of one step: queries [batch], documents [batch·(1+negatives)] as groups of a positive and its
// negatives, and which documents are no negatives of which queries. Its tensors are used again for every step.
type batch struct {
	queries, documents model.Tokens
	exclude            *tensor.Dense // bool [batch, documents]
	tokens             int           // valid tokens of queries and documents
}

// sampler fills batches. Everything random is a function of seed and step, so a resumed run needs no state.
//
// The batches cut one endless sequence, every example once before any comes again: no batch is smaller than the rest.
type sampler struct {
	cfg   Config
	from  *examples
	batch batch

	epoch uint64 // of order
	order []int
}

// Streams of random numbers for one seed.
const (
	orderStream   = 0x0de20000_00000000
	dropoutStream = 0xd2090000_00000000
)

func newSampler(cfg Config, from *examples) *sampler {
	group := 1 + cfg.Negatives
	return &sampler{cfg: cfg, from: from, batch: batch{
		queries:   model.NewTokens(cfg.Batch, cfg.Model.QueryTokens),
		documents: model.NewTokens(cfg.Batch*group, cfg.Model.DocTokens),
		exclude:   tensor.New(tensor.WithShape(cfg.Batch, cfg.Batch*group), tensor.Of(tensor.Bool)),
	}}
}

// next fills the batch of a step, the first being 1. It is valid until the next call.
func (s *sampler) next(step int) *batch {
	rng := rand.New(rand.NewPCG(s.cfg.Seed, dropoutStream+uint64(step)))
	b, group := &s.batch, 1+s.cfg.Negatives
	documents := make([]int, s.cfg.Batch*group) // text numbers; -1 for none
	chosen := make([]example, s.cfg.Batch)
	b.tokens = 0
	for i := range chosen {
		e := s.example((step-1)*s.cfg.Batch + i)
		chosen[i] = e
		b.tokens += s.fill(b.queries, i, e.query.ids, rng)
		documents[i*group] = e.positive.number
		b.tokens += s.fill(b.documents, i*group, e.positive.ids, rng)
		picks := rng.Perm(len(e.negatives))
		for k := range s.cfg.Negatives {
			row := i*group + 1 + k
			if k >= len(picks) {
				documents[row] = -1
				b.documents.Set(row, nil)
				continue
			}
			n := e.negatives[picks[k]]
			documents[row] = n.number
			b.tokens += s.fill(b.documents, row, n.ids, rng)
		}
	}
	exclude := b.exclude.Bools()
	for i, e := range chosen {
		for j, doc := range documents {
			missing := doc < 0
			answer := j != i*group && s.from.answers[[2]int{e.query.number, doc}]
			exclude[i*len(documents)+j] = missing || answer
		}
	}
	return b
}

// fill sets a row and masks a share of its tokens, but never all; it returns how many are left.
func (s *sampler) fill(t model.Tokens, row int, ids []int32, rng *rand.Rand) int {
	t.Set(row, ids)
	left := len(ids)
	for u := range ids {
		if rng.Float64() < s.cfg.Dropout && left > 1 {
			t.Drop(row, u)
			left--
		}
	}
	return left
}

// example returns the example at a place of the endless sequence.
func (s *sampler) example(at int) example {
	n := len(s.from.all)
	epoch := uint64(at / n)
	if s.order == nil || s.epoch != epoch {
		s.epoch, s.order = epoch, rand.New(rand.NewPCG(s.cfg.Seed, orderStream+epoch)).Perm(n)
	}
	return s.from.all[s.order[at%n]]
}
