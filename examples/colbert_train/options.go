package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

// options are the command line.
type options struct {
	train.Config

	out        string
	resume     bool
	device     string
	goSrc      string
	data       string
	exportData string
	query      string
	top        int
}

const usage = `Trains a small ColBERT with in-batch negatives and compares it with BM25.

  go run ./examples/colbert_train                          train, evaluate, write into run/
  go run ./examples/colbert_train -resume                  continue an interrupted run
  go run ./examples/colbert_train -query "…"               search with the trained model

The task is made from the source of the Go installation: describe a function of the standard library, find it.
-go-src makes the same task of other Go source. -data reads a task from files:

  a BEIR folder      corpus.jsonl, queries.jsonl, qrels/train.tsv, test.tsv and, if there are, dev.tsv, unseen.tsv
                     and triples.jsonl with further training examples; -export-data writes such a folder
  triples (.jsonl)   one object a line: {"query": "…", "positive": "…", "negatives": ["…", …]}; a file, or a folder
                     of them; dev and test queries are held out

A run without -resume overwrites what an earlier one left in -out.

Flags:
`

// parse reads the command line. With -resume the settings are those of the interrupted run. The help goes to help.
func parse(args []string, help io.Writer) (*options, error) {
	o, _, err := parseWith(train.Default(), args, help)
	if err != nil || !o.resume {
		return o, err
	}
	cfg, err := train.ReadConfig(o.out)
	if err != nil {
		return nil, err
	}
	o, fs, err := parseWith(cfg, args, help)
	if err != nil {
		return nil, err
	}
	if o.Config != cfg {
		settings := settingNames()
		fs.Visit(func(f *flag.Flag) {
			if slices.Contains(settings, f.Name) && f.Value.String() != f.DefValue {
				err = errors.Join(err, fmt.Errorf("-%s %v: the run in %s has %v, and a resumed run keeps its settings",
					f.Name, f.Value, o.out, f.DefValue))
			}
		})
	}
	return o, err
}

// parseWith reads the command line with defaults for the settings of a run.
func parseWith(defaults train.Config, args []string, help io.Writer) (*options, *flag.FlagSet, error) {
	o := &options{Config: defaults}
	fs := flag.NewFlagSet("colbert_train", flag.ContinueOnError)
	addSettings(fs, &o.Config)
	fs.StringVar(&o.out, "out", "run", "`folder` of report.json, train.jsonl, loss.png, model/ and the checkpoint")
	fs.BoolVar(&o.resume, "resume", false, "continue the run in -out from its checkpoint, on the same curve; -data or -go-src as before")
	fs.StringVar(&o.device, "device", "", "`device` that MaxSim runs on: cpu, cuda or cuda:N (built with -tags maxsim_cuda); none: the environment variable "+maxsim.DeviceVariable+", else cpu")
	fs.StringVar(&o.goSrc, "go-src", "", "make the task from the Go source in this `folder`")
	fs.StringVar(&o.data, "data", "", "read the task from this `path`: a BEIR folder, a file of triples or a folder of them")
	fs.StringVar(&o.exportData, "export-data", "", "write the task into this `folder` in BEIR format, and do not train")
	fs.StringVar(&o.query, "query", "", "search with the model in -out for this `text`, and do not train")
	fs.IntVar(&o.top, "top", 5, "how many documents -query shows")

	fs.SetOutput(io.Discard) // errors are printed by main, once
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		if err := writeHelp(fs, help); err != nil {
			return nil, nil, err
		}
		return nil, nil, err
	}
	if err == nil {
		err = o.check(fs)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w (-h explains the flags)", err)
	}
	return o, fs, nil
}

// writeHelp writes the usage and what the flags mean.
func writeHelp(fs *flag.FlagSet, w io.Writer) error {
	out := bufio.NewWriter(w) // keeps its first error for Flush
	fs.SetOutput(out)
	fmt.Fprint(out, usage)
	fs.Lookup("temperature").DefValue = "1/60" // not 0.016666666666666666
	fs.PrintDefaults()
	return out.Flush()
}

// addSettings adds the flags that decide the course of training.
func addSettings(fs *flag.FlagSet, c *train.Config) {
	fs.Uint64Var(&c.Seed, "seed", c.Seed, "seed of everything random")
	fs.IntVar(&c.Steps, "steps", c.Steps, "training steps")
	fs.IntVar(&c.Batch, "batch", c.Batch, "queries in a step; each has the documents of the others as negatives")
	fs.IntVar(&c.Negatives, "negatives", c.Negatives, "further negatives of each query in a step, where the data has them")
	fs.IntVar(&c.Model.Dim, "dim", c.Model.Dim, "length of a token vector")
	fs.IntVar(&c.Model.Hidden, "hidden", c.Model.Hidden, "width of the token embedding before the projection")
	fs.IntVar(&c.Model.QueryTokens, "query-tokens", c.Model.QueryTokens, "tokens of a query; longer ones are cut")
	fs.IntVar(&c.Model.DocTokens, "doc-tokens", c.Model.DocTokens, "tokens of a document; longer ones are cut")
	fs.IntVar(&c.MinTexts, "min-texts", c.MinTexts, "a token gets into the vocabulary if it is in so many texts; a document counts again for each training query it answers")
	fs.Float64Var(&c.LearningRate, "lr", c.LearningRate, "highest learning rate; linear warm-up and decay")
	fs.IntVar(&c.Warmup, "warmup", c.Warmup, "steps of the warm-up")
	fs.Float64Var(&c.Temperature, "temperature", c.Temperature, "temperature of the InfoNCE loss")
	fs.Float64Var(&c.Dropout, "dropout", c.Dropout, "share of query and document tokens that a step leaves out")
	fs.Float64Var(&c.ClipNorm, "clip", c.ClipNorm, "largest norm of the gradient; 0 does not clip")
	fs.IntVar(&c.EvalEvery, "eval-every", c.EvalEvery, "steps between two looks at dev queries, with a checkpoint each")
}

// settingNames returns the names of the flags that addSettings adds.
func settingNames() (names []string) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	addSettings(fs, &train.Config{})
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// emptyFlags reports flags that were given an empty text, which is a variable that a shell did not find rather than a
// wish: -query "$Q" must not train.
func emptyFlags(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		if strings.TrimSpace(f.Value.String()) == "" {
			err = errors.Join(err, fmt.Errorf("-%s is empty", f.Name))
		}
	})
	return err
}

// check reports flags that are empty, contradict each other or have no effect.
func (o *options) check(fs *flag.FlagSet) error {
	if err := emptyFlags(fs); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.goSrc != "" && o.data != "":
		return errors.New("-go-src and -data both name the task: give one")
	case o.query != "" && o.exportData != "":
		return errors.New("-query and -export-data exclude each other")
	case o.top < 1:
		return fmt.Errorf("-top is %d, expected at least 1", o.top)
	}
	if err := o.checkUsed(fs); err != nil {
		return err
	}
	return o.Config.Check()
}

// checkUsed reports flags that the command at hand would ignore.
func (o *options) checkUsed(fs *flag.FlagSet) error {
	command, unused := "training", []string{"top"}
	switch {
	case o.query != "":
		command, unused = "-query", append(settingNames(), "resume")
	case o.exportData != "":
		command, unused = "-export-data", append(settingNames(), "resume", "out", "device", "top")
	}
	var given []string
	fs.Visit(func(f *flag.Flag) {
		if slices.Contains(unused, f.Name) {
			given = append(given, "-"+f.Name)
		}
	})
	if len(given) > 0 {
		return fmt.Errorf("%s has no use for %s", command, strings.Join(given, ", "))
	}
	return nil
}
