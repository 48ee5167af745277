package colbert

import (
	"math/rand/v2"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// fixtures are all ops in all settings that change their arithmetic, in float64.
func fixtures() []fixture {
	rng := rand.New(rand.NewPCG(7, 7))
	n := func(shape ...int) input { return input{normal(rng, shape...), true} }
	fixed := func(d *tensor.Dense) input { return input{d, false} }
	ids := fixed(int32s([]int{3, 4}, 5, 0, 5, 2, 2, 2, 6, 0, 1, 5, 6, 5))
	scaled := func(k float64, shape ...int) input {
		in := n(shape...)
		for i := range in.value.Float64s() {
			in.value.Float64s()[i] *= k
		}
		return in
	}
	weights := fixed(tensor.New(tensor.WithShape(4), tensor.WithBacking([]float64{1, 0.5, 0, 2})))
	exclude := fixed(tensor.New(tensor.WithShape(4, 4), tensor.WithBacking([]bool{
		true, false, true, false, false, false, false, true, false, false, false, false, true, true, false, true})))
	mask := fixed(int32s([]int{4, 5}, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1))
	teacher := func(shape ...int) input { return fixed(normal(rng, shape...)) }

	linear := func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Linear(in[0], in[1], nil) }
	infonce := func(cfg InfoNCEConfig) func(in gorgonia.Nodes) (*gorgonia.Node, error) {
		return func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], cfg) }
	}
	return []fixture{
		{"Gather", []input{n(7, 5), ids}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Gather(in[0], in[1]) }},
		{"Gather of a vector of ids", []input{n(7, 5), fixed(int32s([]int{4}, 6, 1, 6, 6))},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Gather(in[0], in[1]) }},
		{"Gather, table of one column", []input{n(7, 1), ids}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Gather(in[0], in[1]) }},
		{"Linear", []input{n(2, 3, 5), n(5, 4)}, linear},
		{"Linear of a matrix", []input{n(6, 5), n(5, 4)}, linear},
		{"Linear, sizes of 1", []input{n(1, 1, 1), n(1, 1)}, linear},
		{"Linear with bias", []input{n(2, 3, 5), n(5, 4), n(4)},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Linear(in[0], in[1], in[2]) }},
		{"L2Normalize", []input{n(2, 3, 5)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return L2Normalize(in[0], 1e-12) }},
		{"L2Normalize of a matrix below eps", []input{n(6, 5)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return L2Normalize(in[0], 100) }},
		{"L2Normalize of a vector", []input{n(5)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return L2Normalize(in[0], 1e-12) }},
		{"ScaleTokens", []input{n(2, 3, 5), n(2, 3)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return ScaleTokens(in[0], in[1]) }},
		{"ScaleTokens by a column", []input{n(2, 3, 5), n(2, 3, 1)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return ScaleTokens(in[0], in[1]) }},
		{"InfoNCE", []input{n(4, 4)}, infonce(InfoNCEConfig{})},
		{"InfoNCE of one pair", []input{n(1, 1)}, infonce(InfoNCEConfig{Temperature: 0.02, Symmetric: true})},
		{"InfoNCE at low temperature", []input{scaled(0.05, 4, 4)}, infonce(InfoNCEConfig{Temperature: 0.02})},
		{"InfoNCE with offset", []input{n(3, 7)}, infonce(InfoNCEConfig{Offset: 2, Temperature: 0.5})},
		{"InfoNCE with hard negatives", []input{n(3, 9)}, infonce(InfoNCEConfig{Stride: 3, Temperature: 0.5})},
		{"InfoNCE with all inputs", []input{n(4, 4), fixed(int32s([]int{4}, 2, 0, 1, 2)), weights, exclude},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) {
				return InfoNCE(in[0], InfoNCEConfig{Temperature: 0.5, Labels: in[1], Weights: in[2], Exclude: in[3]})
			}},
		{"InfoNCE, symmetric with all inputs", []input{n(4, 4), fixed(int32s([]int{4}, 2, 0, -1, 2)), weights, exclude},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) {
				return InfoNCE(in[0], InfoNCEConfig{Temperature: 0.5, Labels: in[1], Weights: in[2], Exclude: in[3], Symmetric: true})
			}},
		{"KLDistill", []input{n(3, 5), teacher(3, 5)},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return KLDistill(in[0], in[1], KLDistillConfig{}) }},
		{"KLDistill with mask", []input{n(4, 5), teacher(4, 5), mask},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) {
				return KLDistill(in[0], in[1], KLDistillConfig{Temperature: 0.5, Mask: in[2]})
			}},
	}
}
