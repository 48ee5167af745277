package maxsim_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
)

// Example trains nothing, but differentiates: two queries of three tokens against two documents of four.
func Example() {
	g := gorgonia.NewGraph()
	queryTokens := tensor.New(tensor.WithShape(2, 3, 2), tensor.WithBacking([]float32{1, 0, 0, 1, 1, 1, 0, -1, -1, 0, 1, -1}))
	docTokens := tensor.New(tensor.WithShape(2, 4, 2), tensor.WithBacking([]float32{3, 1, 1, 2, 0, 4, 1, 1, -1, 0, 0, -2, 2, 2, -1, -1}))

	q := gorgonia.NodeFromAny(g, queryTokens, gorgonia.WithName("q")) // [bq, tq, dim]
	d := gorgonia.NodeFromAny(g, docTokens, gorgonia.WithName("d"))   // [bd, td, dim]
	scores, err := maxsim.InBatch(q, d, maxsim.Config{})              // [bq, bd]
	if err != nil {
		fmt.Println(err)
		return
	}
	loss := gorgonia.Must(gorgonia.Sum(scores))
	grads, err := gorgonia.Grad(loss, q, d)
	if err != nil {
		fmt.Println(err)
		return
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(scores.Value().Data())   // every query against every document
	fmt.Println(grads[0].Value().Data()) // the documents that each query token chose, added up
	// Output:
	// [11 8 1 5]
	// [5 3 2 6 5 3 3 -1 -1 4 3 -1]
}

// One query of two tokens against a document of three tokens and one of two, padded to three.
func ExampleConfig_masks() {
	g := gorgonia.NewGraph()
	q := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(1, 2, 2), tensor.WithBacking([]float32{1, 0, 0, 1})), gorgonia.WithName("q"))
	d := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(2, 3, 2), tensor.WithBacking([]float32{1, 1, 3, 0, 0, 2, 1, 2, 2, 1, 9, 9})), gorgonia.WithName("d"))
	mask := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]bool{true, true, true, true, true, false})), gorgonia.WithName("mask"))
	scores, err := maxsim.InBatch(q, d, maxsim.Config{DocMask: mask})
	if err != nil {
		fmt.Println(err)
		return
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(scores.Value().Data())
	// Output:
	// [5 4]
}

// The same without padding: the rows of all documents one after the other, and where each begins and ends.
func ExamplePacked() {
	g := gorgonia.NewGraph()
	q := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, 0, 0, 1})), gorgonia.WithName("q"))
	d := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(5, 2), tensor.WithBacking([]float32{1, 1, 3, 0, 0, 2, 1, 2, 2, 1})), gorgonia.WithName("d"))
	cuQ := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(2), tensor.WithBacking([]int32{0, 2})), gorgonia.WithName("cuQ"))
	cuD := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(3), tensor.WithBacking([]int32{0, 3, 5})), gorgonia.WithName("cuD"))
	scores, err := maxsim.Packed(q, cuQ, d, cuD, maxsim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(scores.Value().Data())
	// Output:
	// [5 4]
}

func ExampleArgmax() {
	g := gorgonia.NewGraph()
	q := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(1, 2, 2), tensor.WithBacking([]float32{1, 0, 0, 1})), gorgonia.WithName("q"))
	d := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(1, 3, 2), tensor.WithBacking([]float32{1, 1, 3, 0, 0, 2})), gorgonia.WithName("d"))
	scores, err := maxsim.InBatch(q, d, maxsim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	argmax, err := maxsim.Argmax(scores)
	if err != nil {
		fmt.Println(err)
		return
	}
	var chosen gorgonia.Value
	gorgonia.Read(argmax, &chosen)
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(chosen.Data())
	// Output:
	// [1 2]
}

func ExampleCause() {
	g := gorgonia.NewGraph()
	rows := tensor.New(tensor.WithShape(4, 2), tensor.Of(tensor.Float32))
	q := gorgonia.NodeFromAny(g, rows, gorgonia.WithName("q"))
	d := gorgonia.NodeFromAny(g, rows.Clone(), gorgonia.WithName("d"))
	cuQ := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(2), tensor.WithBacking([]int32{0, 4})), gorgonia.WithName("cuQ"))
	cuD := gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(2), tensor.WithBacking([]int32{0, 9})), gorgonia.WithName("cuD"))
	if _, err := maxsim.Packed(q, cuQ, d, cuD, maxsim.Config{}); err != nil {
		fmt.Println(err)
		return
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	err := vm.RunAll()
	fmt.Println(errors.Is(maxsim.Cause(err), maxsim.ErrOffsets))
	fmt.Println(maxsim.Cause(err))
	// Output:
	// true
	// maxsim: malformed cu_seqlens: document cu_seqlens end at 9, the tokens have 4 rows
}

// TestReadmeCodeCompiles: every line of the README's Go block stands in Example, which the compiler and the test above
// have checked.
func TestReadmeCodeCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(readme), "```go\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("README.md has no Go block")
	}
	for _, line := range strings.Split(block, "\n") {
		if line = strings.TrimSpace(line); !strings.Contains(string(source), line) {
			t.Errorf("README.md shows a line that Example does not have: %s", line)
		}
	}
}
