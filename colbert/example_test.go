package colbert_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A ColBERT in miniature: both sides share an embedding table and a projection, and query i is answered by document i.
func Example() {
	const b, tq, td, v, h, dim = 8, 4, 12, 50, 16, 8
	rng := rand.New(rand.NewPCG(1, 1))
	weights := func(shape ...int) *tensor.Dense {
		x := make([]float32, tensor.Shape(shape).TotalSize())
		for i := range x {
			x[i] = float32(rng.NormFloat64()) / 4
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
	}
	must := func(n *gorgonia.Node, err error) *gorgonia.Node {
		if err != nil {
			log.Fatal(err)
		}
		return n
	}

	g := gorgonia.NewGraph()
	qids := gorgonia.NewMatrix(g, tensor.Int32, gorgonia.WithShape(b, tq), gorgonia.WithName("qids"))
	dids := gorgonia.NewMatrix(g, tensor.Int32, gorgonia.WithShape(b, td), gorgonia.WithName("dids"))
	table := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(v, h), gorgonia.WithName("table"), gorgonia.WithValue(weights(v, h)))
	w := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(h, dim), gorgonia.WithName("w"), gorgonia.WithValue(weights(h, dim)))
	emb, err := colbert.NewEmbedding(table)
	if err != nil {
		log.Fatal(err)
	}
	encode := func(ids *gorgonia.Node) *gorgonia.Node {
		x := must(emb.Lookup(ids))
		return must(colbert.L2Normalize(must(colbert.Linear(x, w, nil)), 1e-12))
	}
	scores := must(maxsim.InBatch(encode(qids), encode(dids), maxsim.Config{}))
	loss := must(colbert.InfoNCE(scores, colbert.InfoNCEConfig{Temperature: 0.5}))
	if _, err := colbert.Grad(loss, append(emb.Lookups(), w)...); err != nil {
		log.Fatal(err)
	}
	var lossValue gorgonia.Value
	gorgonia.Read(loss, &lossValue)

	// The batch: each query is made of tokens of its document.
	q, d := make([]int32, b*tq), make([]int32, b*td)
	for i := range d {
		d[i] = rng.Int32N(v)
	}
	for i := range q {
		q[i] = d[i/tq*td+i%tq]
	}
	for n, ids := range map[*gorgonia.Node][]int32{qids: q, dids: d} {
		if err := gorgonia.Let(n, tensor.New(tensor.WithShape(n.Shape()...), tensor.WithBacking(ids))); err != nil {
			log.Fatal(err)
		}
	}

	adam, err := colbert.NewAdam(colbert.AdamConfig{LearningRate: 0.01, MaxNorm: 1, Schedule: colbert.WarmupLinear(5, 60)})
	if err != nil {
		log.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	var losses []float32
	for range 60 {
		if err := vm.RunAll(); err != nil {
			log.Fatal(colbert.Cause(err))
		}
		losses = append(losses, lossValue.Data().(float32))
		if err := adam.Step([]gorgonia.ValueGrad{emb, w}); err != nil {
			log.Fatal(err)
		}
		vm.Reset()
	}
	fmt.Println("loss fell to less than a third:", losses[59] < losses[0]/3)
	// Output: loss fell to less than a third: true
}
