#include "fiber.h"
#include <sys/mman.h>
#include <cstdint>
#include <cstdlib>
#include <new>
#include "races.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulate {

namespace {
#ifdef __SANITIZE_ADDRESS__
constexpr size_t STACK = 512 << 10;
void leaving(const Fiber& to) { __sanitizer_start_switch_fiber(nullptr, to.stack, to.size); }
void arrived(Fiber& from) {
  const void* bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (!from.stack) from.stack = (char*)bottom, from.size = size;
}
#else
constexpr size_t STACK = 128 << 10;
void leaving(const Fiber&) {}
void arrived(Fiber&) {}
#endif
constexpr size_t GUARD = 4096;
Fiber* last;  // the one that switched
}  // namespace

#ifdef __x86_64__
extern "C" __attribute__((visibility("hidden"))) void maxsim_change_stack(void** from, void* to);
// The registers that a call must keep, then the stack pointer.
asm(R"(
.text
.hidden maxsim_change_stack
.globl maxsim_change_stack
.type maxsim_change_stack, @function
maxsim_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size maxsim_change_stack, .-maxsim_change_stack
)");
static void begin(Fiber& f, void (*body)()) {
  void** top = (void**)(f.stack + f.size);
  *--top = nullptr;  // where body() would return to
  *--top = (void*)body;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  f.saved = top;
}
static void jump(Fiber& from, Fiber& to) { maxsim_change_stack(&from.saved, to.saved); }
#else
static ucontext_t* context(Fiber& f) {
  if (!f.saved) f.saved = new ucontext_t;
  return (ucontext_t*)f.saved;
}
static void begin(Fiber& f, void (*body)()) {
  getcontext(context(f));
  context(f)->uc_stack.ss_sp = f.stack;
  context(f)->uc_stack.ss_size = f.size;
  makecontext(context(f), body, 0);
}
static void jump(Fiber& from, Fiber& to) { swapcontext(context(from), context(to)); }
#endif

void prepare(Fiber& f, void (*body)()) {
  if (!f.stack) {
    void* m = mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED || mprotect(m, GUARD, PROT_NONE)) throw std::bad_alloc();
    f.stack = (char*)m + GUARD;
    f.size = STACK;
  }
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(f.stack, f.size);  // what an abandoned fiber has left
#endif
  begin(f, body);
}

void change(Fiber& from, Fiber& to) {
  last = &from;
  leaving(to);
  switch_races(from.races, to.races);
  jump(from, to);
  arrived(*last);
}

void entered() { arrived(*last); }

}  // namespace emulate
