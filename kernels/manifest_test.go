package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An edited source without rebuilt images, or images without their sources, must not pass: MANIFEST lists the SHA-256 of
// every source and image as they were when the images were built (make kernels).
func TestManifestMatchesSourcesAndImages(t *testing.T) {
	text, err := os.ReadFile("MANIFEST")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("MANIFEST: line %q is not a sum and a name", line)
		}
		want[name] = sum
	}
	var files []string
	for _, pattern := range []string{"*.cu", "*.cuh", "*.ptx", "*.cubin"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no file %s (%v)", pattern, err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want[name] {
			t.Errorf("%s has SHA-256 %s, MANIFEST says %q: run make kernels", name, got, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("MANIFEST lists %s, which is not there", name)
	}
}
