package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// exampleRun is what the tables show of a report.json of examples/colbert_train.
type exampleRun struct {
	file    string
	Systems exampleSystems  `json:"systems"`
	Unseen  exampleSystems  `json:"unseen"`
	P       float64         `json:"p_trained_vs_bm25"`
	PUnseen float64         `json:"p_trained_vs_bm25_unseen"`
	Step    exampleSeconds  `json:"step_seconds"`
	Seconds float64         `json:"training_seconds"`
	Go      string          `json:"go_version"`
	Setting exampleSettings `json:"settings"`
}

type exampleSettings struct {
	Steps int `json:"steps"`
	Batch int `json:"batch"`
}

type exampleSystems struct {
	Queries                  int
	Trained, Untrained, BM25 map[string]float64
}

type exampleSeconds struct {
	Encoder   float64 `json:"encoder"`
	Forward   float64 `json:"maxsim_forward"`
	Backward  float64 `json:"maxsim_backward"`
	Optimiser float64 `json:"optimiser"`
}

func loadExample(dir, name string) (*exampleRun, error) {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	run := &exampleRun{file: name}
	return run, json.Unmarshal(raw, run)
}

// exampleTable shows how well the example's model searches.
func exampleTable(all *results) (string, error) {
	run, err := loadExample(all.dir, "colbert_train.json")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| MRR@10 | untrained | BM25, stop words + Porter | trained | p, trained against BM25 |\n|---|---|---|---|---|\n")
	for _, part := range []struct {
		name string
		s    exampleSystems
		p    float64
	}{{"held-out queries", run.Systems, run.P}, {"queries for unseen packages", run.Unseen, run.PUnseen}} {
		fmt.Fprintf(&out, "| %d %s | %.3f | %.3f | %.3f | %.2f |\n", part.s.Queries, part.name,
			part.s.Untrained["mrr@10"], part.s.BM25["mrr@10"], part.s.Trained["mrr@10"], part.p)
	}
	fmt.Fprintf(&out, "\n`go run ./examples/colbert_train`, %s, %d steps of %d queries, training %.0f s of the run on 2 cores, `bench/results/%s`\n",
		run.Go, run.Setting.Steps, run.Setting.Batch, run.Seconds, run.file)
	return out.String(), nil
}

// exampleStepTable splits a training step of the example into its parts, with and without the assembled kernels.
func exampleStepTable(all *results) (string, error) {
	var files []string
	var out strings.Builder
	out.WriteString("| a step of the example, ms | rest of the graph | MaxSim forward | MaxSim backward | optimiser | all |\n|---|---|---|---|---|---|\n")
	for _, part := range []struct{ name, file string }{
		{"portable Go (`MAXSIM_CPU=generic`)", "colbert_train-generic.json"}, {"assembled kernels", "colbert_train.json"},
	} {
		run, err := loadExample(all.dir, part.file)
		if err != nil {
			return "", err
		}
		s := run.Step
		files = append(files, fmt.Sprintf("`bench/results/%s` (mean of %d steps)", part.file, run.Setting.Steps))
		fmt.Fprintf(&out, "| %s | %.1f | %.1f | %.1f | %.1f | %.1f |\n", part.name, 1e3*s.Encoder, 1e3*s.Forward, 1e3*s.Backward,
			1e3*s.Optimiser, 1e3*(s.Encoder+s.Forward+s.Backward+s.Optimiser))
	}
	fmt.Fprintf(&out, "\nThe rest of the graph (embedding, projection, norm, loss) is package colbert, whose kernels the variable names too; the optimiser's loop it does not name, that is assembled in both rows; %s\n",
		strings.Join(files, ", "))
	return out.String(), nil
}
