package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/model"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/report"
)

// Names inside the folder -out that are not another package's.
const (
	modelFolder = "model"
	poolFile    = "corpus.jsonl" // the documents the model was trained to search
)

// removeResults removes the results of an earlier run from its folder. A new run does so before it begins: stopped, it
// must not leave the report of the old run beside its own log and checkpoint. Files that no run writes stay.
func removeResults(out string) error {
	return errors.Join(
		report.Remove(out),
		model.Remove(filepath.Join(out, modelFolder)),
		os.RemoveAll(filepath.Join(out, poolFile)),
	)
}

// checkOut refuses an -out that is no folder, and to write a run over its own data: a BEIR folder and -out both have a
// corpus.jsonl.
func checkOut(o *options) error {
	out, err := os.Stat(o.out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !out.IsDir() {
		return fmt.Errorf("-out %s is not a folder", o.out)
	}
	if o.data == "" {
		return nil
	}
	data, err := os.Stat(o.data)
	if err == nil && !data.IsDir() {
		data, err = os.Stat(filepath.Dir(o.data))
	}
	if err != nil {
		return err
	}
	if os.SameFile(data, out) {
		return fmt.Errorf("-data %s is in the folder -out %s, which a run overwrites: give another -out", o.data, o.out)
	}
	return nil
}
