// Package words cuts text into the lower-case words that every system of the example sees: queries and documents,
// prose and identifiers, BM25 and ColBERT alike. One rule for all of them keeps the comparison fair.
package words

import (
	"strings"
	"unicode"
)

// glued are spellings whose capitals would be cut in the wrong place: URLs is urls, not ur + ls.
var glued = strings.NewReplacer("IPv4", "Ipv4", "IPv6", "Ipv6", "IPv", "Ipv", "URLs", "Urls", "IDs", "Ids", "APIs", "Apis")

// Split returns the words of text in order, lower-case. A word is a run of letters or a run of digits; inside a run
// of letters an identifier is cut where its capitals begin:
//
//	"an fs.FileInfo for the [Header]" → an fs file info for the header
//	"parseHTTPRequest2"               → parse http request 2
func Split(text string) []string {
	rs := []rune(glued.Replace(text))
	var out []string
	start := 0
	cut := func(end int) {
		if end > start {
			out = append(out, strings.ToLower(string(rs[start:end])))
		}
		start = end
	}
	for i, r := range rs {
		if !isWord(r) {
			cut(i)
			start = i + 1
			continue
		}
		if i == start {
			continue
		}
		prev := rs[i-1]
		switch {
		case unicode.IsDigit(r) != unicode.IsDigit(prev), unicode.IsUpper(r) && !unicode.IsUpper(prev):
			cut(i)
		case unicode.IsUpper(prev) && unicode.IsLower(r) && i-1 > start:
			cut(i - 1) // the last capital of HTTPRequest begins the next word
		}
	}
	cut(len(rs))
	return out
}

// Set returns the distinct words of text in the order of their first appearance.
func Set(text string) []string {
	seen := map[string]bool{}
	var out []string
	for _, w := range Split(text) {
		if !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// isWord says whether r belongs to a word. Marks are kept with the letter that they modify.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }
