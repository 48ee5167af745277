package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// readLines calls row for each line of a file that is not blank, in order. An error of row is returned with the file
// and the line number before it: "corpus.jsonl:12: …".
func readLines(path string, row func(number int, line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if line := bytes.TrimSpace(line); len(line) > 0 {
			if err := row(number, line); err != nil {
				return fmt.Errorf("%s:%d: %w", path, number, err)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// writeLines creates a file, with its folder, and fills it through a buffer.
func writeLines(path string, fill func(w *bufio.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	if err := fill(w); err != nil {
		return err
	}
	return w.Flush()
}
