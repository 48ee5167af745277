// The kernels as plain loops over the same parameters, in the order of sums that is easiest to read. They stand in for
// what kernels/*.cu computes, not for how: a test that passes here has the host's half right.
#include "emulate/tensormap.h"
#include "params.cuh"
#include "standin.h"
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <vector>

namespace {

using std::string;

void expect(bool ok, const string &what) {
	if (!ok) throw Violation(what);
}

template <class P> P params(const Launch &l) {
	P p;
	memcpy(&p, l.params.data(), sizeof p);
	return p;
}

template <class T> T *mem(uint64_t at, int64_t n, const char *what) {
	expect(at % sizeof(T) == 0, string(what) + ": misaligned");
	return n > 0 ? (T *)device_memory(at, n * sizeof(T), what) : nullptr;
}

bool has(const Launch &l, const char *part) { return l.kernel.find(part) != string::npos; }

void grid(const Launch &l, int64_t x, int64_t y, int64_t z, unsigned block) {
	expect(l.grid[0] == x && l.grid[1] == y && l.grid[2] == z && l.block[0] == block && l.block[1] == 1 && l.block[2] == 1,
		l.kernel + ": grid (" + std::to_string(l.grid[0]) + "," + std::to_string(l.grid[1]) + "," + std::to_string(l.grid[2]) +
		") block " + std::to_string(l.block[0]) + ", expected (" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) +
		") block " + std::to_string(block));
}

int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

float bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
uint32_t bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

// Round to nearest, ties to even, keeping the upper keep bits of a float: 16 for bf16, 19 for tf32.
float rounded(float f, int keep) {
	if (std::isnan(f) || std::isinf(f)) return f;
	uint32_t u = bits(f), drop = 32 - keep;
	u += (1u << (drop - 1)) - 1 + (u >> drop & 1);
	return bits(u >> drop << drop);
}

// Where rows lie: the user's rows through a map, or packed rows.
template <class T> struct Rows {
	const char *base;
	int64_t pitch, dim;
	const int *map;
	char format;  // the first letter: user, tf32, bf16, f16, split
	T get(int64_t r, int64_t k) const {
		if (map) r = map[r];
		if (format == 'u') return ((const T *)base)[r * pitch + k];
		if (format == 't') return ((const float *)base)[r * pitch + k];
		const uint16_t *row = (const uint16_t *)base + r * pitch;
		if (format == 'b') return bits((uint32_t)row[k] << 16);
		if (format == 'f') { _Float16 h; memcpy(&h, row + k, 2); return (float)h; }
		const uint16_t *o = row + k / 32 * 64 + k % 32;
		return bits((uint32_t)o[0] << 16 | o[32]);
	}
	// Row r as numbers, computed once for many products.
	void row(int64_t r, std::vector<T> &out) const {
		for (int64_t k = 0; k < dim; k++) out[k] = get(r, k);
	}
};

int64_t width(const string &format, int64_t dim) {
	if (format == "tf32") return round_up(dim, 4);
	if (format == "split") return 2 * round_up(dim, 32);
	return format == "user" ? dim : round_up(dim, 8);
}

template <class T> int64_t element(const string &format) { return format == "user" ? sizeof(T) : format == "tf32" ? 4 : 2; }

// Rows of a parameter struct, every byte that the kernel may read checked.
template <class T> Rows<T> rows(uint64_t at, uint64_t map, int64_t total, int64_t ld, int64_t dim, const string &format, const char *what) {
	expect(ld == width(format, dim), string(what) + ": pitch " + std::to_string(ld) + " for " + format + " rows of dim " + std::to_string(dim));
	const int *m = map ? mem<int>(map, total, what) : nullptr;
	if (format != "user") m = nullptr;
	int64_t first = INT64_MAX, last = -1;
	for (int64_t r = 0; r < total; r++) {
		int64_t from = m ? m[r] : r;
		if (from >= 0) first = std::min(first, from), last = std::max(last, from);
	}
	int64_t row = ld * element<T>(format);
	if (last >= 0) mem<uint8_t>(at + first * row, (last - first + 1) * row, what);
	const char *base = (const char *)at;
	return {base, ld, dim, m, format[0]};
}

