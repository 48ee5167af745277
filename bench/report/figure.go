package main

import (
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// draw writes the README's figure: the rate of one core, this package beside OpenBLAS at its best arrangement, for every
// shape of the comparison, with the machine's own FMA peak as the line to reach.
func draw(path string, all *results) error {
	rows, err := all.need("OpenBLAS", "provider", "cpu-avx512")
	if err != nil {
		return err
	}
	var ours, theirs plotter.Values
	var names []string
	peak := 0.0
	for _, r := range rows {
		rate, _, ok := openBLAS(r)
		if !ok {
			return fmt.Errorf("%s compares with no OpenBLAS", r.shape())
		}
		ours, theirs = append(ours, r.metrics["GFLOP/s"]), append(theirs, rate)
		names = append(names, strings.ReplaceAll(r.shape(), ", ", "\n"))
		peak = max(peak, 100*r.metrics["GFLOP/s"]/r.metrics["%peak"])
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("MaxSim forward with argmax, float32, one core of %s", strings.TrimSuffix(rows[0].config["processor"], ", 2 cores"))
	p.Y.Label.Text = "GFLOP/s"
	p.Y.Min, p.Y.Max = 0, peak*1.35
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	width := vg.Points(18)
	for k, series := range []struct {
		name   string
		values plotter.Values
		color  color.RGBA
	}{{"maxsim, AVX-512", ours, color.RGBA{30, 110, 180, 255}}, {"OpenBLAS, best arrangement + max", theirs, color.RGBA{200, 200, 200, 255}}} {
		bars, err := plotter.NewBarChart(series.values, width)
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle.Width, bars.Offset = series.color, 0, width*vg.Length(2*k-1)/2
		p.Add(bars)
		p.Legend.Add(series.name, bars)
	}
	line, err := plotter.NewLine(plotter.XYs{{X: -0.5, Y: peak}, {X: float64(len(rows)) - 0.5, Y: peak}})
	if err != nil {
		return err
	}
	line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(line)
	p.Legend.Add("FMA peak, measured", line)
	p.NominalX(names...)
	return p.Save(10*vg.Inch, 4*vg.Inch, path)
}
