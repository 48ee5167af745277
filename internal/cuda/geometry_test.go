package cuda

import (
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestParamsMatchTheKernels compares the parameter structs with the CUDA header field by field. Every field is a 64-bit
// word there, so names and order are all there is.
func TestParamsMatchTheKernels(t *testing.T) {
	source, err := os.ReadFile("../../kernels/params.cuh")
	if err != nil {
		t.Fatal(err)
	}
	for name, mirror := range map[string]any{
		"PackParams": packParams{}, "OwnerParams": ownerParams{}, "ForwardParams": forwardParams{}, "ScoresParams": scoresParams{},
		"CsrParams": csrParams{}, "GradDParams": gradDParams{}, "GradQParams": gradQParams{}, "ArgmaxParams": argmaxParams{},
	} {
		want := fieldsOf(t, string(source), name)
		got := wordsOf(t, name, reflect.TypeOf(mirror))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is\n%v, the kernels have\n%v", name, got, want)
		}
	}
}

// wordsOf returns the names of the words of a parameter struct, those of structs inside it with the field's name in front.
func wordsOf(t *testing.T, name string, typ reflect.Type) (words []string) {
	for k := range typ.NumField() {
		f := typ.Field(k)
		switch {
		case f.Offset != uintptr(8*len(words)):
			t.Errorf("%s.%s is not the %dth word", name, f.Name, len(words))
		case f.Type.Kind() == reflect.Struct:
			for _, word := range wordsOf(t, name+"."+f.Name, f.Type) {
				words = append(words, f.Name+"."+word)
			}
			continue
		case f.Type.Size() != 8:
			t.Errorf("%s.%s is not one word", name, f.Name)
		}
		words = append(words, strings.Replace(f.Name, "rowMap", "map", 1)) // map is a keyword of Go
	}
	return words
}

func fieldsOf(t *testing.T, source, name string) []string {
	body := regexp.MustCompile(`(?s)struct ` + name + ` \{(.*?)\n\};`).FindStringSubmatch(source)
	if body == nil {
		t.Fatalf("no struct %s", name)
	}
	text := regexp.MustCompile(`//[^\n]*`).ReplaceAllString(body[1], "")
	var names []string
	for _, line := range strings.Split(text, ";") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		kind, list, _ := strings.Cut(line, " ")
		inner := []string{""}
		if kind != "maxsim_ptr" && kind != "int64_t" {
			inner = fieldsOf(t, source, kind)
		}
		for _, field := range strings.Split(list, ",") {
			for _, word := range inner {
				names = append(names, strings.TrimSuffix(strings.TrimSpace(field)+"."+word, "."))
			}
		}
	}
	return names
}

func TestGrids(t *testing.T) {
	on := Properties{Multiprocessors: 132}
	for _, c := range []struct {
		call call
		x, y uint32
	}{
		{packCall("k", 1, 0), 1, 1}, {packCall("k", 9, 1), 3, 1}, {packCall("maxsim_pack_split", 33, 32), 3, 1}, {ownerCall(70000), 8750, 1},
		{scoresCall("k", 33), 2, 1}, {argmaxCall(5, 257), 10, 1},
		{exactCall("exact_f32", on), 528, 1},
		{gradDCall("bf16", 128*300, 1<<19, 128, 2, on), 528, 1}, {gradDCall("f32", 128*300, 1<<19, 256, 4, on), 528, 2},
		{gradDCall("bf16", 1024*300, 1<<19, 128, 2, on), 2112, 1}, {gradDCall("bf16", 20, 99, 128, 2, on), 3, 1},
	} {
		if c.call.grid != (dim3{c.x, c.y, 1}) {
			t.Errorf("%v, expected grid (%d,%d,1)", c.call, c.x, c.y)
		}
	}
}

func TestInverseCoversEveryDocument(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10000 {
		documents, longest, meets := rng.Int64N(100000)+1, rng.Int64N(1<<rng.IntN(24))+1, rng.Int64N(1<<rng.IntN(24))+1
		p := planCSR(documents, longest, meets, 132)
		if p.tiles*p.utile < longest || p.segs < 1 || p.segs > max(1, meets) || p.tiles > 65535 || p.segs > 65535 {
			t.Fatalf("%d documents of %d rows that meet %d: %+v", documents, longest, meets, p)
		}
		for _, c := range p.calls(documents) {
			if c.shared > csrShared || int64(c.grid.x) != documents {
				t.Fatalf("%d documents of %d rows: %v, %d shared bytes", documents, longest, c, c.shared)
			}
		}
	}
}

// TestChosenKernelsExist looks every kernel that the engine can choose up in the committed images.
func TestChosenKernelsExist(t *testing.T) {
	images := map[bool]string{}
	for _, name := range []string{"forward_sm80.ptx", "forward_sm90a.cubin"} {
		image, err := os.ReadFile("../../kernels/" + name)
		if err != nil {
			t.Fatal(err)
		}
		images[strings.Contains(name, "sm90a")] = string(image)
	}
	seen := map[string]bool{}
	for _, on := range []Properties{{Major: 8}, {Major: 8, Minor: 9}, {Major: 9}, {Major: 10}, {Major: 12}} {
		for dim := int64(exactBelow); dim <= 4096; dim += 8 {
			for _, precision := range []Precision{Float32, TF32, BF16, FP16} {
				st := storageOf[float32](precision, int(dim))
				if st.pack == "" {
					continue
				}
				for _, rows := range []int64{1, 64, 65, 128, 129, 1 << 20} {
					k := chooseForward(on, st.product, st.width(dim)*st.element, rows, rows%2 == 0)
					if seen[k.kernel] {
						continue
					}
					if k.hopper != (on.Major == 9) || !strings.Contains(images[k.hopper], k.kernel) {
						t.Fatalf("compute capability %d, %v, dim %d, %d query rows: no kernel %s", on.Major, precision, dim, rows, k.kernel)
					}
					seen[k.kernel] = true
				}
			}
		}
	}
	t.Logf("%d kernels", len(seen))
}

func TestReciprocalDivides(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	check := func(n, x int64) {
		mul, shift := reciprocal(n)
		if mul >= 1<<32 {
			t.Fatalf("multiplier of %d does not fit 32 bits", n)
		}
		if got := int64(uint64(x) * uint64(mul) >> 32 >> shift); got != x/n {
			t.Fatalf("%d/%d is %d, got %d", x, n, x/n, got)
		}
	}
	for range 200000 {
		n := (rng.Int64N(1<<rng.IntN(29)) + 1) * slab
		for _, x := range []int64{0, n - 1, n, 1<<31 - 1, rng.Int64N(1 << 31), (1<<31 - 1) / n * n, max(0, (1<<31-1)/n*n-1)} {
			if n < 1<<31 {
				check(n, x)
			}
		}
	}
	if mul, shift := reciprocal(0); mul != 0 || shift != 0 {
		t.Errorf("ragged queries: %d, %d", mul, shift)
	}
}
