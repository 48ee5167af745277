// Command colbert_train trains a small ColBERT on real text with in-batch negatives and the fused MaxSim, and tells how
// well it searches: against the same model untrained, and against BM25.
//
//	go run ./examples/colbert_train
//	go run ./examples/colbert_train -query "splits a path into directory and file name"
//
// The default task is made on the spot from the source of the Go installation: describe a function of the standard
// library, find it. Everything goes into the folder -out, over what an earlier run left there: report.json, train.jsonl,
// loss.png, the model, a checkpoint.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr, terminal); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "colbert_train:", err)
			os.Exit(1)
		}
	}
}

// run is the command. bar says that stderr can show a progress bar.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, bar bool) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	device, err := maxsim.OpenDevice(o.device)
	if err != nil {
		return err
	}
	switch {
	case o.query != "":
		err = search(o, device, stdout)
	case o.exportData != "":
		err = export(o, stdout)
	default:
		err = trainAndReport(ctx, o, device, stdout, stderr, bar)
	}
	return errors.Join(err, device.Close())
}
