package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/split"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

// small is a set with everything a BEIR folder can hold.
func small() *Set {
	return &Set{
		Source: "a small set",
		Docs: []Document{
			{ID: "os.ReadFile", Text: "os read file", Signature: "func ReadFile(name string) ([]byte, error)"},
			{ID: "os.Open", Text: "os open <file> & \"more\""},
			{ID: "io.Copy", Text: "io copy writer reader"},
		},
		Train:   []Query{{ID: "q1", Text: "reads a file", Relevant: []Judgement{{0, 2}, {1, 1}}}},
		Dev:     []Query{{ID: "q2", Text: "opens a file", Relevant: []Judgement{{1, 1}}}},
		Test:    []Query{{ID: "q3", Text: "copies from reader to writer", Relevant: []Judgement{{2, 1}}}},
		Unseen:  []Query{{ID: "q4", Text: "größer als ß", Relevant: []Judgement{{2, 1}}}},
		Triples: []Triple{{Query: "closes it", Positive: "file close", Negatives: []string{"file open"}}, {Query: "a", Positive: "b"}},
		Dropped: Dropped{},
	}
}

func TestBEIRRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	want := small()
	if err := want.WriteBEIR(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%+v\nwant\n%+v", got, want)
	}
}

// TestBEIRFromElsewhere reads a folder as other tools write it: titles, other metadata, no dev part, qrels rows that
// lead nowhere.
func TestBEIRFromElsewhere(t *testing.T) {
	dir := t.TempDir()
	var corpus, queries, train strings.Builder
	train.WriteString("query-id\tcorpus-id\tscore\n")
	for i := range 60 {
		fmt.Fprintf(&corpus, `{"_id":"d%d","title":"Title %[1]d","text":"body %[1]d","metadata":{"url":"x"}}`+"\n\n", i)
		fmt.Fprintf(&queries, `{"_id":"q%d","text":%q,"metadata":{}}`+"\n", i, question(i))
		fmt.Fprintf(&train, "q%d\td%[1]d\t1\n", i)
	}
	train.WriteString("q0\td1\t0\nq0\tnowhere\t1\nnobody\td0\t1\n")
	write(t, dir, corpusFile, corpus.String())
	write(t, dir, queriesFile, queries.String())
	write(t, dir, "qrels/train.tsv", train.String())
	write(t, dir, "qrels/test.tsv", "q0\td0\t2\nq0\td0\t1")
	s, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Docs[7].Text, "Title 7 body 7"; got != want {
		t.Errorf("document text %q, want %q", got, want)
	}
	if len(s.Dev) != 4 || len(s.Train) != 56 || len(s.Test) != 1 {
		t.Errorf("want 4 queries held out for dev of 60, got %s", s)
	}
	if got, want := s.Test[0].Relevant, []Judgement{{0, 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("judged twice: %v, want %v", got, want)
	}
	want := "1 judgements of a document that is not in corpus.jsonl, 1 judgements of a query that is not in queries.jsonl, 1 judgements of grade 0"
	if got := s.Dropped.String(); got != want {
		t.Errorf("dropped %q, want %q", got, want)
	}
}

func TestReadTriples(t *testing.T) {
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 100 {
		fmt.Fprintf(&rows, `{"query": %q, "positive": "answer %d", "negatives": ["answer %d"], "id": %[2]d}`+"\n", question(i), i, i+1)
	}
	rows.WriteString(`{"query":"...", "positive":"no word"}` + "\n")
	fmt.Fprintf(&rows, `{"query":%q, "positive":"answer 1"}`+"\n", question(1))
	fmt.Fprintf(&rows, `{"query":%q, "positive":"answer 1 too"}`, question(1))
	write(t, dir, "mine.jsonl", rows.String())
	s, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Docs) != 102 { // answer 0..100, answer 1 too
		t.Errorf("%d documents, want 102", len(s.Docs))
	}
	if len(s.Dev) == 0 || len(s.Test) == 0 {
		t.Fatalf("nothing held out: %s", s)
	}
	held := map[string]bool{}
	for _, q := range append(s.Dev, s.Test...) {
		held[q.Text] = true
	}
	for _, tr := range s.Examples() {
		if held[tr.Query] {
			t.Errorf("%q trains and is held out", tr.Query)
		}
	}
	if rows := len(s.Triples) + len(held); rows < 100 || rows > 101 {
		t.Errorf("%d training rows and %d held out queries of 101 rows with 100 queries", len(s.Triples), len(held))
	}
	if want := `1 duplicate rows, 1 rows without a word in query or positive, 100 values of the unknown field "id"`; s.Dropped.String() != want {
		t.Errorf("dropped %q, want %q", s.Dropped, want)
	}
}

