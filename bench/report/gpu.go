package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kernelRun is what kernels/dev/bench says of one case: times in ms, inputs and outputs on the device.
type kernelRun struct {
	name, precision, image, shape string
	forward, argmax, step, extra  float64 // step and extra (MiB): 0 if not measured
	rate                          float64 // TFLOP/s of forward
}

var (
	caseLine     = regexp.MustCompile(`^(\w+) (\w+) (sm\w+): (.*), kernel`)
	forwardLine  = regexp.MustCompile(`^  forward: max only [0-9.]+ ms \(with sums ([0-9.]+), ([0-9]+) TFLOP/s\), argmax [0-9.]+ \(with sums ([0-9.]+)`)
	backwardLine = regexp.MustCompile(`^  backward: .*; step ([0-9.]+) .*extra memory ([0-9.]+) MiB`)
)

// kernelsFile is written by bench/gpu/run.sh.
const kernelsFile = "kernels-h200.txt"

// kernelRuns reads the output of kernels/dev/bench, and says where it is from.
func kernelRuns(all *results) (runs []kernelRun, from string, err error) {
	f, err := os.Open(filepath.Join(all.dir, "gpu", kernelsFile))
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			panic(err) // the expressions above match numbers only
		}
		return v
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if commit, ok := strings.CutPrefix(line, "commit: "); ok {
			from = fmt.Sprintf("`bench/results/gpu/%s`, commit %.10s", kernelsFile, commit)
		}
		if m := caseLine.FindStringSubmatch(line); m != nil {
			shape := m[4]
			if m[1] == "T2" { // where each query has documents of its own, bench prints how many there are of all
				shape = strings.Replace(shape, "64 x 1024", "64 x 16 of its own", 1)
			}
			runs = append(runs, kernelRun{name: m[1], precision: m[2], image: m[3], shape: shape})
		}
		if m := forwardLine.FindStringSubmatch(line); m != nil {
			last := &runs[len(runs)-1]
			last.forward, last.rate, last.argmax = number(m[1]), number(m[2]), number(m[3])
		}
		if m := backwardLine.FindStringSubmatch(line); m != nil {
			last := &runs[len(runs)-1]
			last.step, last.extra = number(m[1]), number(m[2])
		}
	}
	return runs, from, nil
}

// gpuTable shows the kernels' times beside the peers'.
func gpuTable(all *results) (string, error) {
	peers, err := peerTimes(all)
	if err != nil {
		return "", err
	}
	runs, from, err := kernelRuns(all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| queries x documents, tokens of each; bf16, ms | forward | with argmax | step | beside inputs and gradients | best peer: forward | best peer: step | naive fp16: forward, step |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range runs {
		if r.precision != "bf16" || r.image != "sm90a" {
			continue
		}
		shape := peerShape(r.name)
		forward, step := peers["F"+shape], peers["T"+shape]
		name := r.name
		if train := "T" + shape; train != name && name == "F"+shape && step.best != "" {
			name += ", " + train
		}
		var naive []string
		for _, p := range []peerTime{forward, step} {
			if p.naive != "" {
				naive = append(naive, p.naive)
			}
		}
		extra := cell("%.1f MiB", r.extra, r.step > 0)
		if r.step > 0 {
			extra += step.memory()
		}
		fmt.Fprintf(&out, "| %s: %s | %.3f | %.3f | %s | %s | %s | %s | %s |\n", name, r.shape, r.forward, r.argmax,
			cell("%.3f", r.step, r.step > 0), extra, forward, step, strings.Join(naive, ", "))
	}
	fmt.Fprintf(&out, "\nOne NVIDIA H200, cold L2, %s; peers: %s%s\n", from, peersFrom, ceilings(all))
	return out.String(), nil
}

// gpuPrecisionTable shows the precisions, and the portable image, on the same card.
func gpuPrecisionTable(all *results) (string, error) {
	var out strings.Builder
	out.WriteString("| ms, cold L2, packing of float32 rows included | image | forward | with argmax | step | PyTorch, the same inputs: forward | step |\n|---|---|---|---|---|---|---|\n")
	runs, from, err := kernelRuns(all)
	if err != nil {
		return "", err
	}
	for _, r := range runs {
		if r.precision == "bf16" && r.image == "sm90a" {
			continue // the other table's
		}
		precision, shape := strings.Replace(r.precision, "split", "float32-accurate", 1), peerShape(r.name)
		fmt.Fprintf(&out, "| %s %s | %s | %.3f | %.3f | %s | %s | %s |\n", r.name, precision, r.image, r.forward, r.argmax,
			cell("%.3f", r.step, r.step > 0), naiveTime(all, "F"+shape, r.precision, r.forward), naiveTime(all, "T"+shape, r.precision, r.step))
	}
	fmt.Fprintf(&out, "\nOne NVIDIA H200, %s; PyTorch: %s. Bold: where it is faster\n", from, peersFrom)
	return out.String(), nil
}

// shortCases are the cases of gpuShortTable.
var shortCases = strings.Fields("F1t F1v F2a F2b F2c T1L T2 R20 D768")

// gpuShortTable compares what matters most with the fastest of all others, whoever it is, of those with 16-bit inputs.
func gpuShortTable(all *results) (string, error) {
	runs, from, err := kernelRuns(all)
	if err != nil {
		return "", err
	}
	rows, err := all.need("Ceiling", "op", "cublas", "dtype", "bfloat16", "mnk", "8192x8192x8192")
	if err != nil {
		return "", err
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.file != peersFile })
	if len(rows) == 0 {
		return "", fmt.Errorf("no rate of cuBLAS in %s", peersFile)
	}
	peak := rows[0].metrics["TFLOP/s"]
	accurate := map[string]kernelRun{}
	for _, r := range runs {
		if r.precision == "split" && r.image == "sm90a" {
			accurate[r.name] = r
		}
	}
	var out strings.Builder
	out.WriteString("| queries x documents, tokens of each; ms | forward, bf16 | of cuBLAS's rate | fastest other | step, bf16 | fastest other | float32-accurate: forward, step | PyTorch float32 |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range runs {
		if r.precision != "bf16" || r.image != "sm90a" || !slices.Contains(shortCases, r.name) {
			continue
		}
		shape, a := peerShape(r.name), accurate[r.name]
		fmt.Fprintf(&out, "| %s | %.3f | %.0f %% | %s | %s | %s | %s | %s |\n", r.shape, r.forward, 100*r.rate/peak, fastest(all, "F"+shape, r.forward),
			cell("%.3f", r.step, r.step > 0), fastest(all, "T"+shape, r.step),
			together(cell("%.3f", a.forward, a.forward > 0), cell("%.3f", a.step, a.step > 0)),
			together(naiveTime(all, "F"+shape, "split", a.forward), naiveTime(all, "T"+shape, "split", a.step)))
	}
	fmt.Fprintf(&out, "\nOne H200, cold L2, medians, inputs on the device; others: flash-maxsim (FM), late-interaction-kernels (LIK), PyTorch (naive, compile), 16-bit inputs; cuBLAS: bf16, 8192 × 8192 × 8192, %.0f TFLOP/s. %s; others: %s\n",
		peak, from, peersFrom)
	return out.String(), nil
}

