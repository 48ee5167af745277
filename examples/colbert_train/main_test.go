package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/gosearch"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

// goSource returns a part of the standard library that is small enough for a test.
func goSource(t *testing.T) string {
	t.Helper()
	src, _, err := gosearch.StandardLibrary()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(src, "go")
}

// command runs the command and returns what it printed on stdout.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout, stderr strings.Builder
	err := run(context.Background(), args, &stdout, &stderr, false)
	if strings.ContainsAny(stderr.String(), "\r\x1b") {
		t.Errorf("stderr is no terminal but got control characters: %q", stderr.String())
	}
	return stdout.String(), err
}

// TestEndToEnd trains a little on a part of the standard library, looks at everything that is written, searches with
// the model, exports the task and trains on the export.
func TestEndToEnd(t *testing.T) {
	src := goSource(t)
	out := filepath.Join(t.TempDir(), "run")
	small := []string{"-steps", "20", "-batch", "16", "-dim", "16", "-hidden", "16", "-eval-every", "10", "-out", out}
	table, err := command(t, append(small, "-go-src", src)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"untrained", "BM25", "trained", "MRR@10"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in the table:\n%s", want, table)
		}
	}
	files := []string{"report.json", "train.jsonl", "loss.png", "corpus.jsonl", "checkpoint.safetensors",
		"model/model.safetensors", "model/vocab.txt", "model/config.json"}
	for _, name := range files {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if log := read(t, out, "train.jsonl"); strings.Count(log, "\n") != 20 || strings.Count(log, "dev_mrr@10") != 2 {
		t.Errorf("train.jsonl should have 20 lines, two of them with a dev measure:\n%s", log)
	}
	var report struct {
		Systems struct {
			Trained map[string]float64 `json:"trained"`
		} `json:"systems"`
		Settings struct {
			Batch int `json:"batch"`
		} `json:"settings"`
	}
	if err := json.Unmarshal([]byte(read(t, out, "report.json")), &report); err != nil {
		t.Fatal(err)
	}
	if report.Systems.Trained["mrr@10"] <= 0 || report.Settings.Batch != 16 {
		t.Errorf("report.json: %+v", report)
	}

	found, err := command(t, "-query", "parses a file", "-out", out, "-top", "3")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(found, " func ") != 3 || strings.Count(found, "file → ") != 3 {
		t.Errorf("want three functions with what the query token file matched in each:\n%s", found)
	}

	if found, err := command(t, "-query", "parses an xqzkw", "-out", out); err != nil || !strings.Contains(found, "[UNK] for words that the model does not know: xqzkw\n") {
		t.Errorf("an unknown word should be named: %v\n%s", err, found)
	}
	if _, err := command(t, "-query", "xqzkw!", "-out", out); err == nil || !strings.Contains(err.Error(), "knows none of its words") {
		t.Errorf("only unknown words: error %v", err)
	}
	for _, args := range [][]string{{"-query", "parses a file", "-out", out}, {"-h"}} {
		if err := run(context.Background(), args, fullDisk{}, io.Discard, false); !errors.Is(err, errFull) {
			t.Errorf("%v onto a full disk: error %v", args, err)
		}
	}

	beir := filepath.Join(t.TempDir(), "beir")
	if _, err := command(t, "-go-src", src, "-export-data", beir); err != nil {
		t.Fatal(err)
	}
	if again, err := command(t, append(small, "-data", beir)...); err != nil {
		t.Fatal(err)
	} else if strings.Split(again, "cut:")[0] != strings.Split(table, "cut:")[0] {
		t.Errorf("training on the export gave\n%s\non the source\n%s", again, table)
	}

	if _, err := command(t, "-resume", "-out", out, "-steps", "30", "-data", beir); err == nil || !strings.Contains(err.Error(), "-steps 30: the run in "+out+" has 20") {
		t.Errorf("resuming with other settings: error %v", err)
	}
	if again, err := command(t, "-resume", "-out", out, "-data", beir); err != nil || !strings.Contains(again, "trained") {
		t.Errorf("resuming a finished run should evaluate it again: %v\n%s", err, again)
	}
}

