// check [quick|tiny] [only=PRECISION] [seed=N] [images=FOLDER]: every kernel against the double reference on fresh random and adversarial inputs.
//
// For every case: scores within the bound of a naive float32 loop, dim 2^-24 sum|q||d| a similarity (dim at least 32), argmax equal except
// where the winner's lead is inside that bound, gradients, exact zeros, two runs bit for bit from poisoned outputs, and
// pairs alone bit for bit as in the batch. Small integers must be exact.
#include "engine.hpp"
#include <cstdarg>

static std::mt19937_64 rng;
static double uniform() { return (rng() >> 11) * 0x1p-53; }
static int between(int a, int b) { return a + (int)(rng() % (uint64_t)(b - a + 1)); }
static double gauss() { return std::sqrt(-2 * std::log(uniform() + 1e-300)) * std::cos(6.283185307179586 * uniform()); }

struct Kind {
  std::string name;
  int bq, bd, tq0, tq1, td0, td1, dim, group = 0;
  bool mask = false, ties = false, ints = false, special = false, wide = false, hub = false, big_index = false;
};

static Problem make(const Kind& k) {
  Problem p;
  p.dim = k.dim;
  p.group = k.group;
  for (int i = 0; i < k.bq; i++) p.Q.add(between(k.tq0, k.tq1));
  for (int j = 0; j < (k.group ? k.bq * k.group : k.bd); j++) p.D.add(between(k.td0, k.td1));
  auto fill = [&](Seqs& s, std::vector<double>& x) {
    x.resize((size_t)s.rows() * k.dim);
    for (int r = 0; r < s.rows(); r++) {
      double norm = 0, row = k.wide ? std::ldexp(1, between(-25, 25)) : 1;
      for (int c = 0; c < k.dim; c++) {
        double v = k.ints ? between(-3, 3) : gauss();
        if (k.wide && r % 3 == 0) v *= std::ldexp(1, between(-36, 0));
        if (k.wide && r % 17 == 5 && c == 0) v = std::ldexp(1.5, 20);
        x[(size_t)r * k.dim + c] = v * row;
        norm += v * v;
      }
      if (!k.ints && !k.wide)
        for (int c = 0; c < k.dim; c++) x[(size_t)r * k.dim + c] /= std::sqrt(norm);
      if (k.mask && uniform() < 0.3) s.valid[r] = 0;
    }
  };
  fill(p.Q, p.q);
  fill(p.D, p.d);
  auto row = [&](std::vector<double>& x, int r) { return x.begin() + (size_t)r * k.dim; };
  if (k.ties)
    for (int r = 3; r < p.D.rows(); r++)
      if (r % 3 == 0) std::copy_n(row(p.d, r - 3), k.dim, row(p.d, r));
  if (k.hub)  // one document token answers every query token
    for (int j = 0; j < p.D.n(); j++)
      if (p.D.cu[j + 1] > p.D.cu[j])
        for (int c = 0; c < k.dim; c++) p.d[(size_t)(p.D.cu[j] + (p.D.cu[j + 1] - p.D.cu[j]) / 2) * k.dim + c] = 2 * k.dim;
  if (k.hub)
    for (auto& v : p.q) v = std::fabs(v);
  if (k.special) {
    const double bad[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-42};
    for (int n = 0; n < 6 && p.Q.rows() && p.D.rows(); n++) {
      if (n < 3) p.q[(size_t)between(0, p.Q.rows() - 1) * k.dim + between(0, k.dim - 1)] = bad[between(0, 5)];
      p.d[(size_t)between(0, p.D.rows() - 1) * k.dim + between(0, k.dim - 1)] = bad[between(0, 5)];
    }
    for (int c = 0; c < k.dim; c++) p.d[c] = -INFINITY;  // the first document: all its similarities may be -inf
  }
  // Masked memory may hold anything.
  if (k.mask) {
    for (int r = 0; r < p.Q.rows(); r++) if (!p.Q.valid[r]) p.q[(size_t)r * k.dim + k.dim / 2] = r % 2 ? NAN : INFINITY;
    for (int r = 0; r < p.D.rows(); r++) if (!p.D.valid[r]) p.d[(size_t)r * k.dim + k.dim / 2] = r % 2 ? NAN : INFINITY;
  }
  for (auto& v : p.q) v = (float)v;
  for (auto& v : p.d) v = (float)v;
  p.ds.resize((size_t)k.bq * p.cols());
  for (auto& v : p.ds) v = k.ints ? between(-2, 2) : (float)gauss();
  return p;
}

