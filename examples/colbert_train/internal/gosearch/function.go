// Package gosearch makes a retrieval task of Go source: describe it, find the function.
//
//	query     the first sentence of a function's doc comment, without the function's own name
//	document  import path, receiver, name and signature, cut into words
//
// That a doc comment belongs to its function is what makes the judgements: they are derived, not human.
package gosearch

import (
	"go/ast"
	"go/doc"
	"go/printer"
	"go/token"
	"strings"
	"unicode/utf8"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/words"
)

// function is one documented function or method.
type function struct {
	id        string // import path, receiver and name: net/http.Client.Do
	pkg       string // import path
	public    bool   // exported, in a package that everyone can import
	query     string // first sentence of the doc comment
	text      string // the words of the document
	signature string // as written in the source
}

// Short comments and signatures say too little to be found by.
const (
	minQueryFields   = 4
	minDocumentWords = 3
)

// newFunction reads a declaration of package pkg and says whether it is fit to be searched.
func newFunction(pkg string, decl *ast.FuncDecl) (function, bool) {
	name := decl.Name.Name
	if decl.Doc == nil || name == "_" {
		return function{}, false
	}
	receiver, ok := receiverName(decl)
	if !ok {
		return function{}, false
	}
	fields := strings.Fields(new(doc.Package).Synopsis(decl.Doc.Text()))
	if len(fields) > 1 && (fields[0] == name || fields[0] == receiver+"."+name) {
		fields = fields[1:]
	}
	if len(fields) < minQueryFields || strings.HasPrefix(fields[0], "Deprecated") {
		return function{}, false
	}
	text := documentWords(pkg, receiver, decl)
	if len(text) < minDocumentWords {
		return function{}, false
	}
	f := function{
		id:        pkg + "." + name,
		pkg:       pkg,
		public:    decl.Name.IsExported() && !isPrivate(pkg),
		query:     strings.Join(fields, " "),
		text:      strings.Join(text, " "),
		signature: signature(decl),
	}
	if receiver != "" {
		f.id = pkg + "." + receiver + "." + name
		f.public = f.public && ast.IsExported(receiver)
	}
	return f, true
}

// receiverName returns the name of the receiver's type, "" for a function, and whether it could be read.
func receiverName(decl *ast.FuncDecl) (string, bool) {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return "", true
	}
	t := decl.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch x := t.(type) { // type parameters
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	id, ok := t.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}

// isPrivate says whether users cannot import pkg.
func isPrivate(pkg string) bool {
	return strings.HasPrefix(pkg+"/", "cmd/") || strings.Contains("/"+pkg+"/", "/internal/")
}

// documentWords returns the distinct words of path, receiver, name and signature. Single letters say nothing.
func documentWords(pkg, receiver string, decl *ast.FuncDecl) []string {
	names := []string{pkg, receiver, decl.Name.Name}
	ast.Inspect(decl.Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names = append(names, id.Name)
		}
		return true
	})
	var out []string
	for _, w := range words.Set(strings.Join(names, " ")) {
		if r, size := utf8.DecodeRuneInString(w); size < len(w) || '0' <= r && r <= '9' {
			out = append(out, w)
		}
	}
	return out
}

// signature prints the declaration without doc comment and body, on one line.
func signature(decl *ast.FuncDecl) string {
	var sb strings.Builder
	bare := &ast.FuncDecl{Recv: decl.Recv, Name: decl.Name, Type: decl.Type}
	if err := printer.Fprint(&sb, token.NewFileSet(), bare); err != nil {
		return decl.Name.Name
	}
	return strings.Join(strings.Fields(sb.String()), " ")
}
