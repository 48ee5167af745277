// Copies: cp.async at the wait for its group, tensor map copies when no thread can go on without them (or, where the
// seed says so, at once). mbarriers live in the eight bytes of shared memory that the kernel gives them.
#include <cstring>
#include "product.h"
#include "tensormap.h"

namespace emulate {

namespace {

void do_copy(const Copy& c) {
  uint8_t* to = shared_memory(c.to, 16, 16, "cp.async");
  if ((uint64_t)c.from % 16) fail("cp.async: source is not a multiple of 16");
  writes(to, 16);
  if (c.from) reads(c.from, 16);
  if (c.from) memcpy(to, c.from, 16);
  else memset(to, 0, 16);
}

struct Mbarrier {
  uint64_t magic : 12, phase : 1, expected : 11, pending : 11;
  int64_t bytes : 29;
  static constexpr uint64_t MAGIC = 0xba7;
};
static_assert(sizeof(Mbarrier) == 8, "mbarrier");

const char* const TRY_WAIT = "mbarrier.try_wait at shared address";

Mbarrier load(const char* instruction, uint32_t bar) {
  Mbarrier m;
  memcpy(&m, shared_memory(bar, 8, 8, instruction), 8);
  if (m.magic != Mbarrier::MAGIC) fail(std::string(instruction) + ": no mbarrier at shared address " + std::to_string(bar));
  return m;
}

// Stores m, and ends its phase if nothing is missing.
void settle(uint32_t bar, Mbarrier m) {
  const bool done = m.pending == 0 && m.bytes == 0;
  if (done) {
    m.phase ^= 1;
    m.pending = m.expected;
  }
  memcpy(shared_memory(bar, 8, 8, "mbarrier"), &m, 8);
  if (done) wake({TRY_WAIT, bar});
}

void do_box(const BoxCopy& c) {
  const char* const name = "cp.async.bulk.tensor";
  TensorMap t;
  memcpy(&t, c.map, sizeof t);
  if (t.magic != TensorMap::MAGIC || (uint64_t)c.map % 64) fail("cp.async.bulk.tensor: no tensor map");
  const unsigned row_bytes = (unsigned)t.box_columns * 2, bytes = row_bytes * (unsigned)t.box_rows;
  uint8_t* to = shared_memory(c.to, bytes, 128, name);
  for (uint64_t r = 0; r < t.box_rows; r++)
    for (unsigned b = 0; b < row_bytes; b += 2) {
      const int64_t x = c.x + b / 2, y = c.y + (int64_t)r;
      uint32_t at = c.to + (uint32_t)r * row_bytes + b;
      at ^= (at >> 7 & 7) << 4;
      uint16_t v = 0;
      if (x >= 0 && y >= 0 && (uint64_t)x < t.columns && (uint64_t)y < t.rows) v = *(const uint16_t*)(t.base + (uint64_t)y * t.pitch + 2 * (uint64_t)x);
      memcpy(to + (at - c.to), &v, 2);
    }
  Mbarrier m = load(name, c.barrier);
  m.bytes -= bytes;
  settle(c.barrier, m);
}

}  // namespace

void copy16(uint32_t to, const void* from) {
  const Copy c{to, from, self->groups};
  if (self->copies.empty() && chance(cta.early)) do_copy(c);
  else self->copies.push_back(c);
}

void wait_copies(int most) {
  while (!self->copies.empty() && (int)(self->groups - self->copies.front().group) > most) {
    do_copy(self->copies.front());
    self->copies.pop_front();
  }
}

void finish_copies() {
  for (const Copy& c : self->copies) do_copy(c);
  self->copies.clear();
}

void mbarrier_init(uint32_t bar, int arrivals) {
  if (arrivals < 1) fail("mbarrier.init: " + std::to_string(arrivals) + " arrivals");
  Mbarrier m;
  m.magic = Mbarrier::MAGIC;
  m.phase = 0;
  m.expected = m.pending = (unsigned)arrivals;
  m.bytes = 0;
  memcpy(shared_memory(bar, 8, 8, "mbarrier.init"), &m, 8);
}

void mbarrier_arrive(const char* instruction, uint32_t bar, int bytes) {
  Mbarrier m = load(instruction, bar);
  if (m.pending == 0) fail(std::string(instruction) + ": more arrivals than mbarrier.init allows, shared address " + std::to_string(bar));
  m.bytes += bytes;
  m.pending--;
  happens_before(cta.shared + bar);
  settle(bar, m);
}

void mbarrier_wait(uint32_t bar, int parity) {
  while (load("mbarrier.try_wait", bar).phase == (unsigned)(parity & 1)) wait_for({TRY_WAIT, bar});
  happens_after(cta.shared + bar);
}

void copy_box(const BoxCopy& c) {
  if (chance(cta.early)) do_box(c);
  else cta.boxes.push_back(c);
}

bool deliver_box() {
  if (cta.boxes.empty()) return false;
  std::swap(cta.boxes[below((unsigned)cta.boxes.size())], cta.boxes.back());
  const BoxCopy c = cta.boxes.back();
  cta.boxes.pop_back();
  do_box(c);
  return true;
}

}  // namespace emulate