static int failures = 0;
static double worst_ratio = 0;
static void fail(const Kind& k, Precision p, bool hopper, const std::string& what) {
  if (++failures < 60) printf("FAIL %s %s %s: %s\n", k.name.c_str(), name(p), hopper ? "sm90a" : "sm80", what.c_str());
}
static std::string text(const char* f, ...) {
  char b[256];
  va_list a;
  va_start(a, f);
  vsnprintf(b, sizeof b, f, a);
  va_end(a);
  return b;
}

static void one(Gpu& gpu, const Kind& k, const Problem& pr, Precision p, bool hopper, int csr) {
  const int dim = pr.dim, cols = pr.cols();
  Engine e(gpu, pr, p, hopper, true, k.big_index);
  if (csr) e.set_csr(csr, std::max(1, std::min(e.maxtd, 64 * csr)));
  e.forward();
  e.clear();
  e.backward();
  gpu.sync();
  const auto scores = e.numbers(e.scores), dq = e.numbers(e.dq), dd = e.numbers(e.dd);
  const auto arg = e.argmax();
  const Result ref = reference(pr, p, &arg);
  const double unit = p == F64 ? 0x1p-53 : 0x1p-24, c = std::max(dim, 32) * unit;
  auto sim = [&](int t, int u, bool magnitude) {
    double s = 0;
    for (int x = 0; x < dim; x++) {
      double v = stored(p, pr.q[(size_t)t * dim + x]) * stored(p, pr.d[(size_t)u * dim + x]);
      s += magnitude ? std::fabs(v) : v;
    }
    return s;
  };
  for (int i = 0; i < pr.Q.n(); i++)
    for (int n = 0; n < cols; n++) {
      const int j = pr.doc(i, n);
      double bound = 0, total = 0;
      const double want = ref.scores[(size_t)i * cols + n], got = scores[(size_t)i * cols + n];
      for (int t = pr.Q.cu[i]; t < pr.Q.cu[i + 1]; t++) {
        const size_t at = pr.tape(i, n) + t - pr.Q.cu[i];
        const int a = arg[at], b = ref.argmax[at];
        if ((a < 0) != (b < 0) || a >= pr.D.cu[j + 1] - pr.D.cu[j]) { fail(k, p, hopper, text("argmax of (%d,%d) token %d is %d, want %d", i, n, t - pr.Q.cu[i], a, b)); continue; }
        if (a < 0) continue;
        if (!pr.D.valid[pr.D.cu[j] + a]) fail(k, p, hopper, text("masked winner (%d,%d)", i, n));
        const double ea = sim(t, pr.D.cu[j] + a, true), eb = sim(t, pr.D.cu[j] + b, true), sa = sim(t, pr.D.cu[j] + a, false), sb = sim(t, pr.D.cu[j] + b, false);
        bound += c * std::max(ea, eb);
        total += std::fabs(sb);
        if (want == want && std::isfinite(sb) && a != b && (k.ints || k.ties ? !(sa == sb ? false : sb - sa <= c * (ea + eb)) : !(sb - sa <= c * (ea + eb))))
          fail(k, p, hopper, text("argmax of (%d,%d) token %d is %d (%.9g), want %d (%.9g)", i, n, t - pr.Q.cu[i], a, sa, b, sb));
        if (k.ints && a != b) fail(k, p, hopper, text("argmax of integers (%d,%d)", i, n));
        if (want == want && sb == -INFINITY && a != b) fail(k, p, hopper, text("argmax of all -inf is %d, want %d", a, b));
      }
      bound += (pr.Q.cu[i + 1] - pr.Q.cu[i]) * unit * total;
      if (want != want || std::isinf(want)) {
        if (!(want != want ? got != got : got == want)) fail(k, p, hopper, text("score (%d,%d) is %g, want %g", i, n, got, want));
      } else {
        if (!(std::fabs(got - want) <= (k.ints ? 0 : bound))) fail(k, p, hopper, text("score (%d,%d) is %.9g, want %.9g, bound %.3g", i, n, got, want, bound));
        if (bound > 0) worst_ratio = std::max(worst_ratio, std::fabs(got - want) / bound);
      }
    }
  // Gradients with the kernel's own argmax.
  auto gradient = [&](const char* what, const std::vector<double>& got, const std::vector<double>& want) {
    double err = 0, all = 0;
    for (size_t x = 0; x < want.size(); x++) {
      if (!std::isfinite(want[x])) {
        if (std::isfinite(got[x]) && std::fabs(got[x]) < 1e30) { fail(k, p, hopper, text("%s[%zu] is %g, want %g", what, x, got[x], want[x])); return; }
        continue;
      }
      if (want[x] == 0 && !(std::fabs(got[x]) <= 1e-6 * (k.wide ? 1e20 : k.hub ? 100 : 1))) { fail(k, p, hopper, text("%s[%zu] is %g, want 0", what, x, got[x])); return; }
      err += (got[x] - want[x]) * (got[x] - want[x]);
      all += want[x] * want[x];
    }
    if (!(std::sqrt(err) <= (k.ints && !k.hub ? 0 : p == F64 ? 1e-13 : 3e-6) * std::sqrt(all))) fail(k, p, hopper, text("%s: relative error %.3g", what, std::sqrt(err / all)));
  };
  gradient("dq", dq, ref.dq);
  gradient("dd", dd, ref.dd);
  // A second run from other poison gives the same bits.
  auto bytes = [&](const Buffer& b) { return b.host<uint8_t>(); };
  const auto s1 = bytes(e.scores), a1 = bytes(e.arg), q1 = bytes(e.dq), d1 = bytes(e.dd), r1 = bytes(e.rowptr);
  for (Buffer* b : {&e.scores, &e.arg, &e.part, &e.list, &e.rowptr, &e.counts}) if (b->p) CK(cuMemsetD8(b->p, 0x5A, b->bytes));
  CK(cuCtxSynchronize());
  e.ways.in_order = true;  // the order of launches is no matter
  e.forward(); e.clear(); e.backward(); gpu.sync();
  if (s1 != bytes(e.scores)) fail(k, p, hopper, "scores differ in a second run");
  if (pr.D.rows() && pr.Q.rows() && !k.mask && e.qmap.p && a1 != bytes(e.arg)) {
    bool empty = false;
    for (int j = 0; j < pr.D.n(); j++) empty |= pr.D.cu[j] == pr.D.cu[j + 1];
    if (!empty) fail(k, p, hopper, "argmax differs in a second run");
  }
  if (q1 != bytes(e.dq)) fail(k, p, hopper, "dq differs in a second run");
  if (d1 != bytes(e.dd)) fail(k, p, hopper, "dd differs in a second run");
  if (r1 != bytes(e.rowptr)) fail(k, p, hopper, "rowptr differs in a second run");
  // A pair alone gives the bits it has in the batch, with and without argmax.
  for (int n = 0; n < 5; n++) {
    const int i = between(0, pr.Q.n() - 1), c0 = between(0, cols - 1), j = pr.doc(i, c0);
    Problem solo;
    solo.dim = dim;
    solo.ds = {1};
    auto take = [&](const Seqs& s, const std::vector<double>& x, int at, Seqs& to, std::vector<double>& y) {
      to.add(s.cu[at + 1] - s.cu[at]);
      for (int r = 0; r < to.rows(); r++) to.valid[r] = s.valid[s.cu[at] + r];
      y.assign(x.begin() + (size_t)s.cu[at] * dim, x.begin() + (size_t)s.cu[at + 1] * dim);
    };
    take(pr.Q, pr.q, i, solo.Q, solo.q);
    take(pr.D, pr.d, j, solo.D, solo.d);
    for (int record = 0; record < 2; record++) {
      Engine f(gpu, solo, p, hopper, record);
      f.forward();
      gpu.sync();
      const size_t w = p == F64 ? 8 : 4;
      if (memcmp(bytes(f.scores).data(), s1.data() + ((size_t)i * cols + c0) * w, w)) fail(k, p, hopper, text("pair (%d,%d) alone has other bits (record %d)", i, c0, record));
      if (record) {
        const auto own = f.argmax();
        for (size_t t = 0; t < own.size(); t++)
          if (own[t] != arg[pr.tape(i, c0) + t]) { fail(k, p, hopper, text("pair (%d,%d) alone has another argmax at %zu: %d, in the batch %d", i, c0, t, own[t], arg[pr.tape(i, c0) + t])); break; }
      }
    }
  }
}

