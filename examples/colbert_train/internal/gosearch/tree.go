package gosearch

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// sourceFile is a Go file and the import path of its package, relative to the root of the tree.
type sourceFile struct{ path, pkg string }

// readTree returns the documented functions of all Go files under root, public ones first, then by ID; of functions
// that exist once for each platform the first. skipped counts files that could not be parsed.
func readTree(root string) (functions []function, skipped int, err error) {
	files, err := sourceFiles(root)
	if err != nil {
		return nil, 0, err
	}
	perFile := make([][]function, len(files))
	bad := make([]bool, len(files))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				var err error
				perFile[i], err = readFile(files[i])
				bad[i] = err != nil
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	wg.Wait()

	seen := map[string]bool{}
	for i, fns := range perFile {
		if bad[i] {
			skipped++
		}
		for _, f := range fns {
			if !seen[f.id] {
				seen[f.id] = true
				functions = append(functions, f)
			}
		}
	}
	slices.SortFunc(functions, func(a, b function) int {
		if a.public != b.public {
			if a.public {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
	return functions, skipped, nil
}

// sourceFiles lists the Go files under root in lexical order, without tests, vendored code and other people's inputs.
func sourceFiles(root string) ([]sourceFile, error) {
	var out []sourceFile
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"))
			if hidden || name == "testdata" || name == "vendor" {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			out = append(out, sourceFile{path: path, pkg: filepath.ToSlash(dir)})
		}
		return nil
	})
	return out, err
}

// generatedHead is how far into a file the mark of generated code is looked for.
const generatedHead = 600

// readFile returns the functions of one file, none if the file is generated.
func readFile(file sourceFile) ([]function, error) {
	src, err := os.ReadFile(file.path)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(src[:min(len(src), generatedHead)], []byte("DO NOT EDIT")) {
		return nil, nil
	}
	tree, err := parser.ParseFile(token.NewFileSet(), file.path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []function
	for _, decl := range tree.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			if f, ok := newFunction(file.pkg, fn); ok {
				out = append(out, f)
			}
		}
	}
	return out, nil
}
