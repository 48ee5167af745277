// What the lanes of a warp do together, on 64-bit values.
#pragma once
#include <cstdint>

namespace emulate {

// Every lane of mask gives v and gets that of lane `from`; outside the warp, its own.
uint64_t shuffle(const char* instruction, uint32_t mask, uint64_t v, int from);

void sync_warp();
unsigned ballot(uint32_t mask, bool vote);
bool any(uint32_t mask, bool vote);
unsigned reduce_max(uint32_t mask, unsigned v);
unsigned match_any(uint32_t mask, unsigned v);

}  // namespace emulate
