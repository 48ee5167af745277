// The one parameter of every kernel: what the host packs and the device reads.
//
// Every field is 8 bytes (a device address or an int64), so that a host mirrors a struct as a row of 64-bit words and
// the layout cannot differ between compilers. A kernel takes exactly one of these, as a __grid_constant__.
//
// Words used below
//   compact row   a valid token after masked, capacity and padding rows have been dropped. The compact rows of query i
//                 are [cuq[i], cuq[i+1]), cuq[i] a multiple of 4 (SLAB): at most 3 padding rows follow a query's
//                 tokens. Document j has [cud[j], cud[j+1]), no padding between documents. Both may be empty.
//   map           int32[rows]: compact row -> row of the user's matrix, -1 for a padding row. 0 (null): the identity,
//                 every row valid.
//   owner         int32[rows]: compact row -> its sequence (kernel maxsim_row_owner writes it).
//   winner        one (query row, document) pair. All pairs: document j meets every query row. Grouped (group > 0):
//                 document j meets the rows of query j/group. winner_base() in common.cuh is the only place that
//                 knows where the winners of a document are stored: first[j] .. first[j]+count[j]-1, one for each
//                 query row it meets, padding rows included.
//   part          one sum of row maxima for every 4 query rows and document, at winner_base(j)/4.
//   argmax        the winner's document token, counted in compact rows from the document's start; 2 or 4 bytes.
#pragma once
#include <cstdint>

#define MAXSIM_SLAB 4  // query rows are padded to it, and row maxima are first summed over it

typedef uint64_t maxsim_ptr;  // device address, 0 where the kernel's row in README.md says so

// maxsim_pack_*: dst[r,:] = convert(src[map[r],:]), columns [dim,ld) and padding rows zero; two matrices in one launch.
struct PackSide {
  maxsim_ptr src, map, dst;
  maxsim_ptr scale;  // f32[rows]: what a product with this row is multiplied by (split)
  maxsim_ptr flag;   // u8[rows]: 1 where the split is not exact enough and the pair takes the exact path (split)
  int64_t rows;      // compact rows to write, 0: none
};
struct PackParams {
  PackSide first, second;
  maxsim_ptr flagged;  // u32: holds stamp afterwards if any row is flagged (split). Nobody clears it: stamps are not used twice
  int64_t stamp;
  int64_t dim;         // elements of a source row
  int64_t ld;          // elements of a dst row (of 2-byte halves for split: 2*round_up(dim,32))
};

// maxsim_row_owner: owner[r] = s for r in [cu[s], cu[s+1]).
struct OwnerParams {
  maxsim_ptr cu, owner;
  int64_t n;  // sequences
};

// maxsim_forward_*: part and argmax of every winner.
struct ForwardParams {
  maxsim_ptr q, d;            // rows: packed storage (compact), or the user's rows for the exact kernels (through the maps)
  maxsim_ptr qmap, dmap;      // tensor core kernels read qmap only for its -1
  maxsim_ptr cuq, cud;        // int32[bq+1], int32[bd+1]
  maxsim_ptr qscale, dscale;  // f32 per compact row (split)
  maxsim_ptr qflag, dflag;    // u8 per compact row (exact kernel as the split's repair), else 0
  maxsim_ptr flagged;         // u32 (repair: nothing is done unless it holds stamp; 0: flags are looked at in any case), else 0
  maxsim_ptr argmax;          // u16 or u32 per winner, 0: not recorded
  maxsim_ptr part;            // f32 (f64) per 4 winners
  maxsim_ptr scores;          // f32, the scores themselves instead of part: README.md says where ("direct"); else 0
  int64_t bq, bd, totq, totd; // totq = cuq[bq], totd = cud[bd]
  int64_t dim;                // elements of a row that count
  int64_t ldq, ldd;           // row pitch in elements of the storage type
  int64_t group;              // 0: all pairs
  int64_t maxq;               // grouped: most compact rows of a query; all pairs: totq
  int64_t argbytes;           // 2 or 4
  int64_t stamp;              // of the packing (repair)
};

// maxsim_forward_*_sm90a: two tensor maps (cuTensorMapEncodeTiled, 128 bytes each) in front.
struct alignas(64) ForwardSm90Params {
  uint8_t dtile[128];  // d: box 64 x 128 halves, 64 x 16 for k8_m64 and k8_m128
  uint8_t qtile[128];  // q: box 64 x 64 halves
  ForwardParams f;
  int64_t pad[7];      // to a multiple of 64 bytes
};

