package maxsim

import (
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// lastRunGraph has two queries of three tokens, three documents of five and a document mask.
func lastRunGraph(t *testing.T) (scores, mask *gorgonia.Node) {
	t.Helper()
	g := gorgonia.NewGraph()
	valid := slices.Repeat([]float32{1}, 15)
	mask = gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(3, 5), tensor.WithBacking(valid)), gorgonia.WithName("mask"))
	scores, err := InBatch(gorgonia.NodeFromAny(g, counting(2, 3, 4), gorgonia.WithName("q")),
		gorgonia.NodeFromAny(g, counting(3, 5, 4), gorgonia.WithName("d")), Config{DocMask: mask})
	if err != nil {
		t.Fatal(err)
	}
	return scores, mask
}

// TestNoLastRun: what a user is told who asks for the argmax of a run that has none.
func TestNoLastRun(t *testing.T) {
	scores, _ := lastRunGraph(t)
	fails := func(why string) {
		t.Helper()
		_, err := LastArgmax(scores)
		checkError(t, err, ErrNode, []string{"MaxSim.InBatch", why})
		_, err = InverseGrid(scores)
		checkError(t, err, ErrNode, []string{"MaxSim.InBatch", why})
	}
	fails("has not run")
	if err := machines[0].run(scores.Graph()); err != nil {
		t.Fatal(err)
	}
	fails("neither differentiates the scores nor asks for Argmax")
}

// TestLastArgmaxAfterAFailedRun is still that of the run before.
func TestLastArgmaxAfterAFailedRun(t *testing.T) {
	scores, mask := lastRunGraph(t)
	if _, err := Argmax(scores); err != nil {
		t.Fatal(err)
	}
	if err := machines[0].run(scores.Graph()); err != nil {
		t.Fatal(err)
	}
	before, err := LastArgmax(scores)
	if err != nil {
		t.Fatal(err)
	}
	bad := tensor.New(tensor.WithShape(3, 5), tensor.WithBacking(slices.Repeat([]float32{7}, 15)))
	if err := gorgonia.Let(mask, bad); err != nil {
		t.Fatal(err)
	}
	checkError(t, machines[0].run(scores.Graph()), ErrMask, nil)
	after, err := LastArgmax(scores)
	if err != nil || !slices.Equal(after.Data().([]int32), before.Data().([]int32)) {
		t.Errorf("%v, %v; expected %v", after, err, before)
	}
}

// TestLastArgmaxOfATensorOfAnotherShape: whoever reshapes the tensor behind a node runs the graph on another shape than
// the node's. LastArgmax once panicked there; it has the shape of what ran.
func TestLastArgmaxOfATensorOfAnotherShape(t *testing.T) {
	g := gorgonia.NewGraph()
	docs := counting(3, 5, 4)
	scores, err := InBatch(gorgonia.NodeFromAny(g, counting(2, 3, 4), gorgonia.WithName("q")), gorgonia.NodeFromAny(g, docs, gorgonia.WithName("d")), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Argmax(scores); err != nil {
		t.Fatal(err)
	}
	if err := docs.Reshape(5, 3, 4); err != nil {
		t.Fatal(err)
	}
	if err := machines[0].run(g); err != nil {
		t.Fatal(err)
	}
	argmax, err := LastArgmax(scores)
	if err != nil {
		t.Fatal(err)
	}
	if want := (tensor.Shape{2, 5, 3}); !argmax.Shape().Eq(want) {
		t.Errorf("shape %v, expected %v", argmax.Shape(), want)
	}
}
