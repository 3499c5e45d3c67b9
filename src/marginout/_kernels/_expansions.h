/* Loops over the losses of losses.h: jets of many scores, and sums over the plane of steps (t, delta). */
#ifndef MARGINOUT_EXPANSIONS_H
#define MARGINOUT_EXPANSIONS_H

#include <string.h>

#include "losses.h"

/* What a loop wants of a loss, by the number of parts: a constant too, and the compiler drops the rest. */
enum { GAMMA = 1, SLOPES = 2, JET = 6 };
/* Rows of sums; elements of a block, each of which has sums of its own; elements whose sums are in registers. */
enum { SUMS = 6, BLOCK_SIZE = 256, NEIGHBOURS = 4 };

/* f(code, ...), with a constant code in every case. */
#define FOR_LOSS(code, f, ...)                                            \
  switch (code) {                                                         \
    case HINGE: f(HINGE, __VA_ARGS__); break;                             \
    case HINGE + GAUSSIAN: f(HINGE + GAUSSIAN, __VA_ARGS__); break;       \
    case TUBE: f(TUBE, __VA_ARGS__); break;                               \
    case TUBE + GAUSSIAN: f(TUBE + GAUSSIAN, __VA_ARGS__); break;         \
    case LOGISTIC: f(LOGISTIC, __VA_ARGS__); break;                       \
    case MIXTURE: f(MIXTURE, __VA_ARGS__); break;                         \
    case SQUARED: f(SQUARED, __VA_ARGS__); break;                         \
    case SQUARED + GAUSSIAN: f(SQUARED + GAUSSIAN, __VA_ARGS__); break;   \
    case PINBALL: f(PINBALL, __VA_ARGS__); break;                         \
    case PINBALL + GAUSSIAN: f(PINBALL + GAUSSIAN, __VA_ARGS__); break;   \
  }

/* Rows of jets of at most BLOCK_SIZE scores. */
typedef double jets[7][BLOCK_SIZE];

/* Jets of MIXTURE. The logistic distribution is a mixture of normal ones (see losses.Logistic), so the
 * loss is a mixture of normal hinge losses with margin 0 and variances v + node. */
static inline INLINED void mix(
    const int wanted, loss q, ptrdiff_t size, const double *m, const double *v, const double *y, jets rows) {
  q.parameter = 0.0;
  memset(rows, 0, sizeof(jets));
  for (int node = 0; node < q.size; node++) {
    const double shift = q.nodes[node], share = q.shares[node];
#pragma GCC ivdep
    for (ptrdiff_t i = 0; i < size; i++) {
      const jet j = jet_of(HINGE + GAUSSIAN, q, share, m[i], v[i] + shift, y[i]);
      if (wanted == GAMMA) rows[6][i] += j.gamma;
      if (wanted != GAMMA) rows[1][i] += j.dm, rows[2][i] += j.dh;
      if (wanted == JET) {
        rows[0][i] += j.value;
        rows[3][i] += j.bend * j.mm, rows[4][i] += j.bend * j.mh, rows[5][i] += j.bend * j.hh;
      }
    }
  }
  for (ptrdiff_t i = 0; i < size; i++) rows[6][i] = at_most(rows[6][i], 2.0 * LOGISTIC_CURVATURE);
}

/* The jet of score i; mixtures are in rows, and tilts are those of the scores. */
static inline INLINED jet jet_at(
    const int code, loss q, double s, double m, double v, double y, jets rows, ptrdiff_t i) {
  if (code >= PINBALL) q.parameter = q.tilts[i];
  if (code != MIXTURE) return jet_of(code, q, s, m, v, y);
  return (jet){s * rows[0][i], s * rows[1][i], s * rows[2][i], s, rows[3][i], rows[4][i], rows[5][i], s * rows[6][i]};
}

