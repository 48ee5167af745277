package main

import (
	"fmt"
	"strings"
)

// Both are written by bench/gpu/run.sh, peersFile in the same hour and on the same card as kernelsFile. Short steps of peers
// wait for the processor that launches their kernels, and that run's host was the slower one: a peer's time is its best of
// the two runs.
const (
	peersFile        = "peers-h200.txt"
	peersEarlierFile = "peers-earlier-h200.txt"
)

// peersFrom says where the peers' times are from.
const peersFrom = "`bench/results/gpu/" + peersFile + "` and `" + peersEarlierFile + "`, each one's best"

// peerRows returns the peers' rows with the given parameters, of both runs the faster.
func peerRows(all *results, params ...string) (rows []row) {
	place := map[[3]string]int{}
	for _, r := range all.find("Peer", params...) {
		key := [3]string{r.params["case"], r.params["impl"], r.params["dtype"]}
		if k, known := place[key]; !known {
			place[key] = len(rows)
			rows = append(rows, r)
		} else if r.metrics["sec/op"] < rows[k].metrics["sec/op"] {
			rows[k] = r
		}
	}
	return rows
}

// peerTime is what the peers need for a case with inputs of 16 bits: times in ms, memory beyond inputs and gradients in MiB,
// as shown, empty where not measured. The least memory need not be that of the fastest.
type peerTime struct{ best, by, naive, least, leastBy, naiveMemory string }

func (p peerTime) String() string {
	if p.best == "" {
		return "–"
	}
	return p.best + " " + p.by
}

// memory adds the peers' memory to ours.
func (p peerTime) memory() string {
	if p.least == "" || p.naiveMemory == "" {
		return ""
	}
	return fmt.Sprintf(" (%s %s, naive %s)", p.leastBy, p.least, p.naiveMemory)
}

// peerShape returns the shape of a case: F1t and T1t are the forward pass and the step of 1t, and a name without F or T is a
// shape itself.
func peerShape(name string) string { return strings.TrimLeft(name, "FT") }

// ceilings says what cuBLAS and the memory reached in the hour of the kernels' run, if that was measured.
func ceilings(all *results) string {
	var found []string
	copied := ""
	for _, r := range all.find("Ceiling") {
		switch {
		case r.file != peersFile:
		case r.params["op"] == "copy":
			copied = fmt.Sprintf("; a copy %.2f TB/s", r.metrics["B/s"]/1e12)
		case r.params["mnk"] == "8192x8192x8192":
			found = append(found, fmt.Sprintf("%s %.0f", r.params["dtype"], r.metrics["TFLOP/s"]))
		}
	}
	if found == nil {
		return ""
	}
	return "; cuBLAS in the same hour, 8192 × 8192 × 8192: " + strings.Join(found, ", ") + " TFLOP/s" + copied
}

// peerTimes returns the peers' times by case.
func peerTimes(all *results) (map[string]peerTime, error) {
	if _, err := all.need("Peer"); err != nil {
		return nil, err
	}
	peers := map[string]peerTime{}
	best, least := map[string]float64{}, map[string]float64{}
	for _, r := range peerRows(all) {
		name, ms := r.params["case"], 1e3*r.metrics["sec/op"]
		p, shown := peers[name], fmt.Sprintf("%.3f", ms)
		mib, memory := r.metrics["extra-MiB"], fmt.Sprintf("%.1f", r.metrics["extra-MiB"])
		switch {
		case r.params["dtype"] == "fp32" || strings.HasPrefix(r.params["impl"], "compile"):
			continue
		case r.params["impl"] == "naive":
			p.naive, p.naiveMemory = shown, memory
		default:
			if p.best == "" || ms < best[name] {
				best[name], p.best, p.by = ms, shown, r.params["impl"]
			}
			if p.least == "" || mib < least[name] {
				least[name], p.least, p.leastBy = mib, memory, r.params["impl"]
			}
		}
		peers[name] = p
	}
	return peers, nil
}
