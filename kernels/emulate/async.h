// What is on its way: copies and products that happen as late as the waits allow, so that a missing wait shows.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

namespace emulate {

// A cp.async: 16 bytes, zeros if there is no source.
struct Copy {
  uint32_t to;
  const void* from;
  unsigned group;
};

// A product of a warpgroup: for every lane of its four warps the accumulators and, if they are in registers, the rows.
struct Product {
  enum Kind { BF16, F16, TF32 } kind;
  bool registers;        // rows of a in registers
  uint64_t a[4], b;      // descriptors, a for each warp
  int add;
  unsigned issued = 0;   // warps
  float* d[128];
  const uint32_t* rows[128];
};
struct Warpgroup {
  std::deque<std::vector<Product>> groups;  // not yet done, the first is number `done`
  unsigned done = 0;
};

// A tensor map copy on its way.
struct BoxCopy {
  uint32_t to, barrier;
  const void* map;
  int x, y;
};

}  // namespace emulate