// cu_seqlens of one side, checked.
const int *sequences(uint64_t at, int64_t n, int64_t total, int pad, const char *what) {
	const int *cu = mem<int>(at, n + 1, what);
	expect(cu[0] == 0 && cu[n] == total, string(what) + ": does not run from 0 to the number of rows");
	for (int64_t s = 0; s < n; s++) expect(cu[s] <= cu[s + 1] && cu[s + 1] % pad == 0, string(what) + ": decreases or is not padded");
	return cu;
}

// The query rows [lo, hi) that a document meets and the index of the first one's winner.
struct Meets { int64_t lo, hi, winner; };
template <class P> Meets meets(const P &p, const int *cuq, int64_t j) {
	if (p.group == 0) return {0, p.totq, j * p.totq};
	int64_t i = j / p.group, k = j % p.group, lo = cuq[i], hi = cuq[i + 1];
	return {lo, hi, lo * p.group + k * (hi - lo)};
}
template <class P> int64_t winners(const P &p) { return p.group ? p.group * p.totq : p.bd * p.totq; }
template <class P> int64_t columns(const P &p) { return p.group ? p.group : p.bd; }

struct Index {
	char *base;
	bool wide;
	int64_t get(int64_t at) const { return wide ? ((uint32_t *)base)[at] : ((uint16_t *)base)[at]; }
	void set(int64_t at, int64_t v) const { if (wide) ((uint32_t *)base)[at] = v; else ((uint16_t *)base)[at] = v; }
};
Index index(uint64_t at, int64_t n, int64_t bytes, const char *what) {
	expect(bytes == 2 || bytes == 4, string(what) + ": width of an index");
	return {(char *)mem<uint8_t>(at, n * bytes, what), bytes == 4};
}

// The sequence of every compact row.
std::vector<int64_t> owners(const int *cu, int64_t n) {
	std::vector<int64_t> o;
	for (int64_t s = 0; s < n; s++) o.insert(o.end(), cu[s + 1] - cu[s], s);
	return o;
}
void check_owners(uint64_t at, const int *cu, int64_t n, const char *what) {
	auto want = owners(cu, n);
	const int *got = mem<int>(at, want.size(), what);
	for (size_t r = 0; r < want.size(); r++) expect(got[r] == want[r], string(what) + ": wrong owner");
}

void pack_side(const PackParams &p, const PackSide &side, const string &format) {
	auto src = rows<float>(side.src, side.map, side.rows, p.dim, p.dim, "user", "pack src");
	expect(p.ld == width(format, p.dim), "pack: pitch");
	bool split = format == "split";
	char *dst = (char *)mem<uint8_t>(side.dst, side.rows * p.ld * element<float>(format), "pack dst");
	float *scale = split ? mem<float>(side.scale, side.rows, "pack scale") : nullptr;
	uint8_t *flag = split ? mem<uint8_t>(side.flag, side.rows, "pack flag") : nullptr;
	for (int64_t r = 0; r < side.rows; r++) {
		bool valid = !src.map || src.map[r] >= 0, bad = false;
		for (int64_t k = 0; split && valid && k < p.dim; k++) bad = bad || !(std::fabs(src.get(r, k)) < 1e12f);
		for (int64_t k = 0; k < (split ? p.ld / 2 : p.ld); k++) {
			float v = valid && !bad && k < p.dim ? src.get(r, k) : 0;
			if (format == "tf32") ((float *)dst)[r * p.ld + k] = rounded(v, 19);
			uint16_t *row = (uint16_t *)dst + r * p.ld;
			if (format == "bf16") row[k] = bits(rounded(v, 16)) >> 16;
			if (format == "f16") { _Float16 h = (_Float16)v; memcpy(row + k, &h, 2); }
			if (split) { uint16_t *o = row + k / 32 * 64 + k % 32; o[0] = bits(v) >> 16; o[32] = bits(v); }
		}
		if (split) { scale[r] = 1; flag[r] = bad; }
		if (bad) *mem<uint32_t>(p.flagged, 1, "pack flagged") = (uint32_t)p.stamp;
	}
}

