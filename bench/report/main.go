// Command report rewrites the tables of README.md and docs/benchmarks.md, and the README's figure, from the raw results
// in bench/results:
//
//	cd bench/report && go run .
//
// A table stands between the lines <!-- table: NAME --> and <!-- end -->. Numbers are medians over the lines of one file.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	if err := run("../.."); err != nil {
		log.Fatal("report: ", err)
	}
}

// run rewrites the documents below root.
func run(root string) error {
	results, err := load(filepath.Join(root, "bench", "results"))
	if err != nil {
		return err
	}
	for _, document := range []string{"README.md", "docs/benchmarks.md"} {
		if err := rewrite(filepath.Join(root, document), results); err != nil {
			return fmt.Errorf("%s: %w", document, err)
		}
	}
	return draw(filepath.Join(root, "docs", "speed.png"), results)
}

// tables are the tables by the name that documents use.
var tables = map[string]func(*results) (string, error){
	"openblas": openBLASTable, "cpu": cpuTable, "backward": backwardTable, "step": stepTable, "memory": memoryTable,
	"example": exampleTable, "example-step": exampleStepTable, "threads": threadsTable, "allocations": allocationTable,
	"gpu": gpuTable, "gpu-short": gpuShortTable, "gpu-precision": gpuPrecisionTable, "gpu-host": gpuHostTable,
}

// rewrite fills the tables of one document.
func rewrite(path string, r *results) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var out strings.Builder
	rest := string(raw)
	for {
		before, after, found := strings.Cut(rest, "<!-- table: ")
		out.WriteString(before)
		if !found {
			return os.WriteFile(path, []byte(out.String()), 0o644)
		}
		name, after, _ := strings.Cut(after, " -->")
		table, ok := tables[name]
		if !ok {
			return fmt.Errorf("unknown table %q", name)
		}
		text, err := table(r)
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		fmt.Fprintf(&out, "<!-- table: %s -->\n%s", name, text)
		if _, rest, found = strings.Cut(after, "<!-- end -->"); !found {
			return fmt.Errorf("table %s has no <!-- end -->", name)
		}
		out.WriteString("<!-- end -->")
	}
}
