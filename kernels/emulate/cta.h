// The threads of one CTA, and how they wait for each other. A thread runs until it must wait; which one goes on then is
// decided here, by a seed, so that code that is right in one order only does not stay right. CTAs run one after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>
#include "async.h"
#include "fiber.h"
#include "races.h"

namespace emulate {

struct Index { unsigned x = 0, y = 0, z = 0; };

// What a thread waits for. Threads that wait for the same thing are woken together.
struct Wait {
  const char* what = nullptr;  // a string literal: the instruction
  uint64_t id = 0;             // which of several
  bool operator==(const Wait& o) const { return what == o.what && id == o.id; }
};

struct Warp;

struct Thread {
  Fiber fiber;
  Index index;
  unsigned number = 0, lane = 0;
  Warp* warp = nullptr;
  Wait wait;
  void* operand = nullptr;  // of the instruction at which the warp meets
  std::deque<Copy> copies;  // not yet done
  unsigned groups = 0;      // of copies, committed
};

struct Warp {
  unsigned number = 0;
  uint32_t ready = 0, exited = 0;  // lanes
  bool downward = false, hop = false;  // lanes go on from the last to the first; another warp goes on next
  const char* meeting = nullptr;   // the instruction that `arrived` lanes of `mask` have come to
  uint32_t mask = 0, arrived = 0;
  Thread* threads[32];
  int registers = 0;      // a thread's
  bool fenced = false;    // wgmma.fence since the last wait
  unsigned committed = 0, issued = 0;  // groups of products; products of the open group
};

struct Barrier {
  unsigned arrived = 0, expected = 0;  // expected 0: every thread that has not exited
  const char* what = nullptr;
  int votes = 0, result = 0;
};

struct Kernel;

struct Cta {
  const Kernel* kernel = nullptr;
  Index block, blocks, width;          // blockIdx, gridDim, blockDim
  uint8_t* shared = nullptr;           // dynamic shared memory
  unsigned shared_bytes = 0;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  Barrier barriers[16];
  std::vector<BoxCopy> boxes;          // on their way
  int registers = 0;                   // of the CTA, not given to a warp
  unsigned alive = 0;
  uint64_t random = 1;
  uint64_t hop = 0, early = 0;         // chances in 2^16: that a meeting lets another warp go on; that a copy is done at once
  const void* params = nullptr;
  std::string error;
  Fiber caller;
};

extern Cta cta;       // the one that runs
extern Thread* self;  // the thread that runs

// Ends the launch: kernel, CTA and thread are added.
[[noreturn]] void fail(const std::string& what);

// True with a chance of n in 2^16.
bool chance(uint64_t n);
unsigned below(unsigned n);

// Lets others run until somebody wakes what this thread waits for.
void wait_for(Wait w);
void wake(Wait w);

// The meeting of the lanes of a warp at one instruction. True for the last lane to come, which does what the instruction
// does for all and then calls dismiss(); the others return false after that.
bool arrive(const char* instruction, uint32_t mask, void* operand);
void dismiss();

// f sees the operands of all lanes of the warp, once.
template <class T, class F> void meet(const char* instruction, uint32_t mask, T& mine, F f) {
  if (!arrive(instruction, mask, &mine)) return;
  T* all[32];
  for (int i = 0; i < 32; i++) all[i] = mask >> i & 1 ? (T*)self->warp->threads[i]->operand : nullptr;
  f(all);
  dismiss();
}

// bar.sync: barrier id, for count threads (0: all that have not exited). Returns the or of the votes.
int sync(const char* instruction, unsigned id, unsigned count, int vote = 0);
// bar.arrive: counts like sync and does not wait.
void announce(const char* instruction, unsigned id, unsigned count);
inline const char* const BARRIER = "bar";  // either of the two

// bytes of dynamic shared memory at a shared address, aligned to align.
uint8_t* shared_memory(uint32_t address, unsigned bytes, unsigned align, const char* instruction);
uint32_t shared_address_of(const void* p);

// Runs the CTA whose fields up to `block` are set; throws std::runtime_error.
void run_cta();

}  // namespace emulate
