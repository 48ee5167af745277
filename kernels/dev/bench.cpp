// bench [case...] [precision...] [sm80] [csr] [unchecked] [once | ways [image=FILE...]]: times of the engine's kernels,
// inputs on the device.
//
// bf16 and f16 inputs are already packed (identity maps); tf32 and split include the packing of float32 rows. Median of 25
// launches, each after 256 MB of memset (cold L2). Before any time is taken the scores and the argmax of a random sample
// are compared with double. sm80: the portable image in place of Hopper's. csr: also the inverse grid for several numbers of
// segments.
//
// ways: instead, the forward and the step in every way of launching them that gives the same bits, side by side: each
// round times all of them in turn, so that clocks and temperature are the same for all, and what is printed is the median
// of each and the median and quartiles of its difference from the first. image: a variant of the common image or of
// Hopper's forward (variants.sh), one more way; FILE@N: with N CTAs of a gradient kernel on a multiprocessor. once: instead,
// one step, for a profiler.
#include "engine.hpp"
#include <algorithm>
#include <set>

struct Case { const char* name; int nq, nd, tq, td, group; bool train; int dim; bool ragged; };
static const Case cases[] = {
    {"F1t", 128, 128, 32, 300, 0, true, 128, false},    {"F1v", 64, 64, 1024, 1024, 0, true, 128, false},
    {"F2a", 1, 1000, 32, 300, 0, false, 128, false},    {"F2b", 1, 10000, 32, 300, 0, false, 128, false},
    {"F2c", 1, 1000, 128, 1024, 0, false, 128, false},  {"F2d", 1, 1000, 1024, 1024, 0, false, 128, false},
    {"T1L", 512, 512, 32, 300, 0, true, 128, false},    {"T2", 64, 1024, 32, 300, 16, true, 128, false},
    {"R20", 200, 200, 20, 180, 0, true, 128, true},     {"D64", 128, 128, 32, 300, 0, true, 64, false},
    {"D96", 128, 128, 32, 300, 0, true, 96, false},     {"D256", 128, 128, 32, 300, 0, true, 256, false},
    {"D768", 128, 128, 32, 300, 0, true, 768, false},   {"D1024", 128, 128, 32, 300, 0, true, 1024, false},
    {"V64", 64, 64, 1024, 1024, 0, false, 64, false},   {"V96", 64, 64, 1024, 1024, 0, false, 96, false},
    {"V256", 64, 64, 1024, 1024, 0, false, 256, false}, {"V768", 64, 64, 1024, 1024, 0, false, 768, false},
};

static Problem make(const Case& c) {
  Problem p;
  p.dim = c.dim;
  p.group = c.group;
  std::mt19937 r(7);
  for (int i = 0; i < c.nq; i++) p.Q.add(c.tq);
  for (int j = 0; j < c.nd; j++) p.D.add(c.ragged ? 1 + (int)(r() % (2 * c.td)) : c.td);
  auto fill = [&](std::vector<double>& x, int rows, int salt) {
    x.resize((size_t)rows * c.dim);
    parallel(64, [&](int part) {
      uint64_t g = 1000 * salt + part + 1;  // sum of four uniforms: close enough to normal, and fast
      for (int row = part; row < rows; row += 64) {
        double* v = x.data() + (size_t)row * c.dim, s = 0;
        for (int k = 0; k < c.dim; k++) {
          g = g * 6364136223846793005ull + 1442695040888963407ull;
          uint64_t h = g ^ g >> 29;
          h *= 0xbf58476d1ce4e5b9ull;
          v[k] = (double)(h >> 48) + (double)(h >> 32 & 0xffff) + (double)(h >> 16 & 0xffff) + (double)((h ^ g >> 40) & 0xffff) - 2 * 65535.0;
          s += v[k] * v[k];
        }
        for (int k = 0; k < c.dim; k++) v[k] = (float)(v[k] / std::sqrt(s));
      }
    });
  };
  fill(p.q, p.Q.rows(), 1);
  fill(p.d, p.D.rows(), 2);
  p.ds.resize((size_t)c.nq * p.cols());
  std::normal_distribution<float> n;
  for (auto& v : p.ds) v = n(r) / p.cols();
  return p;
}

static std::vector<uint16_t> halves(Precision p, const std::vector<double>& x) {
  std::vector<uint16_t> h(x.size());
  parallel(64, [&](int part) {
    for (size_t i = part; i < x.size(); i += 64) {
      const double v = stored(p, x[i]);
      if (p == BF16) { float f = (float)v; uint32_t u; memcpy(&u, &f, 4); h[i] = (uint16_t)(u >> 16); }
      else { _Float16 f = (_Float16)v; memcpy(&h[i], &f, 2); }
    }
  });
  return h;
}

