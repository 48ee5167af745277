package vocab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var texts = []string{
	"reads a file, converts a str", "reading files", "Converts str to a file", "copies a file", "copy files", "conv", "conv",
}

// tokens returns the tokens of text.
func tokens(v *Vocabulary, text string) string {
	var out []string
	for _, id := range v.Encode(text, 100) {
		out = append(out, v.Token(id))
	}
	return strings.Join(out, " ")
}

func TestEncode(t *testing.T) {
	v := Learn(texts, 2)
	for _, c := range []struct{ text, want string }{
		{"reads files", "read ##s file ##s"},
		{"reading", "read"},                  // ##ing is in one text only
		{"copies copy", "copi copi"},         // ##y and ##es are in one text each
		{"strconv", "str conv"},              // spelled with stems
		{"fileReader", "file [UNK]"},         // reader is not a form of read for Porter
		{"a Convert xyz", "a convert [UNK]"}, // and not conv + ert
		{"", "[UNK]"},
		{"[PAD] ##s", "[UNK] [UNK]"}, // text cannot name special tokens
	} {
		if got := tokens(v, c.text); got != c.want {
			t.Errorf("tokens of %q are %q, want %q", c.text, got, c.want)
		}
	}
	if got := v.Encode("reads a file", 2); len(got) != 2 {
		t.Errorf("%d tokens, want the first 2", len(got))
	}
	if got := v.Longer([]string{"a file", "a file, reads", ""}, 2); got != 1 {
		t.Errorf("%d texts are longer than 2 tokens, want 1", got)
	}
	if Learn(texts, 1).Size() <= v.Size() {
		t.Error("rare tokens are kept at every frequency")
	}
}

// TestEncodedData: a text with a long run of letters, such as encoded data, took hours to spell.
func TestEncodedData(t *testing.T) {
	v := Learn(texts, 2)
	blob := strings.Repeat("str", 100_000)
	if got := tokens(v, "reads "+blob+" file"); got != "read ##s [UNK] file" {
		t.Errorf("tokens are %q", got)
	}
	if got := tokens(v, blob[:longestSpelled/3*3]); strings.Count(got, "str") != longestSpelled/3 {
		t.Errorf("the longest word that is spelled has tokens %q", got)
	}
}

func TestUnknown(t *testing.T) {
	v := Learn(texts, 2)
	for _, c := range []struct {
		text string
		want []string
		all  bool
	}{
		{"reads strconv", nil, false},
		{"xyz reads xyz, fileReader", []string{"xyz", "reader"}, false},
		{"xyz", []string{"xyz"}, true},
		{"...", nil, true},
	} {
		if got, all := v.Unknown(c.text); !slices.Equal(got, c.want) || all != c.all {
			t.Errorf("unknown words of %q are %q, all %t, want %q, %t", c.text, got, all, c.want, c.all)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vocab.txt")
	v := Learn(texts, 2)
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.tokens, v.tokens) || got.ids["read"] != v.ids["read"] {
		t.Errorf("read back %q, want %q", got.tokens, v.tokens)
	}
	for content, want := range map[string]string{
		"":                          `vocab.txt:1: a vocabulary starts with`,
		"[UNK]\n[PAD]\n":            `vocab.txt:1: a vocabulary starts with`,
		"[PAD]\n[UNK]\na\nb\na\n":   `vocab.txt:3: token "a" is empty or there twice`,
		"[PAD]\n[UNK]\na\n\nb\n":    `vocab.txt:4: token "" is empty or there twice`,
		"[PAD]\n[UNK]\n[UNK]\nx\n":  `vocab.txt:2: token "[UNK]" is empty or there twice`,
		"[PAD]\r\n[UNK]\r\na\r\n\n": `vocab.txt:1: a vocabulary starts with`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("loading %q: error %v, want one with %q", content, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("missing file: no error")
	}
}

// FuzzEncode checks for any text, also one that the vocabulary was learned from, that ids are in range, never padding,
// never too many, and that encoding is repeatable.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", "reads files", "strconv", "naïve Größen", "日本語", "\xff", "[PAD] [UNK] ##s", "Ⱥ İ ϔ", "eeding y s es"} {
		f.Add(s, 5)
	}
	common := Learn(texts, 2)
	f.Fuzz(func(t *testing.T, text string, maxTokens int) {
		if maxTokens < 1 || maxTokens > 1000 {
			t.Skip()
		}
		for _, v := range []*Vocabulary{common, Learn([]string{text}, 1)} {
			ids := v.Encode(text, maxTokens)
			if len(ids) < 1 || len(ids) > maxTokens {
				t.Fatalf("%d ids for at most %d", len(ids), maxTokens)
			}
			for _, id := range ids {
				if id <= Padding || int(id) >= v.Size() {
					t.Fatalf("id %d of %d tokens", id, v.Size())
				}
			}
			if again := v.Encode(text, maxTokens); !slices.Equal(ids, again) {
				t.Fatalf("ids %v, and again %v", ids, again)
			}
		}
	})
}
