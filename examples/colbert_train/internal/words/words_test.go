package words

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"Reads a whole file into memory.", "reads a whole file into memory"},
		{"an fs.FileInfo for the [Header].", "an fs file info for the header"},
		{"parseHTTPRequest2", "parse http request 2"},
		{"SHA256 and sha-256", "sha 256 and sha 256"},
		{"snake_case URLs, IDs and IPv6", "snake case urls ids and ipv 6"},
		{"A", "a"},
		{"HTTPRequest", "http request"},
		{"x.Y", "x y"},
		{"naïve Größe", "naïve größe"},
		{"e\u0301tude", "e\u0301tude"},
		{"日本語", "日本語"},
	} {
		if got := strings.Join(Split(c.text), " "); got != c.want {
			t.Errorf("Split(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestSet(t *testing.T) {
	if got, want := Set("the cat and The dog"), []string{"the", "cat", "and", "dog"}; !slices.Equal(got, want) {
		t.Errorf("Set = %q, want %q", got, want)
	}
}

// FuzzSplit checks what the rest of the example relies on: words are not empty, hold no separator and no capital that
// has a lower case, and cutting the words again changes nothing.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", "ReadFile reads", "IPv6URLs", "a1B2", "\xff\xfe", "ǅ", "İstanbul", "日本語 Ab"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, w := range Split(s) {
			if w == "" || strings.IndexFunc(w, func(r rune) bool { return !isWord(r) }) >= 0 {
				t.Fatalf("Split(%q) holds %q", s, w)
			}
			for _, r := range w {
				if unicode.ToLower(r) != r {
					t.Fatalf("Split(%q) holds the capital %q", s, r)
				}
			}
			if strings.IndexFunc(w, unicode.IsUpper) >= 0 {
				continue // a few capitals, such as ϔ, have no lower case
			}
			if again := Split(w); !slices.Equal(again, []string{w}) {
				t.Fatalf("Split(%q) = %q, and again %q", s, w, again)
			}
		}
	})
}