struct Timer {
  Gpu& gpu;
  Buffer flush{256u << 20};
  CUevent a, b;
  explicit Timer(Gpu& g) : gpu(g) { CK(cuEventCreate(&a, 0)); CK(cuEventCreate(&b, 0)); }
  template <class F> float cold(F f, int n = 25) {
    for (int i = 0; i < 3; i++) f();
    gpu.sync();
    std::vector<float> v;
    for (int i = 0; i < n; i++) v.push_back(once(f, i));
    std::sort(v.begin(), v.end());
    return v[n / 2];
  }
  template <class F> float once(F f, int i) {
    CK(cuMemsetD8Async(flush.p, (unsigned char)i, flush.bytes, gpu.stream));
    CK(cuEventRecord(a, gpu.stream));
    f();
    CK(cuEventRecord(b, gpu.stream));
    CK(cuEventSynchronize(b));
    float ms;
    CK(cuEventElapsedTime(&ms, a, b));
    return ms;
  }
};

// A way of launching: what it changes of the product's.
struct Way {
  std::string name;
  std::function<void()> set;
  bool forward = true;  // it concerns the forward, not the backward alone
};

// Times `what` in every way, in turn; every way starts from what `reset` sets.
static void side_by_side(Timer& timer, const char* what, const std::vector<Way>& ways, const std::function<void()>& reset, const std::function<void()>& run) {
  constexpr int rounds = 41;
  std::vector<std::vector<float>> t(ways.size()), more(ways.size());
  for (int n = -2; n < rounds; n++)  // two rounds to warm up
    for (size_t k = 0; k < ways.size(); k++) {
      const size_t w = (k + n + 2) % ways.size();  // not always after the same other
      reset();
      ways[w].set();
      const float ms = timer.once(run, n);
      if (n >= 0) t[w].push_back(ms);
    }
  for (size_t w = 0; w < ways.size(); w++) {
    for (int n = 0; n < rounds; n++) more[w].push_back(t[w][n] - t[0][n]);
    std::sort(more[w].begin(), more[w].end());
  }
  for (size_t w = 0; w < ways.size(); w++) {
    std::sort(t[w].begin(), t[w].end());
    printf("  %-8s %-28s %.4f ms", what, ways[w].name.c_str(), t[w][rounds / 2]);
    if (w) printf("  %+6.1f us (%+.1f to %+.1f)", 1e3 * more[w][rounds / 2], 1e3 * more[w][rounds / 4], 1e3 * more[w][3 * rounds / 4]);
    printf("\n");
  }
  reset();
}

// The ways of an engine: bits first, then times. False if a way has other bits than the first.
struct Variant { std::string name; size_t image; int residents; };
static bool compare_ways(Gpu& gpu, Timer& timer, Engine& e, bool train, const std::vector<Variant>& variants) {
  std::vector<Way> ways = {
      {"as it is", [] {}},
      {"all of these undone", [&] { gpu.overlap = false; e.ways.packed_apart = e.ways.in_order = true; e.ways.rows = 4; }},
      {"not overlapped", [&] { gpu.overlap = false; }},
  };
  if (e.qs.p && !e.identity) ways.push_back({"packed apart", [&] { e.ways.packed_apart = true; }});
  if (train) {
    ways.push_back({"dd with 4 rows a warp", [&e] { e.ways.rows = 4; }, false});
    for (int waves : {1, 2, 3, 4, 6, 9})
      ways.push_back({"dd in " + std::to_string(waves) + " waves", [&e, waves] { e.ways.waves = waves; }, false});
    ways.push_back({"dd early", [&e] { e.ways.early = true; }, false});
    ways.push_back({"one stream", [&] { e.ways.in_order = true; }, false});
    ways.push_back({"one stream, not overlapped", [&] { e.ways.in_order = true; gpu.overlap = false; }, false});
  }
  for (const Variant& v : variants)
    ways.push_back({v.name, [&gpu, &e, v] { (gpu.has_common(v.image) ? gpu.common : gpu.forward) = v.image; e.ways.residents = v.residents; }});
  const auto reset = [&] { gpu.overlap = true; gpu.common = Gpu::COMMON; gpu.forward = Gpu::SM90A; e.ways = Ways(); };
  const auto step = [&] { e.forward(); if (train) e.backward(); };
  bool same = true;
  std::vector<uint8_t> first;
  for (auto& w : ways) {
    for (Buffer* b : {&e.scores, &e.arg, &e.part, &e.list, &e.rowptr, &e.counts, &e.dq, &e.dd}) if (b->p) CK(cuMemsetD8(b->p, 0x5A, b->bytes));
    if (!e.identity)
      for (Buffer* b : {&e.qs, &e.ds_}) if (b->p) CK(cuMemsetD8(b->p, 0x5A, b->bytes));
    CK(cuCtxSynchronize());
    reset();
    w.set();
    step();
    gpu.sync();
    std::vector<uint8_t> all;
    for (Buffer* b : {&e.scores, &e.arg, &e.dq, &e.dd}) { const auto x = b->host<uint8_t>(); all.insert(all.end(), x.begin(), x.end()); }
    if (first.empty()) first = all;
    else if (first != all) { printf("  %s: OTHER BITS\n", w.name.c_str()); same = false; }
  }
  reset();
  if (same) printf("  %zu ways, the same bits\n", ways.size());
  std::vector<Way> of_forward;
  std::copy_if(ways.begin(), ways.end(), std::back_inserter(of_forward), [](const Way& w) { return w.forward; });
  side_by_side(timer, "forward", of_forward, reset, [&] { e.forward(); });
  if (train) side_by_side(timer, "step", ways, reset, step);
  return same;
}

