// Tensor core products, their operands' way through shared memory, and mbarriers, behind mma.h and wgmma.h.
//
// NVIDIA does not specify in which order and precision a product instruction adds. Here every instruction computes
// d + sum over k ascending of a[k] b[k] in double, where products are exact, and rounds once to float; mma.sync and wgmma
// alike. So the last bits of 16-bit scores may differ from a card's, but not the rules that they obey.
#pragma once
#include "cta.h"
#include "launch.h"

namespace emulate {

// async.cc: cp.async, mbarriers, tensor map copies.
void copy16(uint32_t to, const void* from);  // from null: zeros
void wait_copies(int most);                  // until at most that many groups of the thread are on their way
void finish_copies();                        // a thread's, as it exits
void mbarrier_init(uint32_t bar, int arrivals);
void mbarrier_arrive(const char* instruction, uint32_t bar, int bytes);
void mbarrier_wait(uint32_t bar, int parity);
void copy_box(const BoxCopy& c);
bool deliver_box();  // one of those on their way, any; false: none

// product.cc.
void mma_sync(Product::Kind kind, float* d, const uint32_t* a, uint32_t b0, uint32_t b1);
void ldmatrix4(uint32_t* r, uint32_t address);
void product_fence();
void product_commit();
void product_wait(int most);
void set_registers(const char* instruction, bool grow, int n);
void wgmma(Product::Kind kind, float* d, uint64_t a, const uint32_t* rows, uint64_t b, int add);

}  // namespace emulate
