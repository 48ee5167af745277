// The kernels that need no tensor cores: packing, exact forward, score sums, the inverse grid, gradients, the user's
// argmax. Image maxsim.ptx, for every GPU from sm_80 on.
#include <climits>
#include <cmath>
#include <type_traits>
#include "pack.cuh"
#include "exact.cuh"
#include "scores.cuh"
#include "csr.cuh"
#include "grad.cuh"
#include "argmax.cuh"

constexpr int GRAD_CTAS = 4;  // on a multiprocessor: 64 registers a thread, measured best of 3, 4, 5 and 6

KERNEL(maxsim_pack_bf16, PackParams, 256, 1, pack<__nv_bfloat16>)
KERNEL(maxsim_pack_f16, PackParams, 256, 1, pack<__half>)
KERNEL(maxsim_pack_tf32, PackParams, 256, 1, pack<float>)
KERNEL(maxsim_pack_split, PackParams, 256, 1, pack_split)
KERNEL(maxsim_row_owner, OwnerParams, 256, 1, row_owner)

KERNEL(maxsim_forward_exact_f32, ForwardParams, EXACT_THREADS, 3, forward_exact<float>)
KERNEL(maxsim_forward_exact_f64, ForwardParams, EXACT_THREADS, 2, forward_exact<double>)

KERNEL(maxsim_scores_f32, ScoresParams, 256, 1, scores<float>)
KERNEL(maxsim_scores_f64, ScoresParams, 256, 1, scores<double>)

KERNEL(maxsim_csr_fused, CsrParams, CSR_THREADS, 2, csr_fused)
KERNEL(maxsim_csr_count, CsrParams, CSR_THREADS, 2, csr_part<false>)
KERNEL(maxsim_csr_scan, CsrParams, CSR_THREADS, 2, csr_scan)
KERNEL(maxsim_csr_place, CsrParams, CSR_THREADS, 2, csr_part<true>)

KERNEL(maxsim_grad_d_bf16, GradDParams, 256, GRAD_CTAS, grad_d<__nv_bfloat16>)
KERNEL(maxsim_grad_d_f16, GradDParams, 256, GRAD_CTAS, grad_d<__half>)
KERNEL(maxsim_grad_d_f32, GradDParams, 256, GRAD_CTAS, grad_d<float>)
KERNEL(maxsim_grad_d_f64, GradDParams, 256, GRAD_CTAS, grad_d<double>)
KERNEL(maxsim_grad_q_bf16, GradQParams, 256, GRAD_CTAS, grad_q<__nv_bfloat16>)
KERNEL(maxsim_grad_q_f16, GradQParams, 256, GRAD_CTAS, grad_q<__half>)
KERNEL(maxsim_grad_q_f32, GradQParams, 256, GRAD_CTAS, grad_q<float>)
KERNEL(maxsim_grad_q_f64, GradQParams, 256, GRAD_CTAS, grad_q<double>)

KERNEL(maxsim_argmax, ArgmaxParams, 256, 1, argmax_expand)
