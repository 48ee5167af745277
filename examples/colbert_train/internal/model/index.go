package model

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
)

// Gorgonia's shapes are static: documents and queries go through the graphs in chunks of at most these sizes, the last
// one filled up with empty sequences.
const (
	docChunk   = 512
	queryChunk = 64
)

// Index is the encoded document pool of one state of a model: searching it multiplies vectors only.
type Index struct {
	model  *Model
	device *maxsim.Device
	docs   *sequences
}

// NewIndex encodes the pool with the present weights of m. MaxSim will run on device; nil is the CPU.
func NewIndex(m *Model, docs []string, device *maxsim.Device) (*Index, error) {
	encoded, err := m.encode(docs, docChunk, m.DocTokens, (*Encoder).Documents)
	if err != nil {
		return nil, err
	}
	return &Index{model: m, device: device, docs: encoded}, nil
}

// Scores returns the score of every document for each query.
func (x *Index) Scores(queries []string) ([][]float64, error) {
	out := make([][]float64, len(queries))
	for i := range out {
		out[i] = make([]float64, x.docs.n)
	}
	if len(queries) == 0 || x.docs.n == 0 {
		return out, nil
	}
	encoded, err := x.model.encode(queries, queryChunk, x.model.QueryTokens, (*Encoder).Queries)
	if err != nil {
		return nil, err
	}
	g, err := newSearch(x.model.Config, encoded.rows, x.docs.rows, x.device, false)
	if err != nil {
		return nil, err
	}
	defer g.close()
	for dc, d := range x.docs.chunks {
		for qc, q := range encoded.chunks {
			if err := g.run(q, d); err != nil {
				return nil, err
			}
			scores := g.scores.Data().([]float32)
			for i := range q.n {
				row := out[qc*encoded.rows+i][dc*x.docs.rows:]
				for j := range d.n {
					row[j] = float64(scores[i*x.docs.rows+j])
				}
			}
		}
	}
	return out, nil
}

// search is a graph without gradients that scores a chunk of queries against a chunk of documents.
type search struct {
	vm                 G.VM
	q, d, qMask, dMask *G.Node
	*readings
}

// readings are what the last run left; argmax [rows,rows,tokens] int32 if it was asked for. They lie apart from the
// machine, which has a finalizer and reaches them through its graph: if they reached it back, it would never be collected.
type readings struct{ scores, argmax G.Value }

func newSearch(cfg Config, queryRows, docRows int, device *maxsim.Device, argmax bool) (*search, error) {
	g := G.NewGraph()
	s := &search{readings: new(readings)}
	s.q = G.NewTensor(g, tensor.Float32, 3, G.WithShape(queryRows, cfg.QueryTokens, cfg.Dim), G.WithName("queries"))
	s.d = G.NewTensor(g, tensor.Float32, 3, G.WithShape(docRows, cfg.DocTokens, cfg.Dim), G.WithName("documents"))
	s.qMask = G.NewMatrix(g, tensor.Bool, G.WithShape(queryRows, cfg.QueryTokens), G.WithName("query mask"))
	s.dMask = G.NewMatrix(g, tensor.Bool, G.WithShape(docRows, cfg.DocTokens), G.WithName("document mask"))
	scores, err := maxsim.InBatch(s.q, s.d, maxsim.Config{QueryMask: s.qMask, DocMask: s.dMask, Mean: true, Device: device})
	if err != nil {
		return nil, err
	}
	G.Read(scores, &s.scores)
	if argmax {
		a, err := maxsim.Argmax(scores)
		if err != nil {
			return nil, err
		}
		G.Read(a, &s.argmax)
	}
	s.vm = G.NewTapeMachine(g)
	return s, nil
}

// run scores q against d; the result is in s.scores and s.argmax.
func (s *search) run(q, d chunk) error {
	for _, in := range []struct {
		node  *G.Node
		value *tensor.Dense
	}{{s.q, q.vectors}, {s.d, d.vectors}, {s.qMask, q.mask}, {s.dMask, d.mask}} {
		if err := G.Let(in.node, in.value); err != nil {
			return err
		}
	}
	s.vm.Reset()
	return maxsim.Cause(s.vm.RunAll())
}

func (s *search) close() { s.vm.Close() }
