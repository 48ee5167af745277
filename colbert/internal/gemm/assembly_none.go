//go:build !amd64 || purego

package gemm

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

const maxTile = 1

func assembled[T layout.Float]() []*Kernel[T] { return nil }
