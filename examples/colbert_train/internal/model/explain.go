package model

import "gorgonia.org/tensor"

// Match is the part that one query token has in a score: the document token it chose, and what the two add.
type Match struct {
	QueryToken, DocToken string
	Part                 float64 // of the score: weight · cosine over the number of query tokens
}

// Explain returns for each query token which token of the document it matched: the argmax of MaxSim made visible. The
// parts sum to the score.
func (x *Index) Explain(query string, doc int) ([]Match, error) {
	m := x.model
	q, err := m.encode([]string{query}, 1, m.QueryTokens, (*Encoder).Queries)
	if err != nil {
		return nil, err
	}
	d := x.docs.one(doc)
	g, err := newSearch(m.Config, 1, 1, x.device, true)
	if err != nil {
		return nil, err
	}
	defer g.close()
	if err := g.run(q.chunks[0], d); err != nil {
		return nil, err
	}
	argmax := g.argmax.Data().([]int32)
	qVectors, dVectors := q.chunks[0].vectors.Float32s(), d.vectors.Float32s()
	qIDs, dIDs := q.chunks[0].ids.Int32s(), d.ids.Int32s()
	var out []Match
	for t, u := range argmax {
		if u < 0 {
			continue
		}
		var dot float64
		for k := range m.Dim {
			dot += float64(qVectors[t*m.Dim+k]) * float64(dVectors[int(u)*m.Dim+k])
		}
		out = append(out, Match{
			QueryToken: m.Vocabulary.Token(qIDs[t]),
			DocToken:   m.Vocabulary.Token(dIDs[u]),
			Part:       dot,
		})
	}
	for i := range out {
		out[i].Part /= float64(len(out))
	}
	return out, nil
}

// one returns sequence i as a chunk of its own.
func (s *sequences) one(i int) chunk {
	from := s.chunks[i/s.rows]
	row := i % s.rows
	shape := from.vectors.Shape()
	tokens, dim := shape[1], shape[2]
	return chunk{
		n: 1,
		vectors: tensor.New(tensor.WithShape(1, tokens, dim),
			tensor.WithBacking(from.vectors.Float32s()[row*tokens*dim:(row+1)*tokens*dim])),
		mask: tensor.New(tensor.WithShape(1, tokens), tensor.WithBacking(from.mask.Bools()[row*tokens:(row+1)*tokens])),
		ids:  tensor.New(tensor.WithShape(1, tokens), tensor.WithBacking(from.ids.Int32s()[row*tokens:(row+1)*tokens])),
	}
}
