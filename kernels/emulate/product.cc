// Products of fragments. Lane 4g+q of a warp holds of 16 rows of a, 32 bytes each: row g (words 0 and 2) and row g+8
// (words 1 and 3), bytes 4q..4q+3 (words 0, 1) and 16+4q..16+4q+3 (words 2, 3); of 8 rows of b: row g, the same bytes;
// of d: rows g and g+8, columns 2q and 2q+1.
#include "product.h"
#include <cmath>
#include <cstring>
#include "number.h"

namespace emulate {

namespace {

constexpr int MOST = 16;  // elements of 32 bytes

// The elements of a word (two of 16 bits, one of tf32) to v[0], v[step].
void decode(Product::Kind kind, uint32_t word, double* v, int step) {
  switch (kind) {
    case Product::BF16: v[0] = from_bfloat16((uint16_t)word), v[step] = from_bfloat16((uint16_t)(word >> 16)); break;
    case Product::F16: v[0] = from_half((uint16_t)word), v[step] = from_half((uint16_t)(word >> 16)); break;
    case Product::TF32: v[0] = from_tf32(word); break;
  }
}
int elements(Product::Kind kind) { return kind == Product::TF32 ? 8 : 16; }
int of_word(Product::Kind kind) { return kind == Product::TF32 ? 1 : 2; }

float rounded(double x) { return x != x ? float_of(NAN_BITS) : (float)x; }

// s[0..N) += sum over k ascending of a[k] b[k][0..N).
template <int N> void add_products(double (&s)[N], const double* a, const double (*b)[N], int k) {
  for (int i = 0; i < k; i++)
    for (int n = 0; n < N; n++) s[n] += a[i] * b[i][n];
}

// A warp's 16 rows of a, from the registers of its lanes.
void gather_rows(Product::Kind kind, const uint32_t* const* lanes, double (&a)[16][MOST]) {
  for (int l = 0; l < 32; l++)
    for (int w = 0; w < 4; w++) decode(kind, lanes[l][w], &a[l / 4 + (w & 1) * 8][((w >> 1) * 4 + l % 4) * of_word(kind)], 1);
}

struct MmaOperands {
  float* d;
  const uint32_t* a;
  uint32_t b0, b1;
};

void mma_warp(Product::Kind kind, MmaOperands** all) {
  double a[16][MOST], b[MOST][8];
  const uint32_t* rows[32];
  for (int l = 0; l < 32; l++) {
    rows[l] = all[l]->a;
    decode(kind, all[l]->b0, &b[l % 4 * of_word(kind)][l / 4], 8);
    decode(kind, all[l]->b1, &b[(4 + l % 4) * of_word(kind)][l / 4], 8);
  }
  gather_rows(kind, rows, a);
  for (int r = 0; r < 16; r++) {
    double s[8];
    for (int n = 0; n < 8; n++) s[n] = all[r % 8 * 4 + n / 2]->d[r / 8 * 2 + n % 2];
    add_products(s, a[r], b, elements(kind));
    for (int n = 0; n < 8; n++) all[r % 8 * 4 + n / 2]->d[r / 8 * 2 + n % 2] = rounded(s[n]);
  }
}

struct Matrices {
  uint32_t* r;
  uint32_t address;
};

// Word w (of 8) of row r of a matrix that a wgmma descriptor names: K-major, rows of 128 bytes with the 128-byte swizzle.
uint32_t matrix_word(uint64_t descriptor, int r, int w) {
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7)) fail("wgmma: descriptor without the 128-byte swizzle, or with a base offset");
  const uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4, atoms = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
  uint32_t at = start + (uint32_t)r / 8 * atoms + (uint32_t)r % 8 * 128 + 4 * (uint32_t)w;
  at ^= (at >> 7 & 7) << 4;
  uint32_t v;
  memcpy(&v, shared_memory(at, 4, 4, "wgmma"), 4);
  return v;
}

// d[64x128] = (add ? d : 0) + a[64 x 32 bytes] b[128 x 32 bytes], for the four warps.
void do_product(const Product& p) {
  static double b[MOST][128];
  for (int n = 0; n < 128; n++)
    for (int w = 0; w < 8; w++) decode(p.kind, matrix_word(p.b, n, w), &b[w * of_word(p.kind)][n], 128);
  for (int warp = 0; warp < 4; warp++) {
    double a[16][MOST];
    if (p.registers) gather_rows(p.kind, p.rows + 32 * warp, a);
    else
      for (int r = 0; r < 16; r++)
        for (int w = 0; w < 8; w++) decode(p.kind, matrix_word(p.a[warp], 16 * warp + r, w), &a[r][w * of_word(p.kind)], 1);
    for (int r = 0; r < 16; r++) {
      auto d = [&](int n) -> float& { return p.d[32 * warp + r % 8 * 4 + n % 8 / 2][n / 8 * 4 + r / 8 * 2 + n % 2]; };
      double s[128];
      for (int n = 0; n < 128; n++) s[n] = p.add ? d(n) : 0;
      add_products(s, a[r], b, elements(p.kind));
      for (int n = 0; n < 128; n++) d(n) = rounded(s[n]);
    }
  }
}