// TestFewTriples: the error says how many queries make a task, and so many do.
func TestFewTriples(t *testing.T) {
	dir := t.TempDir()
	for n, want := range map[int]string{
		0:               "no documents; there is nothing to search",
		split.Least - 1: "no dev queries; where the data has none, they are held out of the training queries: at least 15 distinct ones",
		split.Least:     "",
	} {
		var rows strings.Builder
		for i := range n {
			fmt.Fprintf(&rows, `{"query": %q, "positive": "answer %d"}`+"\n", question(i), i)
		}
		write(t, dir, "few.jsonl", rows.String())
		s, err := Read(dir)
		if want == "" {
			if summary := "15 documents, 12 training examples; held-out queries: 1 dev, 2 test, 0 unseen"; err != nil || s.String() != summary {
				t.Errorf("%d rows: %v (%v), want %s", n, s, err, summary)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d rows: error %v, want one with %q", n, err, want)
		}
	}
}

func TestLeaks(t *testing.T) {
	s := small()
	if n := s.Leaks(); n != 0 {
		t.Errorf("%d leaks, want none", n)
	}
	s.Unseen[0].Text = "Reads a file!"
	s.Test[0].Text = "closes it"
	if n := s.Leaks(); n != 2 {
		t.Errorf("%d leaks, want one of a query and one of a triple", n)
	}
}

// TestErrorsNameFileAndLine goes through what can be wrong in each file.
func TestErrorsNameFileAndLine(t *testing.T) {
	for _, c := range []struct{ file, content, want string }{
		{"corpus.jsonl", "{\"_id\":\"d\",\"text\":\"x\"}\n\n{\"_id\":\"e\"}\n", `corpus.jsonl:3: a document needs the fields "_id" and "text"`},
		{"corpus.jsonl", "{\"_id\":\"d\",\"text\":\"x\"}\n{\"_id\":\"d\",\"text\":\"x\"}\n", `corpus.jsonl:2: document "d" is there twice`},
		{"corpus.jsonl", "[]\n", "corpus.jsonl:1: not a JSON object"},
		{"corpus.jsonl", "{\"_id\":1,\"text\":\"x\"}\n", `corpus.jsonl:1: field "_id" is a JSON number`},
		{"queries.jsonl", "{\"_id\":\"q\",\"text\":\"x\"}\n{\"text\":\"x\"}\n", `queries.jsonl:2: a query needs the fields "_id" and "text"`},
		{"queries.jsonl", "nonsense\n", "queries.jsonl:1: not a JSON object"},
		{"queries.jsonl", "{\"_id\":\"q\",\"text\":\"x\"}\n{\"_id\":\"q\",\"text\":\"x\"}\n", `queries.jsonl:2: query "q" is there twice`},
		{"qrels/test.tsv", "query-id\tcorpus-id\tscore\nq3 io.Copy 1\n", "test.tsv:2: 1 fields between tabs, expected 3"},
		{"qrels/dev.tsv", "q2\tos.Open\thigh\n", `dev.tsv:1: score "high" is no whole number`},
		{"triples.jsonl", "{\"query\":\"a\",\"positive\":\"b\"}\n{\"query\":\"a\"}\n", `triples.jsonl:2: field "positive" is missing`},
		{"triples.jsonl", "{\"positive\":\"a\"}\n", `triples.jsonl:1: field "query" is missing`},
		{"triples.jsonl", "[\"a\", \"b\"]\n", "triples.jsonl:1: not a JSON object"},
		{"triples.jsonl", "{\"query\":\"a\",\"positive\":\"b\"} {}\n", "triples.jsonl:1: not a JSON object: invalid character '{'"},
		{"triples.jsonl", "{\"query\":7,\"positive\":\"b\"}\n", `triples.jsonl:1: field "query" is not a text`},
		{"triples.jsonl", "{\"query\":\"a\",\"positive\":\"b\",\"negatives\":\"c\"}\n", `triples.jsonl:1: field "negatives" is not a list of texts`},
		{"triples.jsonl", "{\"query\":\"a\",\"positive\":\"b\"}\n{\"query\":\"caf\xe9\",\"positive\":\"b\"}\n", "triples.jsonl:2: not UTF-8"},
		{"qrels/dev.tsv", "q\xff\tos.Open\t1\n", "dev.tsv:1: not UTF-8"},
		{"qrels/test.tsv", "", "a small set: no test queries"},
	} {
		dir := t.TempDir()
		if err := small().WriteBEIR(dir); err != nil {
			t.Fatal(err)
		}
		write(t, dir, c.file, c.content)
		_, err := Read(dir)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: error %v, want one with %q", c.file, c.content, err, c.want)
		}
	}
}

// TestByteOrderMark: a file that a program of Windows had written was "not a JSON object" in line 1.
func TestByteOrderMark(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x.jsonl", "\ufeff"+`{"query":"a","positive":"b"}`)
	rows, err := readTriples([]string{filepath.Join(dir, "x.jsonl")}, Dropped{})
	if err != nil || len(rows) != 1 || rows[0].Query != "a" {
		t.Errorf("rows %+v (%v), want one", rows, err)
	}
}

func TestReadNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "neither corpus.jsonl") {
		t.Errorf("empty folder: error %v", err)
	}
	if _, err := Read(filepath.Join(dir, "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("missing folder: error %v", err)
	}
	write(t, dir, corpusFile, `{"_id":"d","text":"x"}`)
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), queriesFile) {
		t.Errorf("missing queries: error %v", err)
	}
}

// question returns a text that is no near copy of another i's.
func question(i int) string {
	name := string([]byte{'a' + byte(i/26), 'a' + byte(i%26)})
	return fmt.Sprintf("what %[1]sx %[1]sy %[1]sz", name)
}

// write puts a file into dir.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// FuzzTriples: any file of triples gives an error that names the file and a line, or rows that have words.
func FuzzTriples(f *testing.F) {
	f.Add([]byte(`{"query":"a","positive":"b","negatives":["c"]}` + "\n\n" + `{"query":"a","positive":"b"}`))
	f.Add([]byte(`{"query":"a","positive":"b"`))
	f.Add([]byte("\x00\n{}"))
	f.Add([]byte(`{"query":null,"positive":1}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		rows, err := readTriples([]string{path}, Dropped{})
		if err != nil && !strings.HasPrefix(err.Error(), path+":") {
			t.Fatalf("error without a line: %v", err)
		}
		for _, r := range rows {
			if len(words.Split(r.Query)) == 0 || len(words.Split(r.Positive)) == 0 {
				t.Fatalf("row without words: %+v", r)
			}
		}
	})
}
