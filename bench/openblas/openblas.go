// Package openblas scores documents with OpenBLAS products and a vectorised maximum: what MaxSim costs without a fused
// kernel, in the arrangements that people use. It needs cgo and libopenblas.
package openblas

/*
#cgo CFLAGS: -O3 -march=native
#cgo LDFLAGS: -lopenblas -lm
#include <cblas.h>
#include "gemmmax.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

func init() { C.openblas_set_num_threads(1) }

// Problem is all pairs of dense queries and documents, float32.
type Problem struct {
	Bq, Tq, Bd, Td, Dim int
	Q, D                []float32 // [Bq*Tq, Dim], [Bd*Td, Dim]
	Scores              []float32 // [Bq, Bd]
	Argmax              []int32   // [Bq, Bd, Tq]

	sims, mx []float32
	ix       []int32
}

// Forward writes scores and argmax, with one product for every block of queries × documents. The similarities of a block
// are stored.
func (p *Problem) Forward(queries, docs int) {
	queries, docs = min(queries, p.Bq), min(docs, p.Bd)
	lanes := queries * p.Tq
	p.sims, p.mx, p.ix = grow(p.sims, docs*p.Td*lanes), grow(p.mx, lanes), grow(p.ix, lanes)
	for j := 0; j < p.Bd; j += docs {
		for i := 0; i < p.Bq; i += queries {
			C.gemm_max(pointer(p.Q[i*p.Tq*p.Dim:]), pointer(p.D[j*p.Td*p.Dim:]),
				C.int(min(queries, p.Bq-i)), C.int(min(docs, p.Bd-j)), C.int(p.Tq), C.int(p.Td), C.int(p.Dim), C.int(p.Bd),
				pointer(p.sims), pointer(p.mx), (*C.int32_t)(unsafe.SliceData(p.ix)),
				pointer(p.Scores[i*p.Bd+j:]), (*C.int32_t)(unsafe.SliceData(p.Argmax[(i*p.Bd+j)*p.Tq:])))
		}
	}
	runtime.KeepAlive(p)
}

// Config returns OpenBLAS's description of itself: version and the kernels it chose.
func Config() string {
	return C.GoString(C.openblas_get_config()) + " " + C.GoString(C.openblas_get_corename())
}

func pointer(s []float32) *C.float { return (*C.float)(unsafe.SliceData(s)) }

func grow[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