// maxsim_scores_*: scores[i,k] = sum of part over query i's slabs; 0 for an empty document or query.
struct ScoresParams {
  maxsim_ptr part, cuq, cud;
  maxsim_ptr scores;  // f32 (f64) [bq, group ? group : bd]
  int64_t bq, bd, totq, group;
};

// maxsim_csr_*: the inverse of argmax. For compact document row r of document j:
//   list[winner_base(j) + rowptr[r+j] .. winner_base(j) + rowptr[r+j+1])  =  the query rows that chose r, ascending,
// counted from the first query row that j meets.
struct CsrParams {
  maxsim_ptr argmax, qmap, cuq, cud;
  maxsim_ptr rowptr;  // i32[totd+bd]
  maxsim_ptr list;    // u16 or u32 per winner
  maxsim_ptr counts;  // i32[segs*totd] scratch, 0 for maxsim_csr_fused
  int64_t bq, bd, totq, totd, group;
  int64_t argbytes, listbytes;  // 2 or 4 each
  int64_t utile;                // document rows a CTA sorts at once
  int64_t segs;                 // parts into which the query rows of one document are cut
};

// maxsim_grad_d_*: dd[dmap[r],:] = sum over list of r of ds[i(x), k(j)] q[x,:], every compact row written.
struct GradDParams {
  maxsim_ptr q;           // packed storage, or the user's rows
  maxsim_ptr qmap;        // 0: q is compact; else rows are read through it
  maxsim_ptr qowner;      // i32[totq]
  maxsim_ptr downer;      // i32[totd]
  maxsim_ptr dmap;        // destination rows, 0: identity
  maxsim_ptr cuq, cud, rowptr, list;
  maxsim_ptr ds;          // f32 (f64) [bq, group ? group : bd]
  maxsim_ptr dd;          // f32 (f64) [user rows, dim]
  int64_t bq, bd, totq, totd, group;
  int64_t dim, ldq;       // ldq: row pitch of q in elements
  int64_t listbytes;
  int64_t qmul, qshift;   // if every query has n compact rows: the division x/n as umulhi(x, qmul) >> qshift, with
                          // qshift = ceil(log2 n) - 1, qmul = ceil(2^(32+qshift) / n), exact below 2^31; else 0, 0 (qowner is used)
};

// maxsim_grad_q_*: dq[qmap[x],:] = sum over j of ds[i(x), k(j)] d[cud[j] + argmax(x,j),:], every valid compact row written.
struct GradQParams {
  maxsim_ptr d;           // packed storage, or the user's rows
  maxsim_ptr dmap;        // 0: d is compact; else rows are read through it
  maxsim_ptr qowner;      // i32[totq]
  maxsim_ptr qmap;        // destination rows and validity, 0: identity
  maxsim_ptr cuq, cud, argmax;
  maxsim_ptr ds;          // f32 (f64) [bq, group ? group : bd]
  maxsim_ptr dq;          // f32 (f64) [user rows, dim]
  int64_t bq, bd, totq, totd, group;
  int64_t dim, ldd;       // ldd: row pitch of d in elements
  int64_t argbytes;
};

// maxsim_argmax: the tape as the user counts it. out must hold -1 everywhere; valid entries are written.
struct ArgmaxParams {
  maxsim_ptr argmax, qmap, dmap, cuq, cud, qowner;
  maxsim_ptr ucuq, ucud;  // i32: cu_seqlens of the user's q and d
  maxsim_ptr out;         // i32: entry t of (i,k) at ucuq[i]*cols + k*(ucuq[i+1]-ucuq[i]) + t
  int64_t bq, bd, totq, group, argbytes;
};

static_assert(sizeof(PackParams) == 16 * 8, "PackParams");
static_assert(sizeof(OwnerParams) == 3 * 8, "OwnerParams");
static_assert(sizeof(ForwardParams) == 25 * 8, "ForwardParams");
static_assert(sizeof(ForwardSm90Params) == 512, "ForwardSm90Params");
static_assert(sizeof(ScoresParams) == 8 * 8, "ScoresParams");
static_assert(sizeof(CsrParams) == 16 * 8, "CsrParams");
static_assert(sizeof(GradDParams) == 21 * 8, "GradDParams");
static_assert(sizeof(GradQParams) == 17 * 8, "GradQParams");
static_assert(sizeof(ArgmaxParams) == 14 * 8, "ArgmaxParams");
