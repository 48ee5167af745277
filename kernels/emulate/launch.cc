#include "launch.h"
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include "cta.h"

// Static shared memory of all kernels: what was .bss in their object files. (A section attribute would say it in the
// source, but g++ ignores it on the static variables of templates.)
extern "C" uint8_t __start_maxsim_shared[], __stop_maxsim_shared[];

namespace emulate {

namespace {

std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

// Dynamic shared memory, of the size asked for and not a byte more, for the sanitizer's sake.
struct Shared {
  uint8_t* at = nullptr;
  explicit Shared(size_t bytes) {
    void* p = nullptr;
    if (bytes && posix_memalign(&p, 1024, bytes)) throw std::bad_alloc();
    at = (uint8_t*)p;
  }
  ~Shared() { free(at); }
};

uint64_t seed() {
  const char* s = getenv("MAXSIM_EMULATE_SEED");
  return s ? strtoull(s, nullptr, 10) : 1;
}

// Shared memory begins as NaN, as indices far outside, as whatever is wrong. The sanitizer's zones between variables are
// filled too, which it must not see.
#ifdef __SANITIZE_ADDRESS__
__attribute__((no_sanitize("address")))
#endif
void poison_static() {
  typedef uint64_t __attribute__((may_alias)) Word;
  for (Word* p = (Word*)__start_maxsim_shared; (uint8_t*)(p + 1) <= __stop_maxsim_shared; p++) *p = ~0ull;
}

// Threads are kept for the next launch of the same width.
void make_threads(const unsigned (&block)[3]) {
  const unsigned n = block[0];
  if (cta.threads.size() != n) {
    static std::map<unsigned, std::vector<Fiber>> kept;  // stacks by number of threads
    std::vector<Fiber>& old = kept[(unsigned)cta.threads.size()];
    for (Thread& t : cta.threads) old.push_back(t.fiber);
    std::vector<Fiber>& stacks = kept[n];
    stacks.resize(n);
    cta.threads = std::vector<Thread>(n);
    for (unsigned i = 0; i < n; i++) cta.threads[i].fiber = stacks[i];
    stacks.clear();
  }
  cta.warps = std::vector<Warp>(n / 32);
  cta.warpgroups = std::vector<Warpgroup>((n + 127) / 128);
  for (unsigned i = 0; i < n; i++) {
    Thread& t = cta.threads[i];
    t.number = t.index.x = i;
    t.lane = i % 32;
    t.warp = &cta.warps[i / 32];
    t.warp->number = i / 32;
    t.warp->threads[i % 32] = &t;
  }
}

}  // namespace

void add(const Kernel& k) { kernels().emplace(k.name, k); }

const Kernel* find(const std::string& name) {
  auto it = kernels().find(name);
  return it == kernels().end() ? nullptr : &it->second;
}

void launch(const Kernel& k, const unsigned (&grid)[3], const unsigned (&block)[3], unsigned shared_bytes, const void* params) {
  if (block[0] % 32 || block[0] == 0 || block[1] != 1 || block[2] != 1 || block[0] > k.threads)
    throw std::runtime_error(k.name + ": block (" + std::to_string(block[0]) + "," + std::to_string(block[1]) + "," + std::to_string(block[2]) +
                             "), launch bound " + std::to_string(k.threads));
  static uint64_t launches = 0;
  const uint64_t start = seed() * 0x9e3779b97f4a7c15ull + launches++;
  Shared shared(shared_bytes);
  alignas(64) char copy[1024];
  if (k.params > sizeof copy) throw std::runtime_error(k.name + ": parameters do not fit");
  memcpy(copy, params, k.params);
  make_threads(block);
  cta.kernel = &k;
  cta.params = copy;
  cta.shared = shared.at;
  cta.shared_bytes = shared_bytes;
  cta.blocks = {grid[0], grid[1], grid[2]};
  cta.width = {block[0], 1, 1};
  const int each = (int)(65536 / (k.residents * block[0]) / 8 * 8);
  uint64_t n = 0;
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        cta.block = {x, y, z};
        cta.random = (start + ++n) * 0xbf58476d1ce4e5b9ull | 1;
        for (int i = 0; i < 4; i++) below(1);
        const uint64_t hops[] = {0, 0, 256, 32768}, early[] = {0, 0, 0, 32768};
        cta.hop = hops[below(4)];
        cta.early = early[below(4)];
        cta.registers = 0;
        for (Warp& w : cta.warps) w.registers = each;
        if (shared_bytes) memset(shared.at, 0xff, shared_bytes);
        poison_static();
        run_cta();
      }
}

}  // namespace emulate