int main(int argc, char** argv) {
  bool quick = false, tiny = false;
  std::string only, folder = "kernels";
  uint64_t seed = std::random_device{}();
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    if (a == "quick") quick = true;
    else if (a == "tiny") tiny = true;  // for the sanitizers: touches every kernel
    else if (a.rfind("only=", 0) == 0) only = a.substr(5);
    else if (a.rfind("seed=", 0) == 0) seed = strtoull(a.c_str() + 5, nullptr, 10);
    else if (a.rfind("images=", 0) == 0) folder = a.substr(7);
  }
  rng.seed(seed);
  Gpu gpu(folder);
  printf("check on %s (%d.%d), seed %llu\n", gpu.name, gpu.major, gpu.minor, (unsigned long long)seed);
  std::vector<Kind> kinds = {
      {"ragged", 9, 13, 1, 40, 1, 300, 128},
      {"ragged grouped", 7, 0, 1, 40, 1, 200, 128, 5},
      {"empties, masks", 8, 12, 0, 30, 0, 150, 128, 0, true},
      {"empties, masks, grouped", 8, 0, 0, 90, 0, 70, 96, 3, true},
      {"ties", 6, 9, 3, 33, 4, 200, 128, 0, false, true},
      {"integers, ties, masks", 6, 9, 0, 33, 0, 200, 64, 0, true, true, true},
      {"integers, long queries", 3, 5, 250, 700, 100, 260, 128, 0, false, true, true},
      {"integers grouped long", 3, 0, 100, 400, 10, 260, 128, 2, true, true, true},
      {"nan and inf", 7, 9, 4, 40, 1, 130, 128, 0, false, false, false, true},
      {"wide", 6, 9, 1, 20, 1, 80, 128, 0, false, false, false, false, true},
      {"hub", 40, 6, 20, 40, 1, 90, 128, 0, false, false, false, false, false, true},
      {"32-bit indices", 5, 6, 1, 40, 1, 300, 128, 0, true, true, false, false, false, false, true},
      {"one query", 1, 150, 20, 32, 0, 100, 128},
      {"one row each", 17, 19, 1, 1, 1, 1, 40},
      {"many tiny documents", 5, 900, 1, 9, 0, 5, 32},
      {"all empty", 3, 4, 0, 3, 0, 0, 16},
      {"rounds", 250, 11, 120, 128, 0, 4, 520},  // with 132 multiprocessors, in every precision that has them
  };
  const int dims[] = {1, 3, 7, 8, 16, 20, 31, 33, 48, 64, 72, 96, 100, 130, 160, 192, 200, 256, 264, 320, 384, 512, 768, 1024, 2048, 4096};
  for (int dim : dims) kinds.push_back({"dim " + std::to_string(dim), 3, 5, 1, 40, 1, dim > 1024 ? 60 : 150, dim, 0, dim % 3 == 0, false, false});
  for (int dim : {24, 96, 256, 320, 640}) kinds.push_back({"integers dim " + std::to_string(dim), 5, 6, 1, 80, 1, 150, dim, 0, dim % 3 == 0, true, true});
  for (int dim : {32, 64, 250, 700}) kinds.push_back({"wide dim " + std::to_string(dim), 3, 5, 1, 20, 1, 50, dim, 0, false, false, false, false, true});
  if (quick) kinds = {kinds[2], kinds[3], kinds[7], kinds[8], kinds[10], {"dim 264", 2, 3, 1, 20, 1, 60, 264}, {"dim 600", 2, 3, 1, 20, 1, 60, 600}};
  // These touch every kernel: each size of tile with each length of row, as batches (argmax) and as pairs (maxima alone).
  const std::vector<Kind> every = {
      {"tiny masks", 3, 3, 0, 12, 0, 40, 96, 0, true}, {"tiny grouped", 3, 0, 1, 70, 1, 70, 128, 2},
      {"tiny hub", 30, 2, 20, 24, 1, 30, 40, 0, false, false, false, false, false, true},
      {"tiny wide", 3, 3, 1, 9, 1, 20, 36, 0, false, false, false, false, true},
      {"tiny one query", 1, 5, 30, 32, 1, 60, 64}, {"tiny long rows", 1, 3, 20, 60, 1, 60, 264},
      {"tiny stream", 2, 3, 1, 20, 1, 60, 600}, {"tiny long queries", 1, 2, 100, 128, 1, 60, 100},
      {"tiny several long queries", 3, 2, 66, 128, 1, 90, 128}, {"tiny grouped long queries", 2, 0, 66, 128, 1, 90, 128, 2},
      {"tiny longer queries", 1, 2, 129, 160, 1, 60, 64}, {"tiny longer queries 96", 1, 2, 129, 160, 1, 60, 96},
      {"tiny rounds", 12, 12, 100, 128, 0, 12, 264}, {"tiny rounds, few documents", 17, 5, 100, 128, 0, 12, 300},
      {"tiny rounds, short documents", 12, 13, 100, 128, 1, 1, 264},
      {"tiny longer queries 128", 1, 2, 129, 160, 1, 60, 128}, {"tiny longer queries 256", 1, 2, 129, 160, 1, 60, 256},
  };
  if (tiny) kinds = every;
  else if (!quick) kinds.insert(kinds.end(), every.begin(), every.end());
  int done = 0;
  for (const Kind& k : kinds) {
    const Problem pr = make(k);
    for (Precision p : {BF16, F16, TF32, SPLIT, F32, F64}) {
      if (!only.empty() && only != name(p)) continue;
      if (p == SPLIT && k.dim < 32) continue;
      if (p == F16 && k.wide) continue;  // beyond its range by construction
      for (int hopper = 0; hopper < (p >= F32 || gpu.major != 9 ? 1 : 2); hopper++)
        one(gpu, k, pr, p, hopper, done % 3), done++;
    }
  }
  printf("%d runs, %d failures, largest score error %.3f of the bound\n", done, failures, worst_ratio);
  const auto unused = gpu.unused();
  printf("%zu of %zu kernels launched\n", gpu.kernels.size() - unused.size(), gpu.kernels.size());
  const bool all = !quick && only.empty();
  for (const auto& k : unused)
    if (all) printf("NEVER LAUNCHED %s\n", k.c_str());
  return failures != 0 || (all && !unused.empty());
}
