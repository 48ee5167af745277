// A function on a stack of its own, and the switch between two of them: what a thread of a CTA runs on.
#pragma once
#include <cstddef>

namespace emulate {

struct Fiber {
  void* saved = nullptr;  // where it stopped
  char* stack = nullptr;  // lowest byte; null: the stack of whoever called run()
  size_t size = 0;
  void* races = nullptr;  // see races.h
};

// Gives f a stack, with an unmapped page below it, on which it will begin with body(), which must not return.
void prepare(Fiber& f, void (*body)());

// Goes on where `to` stopped, and returns when somebody switches back to `from`.
void change(Fiber& from, Fiber& to);

// The first thing that body() does: the sanitizers want to know where it came from.
void entered();

}  // namespace emulate
