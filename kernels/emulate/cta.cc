#include "cta.h"
#include <map>
#include <stdexcept>
#include "launch.h"
#include "product.h"

namespace emulate {

Cta cta;
Thread* self;

namespace {

uint64_t next_random() {
  cta.random ^= cta.random << 13;
  cta.random ^= cta.random >> 7;
  cta.random ^= cta.random << 17;
  return cta.random * 0x2545f4914f6cdd1dull >> 16;
}

std::string text(const Index& i) { return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")"; }

// Nothing can go on: says who waits for what.
[[noreturn]] void deadlock() {
  std::map<std::string, std::vector<unsigned>> waiting;
  for (const Thread& t : cta.threads) {
    if (t.warp->exited >> t.lane & 1) continue;
    const Wait& w = t.wait;
    waiting[w.what + (w.id ? " " + std::to_string(w.id) : std::string())].push_back(t.number);
  }
  std::string all = "deadlock:";
  for (const auto& w : waiting)
    all += " " + std::to_string(w.second.size()) + " threads (from " + std::to_string(w.second.front()) + " to " + std::to_string(w.second.back()) + ") wait at " + w.first + ";";
  if (cta.alive < cta.threads.size()) all += " " + std::to_string(cta.threads.size() - cta.alive) + " have exited";
  fail(all);
}

// A lane of w that is ready, from the end that the last meeting has drawn, so that no order of lanes is the rule.
Thread* lane_of(Warp& w) { return w.threads[w.downward ? 31 - __builtin_clz(w.ready) : __builtin_ctz(w.ready)]; }

// The thread that goes on. A warp goes on as long as one of its lanes can, but for a hop now and then.
Thread* choose() {
  if (self && self->warp->ready && !self->warp->hop) return lane_of(*self->warp);
  if (self) self->warp->hop = false;
  for (;;) {
    unsigned ready = 0;
    for (const Warp& w : cta.warps) ready += w.ready != 0;
    if (ready) {
      unsigned n = below(ready);
      for (Warp& w : cta.warps)
        if (w.ready && n-- == 0) return lane_of(w);
    }
    if (!deliver_box()) deadlock();
  }
}

void go_on(Fiber& from) {
  self = choose();
  if (&self->fiber != &from) change(from, self->fiber);
}

// The barrier is complete when everyone it waits for has come.
void complete(unsigned id) {
  Barrier& b = cta.barriers[id];
  if (b.arrived == 0 || b.arrived < (b.expected ? b.expected : cta.alive)) return;
  b.result = b.votes;
  const char* what = b.what;
  b.arrived = b.expected = 0;
  b.what = nullptr;
  b.votes = 0;
  wake({what, id});
}

void body() {
  entered();
  for (;;) {
    happens_after(&cta);
    cta.kernel->body(cta.params);
    finish_copies();
    happens_before(&cta);
    Warp& w = *self->warp;
    w.exited |= 1u << self->lane;
    w.ready &= ~(1u << self->lane);
    if (w.meeting && w.mask >> self->lane & 1) fail(std::string("a lane exits while its warp waits for it at ") + w.meeting);
    cta.alive--;
    for (unsigned id = 0; id < 16; id++) complete(id);
    Fiber& mine = self->fiber;
    if (cta.alive) go_on(mine);
    else change(mine, cta.caller);
  }
}

}  // namespace

void fail(const std::string& what) {
  cta.error = cta.kernel->name + ", CTA " + text(cta.block) + " of " + text(cta.blocks);
  if (self) cta.error += ", thread " + std::to_string(self->number);
  cta.error += ": " + what;
  change(self->fiber, cta.caller);
  __builtin_unreachable();
}

bool chance(uint64_t n) { return n && (next_random() & 0xffff) < n; }
unsigned below(unsigned n) { return (unsigned)(next_random() % n); }

void wait_for(Wait w) {
  Thread* me = self;
  me->wait = w;
  me->warp->ready &= ~(1u << me->lane);
  go_on(me->fiber);
}

void wake(Wait w) {
  for (Thread& t : cta.threads)
    if (t.wait == w && !(t.warp->exited >> t.lane & 1)) {
      t.wait = Wait();
      t.warp->ready |= 1u << t.lane;
    }
}

bool arrive(const char* instruction, uint32_t mask, void* operand) {
  Warp& w = *self->warp;
  const uint32_t mine = 1u << self->lane;
  if (!(mask & mine)) fail(std::string(instruction) + " by a lane outside its mask");
  if (mask & w.exited) fail(std::string(instruction) + " names lanes that have exited");
  if (w.meeting && (w.meeting != instruction || w.mask != mask)) fail(std::string("lanes of a warp part: ") + instruction + " here, " + w.meeting + " there");
  self->operand = operand;
  w.meeting = instruction;
  w.mask = mask;
  w.arrived |= mine;
  if (w.arrived == mask) return true;
  wait_for({instruction, 0});
  return false;
}

void dismiss() {
  Warp& w = *self->warp;
  for (int i = 0; i < 32; i++)
    if (w.mask >> i & 1) w.threads[i]->wait = Wait();
  w.ready |= w.mask;
  w.meeting = nullptr;
  w.arrived = 0;
  w.downward = below(2);
  w.hop = chance(cta.hop);
}

static Barrier& come_to(const char* instruction, unsigned id, unsigned count, int vote) {
  Barrier& b = cta.barriers[id];
  if (b.arrived && (b.what != instruction || b.expected != count))
    fail(std::string(instruction) + " at a barrier where others wait at " + b.what);
  b.what = instruction;
  b.expected = count;
  b.votes |= vote;
  b.arrived++;
  happens_before(&b);
  return b;
}

void announce(const char* instruction, unsigned id, unsigned count) {
  come_to(instruction, id, count, 0);
  complete(id);
}

int sync(const char* instruction, unsigned id, unsigned count, int vote) {
  Barrier& b = come_to(instruction, id, count, vote);
  self->wait = {instruction, id};
  self->warp->ready &= ~(1u << self->lane);
  complete(id);
  go_on(self->fiber);
  happens_after(&b);
  return b.result;
}

uint8_t* shared_memory(uint32_t address, unsigned bytes, unsigned align, const char* instruction) {
  if (address % align) fail(std::string(instruction) + ": shared address " + std::to_string(address) + " is not a multiple of " + std::to_string(align));
  if (address < SHARED_BASE || address - SHARED_BASE + (uint64_t)bytes > cta.shared_bytes)
    fail(std::string(instruction) + ": " + std::to_string(bytes) + " bytes at shared address " + std::to_string(address) + ", which has " +
         std::to_string(cta.shared_bytes) + " from " + std::to_string(SHARED_BASE));
  return cta.shared + (address - SHARED_BASE);
}

uint32_t shared_address_of(const void* p) { return SHARED_BASE + (uint32_t)((const uint8_t*)p - cta.shared); }

void run_cta() {
  cta.error.clear();
  cta.alive = (unsigned)cta.threads.size();
  for (Barrier& b : cta.barriers) b = Barrier();
  cta.boxes.clear();
  for (Warpgroup& g : cta.warpgroups) g = Warpgroup();
  for (Warp& w : cta.warps) {
    w.ready = ~0u;
    w.downward = below(2);
    w.hop = false;
    w.exited = w.arrived = 0;
    w.meeting = nullptr;
    w.fenced = false;
    w.committed = w.issued = 0;
  }
  for (Thread& t : cta.threads) {
    t.wait = Wait();
    t.copies.clear();
    t.groups = 0;
    if (!t.fiber.stack) prepare(t.fiber, body);
  }
  self = nullptr;
  happens_before(&cta);
  go_on(cta.caller);
  happens_after(&cta);
  if (cta.error.empty() && !cta.boxes.empty()) cta.error = cta.kernel->name + ": a CTA ends with tensor map copies on their way";
  for (const Barrier& b : cta.barriers)
    if (cta.error.empty() && b.arrived) cta.error = cta.kernel->name + ": a CTA ends with threads announced at a barrier where nobody waits";
  if (!cta.error.empty()) {
    for (Thread& t : cta.threads) prepare(t.fiber, body);  // they stopped anywhere
    throw std::runtime_error(cta.error);
  }
}

}  // namespace emulate
