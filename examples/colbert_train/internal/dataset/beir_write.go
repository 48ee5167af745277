package dataset

import (
	"bufio"
	"encoding/json"
	"fmt"
	"path/filepath"
)

// WriteBEIR writes the set as a BEIR folder, with triples.jsonl for what trains outside the pool. ReadBEIR gives the
// same set back.
func (s *Set) WriteBEIR(dir string) error {
	write := func(name string, fill func(w *bufio.Writer) error) error {
		return writeLines(filepath.Join(dir, name), fill)
	}
	if err := s.WriteCorpus(filepath.Join(dir, corpusFile)); err != nil {
		return err
	}
	parts := []struct {
		name    string
		queries []Query
	}{{"train", s.Train}, {"dev", s.Dev}, {"test", s.Test}, {"unseen", s.Unseen}}
	err := write(queriesFile, func(w *bufio.Writer) error {
		for _, part := range parts {
			for _, q := range part.queries {
				if err := writeJSON(w, beirQuery{ID: &q.ID, Text: &q.Text}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, part := range parts {
		err := write(filepath.Join("qrels", part.name+".tsv"), func(w *bufio.Writer) error {
			fmt.Fprintln(w, qrelsHeader)
			for _, q := range part.queries {
				for _, r := range q.Relevant {
					fmt.Fprintf(w, "%s\t%s\t%d\n", q.ID, s.Docs[r.Doc].ID, r.Grade)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	err = write(triplesFile, func(w *bufio.Writer) error {
		for _, t := range s.Triples {
			if err := writeJSON(w, t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return write(sourceFile, func(w *bufio.Writer) error {
		_, err := fmt.Fprintln(w, s.Source)
		return err
	})
}

// WriteCorpus writes the pool alone, as corpus.jsonl of a BEIR folder.
func (s *Set) WriteCorpus(path string) error {
	return writeLines(path, func(w *bufio.Writer) error {
		for _, d := range s.Docs {
			row := beirDocument{ID: &d.ID, Text: &d.Text}
			row.Metadata.Signature = d.Signature
			if err := writeJSON(w, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeJSON writes v as one line and leaves <, > and & readable.
func writeJSON(w *bufio.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
