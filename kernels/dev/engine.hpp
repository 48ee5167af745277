// What the host does with the kernels: choice by shape, buffers, launches. The README's tables as code.
#pragma once
#include "../params.cuh"
#include "driver.hpp"
#include "problem.hpp"

inline int up(int64_t n, int64_t to) { return (int)((n + to - 1) / to); }

struct Choice {
  std::string kernel;
  int ctas, block, shared, tile;
  int box = 128;  // rows of a box of dtile
};

inline Choice choose(Precision p, bool hopper, int rows, int row, bool arg) {
  const std::string type = std::string("maxsim_forward_") + name(p) + "_", tail = arg ? "_arg" : "_max";
  const int most = 232448;
  if (p == F32 || p == F64) return {std::string("maxsim_forward_exact_") + name(p), 4, 256, 0, 64};
  if (!hopper) {
    if (p > F16 || row > 256) return {type + "stream" + tail + "_sm80", 1, 256, 98304, 128};
    return {type + (row <= 128 ? "k4" : row <= 192 ? "k6" : "k8") + tail + "_sm80", 2, 128, row <= 128 ? 24576 : 49152, 128};
  }
  if (p == SPLIT) return {type + (row <= 512 ? "k16_m128" : row <= 1024 ? "long_m128" : "stream") + tail + "_sm90a", 1, 384, most, 128};
  if (p == TF32) return {type + (row <= 512 ? "long_m256" : "stream") + tail + "_sm90a", 1, 640, most, 256};
  if (rows <= 64 && row <= 256) return {type + "k8_m64" + tail + "_sm90a", 2, 256, 82944, 64, 16};
  if (rows <= 64 && row <= 768) return {type + "long_m64" + tail + "_sm90a", 2, 256, 115712, 64};
  if (rows <= 128 && row <= 256) return {type + "k8_m128" + tail + "_sm90a", 1, 384, most, 128, 16};
  return {type + (row <= 128 ? "k4_m256" : row <= 192 ? "k6_m256" : row <= 256 ? "k8_m256" : row <= 512 ? "long_m256" : "stream") + tail + "_sm90a", 1, 640, most, 256};
}

