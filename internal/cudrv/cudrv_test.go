//go:build maxsim_cuda && cgo && linux

package cudrv

import (
	"errors"
	"strings"
	"testing"

	"gorgonia.org/cu"
)

// TestExplain needs no GPU: the texts are in libcuda.
func TestExplain(t *testing.T) {
	if err := Explain(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	err := Explain(cu.OutOfMemory)
	if !errors.Is(err, OutOfMemory) || !strings.HasPrefix(err.Error(), "CUDA_ERROR_OUT_OF_MEMORY (2): ") {
		t.Errorf("got %v", err)
	}
	if again := Explain(err); again != err {
		t.Errorf("%v became %v", err, again)
	}
	if other := errors.New("other"); Explain(other) != other {
		t.Error("a foreign error was changed")
	}
}

// TestStartsWithoutGPU is passed by running at all: gorgonia.org/cu would have ended the program.
func TestStartsWithoutGPU(t *testing.T) {
	if err := InitError(); err != nil {
		t.Logf("no GPU here: %v", err)
	}
	if HeaderVersion < 11000 {
		t.Errorf("cuda.h of version %d", HeaderVersion)
	}
}