/* out = gamma; or dm, dv; or value, dm, dv, dmm, dmv, dvv. */
static inline INLINED void fill_some(
    const int code, const int wanted, loss q, ptrdiff_t size, const double *m, const double *v, const double *y,
    double *const *out) {
  const int dm = wanted == JET, dv = dm + 1;
  jets rows;
  if (code == MIXTURE) mix(wanted, q, size, m, v, y, rows);
#pragma GCC ivdep
  for (ptrdiff_t i = 0; i < size; i++) {
    const jet j = jet_at(code, q, 1.0, m[i], v[i], y[i], rows, i);
    if (wanted == GAMMA) out[0][i] = 0.5 * j.gamma;
    if (wanted != GAMMA) out[dm][i] = 0.5 * j.dm, out[dv][i] = 0.25 * j.dh;
    if (wanted == JET) {
      out[0][i] = 0.5 * j.value;
      out[3][i] = 0.5 * j.bend * j.mm, out[4][i] = 0.25 * j.bend * j.mh, out[5][i] = 0.125 * j.bend * j.hh;
    }
  }
}

static cloned_void fill_block(
    int code, int wanted, loss q, ptrdiff_t size, const double *m, const double *v, const double *y,
    double *const *out) {
  if (wanted == JET) FOR_LOSS(code, fill_some, JET, q, size, m, v, y, out)
  else if (wanted == SLOPES) FOR_LOSS(code, fill_some, SLOPES, q, size, m, v, y, out)
  else FOR_LOSS(code, fill_some, GAMMA, q, size, m, v, y, out)
}

/* The tilts of some outputs, for a few rows of them. */
static const double *repeated(const double *tilts, ptrdiff_t rows, ptrdiff_t outputs, double *out) {
  for (ptrdiff_t i = 0; i < rows; i++) memcpy(out + i * outputs, tilts, outputs * sizeof(double));
  return out;
}

static void fill(
    int code, int wanted, loss q, ptrdiff_t size, const double *m, const double *v, const double *y, double **out) {
  double tilts[BLOCK_SIZE];
  ptrdiff_t block = code == MIXTURE ? BLOCK_SIZE : size;
  if (code >= PINBALL) {
    block = q.outputs < BLOCK_SIZE ? BLOCK_SIZE / q.outputs * q.outputs : q.outputs; /* whole rows */
    if (block > q.outputs) q.tilts = repeated(q.tilts, block / q.outputs, q.outputs, tilts);
  }
  for (ptrdiff_t i = 0; i < size; i += block) {
    fill_block(code, wanted, q, size - i < block ? size - i : block, m + i, v + i, y + i, out);
    for (int k = 0; k < wanted; k++) out[k] += block;
  }
}

/* n examples of K problems on the plane: means m + t a + delta, variances v + 2 t c + t^2 e, at least floor. Weights
 * are (n, K) if problems have their own, else (n, 1); t and delta are (K,), or repeated in a block. */
typedef struct {
  ptrdiff_t n, K;
  const double *weights, *y, *m, *v, *a, *c, *e, *t, *delta;
  double floor;
  int own;
} plane;

static inline INLINED double mean_at(plane p, ptrdiff_t i, ptrdiff_t l) {
  return p.m[i] + p.delta[l] + p.t[l] * p.a[i];
}

static inline INLINED double variance_at(plane p, ptrdiff_t i, ptrdiff_t l) {
  return at_least(p.v[i] + p.t[l] * (p.c[i] + (p.c[i] + p.t[l] * p.e[i])), p.floor);
}

/* What an example adds to F and to its derivatives in (t, delta), and to the majoriser's second derivatives. */
typedef struct {
  double value, dt, db, dtt, dtb, dbb, mtt, mtb, mbb;
} terms;

/* The chain rule along m + t a + delta and h + t r + t^2 e / 2. */
static inline INLINED terms on_plane(jet j, double a, double r, double e) {
  const double cross = j.mm * a + j.mh * r;
  return (terms){
      j.value, j.dm * a + j.dh * r, j.dm, j.bend * (cross * a + (j.mh * a + j.hh * r) * r) + j.dh * e,
      j.bend * cross, j.bend * j.mm, j.gamma * (a * a + e), j.gamma * a, j.gamma};
}