void pack(const Launch &l, int) {
	auto p = params<PackParams>(l);
	string format = l.kernel.substr(strlen("maxsim_pack_"));
	int64_t per_block = format == "split" ? 32 : 8;
	grid(l, ceil_div(p.first.rows, per_block) + ceil_div(p.second.rows, per_block), 1, 1, 256);
	pack_side(p, p.first, format);
	pack_side(p, p.second, format);
}

void row_owner(const Launch &l, int) {
	auto p = params<OwnerParams>(l);
	grid(l, ceil_div(p.n, 8), 1, 1, 256);
	const int *cu = mem<int>(p.cu, p.n + 1, "owner cu");
	int *out = mem<int>(p.owner, cu[p.n], "owner");
	auto o = owners(cu, p.n);
	for (size_t r = 0; r < o.size(); r++) out[r] = o[r];
}

template <class T> void forward(const Launch &l, const ForwardParams &p, const string &format) {
	const int *cuq = sequences(p.cuq, p.bq, p.totq, MAXSIM_SLAB, "cuq"), *cud = sequences(p.cud, p.bd, p.totd, 1, "cud");
	auto q = rows<T>(p.q, p.qmap, p.totq, p.ldq, p.dim, format, "q"), d = rows<T>(p.d, p.dmap, p.totd, p.ldd, p.dim, format, "d");
	const int *qmap = p.qmap ? mem<int>(p.qmap, p.totq, "qmap") : nullptr;
	int64_t longest = 0, most = 0;
	for (int64_t j = 0; j < p.bd; j++) longest = std::max<int64_t>(longest, cud[j + 1] - cud[j]);
	for (int64_t i = 0; i < p.bq; i++) most = std::max<int64_t>(most, cuq[i + 1] - cuq[i]);
	expect(p.argbytes == 4 || longest <= 65536, "forward: 2-byte argmax of a long document");
	expect(p.group ? p.maxq >= most : p.maxq == p.totq, "forward: maxq");
	const uint8_t *qflag = nullptr, *dflag = nullptr;
	if (p.qflag) {
		if (p.flagged && *mem<uint32_t>(p.flagged, 1, "flagged") != (uint32_t)p.stamp) return;
		qflag = mem<uint8_t>(p.qflag, p.totq, "qflag"), dflag = mem<uint8_t>(p.dflag, p.totd, "dflag");
	}
	if (format == "split")
		for (auto s : {mem<float>(p.qscale, p.totq, "qscale"), mem<float>(p.dscale, p.totd, "dscale")}) expect(!s || *s == 1, "scale");
	T *part = p.scores ? nullptr : mem<T>(p.part, winners(p) / MAXSIM_SLAB, "part");
	T *scores = p.scores ? mem<T>(p.scores, p.group ? p.bq * p.group : p.bq * p.bd, "direct scores") : nullptr;
	expect(!scores || ((has(l, "_m64_") || has(l, "_k8_m128_")) && (p.group || p.bq == 1)), "forward: direct scores");
	for (int64_t i = 0; scores && i < p.bq; i++) expect(cuq[i + 1] > cuq[i], "forward: direct scores with an empty query");
	auto own = owners(cuq, p.bq);
	Index argmax{};
	if (p.argmax) argmax = index(p.argmax, winners(p), p.argbytes, "argmax");
	expect(has(l, "exact") || has(l, p.argmax ? "_arg_" : "_max_"), "forward: kernel and argmax do not fit");
	std::vector<T> qrow(p.dim), document;
	for (int64_t j = 0; j < p.bd; j++) {
		Meets m = meets(p, cuq, j);
		bool doc = false;
		for (int64_t r = cud[j]; dflag && r < cud[j + 1]; r++) doc = doc || dflag[r];
		expect(!scores || cud[j] < cud[j + 1], "forward: direct scores with an empty document");
		if (cud[j] == cud[j + 1]) continue;
		document.assign((cud[j + 1] - cud[j]) * p.dim, 0);
		for (int64_t r = cud[j], n = 0; r < cud[j + 1]; r++)
			for (int64_t k = 0; k < p.dim; k++) document[n++] = d.get(r, k);
		for (int64_t x = m.lo; x < m.hi; x += MAXSIM_SLAB) {
			bool mine = !qflag || doc;
			for (int64_t a = 0; qflag && a < MAXSIM_SLAB; a++) mine = mine || qflag[x + a];
			if (!mine) continue;
			T t[MAXSIM_SLAB];
			for (int64_t a = 0; a < MAXSIM_SLAB; a++) {
				bool valid = !qmap || qmap[x + a] >= 0;
				T best = -std::numeric_limits<T>::infinity();
				int64_t at = 0;
				if (valid) q.row(x + a, qrow);
				for (int64_t r = cud[j]; valid && r < cud[j + 1]; r++) {
					const T *drow = &document[(r - cud[j]) * p.dim];
					T s = 0;
					for (int64_t k = 0; k < p.dim; k++) s = std::fma(qrow[k], drow[k], s);
					if (!(std::isnan(best)) && (s > best || std::isnan(s))) best = s, at = r - cud[j];
				}
				t[a] = valid ? best : 0;
				if (p.argmax) argmax.set(m.winner + x - m.lo + a, std::isnan(best) ? 0 : at);
			}
			T sum = (t[0] + t[1]) + (t[2] + t[3]);
			if (!scores) { part[(m.winner + x - m.lo) / MAXSIM_SLAB] = sum; continue; }
			T &score = scores[p.group ? j : own[x] * p.bd + j];
			score = x == cuq[own[x]] ? sum : score + sum;
		}
	}
}

