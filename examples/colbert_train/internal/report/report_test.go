package report

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/evaluate"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

// result returns n queries with the same reciprocal rank.
func result(n int, rr float64) evaluate.Result {
	r := evaluate.Result{Measures: evaluate.Measures{MRR10: rr, Recall10: 0.5, Recall100: 0.75, NDCG10: 0.25}}
	for range n {
		r.ReciprocalRanks = append(r.ReciprocalRanks, rr)
	}
	return r
}

func records() []train.Record {
	var out []train.Record
	for step := 1; step <= 40; step++ {
		r := train.Record{Step: step, Loss: 4 / float64(step), Tokens: 100,
			Seconds: train.Seconds{Encoder: 0.5, MaxSimForward: 0.25, MaxSimBackward: 0.125, Optimiser: 0.125}}
		if step%10 == 0 {
			mrr10 := float64(step) / 100
			r.DevMRR10 = &mrr10
		}
		out = append(out, r)
	}
	return out
}

// TestReportKeys reads report.json as someone who looks for the documented keys.
func TestReportKeys(t *testing.T) {
	dir := t.TempDir()
	r := &Report{Seed: 7}
	test := Results{Trained: result(30, 0.5), Untrained: result(30, 0.25), BM25: result(30, 0.5)}
	unseen := Results{Trained: result(20, 0.25), Untrained: result(20, 0.125), BM25: result(20, 0.5)}
	if err := r.Compare(test, unseen); err != nil {
		t.Fatal(err)
	}
	r.Steps(records())
	r.Process()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]float64{
		"systems/trained/mrr@10":       0.5,
		"systems/untrained/recall@10":  0.5,
		"systems/bm25/recall@100":      0.75,
		"systems/trained/ndcg@10":      0.25,
		"unseen/trained/mrr@10":        0.25,
		"unseen/bm25/ndcg@10":          0.25,
		"p_trained_vs_bm25":            1,
		"seed":                         7,
		"step_seconds/encoder":         0.5,
		"step_seconds/maxsim_forward":  0.25,
		"step_seconds/maxsim_backward": 0.125,
		"step_seconds/optimiser":       0.125,
		"training_seconds":             40,
		"tokens_per_second":            100,
	} {
		at := any(got)
		for _, key := range strings.Split(path, "/") {
			m, _ := at.(map[string]any)
			at = m[key]
		}
		if at != want {
			t.Errorf("%s is %v, want %v", path, at, want)
		}
	}
	if p := *r.PTrainedVsBM25Unseen; p > 0.01 {
		t.Errorf("20 queries that are all worse: p = %v", p)
	}
	if r.PeakMemory.Bytes < 1<<20 || r.PeakMemory.Source == "" || !strings.HasPrefix(r.Go, "go") || r.Machine.Threads < 1 {
		t.Errorf("process: %+v %q %+v", r.PeakMemory, r.Go, r.Machine)
	}
}

func TestTable(t *testing.T) {
	r := &Report{}
	three := Results{Trained: result(30, 0.5), Untrained: result(30, 0.25), BM25: result(30, 0.5)}
	if err := r.Compare(three, Results{}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	want := `queries    system                     MRR@10  Recall@10  Recall@100  nDCG@10  p against trained
test (30)  untrained                  0.250   0.500      0.750       0.250    <0.001
test (30)  BM25, stop words + Porter  0.500   0.500      0.750       0.250    1.000
test (30)  trained                    0.500   0.500      0.750       0.250    ` + "\n"
	if out.String() != want {
		t.Errorf("table\n%s\nwant\n%s", out.String(), want)
	}
}

func TestPlot(t *testing.T) {
	for name, recs := range map[string][]train.Record{"run": records(), "one step": records()[:1]} {
		dir := t.TempDir()
		if err := Plot(dir, recs, 0.3); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f, err := os.Open(filepath.Join(dir, "loss.png"))
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(f)
		if err != nil || img.Bounds().Dx() < 300 {
			t.Errorf("%s: image %v, %v", name, img, err)
		}
		f.Close()
	}
}

func TestHighWater(t *testing.T) {
	if n, ok := parseHighWater([]byte("VmPeak:\t 9 kB\nVmHWM:\t  1024 kB\n")); !ok || n != 1<<20 {
		t.Errorf("1024 kB are %d bytes, %t", n, ok)
	}
	if _, ok := parseHighWater([]byte("VmPeak: 9 kB\n")); ok {
		t.Error("found a line that is not there")
	}
}
