package gosearch

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// StandardLibrary returns the source folder of the Go installation and its version, as the go command says.
func StandardLibrary() (src, version string, err error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", "", fmt.Errorf("asking the go command for the Go installation: %w; use -go-src or -data without one", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		return "", "", fmt.Errorf("go env GOROOT GOVERSION printed %q, expected two lines", out)
	}
	return filepath.Join(strings.TrimSpace(lines[0]), "src"), strings.TrimSpace(lines[1]), nil
}
