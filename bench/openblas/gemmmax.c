#include <cblas.h>
#include <math.h>
#include <string.h>

#include "gemmmax.h"

// fold takes one row of similarities, one for every query token, into the running maxima. Compilers vectorise it.
static void fold(const float *restrict s, int lanes, int32_t u, float *restrict mx, int32_t *restrict ix) {
	for (int l = 0; l < lanes; l++) {
		int greater = s[l] > mx[l];
		mx[l] = greater ? s[l] : mx[l];
		ix[l] = greater ? u : ix[l];
	}
}

void gemm_max(const float *q, const float *d, int nq, int nd, int tq, int td, int dim, int ld,
	float *s, float *mx, int32_t *ix, float *scores, int32_t *argmax) {
	int lanes = nq * tq;
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, nd * td, lanes, dim, 1, d, dim, q, dim, 0, s, lanes);
	for (int j = 0; j < nd; j++) {
		for (int l = 0; l < lanes; l++) {
			mx[l] = -INFINITY;
			ix[l] = 0;
		}
		for (int u = 0; u < td; u++)
			fold(s + (size_t)(j * td + u) * lanes, lanes, u, mx, ix);
		for (int i = 0; i < nq; i++) {
			float sum = 0;
			for (int t = 0; t < tq; t++)
				sum += mx[i * tq + t];
			scores[(size_t)i * ld + j] = sum;
			memcpy(argmax + ((size_t)i * ld + j) * tq, ix + i * tq, tq * sizeof *ix);
		}
	}
}
