package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
)

// tinySet is a task that can be learned: document i holds the word that query i translates to.
func tinySet() *dataset.Set {
	s := &dataset.Set{Source: "tiny"}
	for i := range 12 {
		word := string([]byte{'a' + byte(i), 'k', 'o'})
		s.Docs = append(s.Docs, dataset.Document{ID: fmt.Sprint("d", i), Text: "document " + word + " text"})
		q := dataset.Query{ID: fmt.Sprint("q", i), Text: "where is x" + word + "x written", Relevant: []dataset.Judgement{{Doc: i, Grade: 1}}}
		s.Train = append(s.Train, q)
		q.Text = "find x" + word + "x"
		s.Dev = append(s.Dev, q)
	}
	s.Test = s.Dev
	s.Triples = []dataset.Triple{
		{Query: "which one is xakox", Positive: "ako again", Negatives: []string{"document bko text", "document cko text"}},
		{Query: "which one is xbkox", Positive: "bko again"},
	}
	return s
}

func tinyConfig() Config {
	return Config{
		Model: model.Config{Hidden: 16, Dim: 12, QueryTokens: 8, DocTokens: 6}, Seed: 5, Steps: 60, Batch: 6, Negatives: 1,
		LearningRate: 0.05, Warmup: 5, Temperature: 0.05, Dropout: 0.1, ClipNorm: 1, MinTexts: 1, EvalEvery: 20,
	}
}

// withoutTimes clears what differs between two runs of the same course.
func withoutTimes(records []Record) []Record {
	out := slices.Clone(records)
	for i := range out {
		out[i].Seconds = Seconds{}
	}
	return out
}

