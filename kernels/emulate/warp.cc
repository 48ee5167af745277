#include "warp.h"
#include <algorithm>
#include "cta.h"

namespace emulate {

namespace {

struct Shuffle {
  uint64_t value;
  int from;
};

// f turns the values of a mask's lanes into one result for all of them.
template <class F> unsigned reduce(const char* instruction, uint32_t mask, unsigned v, F f) {
  meet(instruction, mask, v, [=](unsigned** all) {
    unsigned result = 0;
    for (int i = 0; i < 32; i++)
      if (all[i]) result = f(result, *all[i], i);
    for (int i = 0; i < 32; i++)
      if (all[i]) *all[i] = result;
  });
  return v;
}

}  // namespace

uint64_t shuffle(const char* instruction, uint32_t mask, uint64_t v, int from) {
  Shuffle mine{v, from};
  meet(instruction, mask, mine, [=](Shuffle** all) {
    uint64_t values[32];
    for (int i = 0; i < 32; i++)
      if (all[i]) values[i] = all[i]->value;
    for (int i = 0; i < 32; i++) {
      if (!all[i] || all[i]->from < 0 || all[i]->from > 31) continue;
      if (!all[all[i]->from]) fail(std::string(instruction) + " reads a lane outside its mask");
      all[i]->value = values[all[i]->from];
    }
  });
  return mine.value;
}

void sync_warp() {
  int none = 0;
  happens_before(self->warp);
  meet("__syncwarp", ~0u, none, [](int**) {});
  happens_after(self->warp);
}

unsigned ballot(uint32_t mask, bool vote) {
  return reduce("__ballot_sync", mask, vote, [](unsigned r, unsigned v, int lane) { return r | v << lane; });
}
bool any(uint32_t mask, bool vote) {
  return reduce("__any_sync", mask, vote, [](unsigned r, unsigned v, int) { return r | v; });
}
unsigned reduce_max(uint32_t mask, unsigned v) {
  return reduce("__reduce_max_sync", mask, v, [](unsigned r, unsigned x, int) { return std::max(r, x); });
}
unsigned match_any(uint32_t mask, unsigned v) {
  meet("__match_any_sync", mask, v, [](unsigned** all) {
    unsigned same[32] = {};
    for (int i = 0; i < 32; i++)
      for (int k = 0; k < 32; k++)
        if (all[i] && all[k] && *all[i] == *all[k]) same[i] |= 1u << k;
    for (int i = 0; i < 32; i++)
      if (all[i]) *all[i] = same[i];
  });
  return v;
}

}  // namespace emulate