void forward_exact(const Launch &l, int sms) {
	grid(l, 4 * sms, 1, 1, 256);
	if (has(l, "f64")) forward<double>(l, params<ForwardParams>(l), "user");
	else forward<float>(l, params<ForwardParams>(l), "user");
}

// The blocks of a tensor core kernel, by what its name says.
void forward_grid(const Launch &l, int sms) {
	bool hopper = has(l, "_sm90a"), two = has(l, hopper ? "_m64_" : "_k"); // blocks on a multiprocessor
	unsigned threads = !hopper ? (two ? 128 : 256) : two ? 256 : has(l, "_m128_") || has(l, "_split_") ? 384 : 640;
	grid(l, two ? 2 * sms : sms, 1, 1, threads);
	unsigned shared = hopper ? (!two ? 232448 : has(l, "_long_") ? 115712 : 82944) : has(l, "_k4_") ? 24576 : two ? 49152 : 98304;
	expect(l.shared == shared, l.kernel + ": " + std::to_string(l.shared) + " bytes of shared memory, expected " + std::to_string(shared));
}

// What cuTensorMapEncodeTiled of the stand-in leaves in a tensor map.
void check_map(const uint8_t *map, uint64_t base, int64_t row_bytes, int64_t rows, uint64_t box, const char *what) {
	TensorMap m;
	memcpy(&m, map, sizeof m);
	expect(m.base == base && (int64_t)m.columns == row_bytes / 2 && (int64_t)m.rows == rows && m.box_rows == box, string(what) + ": tensor map");
}

void forward_packed(const Launch &l, int sms) {
	string format = l.kernel.substr(strlen("maxsim_forward_"));
	format = format.substr(0, format.find('_'));
	forward_grid(l, sms);
	if (!has(l, "_sm90a")) return forward<float>(l, params<ForwardParams>(l), format);
	auto p = params<ForwardSm90Params>(l);
	int64_t size = element<float>(format);
	check_map(p.dtile, p.f.d, p.f.ldd * size, p.f.totd, has(l, "_k8_m64_") || has(l, "_k8_m128_") ? 16 : 128, "dtile");
	check_map(p.qtile, p.f.q, p.f.ldq * size, p.f.totq, 64, "qtile");
	forward<float>(l, p.f, format);
}

