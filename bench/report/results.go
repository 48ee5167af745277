package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// results are the benchmark lines of all files.
type results struct {
	dir  string
	rows []row
}

// row is one benchmark: the medians of its metrics over the lines of one file.
type row struct {
	file    string
	bench   string            // Forward
	params  map[string]string // provider, Bq, …
	metrics map[string]float64
	config  map[string]string // commit, processor, …
}

// shape names the problem of a row.
func (r row) shape() string {
	return fmt.Sprintf("%s × %s, %s × %s, dim %s", r.params["Bq"], r.params["Tq"], r.params["Bd"], r.params["Td"], r.params["dim"])
}

// load reads every file of Go benchmark text in a folder.
func load(dir string) (*results, error) {
	var files []string
	for _, pattern := range []string{"*.txt", "gpu/*.txt"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	all := &results{dir: dir}
	for _, file := range files {
		if err := all.read(file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return all, nil
}

func (all *results) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	samples := map[string]map[string][]float64{}
	first := len(all.rows)
	reader := benchfmt.NewReader(f, filepath.Base(file))
	for reader.Scan() {
		line, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := string(line.Name.Full())
		if samples[name] == nil {
			samples[name] = map[string][]float64{}
			all.rows = append(all.rows, newRow(filepath.Base(file), line))
		}
		for _, v := range line.Values {
			samples[name][v.Unit] = append(samples[name][v.Unit], v.Value)
		}
	}
	for x := range all.rows[first:] {
		r := &all.rows[first+x]
		for unit, values := range samples[r.metricsKey()] {
			slices.Sort(values)
			r.metrics[unit] = values[len(values)/2]
		}
	}
	return reader.Err()
}

// newRow starts a row; its full name waits in params until the medians are in.
func newRow(file string, line *benchfmt.Result) row {
	r := row{file: file, params: map[string]string{"": string(line.Name.Full())}, metrics: map[string]float64{}, config: map[string]string{}}
	base, parts := line.Name.Parts()
	r.bench = string(base)
	for _, part := range parts {
		key, value, _ := strings.Cut(strings.TrimPrefix(string(part), "/"), "=")
		r.params[key] = value
	}
	for _, c := range line.Config {
		r.config[c.Key] = string(c.Value)
	}
	return r
}

func (r row) metricsKey() string { return r.params[""] }

// find returns the rows of a benchmark with the given parameters, in the order of the files.
func (all *results) find(bench string, params ...string) []row {
	var found []row
	for _, r := range all.rows {
		ok := r.bench == bench
		for k := 0; k+1 < len(params); k += 2 {
			ok = ok && r.params[params[k]] == params[k+1]
		}
		if ok {
			found = append(found, r)
		}
	}
	return found
}

// need is find where there must be a result.
func (all *results) need(bench string, params ...string) ([]row, error) {
	rows := all.find(bench, params...)
	if len(rows) == 0 {
		return nil, fmt.Errorf("no results of %s %v", bench, params)
	}
	return rows, nil
}

// one returns the row of a benchmark with the parameters of another row, but for those given.
func (all *results) one(bench string, like row, params ...string) (row, bool) {
	for _, key := range []string{"Bq", "Tq", "Bd", "Td", "dim"} {
		params = append(params, key, like.params[key])
	}
	found := all.find(bench, params...)
	if len(found) == 0 {
		return row{}, false
	}
	return found[0], true
}

// provenance says where the rows of a table were measured.
func provenance(r row) string {
	c := r.config
	return fmt.Sprintf("%s, %s, commit %.10s, `bench/results/%s`", c["processor"], c["go"], c["commit"], r.file)
}