/* Adds the terms of element i to column l of the sums. */
#define ADD(sums, i, l, weight)                                                                                    \
  do {                                                                                                             \
    const jet j = jet_at(code, q, 0.5 * (weight), mean_at(p, i, l), variance_at(p, i, l), p.y[i], rows, i);        \
    const terms x = on_plane(j, p.a[i], p.c[i] + p.t[l] * p.e[i], p.e[i]);                                         \
    if (wanted == GAMMA) sums[0][l] += x.mtt, sums[1][l] += x.mtb, sums[2][l] += x.mbb;                            \
    if (wanted == JET) sums[0][l] += x.value, sums[1][l] += x.dt, sums[2][l] += x.db;                              \
    if (wanted == JET) sums[3][l] += x.dtt, sums[4][l] += x.dtb, sums[5][l] += x.dbb;                              \
  } while (0)

/* Any loss, any number of problems: elements 0 ... size - 1 of a plane, at most BLOCK_SIZE. */
static inline INLINED void add_some(
    const int code, const int wanted, loss q, plane p, ptrdiff_t size, double (*restrict sums)[BLOCK_SIZE]) {
  double moments[2][BLOCK_SIZE];
  jets rows;
  if (code == MIXTURE) {
    for (ptrdiff_t i = 0; i < size; i++) moments[0][i] = mean_at(p, i, i), moments[1][i] = variance_at(p, i, i);
    mix(wanted, q, size, moments[0], moments[1], p.y, rows);
  }
#pragma GCC ivdep
  for (ptrdiff_t i = 0; i < size; i++) ADD(sums, i, i, p.weights[i]);
}

static cloned_void add_block(int code, int wanted, loss q, plane p, ptrdiff_t size, double (*sums)[BLOCK_SIZE]) {
  if (wanted == JET) FOR_LOSS(code, add_some, JET, q, p, size, sums)
  else FOR_LOSS(code, add_some, GAMMA, q, p, size, sums)
}

/* Line searches of the default loss run so often that every store counts. The sums of NEIGHBOURS elements, or of one,
 * stay in registers to the end, when they overwrite `sums`; the next elements are `stride` further on. */
static inline INLINED void add_columns(
    const int wanted, const int own, const int columns, loss q, plane p, ptrdiff_t count, ptrdiff_t stride,
    double (*restrict sums)[BLOCK_SIZE]) {
  const int code = HINGE;
  double(*const rows)[BLOCK_SIZE] = NULL;
  double few[SUMS][NEIGHBOURS] = {{0}};
  for (ptrdiff_t i = 0; i < count; i++)
#pragma GCC unroll 1
    for (ptrdiff_t l = 0; l < columns; l++) ADD(few, i * stride + l, l, p.weights[own ? i * stride + l : i]);
  for (int k = 0; k < SUMS; k++) memcpy(sums[k], few[k], columns * sizeof(double));
}

static cloned_void add_narrow(
    int wanted, int columns, loss q, plane p, ptrdiff_t count, ptrdiff_t stride, double (*sums)[BLOCK_SIZE]) {
#define ADD_COLUMNS(wanted, own)                                                        \
  do {                                                                                  \
    if (columns == 1) add_columns(wanted, own, 1, q, p, count, stride, sums);           \
    else add_columns(wanted, own, NEIGHBOURS, q, p, count, stride, sums);               \
  } while (0)
  if (wanted == JET && p.own) ADD_COLUMNS(JET, 1);
  else if (wanted == JET) ADD_COLUMNS(JET, 0);
  else if (p.own) ADD_COLUMNS(GAMMA, 1);
  else ADD_COLUMNS(GAMMA, 0);
#undef ADD_COLUMNS
}
#undef ADD