// fullDisk is a writer that can not write.
type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// read returns a file of a folder.
func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestFlagErrors(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"-bogus", "flag provided but not defined: -bogus (-h explains the flags)"},
		{"-steps many", `invalid value "many" for flag -steps`},
		{"-steps 0", "steps is 0, expected at least 1"},
		{"-lr -1", "learning rate is -1"},
		{"-top 0", "-top is 0"},
		{"more", `unexpected argument "more"`},
		{"-go-src a -data b", "-go-src and -data both name the task"},
		{"-query a -export-data b", "-query and -export-data exclude each other"},
		{"-query a -steps 5 -lr 1", "-query has no use for -lr, -steps"},
		{"-query a -resume", "-query has no use for -resume"},
		{"-export-data a -seed 2 -top 3", "-export-data has no use for -seed, -top"},
		{"-top 3", "training has no use for -top"},
		{"-device abacus", `unknown device "abacus", expected cpu, cuda or cuda:N`},
		{"-query a -out " + empty, "no trained model: "},
		{"-resume -out " + empty, "nothing to resume: "},
		{"-data " + empty, "neither corpus.jsonl"},
		{"-data missing", "missing"},
		{"-go-src " + empty, "no documents"},
	} {
		if _, err := command(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.args, err, c.want)
		}
	}
}

// TestEmptyFlags: -query "$Q" with an unset variable once trained for a minute and overwrote the model.
func TestEmptyFlags(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"query", "export-data", "data", "go-src", "device", "out"} {
		for _, value := range []string{"", "  "} {
			_, err := command(t, "-out", out, "-"+name, value)
			if want := "-" + name + " is empty"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("-%s %q: error %v, want one with %q", name, value, err, want)
			}
		}
	}
	if files, err := os.ReadDir(out); err != nil || len(files) > 0 {
		t.Errorf("the folder -out holds %v (%v), want nothing", files, err)
	}
}

// TestHelp: the help was asked for, so it is output and no error message.
func TestHelp(t *testing.T) {
	help, err := command(t, "-h")
	if !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("error %v, want %v", err, flag.ErrHelp)
	}
	for _, want := range []string{"-resume", "-query text", "-go-src folder", "-data path", "BEIR", "-seed", `{"query":`, "(default 1/60)"} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is not in the help", want)
		}
	}
}

// TestInterrupt: a run that is stopped says how to go on, with the flag that names its data, and goes on.
func TestInterrupt(t *testing.T) {
	src := goSource(t)
	out := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	args := []string{"-steps", "3", "-batch", "8", "-dim", "8", "-hidden", "8", "-go-src", src, "-out", out}
	var stdout, stderr strings.Builder
	err := run(ctx, args, &stdout, &stderr, false)
	if want := "interrupted after step 0; -resume -out " + out + " -go-src " + src + " continues"; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v", err)
	}
	if _, err := command(t, "-resume", "-out", out, "-go-src", src); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(read(t, out, "train.jsonl"), "\n"); n != 3 {
		t.Errorf("%d steps in train.jsonl, want 3", n)
	}
}

// TestInterruptedRunLeavesNoOlderResults: a new run into a used folder was stopped, and the report, plot and model of
// the old run stood beside the checkpoint of the new one.
func TestInterruptedRunLeavesNoOlderResults(t *testing.T) {
	out := t.TempDir()
	small := []string{"-steps", "3", "-batch", "8", "-dim", "8", "-hidden", "8", "-go-src", goSource(t), "-out", out}
	if _, err := command(t, small...); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ctx, small, io.Discard, io.Discard, false); !errors.Is(err, train.ErrInterrupted) {
		t.Fatalf("error %v, want %v", err, train.ErrInterrupted)
	}
	var left []string
	err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, d.Name())
		}
		return err
	})
	if want := []string{"checkpoint.safetensors", "notes.txt", "train.jsonl"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("files %v (%v), want %v", left, err, want)
	}
}

// TestOutIsAFile: one reason, and not one for each file that could not be removed from it.
func TestOutIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, "-go-src", goSource(t), "-out", file); err == nil || err.Error() != "-out "+file+" is not a folder" {
		t.Errorf("error %v", err)
	}
}

// TestDataInOut: a run may not write over the data that it is trained on.
func TestDataInOut(t *testing.T) {
	dir := t.TempDir()
	if _, err := command(t, "-go-src", goSource(t), "-export-data", dir); err != nil {
		t.Fatal(err)
	}
	corpus := read(t, dir, "corpus.jsonl")
	if _, err := command(t, "-data", dir, "-out", dir); err == nil || !strings.Contains(err.Error(), "give another -out") {
		t.Errorf("error %v, want one that asks for another -out", err)
	}
	if read(t, dir, "corpus.jsonl") != corpus {
		t.Error("the data was changed")
	}
}
