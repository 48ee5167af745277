// What cuTensorMapEncodeTiled of the stand-in driver leaves in the 128 bytes of a tensor map: 2-byte elements, two
// dimensions, 128-byte swizzle, zeros outside.
#pragma once
#include <cstdint>

struct TensorMap {
  uint64_t base;         // device address
  uint64_t columns;      // elements of a row
  uint64_t rows;
  uint64_t box_rows;
  uint64_t box_columns;  // 64: the 128 bytes that are swizzled
  uint64_t pitch;        // bytes from row to row
  uint64_t magic;
  uint64_t unused[9];
  static constexpr uint64_t MAGIC = 0x7465'6e73'6f72'6d70;
};
static_assert(sizeof(TensorMap) == 128, "CUtensorMap");
