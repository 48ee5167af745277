package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/split"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

// The files of a BEIR folder. The last two are ours: further training pairs, and one line saying where the set is from.
const (
	corpusFile  = "corpus.jsonl"
	queriesFile = "queries.jsonl"
	triplesFile = "triples.jsonl"
	sourceFile  = "source.txt"
)

// qrelsHeader is the first line of a qrels file.
const qrelsHeader = "query-id\tcorpus-id\tscore"

// beirDocument and beirQuery are the lines of corpus.jsonl and queries.jsonl.
type (
	beirDocument struct {
		ID       *string `json:"_id"`
		Title    string  `json:"title"`
		Text     *string `json:"text"`
		Metadata struct {
			Signature string `json:"signature,omitempty"`
		} `json:"metadata"`
	}
	beirQuery struct {
		ID   *string `json:"_id"`
		Text *string `json:"text"`
	}
)

// Read reads a task from path: a BEIR folder (it has corpus.jsonl), a folder of triples (*.jsonl), or one such file.
func Read(path string) (*Set, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return ReadTriples(path)
	}
	if _, err := os.Stat(filepath.Join(path, corpusFile)); err == nil {
		return ReadBEIR(path)
	}
	files, err := filepath.Glob(filepath.Join(path, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: neither %s of a BEIR folder nor any .jsonl file with triples", path, corpusFile)
	}
	return ReadTriples(files...)
}

// ReadBEIR reads a BEIR folder: corpus.jsonl, queries.jsonl and qrels/train.tsv, dev.tsv, test.tsv, unseen.tsv, all
// but test.tsv optional if triples.jsonl trains. Title and text of a document are indexed together. Without dev.tsv a
// part of the training queries is held out for dev, near copies together.
func ReadBEIR(dir string) (*Set, error) {
	s := &Set{Source: "BEIR folder " + filepath.Base(dir), Dropped: Dropped{}}
	if line, err := os.ReadFile(filepath.Join(dir, sourceFile)); err == nil {
		s.Source = strings.TrimSpace(string(line))
	}
	docs, err := s.readCorpus(filepath.Join(dir, corpusFile))
	if err != nil {
		return nil, err
	}
	texts, err := readQueries(filepath.Join(dir, queriesFile))
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name    string
		queries *[]Query
	}{{"train", &s.Train}, {"dev", &s.Dev}, {"test", &s.Test}, {"unseen", &s.Unseen}} {
		*part.queries, err = s.readQrels(filepath.Join(dir, "qrels", part.name+".tsv"), docs, texts)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	s.Triples, err = readTriples([]string{filepath.Join(dir, triplesFile)}, s.Dropped)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(s.Dev) == 0 {
		s.holdOutDev()
	}
	return s, s.Check()
}

// ReadCorpus reads a pool that WriteCorpus wrote, or corpus.jsonl of any BEIR folder.
func ReadCorpus(path string) ([]Document, error) {
	var s Set
	_, err := s.readCorpus(path)
	return s.Docs, err
}

// readCorpus fills s.Docs and returns the index of each ID.
func (s *Set) readCorpus(path string) (map[string]int, error) {
	docs := map[string]int{}
	err := readLines(path, func(_ int, line []byte) error {
		var row beirDocument
		if err := parseObject(line, &row); err != nil {
			return err
		}
		if row.ID == nil || row.Text == nil {
			return errors.New(`a document needs the fields "_id" and "text"`)
		}
		if _, ok := docs[*row.ID]; ok {
			return fmt.Errorf("document %q is there twice", *row.ID)
		}
		docs[*row.ID] = len(s.Docs)
		text := strings.TrimSpace(row.Title + " " + *row.Text)
		s.Docs = append(s.Docs, Document{ID: *row.ID, Text: text, Signature: row.Metadata.Signature})
		return nil
	})
	return docs, err
}

// readQueries returns the text of each query ID.
func readQueries(path string) (map[string]string, error) {
	texts := map[string]string{}
	err := readLines(path, func(_ int, line []byte) error {
		var row beirQuery
		if err := parseObject(line, &row); err != nil {
			return err
		}
		if row.ID == nil || row.Text == nil {
			return errors.New(`a query needs the fields "_id" and "text"`)
		}
		if _, ok := texts[*row.ID]; ok {
			return fmt.Errorf("query %q is there twice", *row.ID)
		}
		texts[*row.ID] = *row.Text
		return nil
	})
	return texts, err
}

// readQrels reads the judged queries of one part in the order of their first rows. Rows of grade 0 say that a document
// is not relevant, which is what is assumed anyway; they and rows that name nothing known are counted as dropped.
func (s *Set) readQrels(path string, docs map[string]int, texts map[string]string) ([]Query, error) {
	var out []Query
	number := map[string]int{}
	err := readLines(path, func(line int, row []byte) error {
		if line == 1 && strings.HasPrefix(string(row), "query-id") {
			return nil
		}
		fields := strings.Split(string(row), "\t")
		if len(fields) != 3 {
			return fmt.Errorf("%d fields between tabs, expected 3: query-id, corpus-id, score", len(fields))
		}
		grade, err := strconv.Atoi(fields[2])
		if err != nil {
			return fmt.Errorf("score %q is no whole number", fields[2])
		}
		doc, knownDoc := docs[fields[1]]
		text, knownQuery := texts[fields[0]]
		switch {
		case !knownDoc:
			s.Dropped["judgements of a document that is not in "+corpusFile]++
		case !knownQuery:
			s.Dropped["judgements of a query that is not in "+queriesFile]++
		case grade < 1:
			s.Dropped["judgements of grade 0"]++
		case len(words.Split(text)) == 0:
			s.Dropped["judgements of a query without words"]++
		default:
			i, ok := number[fields[0]]
			if !ok {
				i = len(out)
				number[fields[0]] = i
				out = append(out, Query{ID: fields[0], Text: text})
			}
			out[i].judge(doc, grade)
		}
		return nil
	})
	return out, err
}

// judge records that doc answers the query; the higher of two grades counts.
func (q *Query) judge(doc, grade int) {
	i, found := slices.BinarySearchFunc(q.Relevant, doc, func(j Judgement, doc int) int { return cmp.Compare(j.Doc, doc) })
	if !found {
		q.Relevant = slices.Insert(q.Relevant, i, Judgement{Doc: doc, Grade: grade})
		return
	}
	q.Relevant[i].Grade = max(q.Relevant[i].Grade, grade)
}

// holdOutDev moves a part of the training queries to dev, near copies together.
func (s *Set) holdOutDev() {
	items := make([]split.Item, len(s.Train))
	for i, q := range s.Train {
		items[i] = split.Item{Text: q.Text}
	}
	parts := split.Assign(items, split.Sizes{Dev: split.DefaultSizes(len(items)).Dev})
	var train []Query
	for i, q := range s.Train {
		if parts[i] == split.Dev {
			s.Dev = append(s.Dev, q)
		} else {
			train = append(train, q)
		}
	}
	s.Train = train
}
