package maxsim_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
)

func TestDeviceNames(t *testing.T) {
	t.Setenv(maxsim.DeviceVariable, "")
	for _, name := range []string{"", "cpu"} {
		if d, err := maxsim.OpenDevice(name); d != nil || err != nil {
			t.Errorf("%q: %v, %v", name, d, err)
		}
	}
	for _, name := range []string{"gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "CUDA"} {
		if _, err := maxsim.OpenDevice(name); !errors.Is(err, maxsim.ErrConfig) || !strings.Contains(err.Error(), "cuda:N") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestNegativeMemoryLimit is a mistake in the call, not one of the device.
func TestNegativeMemoryLimit(t *testing.T) {
	gpu, err := openCUDA()
	if err != nil {
		t.Skip(err)
	}
	if err := gpu.SetMemoryLimit(-1); !errors.Is(err, maxsim.ErrConfig) || !strings.Contains(err.Error(), "-1 bytes, expected 0 or more") {
		t.Errorf("%v", err)
	}
}

// TestTheCPUAsADevice: a nil Device and one that was not opened answer every method, and run nodes.
func TestTheCPUAsADevice(t *testing.T) {
	for _, cpu := range []*maxsim.Device{nil, new(maxsim.Device)} {
		if cpu.String() != "cpu" || cpu.Name() != "cpu" || cpu.Describe() != "cpu" || cpu.Close() != nil {
			t.Error("the CPU has another name, or does not close")
		}
		if m, err := cpu.Memory(); m != (maxsim.MemoryReport{}) || err != nil {
			t.Errorf("memory %v, %v", m, err)
		}
		if err := cpu.SetMemoryLimit(1); !errors.Is(err, maxsim.ErrConfig) {
			t.Errorf("memory limit: %v", err)
		}
		if _, err := cpu.KeepDocs(tensor.New(tensor.WithShape(1, 1, 1), tensor.Of(tensor.Float32)), nil, maxsim.Float32); !errors.Is(err, maxsim.ErrConfig) {
			t.Errorf("resident documents: %v", err)
		}
		g := gorgonia.NewGraph()
		x := gorgonia.NodeFromAny(g, dense([]float32{2, 3}, 1, 1, 2), gorgonia.WithName("x"))
		if _, err := maxsim.InBatch(x, x, maxsim.Config{Device: cpu, Precision: maxsim.TF32}); !errors.Is(err, maxsim.ErrConfig) {
			t.Errorf("precision: %v", err)
		}
		scores, err := maxsim.InBatch(x, x, maxsim.Config{Device: cpu})
		if err != nil {
			t.Fatal(err)
		}
		vm := gorgonia.NewTapeMachine(g)
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		if got := elements[float32](scores.Value()); got[0] != 13 {
			t.Errorf("score %v, expected 13", got)
		}
		vm.Close()
	}
	for _, none := range []*maxsim.ResidentDocs{nil, new(maxsim.ResidentDocs)} {
		none.Release()
	}
}

// TestResidentDocs: documents that stay on the device give the bits of documents that are uploaded. It needs a GPU in
// MAXSIM_DEVICE.
func TestResidentDocs(t *testing.T) {
	device, err := testDevice()
	if err != nil {
		t.Fatal(err)
	}
	if device == nil {
		t.Skip("MAXSIM_DEVICE names no GPU")
	}
	r := rand.New(rand.NewPCG(7, 8))
	random := func(shape ...int) *tensor.Dense {
		data := make([]float32, tensor.ProdInts(shape))
		for k := range data {
			data[k] = float32(r.NormFloat64())
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
	}
	q, d := random(2, 3, 40), random(5, 7, 40)
	valid := make([]bool, 5*7)
	for k := range valid {
		valid[k] = k%3 != 1
	}
	mask := tensor.New(tensor.WithShape(5, 7), tensor.WithBacking(valid))
	docs, err := device.KeepDocs(d, mask, maxsim.Float32)
	if err != nil {
		t.Fatal(err)
	}
	run := func(resident *maxsim.ResidentDocs, d *tensor.Dense) (scores, dq []float32, err error) {
		g := gorgonia.NewGraph()
		qn := gorgonia.NodeFromAny(g, q, gorgonia.WithName("q"))
		dn := gorgonia.NodeFromAny(g, d, gorgonia.WithName("d"))
		mn := gorgonia.NodeFromAny(g, mask, gorgonia.WithName("mask"))
		s, err := maxsim.InBatch(qn, dn, maxsim.Config{DocMask: mn, FrozenDocs: true, Device: device, ResidentDocs: resident})
		if err != nil {
			return nil, nil, err
		}
		var v gorgonia.Value
		gorgonia.Read(s, &v)
		grads, err := gorgonia.Grad(gorgonia.Must(gorgonia.Sum(s)), qn)
		if err != nil {
			return nil, nil, err
		}
		vm := gorgonia.NewTapeMachine(g)
		defer vm.Close()
		if err := vm.RunAll(); err != nil {
			return nil, nil, err
		}
		return v.Data().([]float32), grads[0].Value().Data().([]float32), nil
	}
	scores, dq, err := run(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	zeros := tensor.New(tensor.WithShape(5, 7, 40), tensor.Of(tensor.Float32)) // what the node is given does not matter
	gotScores, gotDq, err := run(docs, zeros)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(gotScores, scores) || !slices.Equal(gotDq, dq) {
		t.Errorf("resident documents give %v and %v, uploaded ones %v and %v", gotScores, gotDq, scores, dq)
	}
	if _, _, err := run(docs, random(4, 7, 40)); !errors.Is(maxsim.Cause(err), maxsim.ErrShape) {
		t.Errorf("documents of another shape: %v", err)
	}
	for _, wrong := range []struct {
		docs      *tensor.Dense
		precision maxsim.Precision
		want      error
	}{
		{nil, maxsim.Float32, maxsim.ErrShape}, {random(4, 7), maxsim.Float32, maxsim.ErrShape}, {random(4, 7, 0), maxsim.Float32, maxsim.ErrShape},
		{d, 99, maxsim.ErrConfig}, // used to be kept as float32
	} {
		if _, err := device.KeepDocs(wrong.docs, nil, wrong.precision); !errors.Is(err, wrong.want) {
			t.Errorf("documents %v in %v: %v, expected %v", wrong.docs, wrong.precision, err, wrong.want)
		}
	}
	// Documents without tokens used to be refused: tensor calls every tensor without elements masked.
	if none, err := device.KeepDocs(random(4, 0, 40), nil, maxsim.Float32); err != nil {
		t.Errorf("documents without tokens: %v", err)
	} else {
		none.Release()
	}
	g := gorgonia.NewGraph()
	traced, err := maxsim.InBatch(gorgonia.NodeFromAny(g, q, gorgonia.WithName("q")), gorgonia.NodeFromAny(g, zeros, gorgonia.WithName("d")),
		maxsim.Config{DocMask: gorgonia.NodeFromAny(g, mask, gorgonia.WithName("mask")), FrozenDocs: true, Device: device, ResidentDocs: docs})
	if err != nil {
		t.Fatal(err)
	}
	gorgonia.Must(gorgonia.Sum(traced))
	if err := gorgonia.NewLispMachine(g).RunAll(); err != nil {
		t.Fatal(err)
	}
	docs.Release()
	if _, _, err := run(docs, d); !errors.Is(maxsim.Cause(err), maxsim.ErrDevice) {
		t.Errorf("released documents: %v", err)
	}
	// The argmax of a pass over them used to be read with the layout that went with them: wrong tokens, and no error.
	if got, err := maxsim.LastArgmax(traced); !errors.Is(err, maxsim.ErrDevice) {
		t.Errorf("argmax of released documents: %v, %v", got, err)
	}
}
