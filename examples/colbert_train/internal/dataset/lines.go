package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// byteOrderMark is what some programs of Windows write in front of UTF-8.
const byteOrderMark = "\ufeff"

// readLines calls row for each line of a file that is not blank, in order. An error of row is returned with the file
// and the line number before it: "corpus.jsonl:12: …".
func readLines(path string, row func(number int, line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	if mark, err := r.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		if _, err := r.Discard(len(mark)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if line := bytes.TrimSpace(line); len(line) > 0 {
			if !utf8.Valid(line) {
				return fmt.Errorf("%s:%d: not UTF-8", path, number)
			}
			if err := row(number, line); err != nil {
				return fmt.Errorf("%s:%d: %w", path, number, err)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// parseObject reads the JSON object of one line.
func parseObject(line []byte, into any) error {
	if line[0] != '{' {
		return errors.New("not a JSON object")
	}
	err := json.Unmarshal(line, into)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return fmt.Errorf("field %q is a JSON %s", wrongType.Field, wrongType.Value)
	}
	if err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	return nil
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
