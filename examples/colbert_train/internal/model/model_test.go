package model

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/vocab"
)

// small returns a model with random weights, importance included, over a few words.
func small(t *testing.T) *Model {
	t.Helper()
	v := vocab.Learn([]string{"open close read write file socket the a"}, 1)
	m, err := New(Config{Hidden: 6, Dim: 5, QueryTokens: 4, DocTokens: 3}, v, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Importance.Float32s() {
		m.Importance.Float32s()[i] = float32(i-4) / 20
	}
	return m
}

// vectors encodes ids by the formulas of the package, in float64.
func vectors(m *Model, ids []int32, query bool) [][]float64 {
	var out [][]float64
	for _, id := range ids {
		x := make([]float64, m.Dim)
		norm := 0.0
		for k := range x {
			for h := range m.Hidden {
				x[k] += float64(m.Table.Float32s()[int(id)*m.Hidden+h]) * float64(m.Projection.Float32s()[h*m.Dim+k])
			}
			norm += x[k] * x[k]
		}
		weight := 1.0
		if query {
			weight = math.Log1p(math.Exp(10*float64(m.Importance.Float32s()[id]) + math.Log(math.E-1)))
		}
		for k := range x {
			x[k] *= weight / math.Sqrt(norm)
		}
		out = append(out, x)
	}
	return out
}

// score is the mean over query tokens of the largest dot product.
func score(q, d [][]float64) float64 {
	sum := 0.0
	for _, a := range q {
		best := math.Inf(-1)
		for _, b := range d {
			dot := 0.0
			for k := range a {
				dot += a[k] * b[k]
			}
			best = max(best, dot)
		}
		sum += best
	}
	return sum / float64(len(q))
}

// TestScoresAndMatches compares the graphs with the formulas over more documents and queries than one chunk holds,
// cut ones and unknown words included.
func TestScoresAndMatches(t *testing.T) {
	m := small(t)
	vocabulary := strings.Fields("open close read write file socket the a unknown")
	text := func(i, n int) string {
		var ws []string
		for k := range n {
			ws = append(ws, vocabulary[(i*7+k*i+k)%len(vocabulary)])
		}
		return strings.Join(ws, " ")
	}
	var docs, queries []string
	for i := range docChunk + 88 {
		docs = append(docs, text(i, i%6))
	}
	for i := range queryChunk + 3 {
		queries = append(queries, text(3*i+1, i%7))
	}
	x, err := NewIndex(m, docs, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := x.Scores(queries)
	if err != nil {
		t.Fatal(err)
	}
	for i, query := range queries {
		q := vectors(m, m.Vocabulary.Encode(query, m.QueryTokens), true)
		for j, doc := range docs {
			want := score(q, vectors(m, m.Vocabulary.Encode(doc, m.DocTokens), false))
			if math.Abs(got[i][j]-want) > 1e-5 { // float32 sums of at most 6 products of numbers near 1
				t.Fatalf("score of query %q and document %q is %v, want %v", query, doc, got[i][j], want)
			}
		}
	}
	for _, pair := range [][2]int{{0, 0}, {5, docChunk + 5}, {queryChunk + 2, 77}} {
		matches, err := x.Explain(queries[pair[0]], pair[1])
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, match := range matches {
			sum += match.Part
		}
		if want := got[pair[0]][pair[1]]; math.Abs(sum-want) > 1e-5 {
			t.Errorf("shares of query %d and document %d sum to %v, score %v", pair[0], pair[1], sum, want)
		}
	}
	matches, err := x.Explain("read the file", slices.Index(docs, docs[5]))
	if err != nil {
		t.Fatal(err)
	}
	if len(matches) != 3 || matches[0].QueryToken != "read" || !strings.Contains(docs[5], strings.TrimPrefix(matches[0].DocToken, "[UNK]")) {
		t.Errorf("matches of %q with %q: %+v", "read the file", docs[5], matches)
	}
}

func TestNothingToScore(t *testing.T) {
	m := small(t)
	x, err := NewIndex(m, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := x.Scores([]string{"read"}); err != nil || len(got) != 1 || len(got[0]) != 0 {
		t.Errorf("scores without documents: %v, %v", got, err)
	}
	if x, err = NewIndex(m, []string{"read"}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := x.Scores(nil); err != nil || len(got) != 0 {
		t.Errorf("scores without queries: %v, %v", got, err)
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	m := small(t)
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Config != m.Config {
		t.Errorf("config %+v, want %+v", got.Config, m.Config)
	}
	for i, w := range m.Weights() {
		if !slices.Equal(got.Weights()[i].Value.Float32s(), w.Value.Float32s()) {
			t.Errorf("%s was read back with other values", w.Name)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Errorf("%d files in the model folder, want 3 and no temporary one", len(files))
	}
}

func TestLoadErrors(t *testing.T) {
	m := small(t)
	for _, c := range []struct {
		spoil func(dir string) error
		want  string
	}{
		{func(dir string) error { return os.Remove(filepath.Join(dir, weightsFile)) }, weightsFile},
		{func(dir string) error { return os.Remove(filepath.Join(dir, configFile)) }, configFile},
		{func(dir string) error { return os.WriteFile(filepath.Join(dir, configFile), []byte("{"), 0o644) }, "config.json: unexpected end"},
		{func(dir string) error { return os.WriteFile(filepath.Join(dir, configFile), []byte("{}"), 0o644) }, "config.json: model: hidden is 0"},
		{func(dir string) error { return os.Truncate(filepath.Join(dir, weightsFile), 100) }, "model.safetensors: "},
		{func(dir string) error {
			return os.WriteFile(filepath.Join(dir, vocabularyFile), []byte("[PAD]\n[UNK]\na\n"), 0o644)
		},
			fmt.Sprintf("token_embedding.weight: tensor has shape (%d, 6), expected (3, 6)", m.Vocabulary.Size())},
		{func(dir string) error {
			return WriteTensors(filepath.Join(dir, weightsFile), map[string]*tensor.Dense{}, nil)
		}, "token_embedding.weight: tensor is missing"},
	} {
		dir := t.TempDir()
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		if err := c.spoil(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestTensorsKeepEveryBit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	want := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(-1)), math.SmallestNonzeroFloat32, math.Pi}
	in := map[string]*tensor.Dense{"x": tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(slices.Clone(want)))}
	if err := WriteTensors(path, in, map[string]string{"step": "12"}); err != nil {
		t.Fatal(err)
	}
	got, metadata, err := ReadTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got["x"].Float32s() {
		if math.Float32bits(v) != math.Float32bits(want[i]) {
			t.Errorf("element %d is %v, want %v", i, v, want[i])
		}
	}
	if !got["x"].Shape().Eq(tensor.Shape{2, 3}) || metadata["step"] != "12" {
		t.Errorf("shape %v, metadata %v", got["x"].Shape(), metadata)
	}
}

func TestTokens(t *testing.T) {
	b := NewTokens(2, 3)
	b.Set(0, []int32{5, 6, 7, 8})
	b.Set(1, []int32{9, 9})
	b.Drop(0, 1)
	b.Set(1, []int32{4})
	if got, want := b.IDs.Int32s(), []int32{5, 6, 7, 4, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("ids %v, want %v", got, want)
	}
	if got, want := b.Mask.Bools(), []bool{true, false, true, true, false, false}; !slices.Equal(got, want) {
		t.Errorf("mask %v, want %v", got, want)
	}
}