// A random sample of winners and scores against double.
static bool sample(const Problem& pr, Precision p, Engine& e) {
  const auto arg = e.argmax();
  const auto scores = e.numbers(e.scores);
  const int cols = pr.cols();
  std::mt19937 r(99);
  std::vector<std::pair<int, int>> picks;
  for (int n = 0; n < 24; n++) picks.push_back({(int)(r() % pr.Q.n()), (int)(r() % cols)});
  std::vector<double> err(picks.size());
  std::vector<int> wrong(picks.size());
  parallel((int)picks.size(), [&](int n) {
    const int i = picks[n].first, k = picks[n].second, j = pr.doc(i, k);
    // Rounding to the storage type costs more than the product: once a row, not once a pair of rows.
    auto rows = [&](const std::vector<double>& x, const std::vector<int>& cu, int at) {
      std::vector<double> y(x.begin() + (size_t)cu[at] * pr.dim, x.begin() + (size_t)cu[at + 1] * pr.dim);
      for (double& v : y) v = stored(p, v);
      return y;
    };
    const auto q = rows(pr.q, pr.Q.cu, i), d = rows(pr.d, pr.D.cu, j);
    double score = 0;
    for (int t = pr.Q.cu[i]; t < pr.Q.cu[i + 1]; t++) {
      const double* q_t = q.data() + (size_t)(t - pr.Q.cu[i]) * pr.dim;
      double best = -INFINITY, mine = 0;
      int at = -1;
      const int a = arg[pr.tape(i, k) + t - pr.Q.cu[i]];
      for (int u = pr.D.cu[j]; u < pr.D.cu[j + 1]; u++) {
        const double* d_u = d.data() + (size_t)(u - pr.D.cu[j]) * pr.dim;
        double s = 0;
        for (int x = 0; x < pr.dim; x++) s += q_t[x] * d_u[x];
        if (u - pr.D.cu[j] == a) mine = s;
        if (s > best) { best = s; at = u - pr.D.cu[j]; }
      }
      if (a != at && best - mine > 1e-6) wrong[n]++;
      score += best;
    }
    err[n] = std::fabs(scores[(size_t)i * cols + k] - score) / std::fabs(score);
  });
  double worst = 0;
  int bad = 0;
  for (double x : err) worst = std::max(worst, x == x ? x : INFINITY);
  for (int x : wrong) bad += x;
  printf("  sample of %zu pairs: score error %.2e, wrong winners %d%s\n", picks.size(), worst, bad, worst < 2e-6 && bad == 0 ? "" : "  <-- WRONG");
  return worst < 2e-6 && bad == 0;
}

