//go:build maxsim_cuda && cgo && linux

package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cudrv"
)

// openOnly makes this program open a device, print the error and end: what a machine lacks is decided when it starts.
const openOnly = "MAXSIM_TEST_OPEN_ONLY"

func TestMain(m *testing.M) {
	if os.Getenv(openOnly) != "" {
		d, err := Open(0)
		if os.Getenv(openOnly) == "fault" && err == nil {
			fault(d)
		} else {
			fmt.Println(d != nil, err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// onStandIn skips the test unless the GPU is the stand-in of internal/cudrv/standin.
func onStandIn(t *testing.T) {
	t.Helper()
	if d := openFirst(t); d.Properties().Name != "stand-in" {
		t.Skip("this test breaks things, it needs the stand-in libcuda")
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	onStandIn(t)
	for _, c := range []struct{ setting, want string }{
		{"STANDIN_DEVICES=0", "no NVIDIA GPU is visible to the driver: CUDA_ERROR_NO_DEVICE (100)"},
		{"STANDIN_MAJOR=7", "compute capability 7.0, 4 multiprocessors, 1024 MiB, driver for CUDA 12.4: the kernels need compute capability 8.0 or later"},
		{"STANDIN_MAJOR=9", "true <nil>"},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), openOnly+"=1", c.setting)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, %s, expected %q", c.setting, err, out, c.want)
		}
	}
	if _, err := Open(7); err == nil || !strings.Contains(err.Error(), "no GPU cuda:7, the driver shows 2") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedImages(t *testing.T) {
	onStandIn(t)
	d := openFirst(t)
	l := d.drv.(*libcuda)
	if d.Properties().Major != 8 {
		t.Skip("the cubin is for this GPU")
	}
	for image, want := range map[string]string{
		".version 99\n": "the driver is too old for kernel image x, it supports CUDA 12.4: ",
		"\x7fELF":       "kernel image x is not for compute capability 8.0: ",
		"nonsense":      "kernel image x: CUDA_ERROR_",
	} {
		err := l.do(func() error { _, err := cudrv.Load(image); return err })
		if err == nil {
			t.Errorf("%q was loaded", image)
			continue
		}
		if err := explainImage("x", d.Properties(), err); !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
	err := l.do(func() error { _, err := cudrv.Load(".version 99\n"); return err })
	if !strings.Contains(err.Error(), "the driver's compiler says: version 99 is not supported") {
		t.Errorf("no word of the compiler: %v", err)
	}
}

// TestFaultNamesTheKernel makes a kernel read memory that is not there. CUDA is of no use to the process afterwards, so
// it happens in another one.
func TestFaultNamesTheKernel(t *testing.T) {
	onStandIn(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), openOnly+"=fault", "STANDIN_QUIET=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(string(out), "\n")
	for n, wants := range [][]string{
		{"kernel no_such_kernel, grid (1,1,1), block (256,1,1): no kernel image has it"},
		{"CUDA_ERROR_ILLEGAL_ADDRESS", "kernel maxsim_pack_bf16, grid (2,1,1), block (256,1,1)"},
		{"cuda:0: ", "CUDA_ERROR_ILLEGAL_ADDRESS"},
	} {
		for _, want := range wants {
			if n >= len(lines) || !strings.Contains(lines[n], want) {
				t.Errorf("line %d of %q, expected %q", n, lines, want)
			}
		}
	}
}

// fault prints the errors of a kernel that is not there, of one that reads foreign memory, and of a call after it.
func fault(d *Device) {
	fmt.Println(launch(d, line("no_such_kernel", 1), &packParams{}))
	fmt.Println(d.exclusively(func() error {
		if err := launch(d, packCall("maxsim_pack_bf16", 9, 0), &packParams{first: packSide{src: 4096, dst: 8192, rows: 9}, dim: 8, ld: 8}); err != nil {
			return err
		}
		return d.finish()
	}))
	s := newSample[float32](1, 0)
	fmt.Println(s.run(NewEngine[float32](d, Float32)))
	_ = d.Close() // reports the fault once more
}
