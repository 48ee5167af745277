package main

import (
	"fmt"
	"strconv"
	"strings"
)

// cell prints a number, or a dash where there is none.
func cell(format string, v float64, ok bool) string {
	if !ok {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// openBLAS returns the best arrangement of OpenBLAS in a row that compares all of them: its rate, and how many times
// longer it takes.
func openBLAS(r row) (rate, times float64, ok bool) {
	for unit, v := range r.metrics {
		if name, is := strings.CutPrefix(unit, "GFLOP/s-"); is && v > rate {
			rate, times, ok = v, r.metrics["x-"+name], true
		}
	}
	return rate, times, ok
}

// openBLASTable shows the rate of one core beside that of OpenBLAS at its best arrangement.
func openBLASTable(all *results) (string, error) {
	rows, err := all.need("OpenBLAS", "provider", "cpu-avx512")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| queries × tokens, documents × tokens | GFLOP/s, one core | of FMA peak | OpenBLAS, best arrangement | faster |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		rate, times, ok := openBLAS(r)
		fmt.Fprintf(&out, "| %s | %.0f | %.0f %% | %s | %s |\n", r.shape(), r.metrics["GFLOP/s"], r.metrics["%peak"],
			cell("%.0f", rate, ok), cell("%.2f×", times, ok))
	}
	fmt.Fprintf(&out, "\n%s\n", provenance(rows[0]))
	return out.String(), nil
}

// cpuTable shows every path on every shape.
func cpuTable(all *results) (string, error) {
	rows, err := all.need("Forward", "provider", "cpu-avx512")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| forward with argmax, float32, one core | AVX-512 GFLOP/s (of its peak) | AVX2 (of its peak) | portable Go | built-ins, gonum | float64 AVX-512 |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		avx2, ok2 := all.one("Forward", r, "provider", "cpu-avx2")
		generic, okG := all.one("Forward", r, "provider", "cpu-generic")
		composed, okC := all.one("Forward", r, "provider", "composed")
		f64, ok64 := all.one("ForwardFloat64", r, "provider", "cpu-avx512")
		fmt.Fprintf(&out, "| %s | %.0f (%.0f %%) | %s (%s) | %s | %s | %s (%s) |\n", r.shape(), r.metrics["GFLOP/s"], r.metrics["%peak"],
			cell("%.0f", avx2.metrics["GFLOP/s"], ok2), cell("%.0f %%", avx2.metrics["%peak"], ok2),
			cell("%.1f", generic.metrics["GFLOP/s"], okG), cell("%.1f", composed.metrics["GFLOP/s"], okC),
			cell("%.0f", f64.metrics["GFLOP/s"], ok64), cell("%.0f %%", f64.metrics["%peak"], ok64))
	}
	fmt.Fprintf(&out, "\n%s\n", provenance(rows[0]))
	return out.String(), nil
}

// backwardTable shows the backward pass as a share of the forward pass.
func backwardTable(all *results) (string, error) {
	rows, err := all.need("Backward", "provider", "cpu-avx512")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| backward, both gradients, float32 | ms | of forward |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s | %.2f | %.1f %% |\n", r.shape(), 1e3*r.metrics["cpu-sec/op"], r.metrics["%forward"])
	}
	fmt.Fprintf(&out, "\n%s\n", provenance(rows[0]))
	return out.String(), nil
}

// stepTable compares whole training steps.
func stepTable(all *results) (string, error) {
	rows, err := all.need("Step", "provider", "cpu-avx512")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| forward and backward in a Gorgonia graph, one core | ms | built-ins, gonum BLAS | limit | built-ins, OpenBLAS | limit |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s | %.1f |", r.shape(), r.metrics["ms-step"])
		for _, blas := range []string{"gonum", "openblas"} {
			times, ok := r.metrics["x-composed-"+blas]
			limit, okL := r.metrics["x-limit-composed-"+blas]
			fmt.Fprintf(&out, " %s | %s |", cell("%.1f× longer", times, ok), cell("%.1f×", limit, okL))
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "\n%s\n", provenance(rows[0]))
	return out.String(), nil
}

// memoryTable shows bytes.
func memoryTable(all *results) (string, error) {
	var rows []row
	for _, what := range []string{"engine", "tapemachine", "composed"} {
		found, err := all.need("Memory", "what", what)
		if err != nil {
			return "", err
		}
		rows = append(rows, found[0])
	}
	engine, fused, composed := rows[0], rows[1], rows[2]
	const mib = 1 << 20
	var out strings.Builder
	out.WriteString("| 128 × 32 against 128 × 300, dim 128, float32 | MiB |\n|---|---|\n")
	fmt.Fprintf(&out, "| one engine call, forward and backward, beyond inputs, gradients and scores | %.1f (%.1f bytes per query token and document) |\n",
		engine.metrics["extra-B"]/mib, engine.metrics["B/(i,j,t)"])
	fmt.Fprintf(&out, "| steady-state peak of a TapeMachine step, inputs included | %.0f |\n", fused.metrics["peak-B"]/mib)
	fmt.Fprintf(&out, "| the same graph from built-in ops | %.0f |\n", composed.metrics["peak-B"]/mib)
	fmt.Fprintf(&out, "\n%s\n", provenance(engine))
	return out.String(), nil
}

// threadsTable shows what a second core is worth.
func threadsTable(all *results) (string, error) {
	rows, err := all.need("Threads", "provider", "cpu-avx512")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| forward with argmax, AVX-512 | one core, ms | two cores, ms | faster |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s | %.2f | %.2f | %.2f× |\n", r.shape(), r.metrics["ms-1core"], r.metrics["ms-all"], r.metrics["speedup"])
	}
	fmt.Fprintf(&out, "\n%s\n", provenance(rows[0]))
	return out.String(), nil
}

// allocationTable shows what passes and steps allocate once they are warm.
func allocationTable(all *results) (string, error) {
	var out strings.Builder
	out.WriteString("| allocated, float32, AVX-512 | engine forward | engine backward | step in a TapeMachine | of it gradients |\n|---|---|---|---|---|\n")
	rows, err := all.need("Full", "provider", "cpu-avx512")
	if err != nil {
		return "", err
	}
	for _, r := range rows {
		size := func(keys ...string) float64 {
			product := 4.0
			for _, key := range keys {
				n, err := strconv.Atoi(r.params[key])
				if err != nil {
					return 0
				}
				product *= float64(n)
			}
			return product
		}
		forward, okF := all.one("Forward", r, "provider", "cpu-avx512")
		backward, okB := all.one("Backward", r, "provider", "cpu-avx512")
		fmt.Fprintf(&out, "| %s | %s KiB | %s KiB | %.0f KiB in %.0f | %.0f KiB |\n", r.shape(),
			cell("%.0f", forward.metrics["B/op"]/1024, okF), cell("%.0f", backward.metrics["B/op"]/1024, okB),
			r.metrics["B/op"]/1024, r.metrics["allocs/op"], (size("Bq", "Tq", "dim")+size("Bd", "Td", "dim"))/1024)
	}
	fmt.Fprintf(&out, "\n%s\n", provenance(rows[0]))
	return out.String(), nil
}