/* The plane from element i on, with weights, t and delta of its own. */
static inline plane part_of(plane p, ptrdiff_t i, const double *weights, const double *t, const double *delta) {
  return (plane){p.n, p.K, weights, p.y + i, p.m + i, p.v + i, p.a + i, p.c + i, p.e + i, t, delta, p.floor, p.own};
}

/* Sums of the columns k ... k + columns - 1 of the arrays; `rows` rows of them are a block. */
static void add_strip(
    int code, int wanted, int narrow, loss q, plane p, ptrdiff_t k, ptrdiff_t columns, ptrdiff_t rows,
    double (*sums)[BLOCK_SIZE]) {
  double t[BLOCK_SIZE], delta[BLOCK_SIZE], weights[BLOCK_SIZE], tilts[BLOCK_SIZE];
  const ptrdiff_t whole = narrow ? p.n - p.n % rows : 0;
  for (ptrdiff_t i = 0; i < rows; i++)
    for (ptrdiff_t l = 0; l < columns; l++) t[i * columns + l] = p.t[k + l], delta[i * columns + l] = p.delta[k + l];
  if (code >= PINBALL) q.tilts = repeated(q.tilts + k, rows, columns, tilts);
  if (whole) {
    const plane part = part_of(p, k, p.weights + (p.own ? k : 0), t, delta);
    add_narrow(wanted, (int)(rows * columns), q, part, whole / rows, rows * p.K, sums);
  } else {
    for (int j = 0; j < SUMS; j++) memset(sums[j], 0, rows * columns * sizeof(double));
  }
  for (ptrdiff_t row = whole; row < p.n; row += rows) {
    const ptrdiff_t some = p.n - row < rows ? p.n - row : rows, first = row * p.K + k;
    for (ptrdiff_t i = 0; !p.own && i < some; i++)
      for (ptrdiff_t l = 0; l < columns; l++) weights[i * columns + l] = p.weights[row + i];
    const plane part = part_of(p, first, p.own ? p.weights + first : weights, t, delta);
    add_block(code, wanted, q, part, some * columns, sums);
  }
}

/* Adds the sums over the examples to out: (SUMS, K), or (3, K) of the majoriser. A block is a few rows of the arrays,
 * or some columns of one row. Few elements take less time than the sums of a large block. Of narrow strips, columns
 * that are left over take the longest: there must be few. */
static void add_plane(int code, int wanted, loss q, plane p, double *out) {
  double sums[SUMS][BLOCK_SIZE];
  const ptrdiff_t n = p.n, K = p.K, results = wanted == JET ? SUMS : 3;
  const int narrow = code == HINGE && (K % NEIGHBOURS * 12 < K || (p.own && NEIGHBOURS % K == 0));
  const int little = K < BLOCK_SIZE / 4 && n * K < 16 * BLOCK_SIZE;
  const ptrdiff_t most = narrow ? NEIGHBOURS : little ? BLOCK_SIZE / 4 : BLOCK_SIZE;
  const ptrdiff_t fit = most / K < NEIGHBOURS ? most / K : most / K / NEIGHBOURS * NEIGHBOURS;
  for (ptrdiff_t k = 0, columns; k < K; k += columns) {
    columns = K - k >= most ? most : narrow && K > NEIGHBOURS ? 1 : K - k;
    const ptrdiff_t rows = columns < K ? 1 : narrow || n > fit ? fit : n;
    add_strip(code, wanted, narrow, q, p, k, columns, rows, sums);
    for (ptrdiff_t j = 0; j < results; j++) {
      for (ptrdiff_t left = rows; left > 1; left -= left / 2) /* the last half of the rows onto the first */
        for (ptrdiff_t l = 0; l < left / 2 * columns; l++) sums[j][l] += sums[j][(left - left / 2) * columns + l];
      for (ptrdiff_t l = 0; l < columns; l++) out[j * K + k + l] += sums[j][l];
    }
  }
}

#endif
