// A MaxSim problem as the user has it, its compact rows, and the reference: double, plain loops, on the host.
#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <vector>

enum Precision { BF16, F16, TF32, SPLIT, F32, F64 };
inline const char* name(Precision p) { return (const char*[]){"bf16", "f16", "tf32", "split", "f32", "f64"}[p]; }

struct Seqs {
  std::vector<int> cu{0};      // user's offsets
  std::vector<uint8_t> valid;  // per user row
  int rows() const { return (int)valid.size(); }
  int n() const { return (int)cu.size() - 1; }
  void add(int tokens) { cu.push_back(cu.back() + tokens); valid.resize(cu.back(), 1); }
};

// Compact rows: what the packing leaves (params.cuh).
struct Compact {
  std::vector<int> cu{0}, map;
  int longest = 0;
  Compact(const Seqs& s, int align) {
    for (int i = 0; i < s.n(); i++) {
      for (int r = s.cu[i]; r < s.cu[i + 1]; r++)
        if (s.valid[r]) map.push_back(r);
      while (map.size() % align) map.push_back(-1);
      longest = std::max(longest, (int)map.size() - cu.back());
      cu.push_back((int)map.size());
    }
  }
};

struct Problem {
  Seqs Q, D;
  int dim = 0, group = 0;
  std::vector<double> q, d, ds;
  int cols() const { return group ? group : D.n(); }
  int doc(int i, int k) const { return group ? i * group + k : k; }
  size_t tape(int i, int k) const { return (size_t)Q.cu[i] * cols() + (size_t)k * (Q.cu[i + 1] - Q.cu[i]); }
};

inline double rounded(double x, int bits, int emin) {  // to `bits` significant bits, ties to even, subnormals below 2^emin
  if (x == 0 || !std::isfinite(x)) return x;
  int e;
  std::frexp(x, &e);
  int ulp = std::max(e - bits, emin - bits + 1);
  return std::ldexp(std::nearbyint(std::ldexp(x, -ulp)), ulp);
}
inline double stored(Precision p, double x) {
  switch (p) {
    case BF16: return rounded((float)x, 8, -126);
    case F16: { double r = rounded((float)x, 11, -14); return std::fabs(r) > 65504 ? std::copysign(INFINITY, r) : r; }
    case TF32: {  // ties away from zero
      uint32_t u; float f = (float)x;
      if (!std::isfinite(f)) return f;
      memcpy(&u, &f, 4); u = (u + 0x1000u) & ~0x1fffu; memcpy(&f, &u, 4);
      return f;
    }
    case SPLIT: case F32: return (float)x;
    default: return x;
  }
}

inline void parallel(int n, const std::function<void(int)>& f) {
  int threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; t++) pool.emplace_back([=] { for (int i = t; i < n; i += threads) f(i); });
  for (auto& t : pool) t.join();
}

struct Result {
  std::vector<double> scores, dq, dd;
  std::vector<int> argmax;
};

// What the kernels must compute, from rows as stored. margin (per tape entry): how far the runner-up is behind.
inline Result reference(const Problem& pr, Precision p, const std::vector<int>* tape = nullptr) {
  Result r;
  const int bq = pr.Q.n(), cols = pr.cols(), dim = pr.dim;
  std::vector<double> q(pr.q.size()), d(pr.d.size());
  for (size_t i = 0; i < q.size(); i++) q[i] = stored(p, pr.q[i]);
  for (size_t i = 0; i < d.size(); i++) d[i] = stored(p, pr.d[i]);
  r.scores.assign((size_t)bq * cols, 0);
  r.argmax.assign((size_t)pr.Q.rows() * cols, -1);
  parallel(bq * cols, [&](int c) {
    const int i = c / cols, k = c % cols, j = pr.doc(i, k);
    double score = 0;
    bool any = false;
    for (int t = pr.Q.cu[i]; t < pr.Q.cu[i + 1]; t++) {
      if (!pr.Q.valid[t]) continue;
      double best = -INFINITY;
      int at = -1;
      bool nan = false;
      for (int u = pr.D.cu[j]; u < pr.D.cu[j + 1]; u++) {
        if (!pr.D.valid[u]) continue;
        double s = 0;
        for (int x = 0; x < dim; x++) s += q[(size_t)t * dim + x] * d[(size_t)u * dim + x];
        if (at < 0 || s > best) { best = s; at = u - pr.D.cu[j]; }
        if (s != s) nan = true;
      }
      if (at < 0) continue;
      any = true;
      score += nan ? NAN : best;
      r.argmax[pr.tape(i, k) + t - pr.Q.cu[i]] = at;
    }
    r.scores[c] = any ? score : 0;
  });
  if (pr.ds.empty()) return r;
  r.dq.assign(pr.q.size(), 0);
  r.dd.assign(pr.d.size(), 0);
  const std::vector<int>& arg = tape ? *tape : r.argmax;
  const bool storage = p == BF16 || p == F16;  // else gradients are of the rows as given
  const std::vector<double>&qg = storage ? q : pr.q, &dg = storage ? d : pr.d;
  for (int i = 0; i < bq; i++)
    for (int k = 0; k < cols; k++)
      for (int t = pr.Q.cu[i]; t < pr.Q.cu[i + 1]; t++) {
        const int u = arg[pr.tape(i, k) + t - pr.Q.cu[i]];
        if (u < 0) continue;
        const size_t at = (size_t)(pr.D.cu[pr.doc(i, k)] + u) * dim, to = (size_t)t * dim;
        const double g = pr.ds[(size_t)i * cols + k];
        for (int x = 0; x < dim; x++) { r.dq[to + x] += g * dg[at + x]; r.dd[at + x] += g * qg[to + x]; }
      }
  return r;
}