func TestRunLearns(t *testing.T) {
	cfg, set := tinyConfig(), tinySet()
	steps := 0
	o, err := Run(context.Background(), Options{Config: cfg, Set: set, Out: t.TempDir(), Observe: func(Record) { steps++ }})
	if err != nil {
		t.Fatal(err)
	}
	if steps != cfg.Steps || len(o.Records) != cfg.Steps {
		t.Errorf("%d steps observed, %d recorded, want %d", steps, len(o.Records), cfg.Steps)
	}
	first, last := o.Records[0], o.Records[cfg.Steps-1]
	if last.Loss > first.Loss/2 || last.Step != cfg.Steps {
		t.Errorf("first step %+v, last step %+v: the loss should have halved", first, last)
	}
	before, err := Evaluate(o.Untrained, set, set.Dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Evaluate(o.Model, set, set.Dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	if after.MRR10 < before.MRR10+0.3 || after.MRR10 != o.BestDev {
		t.Errorf("dev MRR@10 %.3f untrained, %.3f trained, %.3f recorded", before.MRR10, after.MRR10, o.BestDev)
	}
	for _, r := range o.Records {
		measured := r.Step%cfg.EvalEvery == 0
		if s := r.Seconds; s.Encoder <= 0 || s.MaxSimForward <= 0 || s.MaxSimBackward <= 0 || s.Optimiser <= 0 {
			t.Fatalf("step %d has times %+v", r.Step, s)
		}
		if (r.DevMRR10 != nil) != measured || r.Tokens < 2*cfg.Batch {
			t.Fatalf("step %d: %+v", r.Step, r)
		}
	}
}

// TestResumeGivesTheSameCurve stops a run between two checkpoints, as an interrupt does, leaves lines behind the
// checkpoint, as a crash does, and compares every bit with a run that was never stopped.
func TestResumeGivesTheSameCurve(t *testing.T) {
	cfg, set := tinyConfig(), tinySet()
	want, err := Run(context.Background(), Options{Config: cfg, Set: set, Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	resume := false
	for _, stop := range []int{0, 27, 40} {
		ctx, cancel := context.WithCancel(context.Background())
		if stop == 0 {
			cancel()
		}
		_, err := Run(ctx, Options{Config: cfg, Set: set, Out: out, Resume: resume, Observe: func(r Record) {
			if r.Step == stop {
				cancel()
			}
		}})
		if wantText := fmt.Sprintf("interrupted after step %d", stop); !errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), wantText) {
			t.Fatalf("stopped at %d: error %v", stop, err)
		}
		resume = true
	}
	f, err := os.OpenFile(filepath.Join(out, logFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"step":41,"loss":99}` + "\n" + `{"step":42,"lo`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Run(context.Background(), Options{Config: cfg, Set: set, Out: out, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	a, b := withoutTimes(got.Records), withoutTimes(want.Records)
	for i := range b {
		if !reflect.DeepEqual(a[i], b[i]) {
			t.Fatalf("resumed %+v, never stopped %+v", a[i], b[i])
		}
	}
	if len(a) != len(b) || got.BestStep != want.BestStep || got.BestDev != want.BestDev {
		t.Errorf("resumed: %d steps, best %d (%v); never stopped: %d, %d (%v)",
			len(a), got.BestStep, got.BestDev, len(b), want.BestStep, want.BestDev)
	}
	for i, w := range want.Model.Weights() {
		if !slices.Equal(got.Model.Weights()[i].Value.Float32s(), w.Value.Float32s()) {
			t.Errorf("%s differs after resuming", w.Name)
		}
	}
	onDisk, err := openLog(filepath.Join(out, logFile), cfg.Steps)
	if err != nil {
		t.Fatal(err)
	}
	defer onDisk.close()
	if !reflect.DeepEqual(withoutTimes(onDisk.records), b) {
		t.Error("train.jsonl holds another curve")
	}
}

func TestResumeErrors(t *testing.T) {
	cfg, set, out := tinyConfig(), tinySet(), t.TempDir()
	cfg.Steps = 2
	resume := func(cfg Config, set *dataset.Set) error {
		_, err := Run(context.Background(), Options{Config: cfg, Set: set, Out: out, Resume: true})
		return err
	}
	expect := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	expect(resume(cfg, set), "nothing to resume")
	if _, err := Run(context.Background(), Options{Config: cfg, Set: set, Out: out}); err != nil {
		t.Fatal(err)
	}
	other := cfg
	other.Dropout = 0.5
	expect(resume(other, set), "settings are")
	changed := tinySet()
	changed.Dev[0].Text = "another question"
	expect(resume(cfg, changed), "other data")
	if got, err := ReadConfig(out); err != nil || got != cfg {
		t.Errorf("ReadConfig: %+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(out, logFile), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(resume(cfg, set), "train.jsonl:1: step 0, expected 1")
	if err := os.WriteFile(filepath.Join(out, logFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(resume(cfg, set), "train.jsonl:1: ")
}

// TestNegativesWithoutAny: a step would have fewer negatives than was asked for; of one query, none and loss 0.
func TestNegativesWithoutAny(t *testing.T) {
	cfg, set := tinyConfig(), tinySet()
	cfg.Batch = 1
	for i := range set.Triples {
		set.Triples[i].Negatives = nil
	}
	_, err := Run(context.Background(), Options{Config: cfg, Set: set, Out: t.TempDir()})
	if want := "negatives is 1, but no training example has any"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// TestNothingLearnedToRead: with a vocabulary of unknown words only, a run went through and reported measures of nothing.
func TestNothingLearnedToRead(t *testing.T) {
	cfg := tinyConfig()
	cfg.MinTexts = 1000
	_, err := Run(context.Background(), Options{Config: cfg, Set: tinySet(), Out: t.TempDir()})
	if want := "min texts is 1000, but no token is in so many texts"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// TestConfigCheck: settings that make no run are named. An infinite learning rate was found only when the results of an
// earlier run were already gone.
func TestConfigCheck(t *testing.T) {
	if err := Default().Check(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for want, change := range map[string]func(*Config){
		"steps is 0":         func(c *Config) { c.Steps = 0 },
		"batch is -1":        func(c *Config) { c.Batch = -1 },
		"batch is 1 and":     func(c *Config) { c.Batch = 1 },
		"learning rate is 0": func(c *Config) { c.LearningRate = 0 },
		"learning rate is +": func(c *Config) { c.LearningRate = math.Inf(1) },
		"temperature is -1":  func(c *Config) { c.Temperature = -1 },
		"temperature is +":   func(c *Config) { c.Temperature = math.Inf(1) },
		"clip norm is +":     func(c *Config) { c.ClipNorm = math.Inf(1) },
		"dropout is 1":       func(c *Config) { c.Dropout = 1 },
		"dropout is NaN":     func(c *Config) { c.Dropout = math.NaN() },
		"dim is 0":           func(c *Config) { c.Model.Dim = 0 },
		"min texts is 0":     func(c *Config) { c.MinTexts = 0 },
		"eval every is 0":    func(c *Config) { c.EvalEvery = 0 },
		"negatives is -1":    func(c *Config) { c.Negatives = -1 },
	} {
		c := Default()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
