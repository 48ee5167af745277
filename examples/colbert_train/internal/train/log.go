package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// logFile has one line for each step.
const logFile = "train.jsonl"

// log writes the records of a run as JSON lines and keeps them.
type log struct {
	records []Record
	file    *os.File
	w       *bufio.Writer
}

// openLog starts a log that continues after a step. Lines of later steps, which an interrupted run can leave behind its
// checkpoint, are cut off; for step 0 that is all of them.
func openLog(path string, step int) (*log, error) {
	l := &log{}
	if step > 0 {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for number, line := range bytes.Split(content, []byte("\n")) {
			var r Record
			if len(l.records) == step {
				break
			}
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, number+1, err)
			}
			if r.Step != number+1 {
				return nil, fmt.Errorf("%s:%d: step %d, expected %d", path, number+1, r.Step, number+1)
			}
			l.records = append(l.records, r)
		}
	}
	var err error
	if l.file, err = os.Create(path); err != nil {
		return nil, err
	}
	l.w = bufio.NewWriter(l.file)
	for _, r := range l.records {
		if err := l.write(r); err != nil {
			return nil, err
		}
	}
	return l, l.w.Flush()
}

// append adds the record of the next step.
func (l *log) append(r Record) error {
	l.records = append(l.records, r)
	return l.write(r)
}

func (l *log) write(r Record) error { return json.NewEncoder(l.w).Encode(r) }

// flush puts the lines so far on disk: before a checkpoint, so that the log never ends before it.
func (l *log) flush() error { return l.w.Flush() }

func (l *log) close() error { return errors.Join(l.w.Flush(), l.file.Close()) }
