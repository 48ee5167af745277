//go:build !amd64 || purego

package adam

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

func kernels[T layout.Float]() []kernel[T] { return nil }