template <class T> void scores(const Launch &l) {
	auto p = params<ScoresParams>(l);
	grid(l, ceil_div(p.bq * columns(p), 32), 1, 1, 256);
	const int *cuq = sequences(p.cuq, p.bq, p.totq, MAXSIM_SLAB, "cuq"), *cud = mem<int>(p.cud, p.bd + 1, "cud");
	T *part = mem<T>(p.part, winners(p) / MAXSIM_SLAB, "part"), *out = mem<T>(p.scores, p.bq * columns(p), "scores");
	for (int64_t i = 0; i < p.bq; i++)
		for (int64_t k = 0; k < columns(p); k++) {
			int64_t j = i * p.group + k;
			Meets m = meets(p, cuq, j);
			T sum = 0;
			for (int64_t x = cuq[i]; cud[j] < cud[j + 1] && x < cuq[i + 1]; x += MAXSIM_SLAB) sum += part[(m.winner + x - m.lo) / MAXSIM_SLAB];
			out[i * columns(p) + k] = sum;
		}
}

// All of the inverse at once in csr_fused and csr_place; csr_count and csr_scan only check that they come before.
void csr(const Launch &l, int) {
	auto p = params<CsrParams>(l);
	const int *cuq = sequences(p.cuq, p.bq, p.totq, MAXSIM_SLAB, "cuq"), *cud = sequences(p.cud, p.bd, p.totd, 1, "cud");
	int64_t longest = 0;
	for (int64_t j = 0; j < p.bd; j++) longest = std::max<int64_t>(longest, cud[j + 1] - cud[j]);
	bool fused = has(l, "fused"), scan = has(l, "scan"), count = has(l, "count");
	unsigned threads = l.block[0], counters = (threads / 16 + 4) * round_up(std::max<int64_t>(p.utile, 1), 2);
	expect(threads == 128 || threads == 1024, "csr: block");
	grid(l, p.bd, fused || scan ? 1 : p.segs, fused || scan ? 1 : ceil_div(longest, p.utile), threads);
	expect(scan || l.shared == counters || (fused && l.shared > counters && p.listbytes == 2), "csr: shared memory");
	expect(fused ? longest <= p.utile : true, "csr: a document does not fit one block");
	uint32_t *counts = fused ? nullptr : mem<uint32_t>(p.counts, p.segs * p.totd, "counts");
	uint32_t stage = count ? 0xc0047u : 0x5ca4u;  // what the pass leaves for the next
	for (int64_t r = 0; counts && r < p.segs * p.totd; r++) {
		expect(count || counts[r] == (scan ? 0xc0047u : 0x5ca4u), "csr: passes out of order");
		counts[r] = stage;
	}
	if (count || scan) return;
	const int *qmap = p.qmap ? mem<int>(p.qmap, p.totq, "qmap") : nullptr;
	int *rowptr = mem<int>(p.rowptr, p.totd + p.bd, "rowptr");
	Index argmax = index(p.argmax, winners(p), p.argbytes, "argmax"), list = index(p.list, winners(p), p.listbytes, "list");
	for (int64_t j = 0; j < p.bd; j++) {
		Meets m = meets(p, cuq, j);
		expect(p.listbytes == 4 || m.hi - m.lo <= 65536, "csr: 2-byte list of many query rows");
		int64_t n = 0;
		for (int64_t r = cud[j]; r < cud[j + 1]; r++) {
			rowptr[r + j] = n;
			for (int64_t x = m.lo; x < m.hi; x++)
				if ((!qmap || qmap[x] >= 0) && argmax.get(m.winner + x - m.lo) == r - cud[j]) list.set(m.winner + n++, x - m.lo);
		}
		rowptr[cud[j + 1] + j] = n;
	}
}

string operand(const Launch &l) {
	string f = l.kernel.substr(strlen("maxsim_grad_d_"));
	return f == "f32" || f == "f64" ? "user" : f;
}

