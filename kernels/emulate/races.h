// What the thread sanitizer is told: every thread of a CTA is one of its threads, and what orders their accesses. It looks
// at the kernels' own accesses; the engine, compiled without it, reports those that instructions make for the kernels.
#pragma once
#include <cstddef>
#ifdef MAXSIM_RACES
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_read_range(void*, size_t);
extern "C" void __tsan_write_range(void*, size_t);
#endif

namespace emulate {

#ifdef MAXSIM_RACES
// The thread that runs goes on as `to`; each is null before its first turn.
inline void switch_races(void*& from, void*& to) {
  if (!from) from = __tsan_get_current_fiber();
  if (!to) to = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(to, __tsan_switch_to_fiber_no_sync);
}
// What a thread did before happens_before(at) is seen by those that call happens_after(at) later.
inline void happens_before(const void* at) { __tsan_release((void*)at); }
inline void happens_after(const void* at) { __tsan_acquire((void*)at); }
inline void reads(const void* p, size_t n) { __tsan_read_range((void*)p, n); }
inline void writes(const void* p, size_t n) { __tsan_write_range((void*)p, n); }
#else
inline void switch_races(void*&, void*&) {}
inline void happens_before(const void*) {}
inline void happens_after(const void*) {}
inline void reads(const void*, size_t) {}
inline void writes(const void*, size_t) {}
#endif

}  // namespace emulate