// The open group of products of a warp.
std::vector<Product>& open_group(const Warp& w) {
  Warpgroup& g = cta.warpgroups[w.number / 4];
  while (g.done + g.groups.size() <= w.committed) g.groups.emplace_back();
  return g.groups[w.committed - g.done];
}

struct WgmmaOperands {
  float* d;
  const uint32_t* rows;
};

void issue(Product::Kind kind, uint64_t a, bool registers, uint64_t b, int add, WgmmaOperands** all) {
  Warp& w = *self->warp;
  if (!w.fenced) fail("wgmma without wgmma.fence after the last wait");
  std::vector<Product>& group = open_group(w);
  if (group.size() <= w.issued) {
    group.emplace_back();
    group.back().kind = kind, group.back().registers = registers, group.back().b = b, group.back().add = add;
  }
  Product& p = group[w.issued++];
  const unsigned bit = 1u << w.number % 4;
  if (p.kind != kind || p.registers != registers || p.b != b || !p.add != !add || p.issued & bit) fail("the warps of a warpgroup issue different products");
  p.issued |= bit;
  p.a[w.number % 4] = a;
  for (int l = 0; l < 32; l++) p.d[32 * (w.number % 4) + l] = all[l]->d, p.rows[32 * (w.number % 4) + l] = all[l]->rows;
}

const char* const PRODUCTS = "wgmma.wait_group of warpgroup";
const char* const REGISTERS = "setmaxnreg.inc for registers";

// Groups that all four warps have committed.
unsigned committed(unsigned group) {
  unsigned n = ~0u;
  for (unsigned w = 4 * group; w < 4 * group + 4; w++) n = std::min(n, cta.warps[w].committed);
  return n;
}

}  // namespace

void mma_sync(Product::Kind kind, float* d, const uint32_t* a, uint32_t b0, uint32_t b1) {
  MmaOperands mine{d, a, b0, b1};
  meet("mma.sync", ~0u, mine, [=](MmaOperands** all) { mma_warp(kind, all); });
}

void ldmatrix4(uint32_t* r, uint32_t address) {
  Matrices mine{r, address};
  meet("ldmatrix", ~0u, mine, [](Matrices** all) {
    for (int m = 0; m < 4; m++)
      for (int row = 0; row < 8; row++) {
        const uint8_t* from = shared_memory(all[8 * m + row]->address, 16, 16, "ldmatrix");
        reads(from, 16);
        for (int q = 0; q < 4; q++) memcpy(&all[4 * row + q]->r[m], from + 4 * q, 4);
      }
  });
}

void product_fence() {
  int none = 0;
  meet("wgmma.fence", ~0u, none, [](int**) { self->warp->fenced = true; });
}

void wgmma(Product::Kind kind, float* d, uint64_t a, const uint32_t* rows, uint64_t b, int add) {
  WgmmaOperands mine{d, rows};
  meet("wgmma.mma_async", ~0u, mine, [=](WgmmaOperands** all) { issue(kind, a, rows != nullptr, b, add, all); });
}

void product_commit() {
  int none = 0;
  meet("wgmma.commit_group", ~0u, none, [](int**) {
    Warp& w = *self->warp;
    open_group(w);
    w.committed++;
    w.issued = 0;
    wake({PRODUCTS, w.number / 4});
  });
}

// A product is of the whole warpgroup, so it is done when its four warps have come to it: at the first wait for it.
void product_wait(int most) {
  int none = 0;
  meet("wgmma.wait_group", ~0u, none, [](int**) { self->warp->fenced = false; });
  const unsigned group = self->warp->number / 4;
  const int upto = (int)self->warp->committed - most;
  while ((int)committed(group) < upto) wait_for({PRODUCTS, group});
  Warpgroup& g = cta.warpgroups[group];
  while ((int)g.done < upto) {
    for (const Product& p : g.groups.front()) {
      if (p.issued != 15) fail("the warps of a warpgroup issue different numbers of products");
      do_product(p);
    }
    g.groups.pop_front();
    g.done++;
  }
}

// A warp gives registers to the CTA's pool, or waits until the pool has enough.
void set_registers(const char* instruction, bool grow, int n) {
  int none = 0;
  Warp& w = *self->warp;
  meet(instruction, ~0u, none, [&](int**) {
    if (grow != (n > w.registers)) fail(std::string(instruction) + " from " + std::to_string(w.registers) + " to " + std::to_string(n));
  });
  if (self->lane != 0) return;
  while (n - w.registers > cta.registers) wait_for({REGISTERS, 0});
  cta.registers -= n - w.registers;
  w.registers = n;
  wake({REGISTERS, 0});
}

}  // namespace emulate
