#include <stdint.h>

// gemm_max scores documents with OpenBLAS: one product for nq queries and nd documents, then the row maxima.
//
//	q [nq*tq, dim]   d [nd*td, dim]   s [nd*td, nq*tq] the similarities   mx, ix [nq*tq] scratch
//	scores[i*ld + j], argmax[(i*ld + j)*tq + t] for i < nq, j < nd
void gemm_max(const float *q, const float *d, int nq, int nd, int tq, int td, int dim, int ld,
	float *s, float *mx, int32_t *ix, float *scores, int32_t *argmax);