int main(int argc, char** argv) {
  std::set<std::string> args(argv + 1, argv + argc);
  auto has = [&](const char* s) { return args.count(s) != 0; };
  Gpu gpu("kernels");
  int driver = 0;
  CK(cuDriverGetVersion(&driver));
  printf("bench on %s, %d SMs, driver API %d\n", gpu.name, gpu.sms, driver);
  Timer timer(gpu);
  std::vector<Variant> variants;
  for (const std::string& a : args) {
    if (a.rfind("image=", 0) != 0) continue;
    const std::string file = a.substr(6, a.find('@') == std::string::npos ? std::string::npos : a.find('@') - 6);
    variants.push_back({file.substr(file.find_last_of('/') + 1), gpu.load(file), file.size() + 6 < a.size() ? atoi(a.c_str() + file.size() + 7) : 4});
  }
  bool any_case = false, any_precision = false;
  for (auto& c : cases) any_case |= has(c.name);
  for (int p = 0; p < 6; p++) any_precision |= has(name((Precision)p));
  bool ok = true;
  const bool hopper = gpu.major == 9 && !has("sm80");
  for (auto& c : cases) {
    if (any_case && !has(c.name)) continue;
    const Problem pr = make(c);
    const double flop = 2.0 * c.dim * (c.group ? (double)pr.Q.rows() * c.group * c.td : (double)pr.Q.rows() * pr.D.rows());
    for (Precision p : {BF16, F16, TF32, SPLIT}) {
      if (any_precision ? !has(name(p)) : p != BF16) continue;
      const bool packed = p == BF16 || p == F16;
      Engine max(gpu, pr, p, hopper, false, false, packed), e(gpu, pr, p, hopper, true, false, packed);
      if (packed)
        for (Engine* x : {&max, &e}) {
          const auto q = halves(p, pr.q), d = halves(p, pr.d);
          CK(cuMemcpyHtoD(x->qs.p, q.data(), q.size() * 2));
          CK(cuMemcpyHtoD(x->ds_.p, d.data(), d.size() * 2));
        }
      CK(cuCtxSynchronize());
      printf("%s %s %s: %d x %d, %d x %d, dim %d%s, kernel %s\n", c.name, name(p), hopper ? "sm90a" : "sm80", c.nq, c.nd, c.tq, c.td, c.dim, c.ragged ? ", ragged" : "", e.choice.kernel.c_str());
      e.forward();
      gpu.sync();
      if (!has("unchecked")) ok &= sample(pr, p, e);
      if (has("once")) {
        max.forward();
        if (c.train) e.backward();
        gpu.sync();
        continue;
      }
      if (has("ways")) {
        ok &= compare_ways(gpu, timer, e, c.train, variants);
        printf(" without argmax\n");
        ok &= compare_ways(gpu, timer, max, false, variants);
        fflush(stdout);
        continue;
      }
      const float k0 = timer.cold([&] { max.pack(); max.product(); }), f0 = timer.cold([&] { max.forward(); });
      const float k1 = timer.cold([&] { e.pack(); e.product(); }), f1 = timer.cold([&] { e.forward(); });
      if (p == SPLIT || p == TF32) printf("  packing: %.4f ms\n", timer.cold([&] { e.pack(); }));
      printf("  forward: max only %.4f ms (with sums %.4f, %.0f TFLOP/s), argmax %.4f (with sums %.4f, %.0f TFLOP/s)\n", k0, f0, flop / f0 / 1e9, k1, f1, flop / f1 / 1e9);
      if (c.train) {
        const float tc = timer.cold([&] { e.csr(); }), td = timer.cold([&] { e.grad_d(); }), tq = timer.cold([&] { e.grad_q(gpu.stream); });
        const float b1 = timer.cold([&] { e.backward(); }), s1 = timer.cold([&] { e.forward(); e.backward(); });
        const size_t extra = e.arg.bytes + std::max(e.part.bytes, e.list.bytes) + e.rowptr.bytes + e.counts.bytes + e.scores.bytes + e.qown.bytes + e.down.bytes;
        printf("  backward: csr %.4f (segs %d), dd %.4f, dq %.4f, all %.4f; step %.4f ms; extra memory %.1f MiB\n", tc, e.csr_segs, td, tq, b1, s1, extra / 1048576.0);
        if (has("csr"))
          for (int utile : {256, 512, 1024})
            for (int segs : {0, 1, 2, 4, 8, 16, 32}) {
              if (segs == 0 && (e.maxtd > 2048 || utile != 1024)) continue;
              if (utile > 256 && utile >= 2 * e.maxtd) continue;
              e.set_csr(segs, utile);
              CK(cuCtxSynchronize());
              printf("    csr utile %d segs %d: %.4f\n", utile, segs, timer.cold([&] { e.csr(); }));
            }
      }
      fflush(stdout);
    }
  }
  return !ok;
}