// fastest returns the least time of others for a case, who it is, and how many times ours it is: bold where it is less.
func fastest(all *results, name string, ours float64) string {
	best, by := 0.0, ""
	for _, r := range peerRows(all, "case", name) {
		if ms := 1e3 * r.metrics["sec/op"]; r.params["dtype"] != "fp32" && (by == "" || ms < best) {
			best, by = ms, r.params["impl"]
		}
	}
	if by == "" || ours == 0 {
		return "–"
	}
	return boldIf(best < ours, fmt.Sprintf("%.3f %s, %.2f×", best, by, best/ours))
}

func boldIf(bold bool, s string) string {
	if bold {
		return "**" + s + "**"
	}
	return s
}

// together joins the cells that say something.
func together(cells ...string) string {
	said := slices.DeleteFunc(cells, func(c string) bool { return c == "–" })
	if len(said) == 0 {
		return "–"
	}
	return strings.Join(said, ", ")
}

// naiveOf names PyTorch's composed graph that computes in a precision, from float32 rows but for f16.
var naiveOf = map[string]string{"split": "naive-ieee", "tf32": "naive-tf32", "f16": "naive"}

// naiveTime is what that graph takes for a case, in ms: bold where that is less than ours.
func naiveTime(all *results, name, precision string, ours float64) string {
	rows := peerRows(all, "case", name, "impl", naiveOf[precision])
	if len(rows) == 0 {
		return "–"
	}
	ms := 1e3 * rows[0].metrics["sec/op"]
	return boldIf(ms < ours, fmt.Sprintf("%.3f", ms))
}

// gpuHostTable splits steps whose inputs and gradients are in host memory, as Gorgonia has them.
func gpuHostTable(all *results) (string, error) {
	rows, err := all.need("Full", "provider", "cuda-h200")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| forward and backward, host to host | memory | precision | ms | copies alone | kernels alone | against copies + kernels | device MiB at the peak |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		m := r.metrics
		fmt.Fprintf(&out, "| %s: %s | %s | %s | %.2f | %.2f | %.2f | %s | %.0f |\n", r.params["shape"], r.shape(), r.params["memory"], r.params["precision"],
			1e3*m["sec/op"], m["copies-ms"], m["kernels-ms"], cell("%.2f×", m["x-floor"], m["x-floor"] > 0), m["device-MiB"])
	}
	fmt.Fprintf(&out, "\nOne NVIDIA H200, commit %.10s, `bench/results/gpu/%s`\n", rows[0].config["commit"], rows[0].file)
	return out.String(), nil
}
