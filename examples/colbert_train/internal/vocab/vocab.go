// Package vocab turns text into the token ids of the model. Its vocabulary is learned from the texts that are searched
// and trained on, so it holds only rows that occur.
//
// A word becomes its Porter stem and, marked by ##, the rest of the word: reads → read ##s, reading → read ##ing. The
// shared stem lets forms of a word meet before anything is learned, and the model learns what endings are worth. BERT's
// WordPiece keeps frequent forms whole; here, with a few thousand training pairs, their vectors would have to be
// learned one by one.
package vocab

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	porterstemmer "github.com/blevesearch/go-porterstemmer"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

// The tokens that are in every vocabulary: the filling of a short text, and a word that cannot be spelled.
const (
	Padding = 0
	Unknown = 1
)

var special = []string{Padding: "[PAD]", Unknown: "[UNK]"}

// ending marks a token that is the rest of a word.
const ending = "##"

// Vocabulary maps tokens to ids. It is not changed after it was made.
type Vocabulary struct {
	tokens []string
	ids    map[string]int32
}

// Learn returns the vocabulary of all tokens that are in at least minTexts of the texts, in alphabetical order.
func Learn(texts []string, minTexts int) *Vocabulary {
	count := map[string]int{}
	for _, text := range texts {
		seen := map[string]bool{}
		for _, w := range words.Set(text) {
			for _, token := range cut(w) {
				if !seen[token] {
					seen[token] = true
					count[token]++
				}
			}
		}
	}
	var learned []string
	for token, n := range count {
		if n >= minTexts {
			learned = append(learned, token)
		}
	}
	slices.Sort(learned)
	return newVocabulary(append(slices.Clone(special), learned...))
}

func newVocabulary(tokens []string) *Vocabulary {
	v := &Vocabulary{tokens: tokens, ids: make(map[string]int32, len(tokens))}
	for id, token := range tokens {
		v.ids[token] = int32(id)
	}
	return v
}

// Empty says that nothing was learned.
func (v *Vocabulary) Empty() bool { return len(v.tokens) == len(special) }

// Size returns the number of tokens.
func (v *Vocabulary) Size() int { return len(v.tokens) }

// Token returns the token with an id.
func (v *Vocabulary) Token(id int32) string { return v.tokens[id] }

// Encode returns the ids of the first maxTokens tokens of text. A text without words is one unknown token, so that no
// text is empty.
func (v *Vocabulary) Encode(text string, maxTokens int) []int32 {
	var out []int32
	for _, w := range words.Split(text) {
		if out = append(out, v.word(w)...); len(out) >= maxTokens {
			break
		}
	}
	if len(out) == 0 {
		out = append(out, Unknown)
	}
	return out[:min(len(out), maxTokens)]
}

// Longer counts the texts of more than maxTokens tokens, which Encode cuts.
func (v *Vocabulary) Longer(texts []string, maxTokens int) int {
	n := 0
	for _, text := range texts {
		if len(v.Encode(text, maxTokens+1)) > maxTokens {
			n++
		}
	}
	return n
}

// Unknown returns the distinct words of text that become the unknown token. all says that there are no others.
func (v *Vocabulary) Unknown(text string) (unknown []string, all bool) {
	all = true
	for _, w := range words.Set(text) {
		if v.word(w)[0] == Unknown {
			unknown = append(unknown, w)
		} else {
			all = false
		}
	}
	return unknown, all
}

// word returns the ids of one word: stem and ending; or, if the stem is not known, the fewest known stems that spell
// the word together (strconv → str conv); or the unknown token.
func (v *Vocabulary) word(w string) []int32 {
	pieces := cut(w)
	if stem, ok := v.ids[pieces[0]]; ok {
		out := []int32{stem}
		if len(pieces) > 1 {
			if id, ok := v.ids[pieces[1]]; ok {
				out = append(out, id)
			}
		}
		return out
	}
	if out := v.spell(w); out != nil {
		return out
	}
	return []int32{Unknown}
}

const (
	// shortestPiece is the least number of bytes of a piece of a spelled word: single letters say nothing.
	shortestPiece = 2
	// longestSpelled is the largest number of bytes of a word that is spelled: the time grows with its square, and
	// what is longer is encoded data rather than a word.
	longestSpelled = 256
)

// spell cuts w into as few tokens as possible; of equally short ways the one with the longer first tokens. It returns
// nil if there is no way.
func (v *Vocabulary) spell(w string) []int32 {
	if len(w) > longestSpelled {
		return nil
	}
	fewest := make([]int, len(w)+1) // tokens for w[at:], 0 if there is no way
	first := make([]int, len(w))    // where the first of them ends
	for at := len(w) - shortestPiece; at >= 0; at-- {
		if !utf8.RuneStart(w[at]) {
			continue
		}
		for end := len(w); end >= at+shortestPiece; end-- {
			_, known := v.ids[w[at:end]]
			possible := end == len(w) || fewest[end] > 0
			if known && possible && (fewest[at] == 0 || fewest[end]+1 < fewest[at]) {
				fewest[at], first[at] = fewest[end]+1, end
			}
		}
	}
	if len(w) == 0 || fewest[0] == 0 {
		return nil
	}
	var out []int32
	for at := 0; at < len(w); at = first[at] {
		out = append(out, v.ids[w[at:first[at]]])
	}
	return out
}

// cut returns the stem of a word and, if the stem is not all of it, the marked rest.
func cut(w string) []string {
	stem := porterstemmer.StemString(w)
	same := 0
	for same < len(stem) && same < len(w) && stem[same] == w[same] {
		same++
	}
	for same > 0 && same < len(w) && !utf8.RuneStart(w[same]) {
		same--
	}
	if same == len(w) {
		return []string{stem}
	}
	return []string{stem, ending + w[same:]}
}

// Save writes one token a line; the line number, from 0, is the id.
func (v *Vocabulary) Save(path string) error {
	return os.WriteFile(path, []byte(strings.Join(v.tokens, "\n")+"\n"), 0o644)
}

// Load reads what Save wrote.
func Load(path string) (*Vocabulary, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tokens := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if len(tokens) < len(special) || !slices.Equal(tokens[:len(special)], special) {
		return nil, fmt.Errorf("%s:1: a vocabulary starts with the lines %q", path, special)
	}
	v := newVocabulary(tokens)
	for id, token := range tokens {
		if token == "" || v.ids[token] != int32(id) {
			return nil, fmt.Errorf("%s:%d: token %q is empty or there twice", path, id+1, token)
		}
	}
	return v, nil
}
