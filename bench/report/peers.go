package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// peersFile is written by bench/gpu/run.sh, or holds a table of figures whose raw output was not kept.
const peersFile = "peers-h200.txt"

// peerTime is what the peers need for a case with inputs of 16 bits, in ms as shown, empty where not measured.
type peerTime struct{ best, by, naive string }

func (p peerTime) String() string {
	if p.best == "" {
		return "–"
	}
	return p.best + " " + p.by
}

// peerTimes returns the peers' times by case, and where they are from.
func peerTimes(all *results) (map[string]peerTime, string, error) {
	file := "`bench/results/gpu/" + peersFile + "`"
	rows := all.find("Peer")
	if len(rows) == 0 {
		peers, err := peerTable(filepath.Join(all.dir, "gpu", peersFile))
		return peers, file + ", another run", err
	}
	peers := map[string]peerTime{}
	best := map[string]float64{}
	for _, r := range rows {
		name, ms := r.params["case"], 1e3*r.metrics["sec/op"]
		p, shown := peers[name], fmt.Sprintf("%.3f", ms)
		switch {
		case r.params["dtype"] == "fp32" || strings.HasPrefix(r.params["impl"], "compile"):
			continue
		case r.params["impl"] == "naive":
			p.naive = shown
		case p.best == "" || ms < best[name]:
			best[name], p.best, p.by = ms, shown, r.params["impl"]
		}
		peers[name] = p
	}
	return peers, fmt.Sprintf("%s, commit %.10s", file, rows[0].config["commit"]), nil
}

// peerTable reads a table: a line of columns, then a line for each case.
func peerTable(path string) (map[string]peerTime, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	peers := map[string]peerTime{}
	var columns []string
	for _, line := range strings.Split(string(raw), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "provenance:") {
			continue
		}
		if columns == nil {
			columns = fields
			continue
		}
		cells := map[string]string{}
		for k, value := range fields {
			cells[columns[k]] = value
		}
		peers[fields[0]] = peerTime{cells["best-peer"], cells["by"], cells["naive-fp16"]}
	}
	return peers, nil
}