// cuTensorMapEncodeTiled is newer than some cuda.h; CUtensorMap is 128 opaque bytes.
inline void tensor_map(uint8_t* out, CUdeviceptr base, int64_t row_bytes, int64_t rows, int box_rows) {
  memset(out, 0, 128);
  if (rows == 0) return;
  alignas(64) CUtensorMap m;
  cuuint64_t dims[2] = {(cuuint64_t)row_bytes / 2, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)row_bytes};
  cuuint32_t box[2] = {64, (cuuint32_t)box_rows}, steps[2] = {1, 1};
  CK(cuTensorMapEncodeTiled(&m, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, (void*)base, dims, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  memcpy(out, &m, 128);
}

// Ways of launching that give the same bits; bench compares them.
struct Ways {
  bool packed_apart = false;  // a packing launch for each side, and a clear of `flagged`
  int waves = 0;              // of grad_d's CTAs, 0: as many as rows are worth
  int rows = 0;               // of a warp of grad_d, waves or not, if it is not 0
  int residents = 4;          // CTAs of grad_d on a multiprocessor
  bool in_order = false;      // grad_q not beside the CSR
  bool early = false;         // grad_d, too, begins while the launch before it is under way
};

// Everything one problem needs on the device, made once; the steps are launches only.
struct Engine {
  Gpu& gpu;
  Precision p;
  bool hopper, record, raw;  // raw: gradients and exact forward read the user's rows
  int bq, bd, cols, dim, group, totq, totd, maxq, maxtd, ld, size, argbytes, listbytes, qlen = 0;
  int rows_q, rows_d;
  bool identity, direct = false;  // direct: the forward writes the scores
  Buffer q, d, qs, ds_, qmap, dmap, cuq, cud, qown, down, qscale, dscale, qflag, dflag, flagged;
  Buffer arg, part, scores, rowptr, list, counts, g, dq, dd, ucuq, ucud, tape;
  Choice choice;
  Ways ways;
  ForwardSm90Params fp{};
  CsrParams cp{};
  int csr_segs = 0, csr_utile = 0;  // segs 0: fused
  int64_t stamp = 0;                // of the last packing

  // identity: rows are already packed in q16 and d16 (bench), maps are null.
  Engine(Gpu& gpu_, const Problem& pr, Precision p_, bool hopper_, bool record_, bool wide_ = false, bool identity_ = false)
      : gpu(gpu_), p(p_), hopper(hopper_), record(record_), raw(p_ >= TF32), identity(identity_) {
    Compact Q(pr.Q, MAXSIM_SLAB), D(pr.D, 1);
    bq = pr.Q.n(); bd = pr.D.n(); cols = pr.cols(); dim = pr.dim; group = pr.group;
    totq = Q.cu.back(); totd = D.cu.back(); maxq = group ? Q.longest : totq; maxtd = D.longest;
    rows_q = pr.Q.rows(); rows_d = pr.D.rows();
    size = p == F64 ? 8 : p >= SPLIT ? 4 : p == TF32 ? 4 : 2;
    ld = p == SPLIT ? 2 * 32 * up(dim, 32) : p == TF32 ? 4 * up(dim, 4) : p <= F16 ? 8 * up(dim, 8) : dim;
    const int storage = p == SPLIT ? 2 : size;
    argbytes = wide_ || maxtd > 65536 ? 4 : 2;
    listbytes = wide_ || maxq > 65536 ? 4 : 2;
    for (int i = 0; i < bq; i++) {
      int n = Q.cu[i + 1] - Q.cu[i];
      qlen = i == 0 ? n : n == qlen ? qlen : 0;
    }
    auto upload = [&](const std::vector<double>& v) {
      if (p == F64) return Buffer(v);
      return Buffer(std::vector<float>(v.begin(), v.end()));
    };
    if (!identity) { q = upload(pr.q); d = upload(pr.d); qmap = Buffer(Q.map); dmap = Buffer(D.map); }
    if (p != F32 && p != F64) { qs = Buffer((size_t)totq * ld * storage); ds_ = Buffer((size_t)totd * ld * storage); }
    cuq = Buffer(Q.cu); cud = Buffer(D.cu); ucuq = Buffer(pr.Q.cu); ucud = Buffer(pr.D.cu);
    qown = Buffer((size_t)totq * 4); down = Buffer((size_t)totd * 4);
    if (p == SPLIT) {
      qscale = Buffer((size_t)totq * 4); dscale = Buffer((size_t)totd * 4);
      qflag = Buffer((size_t)totq); dflag = Buffer((size_t)totd); flagged = Buffer(4);
    }
    const size_t winners = (size_t)totq * cols;
    if (record) arg = Buffer(winners * argbytes);
    part = Buffer(winners / 4 * (p == F64 ? 8 : 4));
    scores = Buffer((size_t)bq * cols * (p == F64 ? 8 : 4));
    if (record) {
      rowptr = Buffer((size_t)(totd + bd) * 4); list = Buffer(winners * listbytes);
      dq = Buffer((size_t)rows_q * dim * (p == F64 ? 8 : 4)); dd = Buffer((size_t)rows_d * dim * (p == F64 ? 8 : 4));
      if (!pr.ds.empty()) g = upload(pr.ds);
    }
    csr_utile = std::max(1, std::min(maxtd, 1024));
    if (maxtd > 1024 || maxq > 32768)
      csr_segs = std::max(up(maxq, 32768), std::min(up(4 * gpu.sms, (int64_t)bd * up(maxtd, csr_utile)), up(maxq, 4096)));
    set_csr(csr_segs, csr_utile);
    choice = choose(p, hopper, maxq, ld * storage, record);
    ForwardParams& f = fp.f;
    f = {};
    const bool exact = p == F32 || p == F64;
    f.q = exact ? q.p : qs.p; f.d = exact ? d.p : ds_.p; f.qmap = qmap.p; f.dmap = dmap.p; f.cuq = cuq.p; f.cud = cud.p;
    f.qscale = qscale.p; f.dscale = dscale.p; f.argmax = arg.p; f.part = part.p; f.scores = 0;
    f.bq = bq; f.bd = bd; f.totq = totq; f.totd = totd; f.dim = dim; f.ldq = f.ldd = ld; f.group = group; f.maxq = maxq; f.argbytes = argbytes;
    bool gaps = totq == 0 || totd == 0;
    for (int i = 0; i < bq; i++) gaps |= Q.cu[i] == Q.cu[i + 1];
    for (int j = 0; j < bd; j++) gaps |= D.cu[j] == D.cu[j + 1];
    direct = !gaps && hopper && p <= F16 && choice.tile <= 128 && (group || bq == 1);
    if (direct) f.scores = scores.p;
    if (!exact && hopper) {
      tensor_map(fp.dtile, ds_.p, (int64_t)ld * storage, totd, choice.box);
      tensor_map(fp.qtile, qs.p, (int64_t)ld * storage, totq, 64);
    }
    CK(cuCtxSynchronize());  // uploads and poison are on the default stream
    owners();
  }
  void set_csr(int segs, int utile) {
    csr_segs = segs; csr_utile = utile;
    if (record && segs) counts = Buffer((size_t)segs * totd * 4);
    cp = {arg.p, qmap.p, cuq.p, cud.p, rowptr.p, list.p, counts.p, bq, bd, totq, totd, group, argbytes, listbytes, utile, segs};
  }
  void owners() {
    gpu.launch("maxsim_row_owner", OwnerParams{cuq.p, qown.p, bq}, up(bq, 8), 1, 1, 256, 0, gpu.stream);
    gpu.launch("maxsim_row_owner", OwnerParams{cud.p, down.p, bd}, up(bd, 8), 1, 1, 256, 0, gpu.stream);
  }
  void pack() {
    if (p == F32 || p == F64 || identity) return;
    stamp++;
    const std::string k = std::string("maxsim_pack_") + name(p);
    const int rows = p == SPLIT ? 32 : 8;  // of a CTA
    const PackSide query{q.p, qmap.p, qs.p, qscale.p, qflag.p, totq}, document{d.p, dmap.p, ds_.p, dscale.p, dflag.p, totd};
    const PackParams both{query, document, flagged.p, stamp, dim, ld}, one{query, {}, flagged.p, stamp, dim, ld}, other{document, {}, flagged.p, stamp, dim, ld};
    if (!ways.packed_apart) return gpu.launch(k, both, up(totq, rows) + up(totd, rows), 1, 1, 256, 0, gpu.stream);
    if (p == SPLIT) CK(cuMemsetD8Async(flagged.p, 0, 4, gpu.stream));
    gpu.launch(k, one, up(totq, rows), 1, 1, 256, 0, gpu.stream);
    gpu.launch(k, other, up(totd, rows), 1, 1, 256, 0, gpu.stream);
  }
  void product() {
    if (totd == 0 || totq == 0) return;
    const unsigned grid = (unsigned)(choice.ctas * gpu.sms);
    if (choice.kernel.find("sm90a") != std::string::npos) gpu.launch(choice.kernel, fp, grid, 1, 1, choice.block, choice.shared, gpu.stream);
    else gpu.launch(choice.kernel, fp.f, grid, 1, 1, choice.block, choice.shared, gpu.stream);
    if (p == SPLIT) {
      ForwardParams f = fp.f;
      f.q = q.p; f.d = d.p; f.ldq = f.ldd = dim; f.qscale = f.dscale = 0; f.qflag = qflag.p; f.dflag = dflag.p; f.flagged = flagged.p; f.stamp = stamp;
      gpu.launch("maxsim_forward_exact_f32", f, 4 * gpu.sms, 1, 1, 256, 0, gpu.stream);
    }
  }
  void sums() {
    ScoresParams s{part.p, cuq.p, cud.p, scores.p, bq, bd, totq, group};
    gpu.launch(p == F64 ? "maxsim_scores_f64" : "maxsim_scores_f32", s, up((int64_t)bq * cols, 32), 1, 1, 256, 0, gpu.stream);
  }
  void forward() { pack(); product(); if (!direct) sums(); }
  void csr() { csr(gpu.stream); }
  void csr(CUstream s) {
    const unsigned block = maxq >= 2048 ? 1024 : 128;
    auto csr_shared = [=](int rows) { return (int)(block / 16 + 4) * (rows + rows % 2); };
    if (csr_segs == 0) {
      int bytes = csr_shared(std::max(maxtd, 1)), staged = bytes + 2 * maxq;
      gpu.launch("maxsim_csr_fused", cp, bd, 1, 1, block, listbytes == 2 && staged <= 98304 ? staged : bytes, s);
      return;
    }
    const int tiles = up(maxtd, csr_utile);
    gpu.launch("maxsim_csr_count", cp, bd, csr_segs, tiles, block, csr_shared(csr_utile), s);
    gpu.launch("maxsim_csr_scan", cp, bd, 1, 1, block, 0, s);
    gpu.launch("maxsim_csr_place", cp, bd, csr_segs, tiles, block, csr_shared(csr_utile), s);
  }
  std::string grad_type() const { return p == BF16 ? "bf16" : p == F16 ? "f16" : p == F64 ? "f64" : "f32"; }
  int blocks() const { return up((int64_t)dim * size, 512); }
  void grad_d() {
    int64_t mul = 0, shift = 0;
    if (qlen > 1) {
      while ((1 << (shift + 1)) < qlen) shift++;
      mul = (int64_t)(((1ull << (32 + shift)) + qlen - 1) / qlen);
    }
    GradDParams a{raw ? q.p : qs.p, raw ? qmap.p : 0, qown.p, down.p, dmap.p, cuq.p, cud.p, rowptr.p, list.p, g.p, dd.p,
                  bq, bd, totq, totd, group, dim, raw ? dim : ld, listbytes, mul, shift};
    const int each = (int64_t)totq * cols < 2 * (int64_t)totd ? 18 : 12;  // rows a warp: more where most were never chosen
    const int64_t wave = (int64_t)ways.residents * gpu.sms, share = 8 * wave * each, y = blocks();
    const int64_t waves = ways.waves ? ways.waves : std::max<int64_t>(1, (totd * y + share / 2) / share);
    const int ctas = ways.rows ? up(totd, 8 * ways.rows) : std::min(up(wave * waves, y), up(totd, 8));
    const bool overlap = gpu.overlap;
    gpu.overlap = overlap && ways.early;  // else CTAs that wait for the list would take the places of grad_q's
    gpu.launch("maxsim_grad_d_" + grad_type(), a, ctas, y, 1, 256, 0, gpu.stream);
    gpu.overlap = overlap;
  }
  void grad_q(CUstream s) {
    GradQParams a{raw ? d.p : ds_.p, raw ? dmap.p : 0, qown.p, qmap.p, cuq.p, cud.p, arg.p, g.p, dq.p,
                  bq, bd, totq, totd, group, dim, raw ? dim : ld, argbytes};
    gpu.launch("maxsim_grad_q_" + grad_type(), a, up(totq, 8), blocks(), 1, 256, 0, s);
  }
  void clear() {
    for (Buffer* b : {&dq, &dd})
      if (b->bytes) CK(cuMemsetD8Async(b->p, 0, b->bytes, gpu.stream));
  }
  void backward() {
    if (ways.in_order) {
      csr();
      grad_d();
      grad_q(gpu.stream);
      return;
    }
    CK(cuEventRecord(gpu.fork, gpu.stream));
    CK(cuStreamWaitEvent(gpu.second, gpu.fork, 0));
    csr(gpu.stream);  // before grad_q, whose CTAs would leave it no places
    grad_q(gpu.second);
    CK(cuEventRecord(gpu.join, gpu.second));
    grad_d();
    CK(cuStreamWaitEvent(gpu.stream, gpu.join, 0));
  }
  std::vector<int> argmax() {
    tape = Buffer((size_t)rows_q * cols * 4, 0xff);
    CK(cuCtxSynchronize());
    ArgmaxParams a{arg.p, qmap.p, dmap.p, cuq.p, cud.p, qown.p, ucuq.p, ucud.p, tape.p, bq, bd, totq, group, argbytes};
    gpu.launch("maxsim_argmax", a, (unsigned)bd * up(std::max(maxq, 1), 256), 1, 1, 256, 0, gpu.stream);
    gpu.sync();
    return tape.host<int>();
  }
  std::vector<double> numbers(const Buffer& b) {
    gpu.sync();
    if (p == F64) return b.host<double>();
    auto f = b.host<float>();
    return std::vector<double>(f.begin(), f.end());
  }
};
