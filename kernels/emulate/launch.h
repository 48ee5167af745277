// Kernels by name, and launches of them on the CPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace emulate {

constexpr uint32_t SHARED_BASE = 1024;  // shared address of dynamic shared memory

struct Kernel {
  std::string name;
  size_t params;                // bytes
  unsigned threads, residents;  // launch bounds: threads of a CTA, CTAs of a multiprocessor
  void (*body)(const void* params);
};

void add(const Kernel& k);
const Kernel* find(const std::string& name);

// Runs a grid to its end. Throws std::runtime_error where the kernel breaks a rule of the device or cannot go on.
void launch(const Kernel& k, const unsigned (&grid)[3], const unsigned (&block)[3], unsigned shared_bytes, const void* params);

}  // namespace emulate