// The host may give a run of document rows: then the arrays over them begin at the run's first row.
template <class T> void grad_d(const Launch &l) {
	auto p = params<GradDParams>(l);
	string format = operand(l);
	expect(l.grid[0] <= ceil_div(p.totd, 8), "grad_d: warps without a row");
	grid(l, l.grid[0], ceil_div(p.dim * element<T>(format), 512), 1, 256);
	const int *cuq = sequences(p.cuq, p.bq, p.totq, MAXSIM_SLAB, "cuq"), *cud = mem<int>(p.cud, p.bd + 1, "cud");
	check_owners(p.qowner, cuq, p.bq, "qowner");
	const int *owner = mem<int>(p.downer, p.totd, "downer");
	auto q = rows<T>(p.q, p.qmap, p.totq, p.ldq, p.dim, format, "q");
	const int *dmap = p.dmap ? mem<int>(p.dmap, p.totd, "dmap") : nullptr;
	Index list = index(p.list, winners(p), p.listbytes, "list");
	T *ds = mem<T>(p.ds, p.bq * columns(p), "ds");
	auto own = owners(cuq, p.bq);
	for (int64_t r = 0; r < p.totd; r++) {
		int64_t j = owner[r];
		expect(r == 0 || owner[r - 1] <= j, "grad_d: downer decreases");
		expect(j >= 0 && j < p.bd && cud[j] < cud[j + 1], "grad_d: downer");
		const int *rowptr = mem<int>(p.rowptr + 4 * (r + j), 2, "rowptr");
		std::vector<T> sum(p.dim);
		Meets m = meets(p, cuq, j);
		for (int64_t n = rowptr[0]; n < rowptr[1]; n++) {
			int64_t x = m.lo + list.get(m.winner + n);
			if (p.qmul) expect((int64_t)((uint64_t)x * (uint64_t)p.qmul >> 32 >> p.qshift) == own[x], "grad_d: qmul");
			T g = ds[own[x] * columns(p) + (p.group ? j % p.group : j)];
			for (int64_t k = 0; k < p.dim; k++) sum[k] = std::fma(g, q.get(x, k), sum[k]);
		}
		memcpy(mem<T>(p.dd + (dmap ? dmap[r] : r) * p.dim * sizeof(T), p.dim, "dd"), sum.data(), p.dim * sizeof(T));
	}
}

template <class T> void grad_q(const Launch &l) {
	auto p = params<GradQParams>(l);
	string format = operand(l);
	grid(l, ceil_div(p.totq, 8), ceil_div(p.dim * element<T>(format), 512), 1, 256);
	const int *cuq = sequences(p.cuq, p.bq, p.totq, MAXSIM_SLAB, "cuq"), *cud = sequences(p.cud, p.bd, p.totd, 1, "cud");
	check_owners(p.qowner, cuq, p.bq, "qowner");
	auto d = rows<T>(p.d, p.dmap, p.totd, p.ldd, p.dim, format, "d");
	const int *qmap = p.qmap ? mem<int>(p.qmap, p.totq, "qmap") : nullptr;
	Index argmax = index(p.argmax, winners(p), p.argbytes, "argmax");
	T *ds = mem<T>(p.ds, p.bq * columns(p), "ds");
	auto own = owners(cuq, p.bq);
	for (int64_t x = 0; x < p.totq; x++) {
		if (qmap && qmap[x] < 0) continue;
		std::vector<T> sum(p.dim);
		for (int64_t n = 0; n < columns(p); n++) {
			int64_t j = own[x] * p.group + n;
			if (cud[j] == cud[j + 1]) continue;
			Meets m = meets(p, cuq, j);
			int64_t r = cud[j] + argmax.get(m.winner + x - m.lo);
			T g = ds[own[x] * columns(p) + n];
			for (int64_t k = 0; k < p.dim; k++) sum[k] = std::fma(g, d.get(r, k), sum[k]);
		}
		memcpy(mem<T>(p.dq + (qmap ? qmap[x] : x) * p.dim * sizeof(T), p.dim, "dq"), sum.data(), p.dim * sizeof(T));
	}
}

