package enginetest

import (
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// flaw is a mistake that an engine can make.
type flaw string

const (
	none                  flaw = "none"
	lastOnTies            flaw = "the last token wins a tie"
	zerosDiffer           flaw = "+0 beats -0"
	documentMaskIgnored   flaw = "masked document tokens take part"
	queryMaskIgnored      flaw = "masked query tokens take part"
	nanIgnored            flaw = "the maximum ignores NaN"
	nanFirstOnly          flaw = "NaN counts only as the first token"
	nanByBatch            flaw = "the argmax beside a NaN depends on the batch"
	emptyMinusInf         flaw = "an empty document scores -Inf"
	emptyArgmaxZero       flaw = "an empty document has argmax 0"
	minusInfIsEmpty       flaw = "a score of -Inf is taken for an empty document"
	minusInfNoWinner      flaw = "no token wins if every similarity is -Inf"
	startsAtZero          flaw = "the maximum starts at 0"
	sentinel              flaw = "the maximum starts at -1e4"
	splitOnTies           flaw = "the gradient is split among ties"
	everyTie              flaw = "every tied token gets the gradient"
	negativeUpstreamLost  flaw = "a negative upstream gradient is lost"
	nanUpstreamLost       flaw = "a NaN in the upstream gradient is lost"
	oneHot                flaw = "rows that did not win get 0·Inf"
	lastScoreUnwritten    flaw = "the last score is not written"
	dqAccumulates         flaw = "dq is added to what was there"
	ddUnwritten           flaw = "rows of dd that nobody chose are not written"
	inputChanged          flaw = "an input is changed"
	crossesBoundary       flaw = "the token behind a document takes part"
	capacityTape          flaw = "the tape of capacity rows is 0"
	argmaxAmongValid      flaw = "the argmax counts valid tokens only"
	byteArgmax            flaw = "the argmax is cut to 12 bits"
	longDocument          flaw = "tokens beyond 4096 are left out"
	documentLimit         flaw = "documents beyond 65535 are left out"
	dimTail               flaw = "the tail of dim beyond a vector is left out"
	dimLimit              flaw = "coordinates beyond 1024 are left out"
	groupIgnored          flaw = "every candidate is the first"
	orderByBatch          flaw = "the order of a sum depends on the batch"
	orderByPadding        flaw = "the order of a sum depends on the padding"
	halfFactors           flaw = "factors are rounded to 11 bits"
	singleSums            flaw = "float64 is summed in float32"
	changing              flaw = "every second call gives other bits"
	byThreads             flaw = "the bits depend on GOMAXPROCS"
	gradientOrder         flaw = "the bits of a gradient depend on GOMAXPROCS"
	sharedTape            flaw = "all tapes share memory"
	onlyOwnTape           flaw = "a tape from host memory is ignored"
	needsBoth             flaw = "one gradient is not computed without the other"
	noScoresWithoutRecord flaw = "no scores without a tape"
	tapeUnasked           flaw = "a tape although none was asked for"
)

// caughtBy names, for each flaw, a check that must find it.
var caughtBy = map[flaw]string{
	lastOnTies: "Exact/ties", zerosDiffer: "Special/-0", documentMaskIgnored: "Exact/", queryMaskIgnored: "Exact/",
	nanIgnored: "Special/", nanFirstOnly: "Special/", nanByBatch: "Invariance/NaN", emptyMinusInf: "Cases/empty", emptyArgmaxZero: "Cases/empty",
	minusInfIsEmpty: "Special/document of -Inf", minusInfNoWinner: "Special/document of -Inf", startsAtZero: "Exact/negative",
	sentinel: "Cases/sims_below_sentinel", splitOnTies: "Exact/ties", everyTie: "Exact/ties", negativeUpstreamLost: "Exact/",
	nanUpstreamLost: "Special/upstream gradient is NaN", oneHot: "Special/", lastScoreUnwritten: "Exact/", dqAccumulates: "Exact/", ddUnwritten: "Exact/", inputChanged: "Exact/",
	crossesBoundary: "Cases/packed", capacityTape: "Cases/packed_capacity", argmaxAmongValid: "Cases/mask_holes",
	byteArgmax: "Exact/long", longDocument: "Exact/long",
	documentLimit: "Exact/bq=2,tq=1,bd=70000", dimTail: "Exact/", dimLimit: "Exact/bq=1,tq=2,bd=1,td=5,dim=4096",
	groupIgnored: "Exact/", orderByBatch: "Invariance/", orderByPadding: "Invariance/", halfFactors: "Bound/",
	singleSums: "Bound/", changing: "Repeat/run to run", byThreads: "Repeat/GOMAXPROCS", gradientOrder: "Repeat/GOMAXPROCS",
	sharedTape: "Calls/tapes of several passes", onlyOwnTape: "Calls/tape in host memory", needsBoth: "Calls/backward without",
	noScoresWithoutRecord: "Calls/forward without record", tapeUnasked: "Calls/forward without record",
}

func TestPlainEngineConforms(t *testing.T) {
	t.Run("float32", func(t *testing.T) { Run(t, newPlain[float32](none), Options{}) })
	t.Run("float64", func(t *testing.T) { Run(t, newPlain[float64](none), Options{}) })
}

// A suite that cannot fail is worth nothing: every flaw must be found, by the check that is there for it.
func TestSuiteCatchesEveryFlaw(t *testing.T) {
	for f, by := range caughtBy {
		t.Run(string(f), func(t *testing.T) {
			if f == singleSums {
				mustCatch(t, newPlain[float64](f), by)
				return
			}
			mustCatch(t, newPlain[float32](f), by)
		})
	}
}

func mustCatch[T layout.Float](t *testing.T, e Engine[T], by string) {
	ran := 0
	for _, c := range checks(e, Options{}) {
		if !strings.HasPrefix(c.name, by) {
			continue
		}
		ran++
		if err := caught(c); err != nil {
			t.Logf("%s: %v", c.name, err)
			return
		}
	}
	t.Errorf("not caught by any of %d checks that begin with %q", ran, by)
}

// caught runs a check; a flaw may also panic with an index.
func caught(c check) (err error) {
	defer func() {
		if r := recover(); r != nil && err == nil {
			err = errOf(r)
		}
	}()
	return c.run()
}

func errOf(r any) error {
	if err, ok := r.(error); ok {
		return err
	}
	panic(r)
}

// A reduced precision passes with its own roundoff stated; without, it is a flaw.
func TestReducedPrecision(t *testing.T) {
	for _, c := range checks(newPlain[float32](halfFactors), Options{Roundoff: 0x1p-11}) {
		switch group, _, _ := strings.Cut(c.name, "/"); group {
		case "Cases", "Exact", "Bound":
			if err := c.run(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

func TestGuard(t *testing.T) {
	g := guardedOutput[float32](5, 3)
	if err := g.check("x"); err != nil {
		t.Error(err)
	}
	g.x[4] = 1
	if err := g.check("x"); err != nil {
		t.Error(err)
	}
	g.memory[g.lo+5] = 0
	if err := g.check("x"); err == nil {
		t.Error("a write behind the slice is not seen")
	}
	in := guardedInput([]float32{1, 2}, 0)
	in.x[1] = 3
	if err := in.check("x"); err == nil {
		t.Error("a changed input is not seen")
	}
}

func FuzzPlain(f *testing.F) { Fuzz(f, newPlain[float32](none)) }
