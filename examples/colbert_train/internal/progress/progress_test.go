package progress

import (
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

// steps shows steps done+1 to total, with dev measured half way, and returns what was printed.
func steps(t *testing.T, bar bool, total, done int, dev float64) string {
	t.Helper()
	var out strings.Builder
	d := New(&out, bar, total, done)
	for step := done + 1; step <= total; step++ {
		r := train.Record{Step: step, Loss: 2, Accuracy: 0.5, LearningRate: 0.003, Tokens: 1000, Seconds: train.Seconds{Encoder: 0.1}}
		if step == total/2 {
			r.DevMRR10 = &dev
		}
		if err := d.Step(r); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestPlainLines(t *testing.T) {
	out := steps(t, false, 200, 0, 0.25)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != plainLines {
		t.Errorf("%d lines, want %d:\n%s", len(lines), plainLines, out)
	}
	if want := "step 10/200  loss 2.000  accuracy 0.500  lr 0.003  10000 tokens/s  ETA 0s"; lines[0] != want {
		t.Errorf("first line %q, want %q", lines[0], want)
	}
	if want := "dev MRR@10 0.250"; !strings.Contains(lines[len(lines)-1], want) || strings.Contains(lines[0], "dev") {
		t.Errorf("last line %q, want %q in it", lines[len(lines)-1], want)
	}
	if strings.ContainsAny(out, "\r\x1b") {
		t.Error("plain lines hold control characters")
	}
}

// TestDevOfZero: where no dev query was answered, the lines looked as if dev had not been measured.
func TestDevOfZero(t *testing.T) {
	if out := steps(t, false, 200, 0, 0); !strings.Contains(out, "dev MRR@10 0.000") {
		t.Errorf("a dev measure of 0 is not shown:\n%s", out)
	}
}

func TestBar(t *testing.T) {
	out := steps(t, true, 200, 100, 0.25)
	for _, want := range []string{"100%", "loss 2.00 acc 0.50 lr 3.0e-03 10k tok/s"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the bar:\n%q", want, out)
		}
	}
	if !strings.HasSuffix(out, "\n") {
		t.Error("the bar leaves the cursor behind it")
	}
}