void argmax_expand(const Launch &l, int) {
	auto p = params<ArgmaxParams>(l);
	const int *cuq = mem<int>(p.cuq, p.bq + 1, "cuq"), *cud = mem<int>(p.cud, p.bd + 1, "cud");
	check_owners(p.qowner, cuq, p.bq, "qowner");
	const int *ucuq = mem<int>(p.ucuq, p.bq + 1, "ucuq"), *ucud = mem<int>(p.ucud, p.bd + 1, "ucud");
	const int *qmap = p.qmap ? mem<int>(p.qmap, p.totq, "qmap") : nullptr, *dmap = p.dmap ? mem<int>(p.dmap, cud[p.bd], "dmap") : nullptr;
	Index argmax = index(p.argmax, winners(p), p.argbytes, "argmax");
	int64_t most = 0;
	for (int64_t j = 0; j < p.bd; j++) { Meets m = meets(p, cuq, j); most = std::max(most, m.hi - m.lo); }
	grid(l, p.bd * ceil_div(most, 256), 1, 1, 256);
	for (int64_t i = 0; i < p.bq; i++)
		for (int64_t k = 0; k < columns(p); k++) {
			int64_t j = i * p.group + k, tokens = ucuq[i + 1] - ucuq[i];
			Meets m = meets(p, cuq, j);
			for (int64_t x = cuq[i]; cud[j] < cud[j + 1] && x < cuq[i + 1]; x++) {
				int64_t from = qmap ? qmap[x] : x, r = cud[j] + argmax.get(m.winner + x - m.lo);
				if (from < 0) continue;
				int *out = mem<int>(p.out + 4 * (ucuq[i] * columns(p) + k * tokens + from - ucuq[i]), 1, "out");
				expect(*out == -1, "argmax: out was not -1");
				*out = (dmap ? dmap[r] : r) - ucud[j];
			}
		}
}

using Kernel = std::function<void(const Launch &, int)>;

template <class F> Kernel just(F f) { return [f](const Launch &l, int) { f(l); }; }

const std::map<string, Kernel> &kernels() {
	static const std::map<string, Kernel> all = [] {
		std::map<string, Kernel> k;
		for (string f : {"bf16", "f16", "tf32", "split"}) {
			k["maxsim_pack_" + f] = pack;
			bool half = f == "bf16" || f == "f16";
			for (string e : {"max", "arg"}) {
				auto add = [&](const string &shape, const string &on) { k["maxsim_forward_" + f + "_" + shape + "_" + e + "_" + on] = forward_packed; };
				for (string on : {"sm80", "sm90a"}) add("stream", on);
				if (half) for (string s : {"k4", "k6", "k8"}) add(s, "sm80");
				if (half) for (string s : {"k8_m64", "k8_m128", "k4_m256", "k6_m256", "k8_m256", "long_m64", "long_m256"}) add(s, "sm90a");
				if (f == "split") for (string s : {"k16_m128", "long_m128"}) add(s, "sm90a");
				if (f == "tf32") add("long_m256", "sm90a");
			}
		}
		k["maxsim_row_owner"] = row_owner;
		k["maxsim_forward_exact_f32"] = k["maxsim_forward_exact_f64"] = forward_exact;
		k["maxsim_scores_f32"] = just(scores<float>);
		k["maxsim_scores_f64"] = just(scores<double>);
		for (string s : {"fused", "count", "scan", "place"}) k["maxsim_csr_" + s] = csr;
		for (string f : {"bf16", "f16", "f32"}) {
			k["maxsim_grad_d_" + f] = just(grad_d<float>);
			k["maxsim_grad_q_" + f] = just(grad_q<float>);
		}
		k["maxsim_grad_d_f64"] = just(grad_d<double>);
		k["maxsim_grad_q_f64"] = just(grad_q<double>);
		k["maxsim_argmax"] = argmax_expand;
		return k;
	}();
	return all;
}

}  // namespace

bool known_kernel(const string &name) { return kernels().count(name) > 0; }

size_t parameter_bytes(const string &name) {
	auto is = [&](const char *part) { return name.find(part) != string::npos; };
	if (is("_pack_")) return sizeof(PackParams);
	if (is("_owner")) return sizeof(OwnerParams);
	if (is("_sm90a")) return sizeof(ForwardSm90Params);
	if (is("_forward_")) return sizeof(ForwardParams);
	if (is("_scores_")) return sizeof(ScoresParams);
	if (is("_csr_")) return sizeof(CsrParams);
	if (is("_grad_d_")) return sizeof(GradDParams);
	if (is("_grad_q_")) return sizeof(GradQParams);
	return sizeof(ArgmaxParams);
}

void run_kernel(const Launch &l, int multiprocessors) { kernels().at(l.kernel)(l, multiprocessors); }
