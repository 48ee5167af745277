package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/gosearch"
)

// task reads or makes the retrieval task that the options name.
func task(o *options) (*dataset.Set, error) {
	switch {
	case o.data != "":
		return dataset.Read(o.data)
	case o.goSrc != "":
		return gosearch.Build(o.goSrc, "gosearch of "+filepath.Base(o.goSrc))
	}
	src, version, err := gosearch.StandardLibrary()
	if err != nil {
		return nil, err
	}
	return gosearch.Build(src, "gosearch of the standard library, "+version)
}

// taskFlag returns the flag that names the task, as on a command line; "" for the default task.
func (o *options) taskFlag() string {
	switch {
	case o.data != "":
		return " -data " + o.data
	case o.goSrc != "":
		return " -go-src " + o.goSrc
	}
	return ""
}

// export writes the task as a BEIR folder.
func export(o *options, w io.Writer) error {
	set, err := task(o)
	if err != nil {
		return err
	}
	if err := set.WriteBEIR(o.exportData); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: %s\nwritten to %s\n", set.Source, set, o.exportData)
	return err
}
