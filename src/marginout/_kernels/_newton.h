/* Newton's method for one problem with few features: see solvers/newton.py.
 *
 * With noise that is independent for each feature an example has the mean m = w.x + b and the variance
 * v = sum (kappa x^power + constant) w^2 + floor. The Hessian of the losses is a sum over blocks of examples, in which
 * a feature's values lie side by side:
 *
 *     H = X'L_1 + B'L_2 + 2 diag(sum dv dv/dw^2),     L_1 = mm X + mv B,  L_2 = mv X + vv B,  B = 2 kappa X^power w
 *
 * Of CSR the pairs of entries of each row are added up instead. */
#ifndef MARGINOUT_NEWTON_H
#define MARGINOUT_NEWTON_H

#include <float.h>
#include <stdint.h>

#include "_expansions.h"

/* Examples of a block; features are padded to a multiple of TILE. */
enum { PANEL = 64, TILE = 4 };
/* Line search: fraction of its first value to which the slope must fall; trials; a rise of F that is rounding;
 * how much a step leans on the majoriser after a cut, and how much of that the next one keeps; the flattest offset. */
#define DECLINE 0.03
#define TRIALS 40
#define ROUNDING 1e-14
#define LEAN 1.0
#define KEEP 0.2
#define FLAT 1e-12
/* Trials of an offset; fractions of F that it may keep after a step and of a certificate. Steps towards one side before
 * they are made longer; the longest step, and one that is taken untried, in units of the loss's scale. */
#define BISECTIONS 200
#define CERTIFIED 1e-12
#define PATIENCE 8
#define LONGEST 10.0
#define SMALL 1e-3
/* A step that promises more than this fraction of what the kinks weigh crosses them: its promise says little. */
#define CROSSING 0.1
/* Smallest curvature that is divided by, and |dw|^2 of a step. */
#define FLATTEST 1e-100
#define SMALLEST 1e-200
/* A problem counts as solved when as many iterations together lower F by less than tol/100. */
#define STALL 50
/* Relative to a unit diagonal: what is added, one after the other, until a factorisation succeeds. */
static const double JITTERS[] = {0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6};

typedef struct {
  double tol, cold, warm, sharpen, safety, early, stage, little, tight;
  int polish;
} newton_rules;

typedef struct {
  double value, dt, db, dtt, dtb, dbb;
} slope;

typedef struct {
  ptrdiff_t n, d, wide;                             /* examples; features, and padded */
  const char *x;                                    /* dense X */
  ptrdiff_t row, column;                            /* bytes from one to the next */
  int is_float, sparse, power, noisy;
  const double *entries;                            /* of CSR, times the scale */
  const int32_t *indices;
  const int64_t *indptr, *rows;                     /* the examples' rows in X */
  const double *scale, *kappa, *constant;           /* of each feature */
  double factor;                                    /* on all variances */
  loss q;
  int code, kinked, offset, far;
  double unit, rounding, least, floor;              /* of the loss; by which kinks are smoothed now, and in the end */
  double *y, *s, *m, *v, *a, *c, *e;                /* of each example, padded to whole blocks */
  double *cache, *panel, *left, *right;             /* blocks: all of X or NULL, one of them, and L and R */
  double *H, *A;                                    /* wide x wide */
  double *w, *p, *G, *g2, *cross, *mean, *size, *r, *kept, *shrink; /* of each feature, padded */
  double b, dw_b, g, corner, dv, mass, value, offset_left;
  const double *centre;                             /* what is taken from M where only the offset notices, or NULL */
  double *history, *told;                           /* F after every iteration; the offset, for those who watch */
} newton;

static double entry(const newton *z, ptrdiff_t at) {
  return z->is_float ? *(const float *)(z->x + at) : *(const double *)(z->x + at);
}

/* Examples i ... of X, feature by feature, times the scale. */
static void pack(const newton *z, ptrdiff_t i, double *out) {
  const ptrdiff_t some = z->n - i < PANEL ? z->n - i : PANEL;
  memset(out, 0, z->wide * PANEL * sizeof(double));
  for (ptrdiff_t k = 0; k < some; k++) {
    const ptrdiff_t start = z->rows[i + k] * z->row;
    for (ptrdiff_t j = 0; j < z->d; j++) {
      const double x = z->scale[j] * entry(z, start + j * z->column);
      out[j * PANEL + k] = z->centre ? x - z->centre[j] : x;
    }
  }
}

static const double *panel_of(newton *z, ptrdiff_t i) {
  if (z->cache) return z->cache + i * z->wide;
  pack(z, i, z->panel);
  return z->panel;
}

/* m += X w, v += X^power k; where u is not NULL, e += X^power u. */
static cloned_void panel_scores(
    const double *x, ptrdiff_t d, int power, const double *w, const double *k, const double *u, double *restrict m,
    double *restrict v, double *restrict e) {
  for (ptrdiff_t j = 0; j < d; j++) {
    const double *restrict f = x + j * PANEL;
    const double w_j = w[j];
    for (int i = 0; i < PANEL; i++) m[i] += w_j * f[i];
    if (!k) continue;
    const double k_j = k[j];
    if (power == 2) for (int i = 0; i < PANEL; i++) v[i] += k_j * (f[i] * f[i]);
    else for (int i = 0; i < PANEL; i++) v[i] += k_j * f[i];
    if (!u) continue;
    const double u_j = u[j];
    if (power == 2) for (int i = 0; i < PANEL; i++) e[i] += u_j * (f[i] * f[i]);
    else for (int i = 0; i < PANEL; i++) e[i] += u_j * f[i];
  }
}

static inline INLINED double sum_of(quad x) {
#if QUAD == 4
  return (x[0] + x[1]) + (x[2] + x[3]);
#else
  return x;
#endif
}
#define AT(f, i) (*(const quad *)((f) + (i)))

/* Sums over a block: G += X'dm, cross += X'mm, size += X^power'dv, g2 += X^power'mv. */
static cloned_void panel_sums(
    const double *x, ptrdiff_t d, int power, int noisy, int curved, double *const *jet, double *G, double *cross,
    double *size, double *g2) {
  const double *dm = jet[1], *dv = jet[2], *mm = jet[3], *mv = jet[4];
  for (ptrdiff_t j = 0; j < d; j++) {
    const double *f = x + j * PANEL;
    quad one = {0}, two = {0}, three = {0}, four = {0};
    for (int i = 0; i < PANEL; i += QUAD) {
      const quad f_i = AT(f, i);
      quad p_i = f_i;
      if (power == 2) p_i *= f_i;
      one += AT(dm, i) * f_i;
      if (curved) two += AT(mm, i) * f_i;
      if (noisy) three += AT(dv, i) * p_i;
      if (noisy && curved) four += AT(mv, i) * p_i;
    }
    G[j] += sum_of(one), cross[j] += sum_of(two), size[j] += sum_of(three), g2[j] += sum_of(four);
  }
}

/* L and R of a block: R = (X, B), L = (mm X + mv B, mv X + vv B), each of PANEL examples; without noise the first. */
static cloned_void panel_factors(
    const double *x, ptrdiff_t d, int power, int noisy, const double *slopes, double *const *jet, double *left,
    double *right) {
  const double *mm = jet[3], *mv = jet[4], *vv = jet[5];
  for (ptrdiff_t j = 0; j < d; j++) {
    const double *restrict f = x + j * PANEL;
    double *restrict l = left + j * PANEL * (1 + noisy), *restrict r = right + j * PANEL * (1 + noisy);
    if (!noisy) {
      for (int i = 0; i < PANEL; i++) l[i] = mm[i] * f[i], r[i] = f[i];
      continue;
    }
    const double b_j = slopes[j];
    for (int i = 0; i < PANEL; i++) {
      const double f_i = f[i], b_i = b_j * (power == 2 ? f_i * f_i : f_i);
      l[i] = mm[i] * f_i + mv[i] * b_i, r[i] = f_i;
      l[PANEL + i] = mv[i] * f_i + vv[i] * b_i, r[PANEL + i] = b_i;
    }
  }
}

/* H += L R', the tiles of the lower half. */
static cloned_void add_products(const double *left, const double *right, ptrdiff_t wide, ptrdiff_t length, double *H) {
  for (ptrdiff_t j = 0; j < wide; j += TILE)
    for (ptrdiff_t k = 0; k < j + TILE; k += 2) {
      const double *l = left + j * length, *r = right + k * length;
      quad t[TILE][2] = {{{0}}};
      for (ptrdiff_t i = 0; i < length; i += QUAD) {
        const quad one = AT(r, i), two = AT(r + length, i);
#pragma GCC unroll 4
        for (int row = 0; row < TILE; row++) {
          const quad f = AT(l + row * length, i);
          t[row][0] += f * one, t[row][1] += f * two;
        }
      }
      for (int row = 0; row < TILE; row++)
        H[(j + row) * wide + k] += sum_of(t[row][0]), H[(j + row) * wide + k + 1] += sum_of(t[row][1]);
    }
}

/* The same sums over the pairs of entries of `some` rows of CSR, one half of H + H'. */
static cloned_void add_pairs(newton *z, ptrdiff_t i, ptrdiff_t some, const double *slopes, double *const *jet) {
  double *H = z->H;
  const ptrdiff_t wide = z->wide;
  for (ptrdiff_t k = 0; k < some; k++) {
    const double mm = jet[3][k], mv = jet[4][k], vv = jet[5][k];
    if (mm == 0 && mv == 0 && vv == 0) continue;
    const int64_t begin = z->indptr[z->rows[i + k]], size = z->indptr[z->rows[i + k] + 1] - begin;
    const int32_t *index = z->indices + begin;
    double *x = z->left, *b = z->right; /* a row has at most d entries */
    for (int64_t e = 0; e < size; e++) {
      x[e] = z->entries[begin + e];
      b[e] = z->noisy ? slopes[index[e]] * (z->power == 2 ? x[e] * x[e] : x[e]) : 0.0;
    }
    for (int64_t e = 0; e < size; e++) {
      const double p = mm * x[e] + mv * b[e], q = mv * x[e] + vv * b[e];
      double *h = H + index[e] * wide;
      if (z->noisy) for (int64_t f = 0; f < e; f++) h[index[f]] += p * x[f] + q * b[f];
      else for (int64_t f = 0; f < e; f++) h[index[f]] += p * x[f];
      h[index[e]] += 0.5 * (p * x[e] + q * b[e]);
    }
  }
}

/* m += X w, v += X^power k and e += X^power u of rows of CSR. */
static inline INLINED void add_row_scores(
    newton *z, ptrdiff_t i, const int power, const double *restrict w, const double *restrict k,
    const double *restrict u, double *m, double *v, double *e) {
  const ptrdiff_t some = z->n - i < PANEL ? z->n - i : PANEL;
  for (ptrdiff_t t = 0; t < some; t++) {
    const int64_t end = z->indptr[z->rows[i + t] + 1];
    double one = 0, two = 0, three = 0;
    for (int64_t f = z->indptr[z->rows[i + t]]; f < end; f++) {
      const int32_t j = z->indices[f];
      const double x = z->entries[f], p = power == 2 ? x * x : x;
      one += w[j] * x;
      if (z->noisy) two += k[j] * p;
      if (z->noisy && u) three += u[j] * p;
    }
    m[t] += one;
    if (z->noisy) v[t] += two;
    if (z->noisy && u) e[t] += three;
  }
}

/* m += X w, v += X^power k and e += X^power u of examples i ... i + PANEL - 1. */
static void add_scores(
    newton *z, ptrdiff_t i, const double *w, const double *k, const double *u, double *m, double *v, double *e) {
  if (!z->sparse) {
    panel_scores(panel_of(z, i), z->d, z->power, w, z->noisy ? k : NULL, u, m, v, e);
    return;
  }
  if (z->power == 2) add_row_scores(z, i, 2, w, k, u, m, v, e);
  else add_row_scores(z, i, 1, w, k, u, m, v, e);
}

static void add_sums(newton *z, ptrdiff_t i, int curved, double *const *jet) {
  if (!z->sparse) {
    panel_sums(panel_of(z, i), z->d, z->power, z->noisy || z->power == 0, curved, jet, z->G, z->cross, z->size, z->g2);
    return;
  }
  const ptrdiff_t some = z->n - i < PANEL ? z->n - i : PANEL;
  for (ptrdiff_t t = 0; t < some; t++)
    for (int64_t f = z->indptr[z->rows[i + t]]; f < z->indptr[z->rows[i + t] + 1]; f++) {
      const double x = z->entries[f], power = z->power == 2 ? x * x : x;
      const int32_t j = z->indices[f];
      z->G[j] += jet[1][t] * x, z->cross[j] += jet[3][t] * x;
      z->size[j] += jet[2][t] * power, z->g2[j] += jet[4][t] * power;
    }
}

static double dot(const double *a, const double *b, ptrdiff_t d) {
  double sum = 0;
  for (ptrdiff_t j = 0; j < d; j++) sum += a[j] * b[j];
  return sum;
}

/* The coefficients of X^power and the constant part of sum kappa w p. */
static double spread_of(const newton *z, const double *w, const double *p, double *k) {
  double sum = 0;
  for (ptrdiff_t j = 0; j < z->d; j++) {
    const double both = z->factor * w[j] * p[j];
    k[j] = z->kappa[j] * both, sum += z->constant[j] * both;
  }
  return sum;
}

/* What examples i ... i + PANEL - 1 add to the sums, and to H if it is wanted. */
static void add_block_sums(newton *z, ptrdiff_t i, int curved, const double *slopes, double *const *jet) {
  add_sums(z, i, curved, jet);
  if (!curved) return;
  if (z->sparse) {
    add_pairs(z, i, z->n - i < PANEL ? z->n - i : PANEL, slopes, jet);
    return;
  }
  panel_factors(panel_of(z, i), z->d, z->power, z->noisy, slopes, jet, z->left, z->right);
  add_products(z->left, z->right, z->wide, PANEL * (1 + z->noisy), z->H);
}

static void clear_sums(newton *z, int curved) {
  double *const sums[] = {z->G, z->g2, z->cross, z->size};
  for (int k = 0; k < 4; k++) memset(sums[k], 0, z->wide * sizeof(double));
  if (curved) memset(z->H, 0, z->wide * z->wide * sizeof(double));
}

/* Of CSR both halves of the pairs' sums are one. */
static void fold_pairs(newton *z) {
  for (ptrdiff_t j = 0; z->sparse && j < z->d; j++)
    for (ptrdiff_t k = 0; k <= j; k++) z->H[j * z->wide + k] += z->H[k * z->wide + j];
}

/* F at (w, b), its gradient, and its Hessian if it is wanted: one pass over X. */
static void look(newton *z, int curved) {
  const ptrdiff_t d = z->d, wide = z->wide;
  double parts[JET][PANEL], *jet[JET], mv = 0, vv = 0;
  for (int k = 0; k < JET; k++) jet[k] = parts[k];
  clear_sums(z, curved);
  const double base = z->floor + spread_of(z, z->w, z->w, z->r);
  double *slopes = z->mean;
  for (ptrdiff_t j = 0; j < d; j++) slopes[j] = 2 * z->factor * z->kappa[j] * z->w[j];
  z->value = 0.5 * dot(z->w, z->w, d), z->g = z->corner = z->dv = z->mass = 0;
  for (ptrdiff_t i = 0; i < z->n; i += PANEL) {
    double *m = z->m + i, *v = z->v + i, *rows[JET];
    for (int k = 0; k < PANEL; k++) m[k] = z->b, v[k] = base;
    add_scores(z, i, z->w, z->r, NULL, m, v, NULL);
    memcpy(rows, jet, sizeof(jet));
    fill(z->code, JET, z->q, PANEL, m, v, z->y + i, rows);
    const double *s = z->s + i;
    for (int k = 0; k < JET; k++)
      for (int t = 0; t < PANEL; t++) parts[k][t] *= s[t];
    for (int t = 0; t < PANEL; t++) {
      z->value += parts[0][t], z->g += parts[1][t], z->dv += parts[2][t], z->mass += parts[2][t] * v[t];
      z->corner += parts[3][t], mv += parts[4][t], vv += parts[5][t];
    }
    add_block_sums(z, i, curved, slopes, jet);
  }
  /* Additive noise, b = 2 constant w in every row, has crossed sums with X'mv: of power 0, which shares no kappa. */
  const int additive = z->power == 0;
  if (curved) {
    fold_pairs(z);
    for (ptrdiff_t j = 0; j < d; j++) {
      z->H[j * wide + j] += 1.0 + 2 * z->factor * (z->kappa[j] * z->size[j] + z->constant[j] * z->dv);
      if (!additive) continue;
      const double c_j = 2 * z->factor * z->constant[j] * z->w[j];
      for (ptrdiff_t k = 0; k <= j; k++) {
        const double c_k = 2 * z->factor * z->constant[k] * z->w[k];
        z->H[j * wide + k] += c_j * z->g2[k] + c_k * z->g2[j] + vv * c_j * c_k;
      }
    }
  }
  for (ptrdiff_t j = 0; j < d; j++) {
    const double b_j = 2 * z->factor * z->w[j];
    z->G[j] += z->w[j] + b_j * (z->kappa[j] * z->size[j] + z->constant[j] * z->dv);
    z->cross[j] += b_j * (z->kappa[j] * z->g2[j] + z->constant[j] * mv);
  }
  if (!z->offset) z->g = 0;
}

/* Rows i ... of A in column j: (a_ij - own . row i) / a_jj, with the first j numbers of each row; `own` is row j. */
static cloned_void factorize_column(double *A, ptrdiff_t d, ptrdiff_t wide, ptrdiff_t j) {
  const double *own = A + j * wide, inverse = 1.0 / own[j];
  ptrdiff_t i = j + 1;
  for (; i + TILE <= d; i += TILE) {
    double *other = A + i * wide;
    quad t[TILE] = {{0}};
    double rest[TILE] = {0};
    ptrdiff_t k = 0;
    for (; k + QUAD <= j; k += QUAD) {
      const quad o = AT(own, k);
#pragma GCC unroll 4
      for (int row = 0; row < TILE; row++) t[row] += o * AT(other + row * wide, k);
    }
    for (; k < j; k++)
      for (int row = 0; row < TILE; row++) rest[row] += own[k] * other[row * wide + k];
    for (int row = 0; row < TILE; row++)
      other[row * wide + j] = (other[row * wide + j] - (sum_of(t[row]) + rest[row])) * inverse;
  }
  for (; i < d; i++) {
    double *other = A + i * wide, sum = 0;
    for (ptrdiff_t k = 0; k < j; k++) sum += own[k] * other[k];
    other[j] = (other[j] - sum) * inverse;
  }
}

/* A = L L' of the lower half, in place; whether it succeeded. */
static int factorize(double *A, ptrdiff_t d, ptrdiff_t wide) {
  for (ptrdiff_t j = 0; j < d; j++) {
    double *own = A + j * wide;
    const double rest = own[j] - dot(own, own, j);
    if (!(rest > 0)) return 0;
    own[j] = sqrt(rest);
    factorize_column(A, d, wide, j);
  }
  return 1;
}

/* The factor of H without the features' mean, where the offset moves. */
static void factor(newton *z, int offset) {
  const ptrdiff_t d = z->d, wide = z->wide;
  const double corner = offset ? z->corner : 0.0, inverse = corner > 0 ? 1.0 / corner : 1.0;
  for (ptrdiff_t j = 0; j < d; j++) z->mean[j] = offset ? z->cross[j] * inverse : 0.0;
  for (ptrdiff_t j = 0; j < d; j++) {
    const double h = z->H[j * wide + j] - corner * z->mean[j] * z->mean[j];
    z->shrink[j] = 1.0 / sqrt(h > 1.0 ? h : 1.0);
  }
  int done = 0;
  for (size_t t = 0; !done && t < sizeof(JITTERS) / sizeof(double); t++) {
    for (ptrdiff_t j = 0; j < d; j++) {
      for (ptrdiff_t k = 0; k <= j; k++)
        z->A[j * wide + k] =
            (z->H[j * wide + k] - corner * z->mean[j] * z->mean[k]) * (z->shrink[j] * z->shrink[k]);
      z->A[j * wide + j] += JITTERS[t];
    }
    done = factorize(z->A, d, wide);
  }
  if (!done) /* a step along the scaled gradient; the search along it does the rest */
    for (ptrdiff_t j = 0; j < d; j++)
      for (ptrdiff_t k = 0; k <= j; k++) z->A[j * wide + k] = j == k;
}

/* Newton's step in w, bordered by the offset's if it moves: p and dw_b. */
static void solve_step(newton *z, int offset) {
  const ptrdiff_t d = z->d, wide = z->wide;
  const double corner = offset ? z->corner : 0.0, inverse = corner > 0 ? 1.0 / corner : 1.0;
  double *r = z->p;
  for (ptrdiff_t j = 0; j < d; j++) {
    r[j] = z->shrink[j] * (z->mean[j] * z->g * (offset != 0) - z->G[j]);
    r[j] = (r[j] - dot(z->A + j * wide, r, j)) / z->A[j * wide + j];
  }
  for (ptrdiff_t j = d - 1; j >= 0; j--) {
    const double r_j = r[j] /= z->A[j * wide + j];
    for (ptrdiff_t k = 0; k < j; k++) r[k] -= z->A[j * wide + k] * r_j;
  }
  for (ptrdiff_t j = 0; j < d; j++) r[j] *= z->shrink[j];
  z->dw_b = corner > 0 ? -z->g * inverse - dot(z->mean, r, d) : 0.0;
}

/* The step, and minus its slope. */
static double step(newton *z) {
  factor(z, z->offset);
  solve_step(z, z->offset);
  /* Where hardly an example curves, the offset's step has no bound: then the weights go alone, and the line moves it. */
  if (fabs(z->dw_b) > LONGEST * z->unit) factor(z, 0), solve_step(z, 0), z->dw_b = 0;
  if (dot(z->p, z->p, z->d) <= SMALLEST) memset(z->p, 0, z->d * sizeof(double));
  return -(dot(z->G, z->p, z->d) + z->g * z->dw_b);
}

/* By how much smoothing may raise the minimum of F. */
static double excess(const newton *z) { return z->kinked ? 2 * z->floor * z->dv : 0.0; }

static slope expand(const newton *z, const double *penalty, double t, double delta, int wanted) {
  double out[SUMS] = {0};
  const plane p = {z->n, 1, z->s, z->y, z->m, z->v, z->a, z->c, z->e, &t, &delta, z->floor, 1};
  add_plane(z->code, wanted, z->q, p, out);
  if (wanted == GAMMA) return (slope){0, 0, 0, out[0] + penalty[2], out[1], out[2]};
  return (slope){
      out[0] + 0.5 * (penalty[0] + t * (2 * penalty[1] + t * penalty[2])), out[1] + penalty[1] + t * penalty[2],
      out[2], out[3] + penalty[2], out[4], out[5]};
}

static double offset_left(const newton *z, slope s) {
  const double step = fabs(s.db) / at_least(s.dbb, FLATTEST);
  return z->offset ? 0.5 * fabs(s.db) * at_most(step, LONGEST * z->unit) : 0.0;
}

static void plane_step(const newton *z, slope s, double *t, double *delta) {
  const double dtt = s.dtt > 0 ? s.dtt : 1.0, longest = LONGEST * z->unit;
  *delta = 0;
  if (z->offset) {
    const double schur = s.dbb - s.dtb * (s.dtb / dtt), reduced = s.db - s.dtb * (s.dt / dtt);
    /* Where t can do what delta does, leave it to t; where nothing curves at all, take a long step. */
    const int flat = schur <= FLAT * s.dbb && s.dbb * longest > fabs(s.db);
    if (!flat) *delta = at_least(at_most(-reduced / at_least(schur, FLATTEST), longest), -longest);
  }
  *t = -(s.dt + s.dtb * *delta) / dtt;
}

/* The point of least F on the plane of (p, dw_b) and the offset: one pass over X, then O(n) a trial. */
static void move(newton *z, double precision) {
  const ptrdiff_t d = z->d;
  const double c = spread_of(z, z->w, z->p, z->r), e = spread_of(z, z->p, z->p, z->mean);
  const double penalty[] = {dot(z->w, z->w, d), dot(z->w, z->p, d), dot(z->p, z->p, d)};
  for (ptrdiff_t i = 0; i < z->n; i += PANEL) {
    for (int k = 0; k < PANEL; k++) z->a[i + k] = z->dw_b, z->c[i + k] = c, z->e[i + k] = e;
    add_scores(z, i, z->p, z->r, z->mean, z->a + i, z->c + i, z->e + i);
  }
  double t = 0, delta = 0, lean = 0, step_t = 1, step_d = 0;
  slope base = expand(z, penalty, 0, 0, JET);
  const double steepest = DECLINE * fabs(base.dt);
  for (int trials = 0; trials < TRIALS; trials++) {
    const slope trial = expand(z, penalty, t + step_t, delta + step_d, JET);
    const int up = !(trial.value <= base.value + ROUNDING * fabs(base.value));
    double cut = 0;
    if (up) { /* where the tangents at its two ends meet */
      const double before = base.dt * step_t + base.db * step_d, after = trial.dt * step_t + trial.db * step_d;
      const double meet = (trial.value - after - base.value) / (after > before ? before - after : -1.0);
      cut = at_most(at_least(meet, 0.01), 0.9);
      if (!(cut >= 0.01)) cut = 0.01;
    } else {
      t += step_t, delta += step_d, base = trial;
      if (fabs(base.dt) <= steepest && offset_left(z, base) <= precision * base.value) break;
    }
    slope curved = base;
    lean = up ? LEAN : lean > 0.05 * LEAN ? KEEP * lean : 0.0;
    if (lean > 0 && !up) {
      const slope above = expand(z, penalty, t, delta, GAMMA);
      curved.dtt += lean * above.dtt, curved.dtb += lean * above.dtb, curved.dbb += lean * above.dbb;
    }
    if (up) step_t *= cut, step_d *= cut;
    else plane_step(z, curved, &step_t, &step_d);
  }
  z->offset_left = offset_left(z, base);
  /* One more step of the offset, untried: F is lower by about `offset_left`. */
  const double polish = -base.db / at_least(base.dbb, FLATTEST);
  if (z->offset && fabs(polish) < SMALL * z->unit) delta += polish;
  for (ptrdiff_t j = 0; j < d; j++) z->w[j] += t * z->p[j];
  z->b += t * z->dw_b + delta;
  z->value = base.value;
}

/* The best offset for w, to a fraction of F; the scores are those of the last look. */
static void settle(newton *z, double precision) {
  const double ww = dot(z->w, z->w, z->d), penalty[] = {ww, 0, 0};
  const ptrdiff_t all = (z->n + PANEL - 1) / PANEL * PANEL;
  memset(z->a, 0, all * sizeof(double));
  memset(z->c, 0, all * sizeof(double));
  memset(z->e, 0, all * sizeof(double));
  slope s = expand(z, penalty, 0, 0, JET);
  double delta = 0, low = -INFINITY, high = INFINITY, longest = LONGEST * z->unit, left = 0;
  for (int trial = 0; z->offset && trial < BISECTIONS; trial++) {
    if (s.db <= 0) low = delta;
    if (s.db >= 0) high = delta;
    left = s.db == 0 ? 0.0 : fabs(s.db) * (high - low);
    if (!(left > precision * s.value) || high - low <= 4e-16 * fabs(z->b + delta)) break;
    const double step = at_least(at_most(-s.db / at_least(s.dbb, FLATTEST), longest), -longest);
    longest *= 2;
    const int between = high - low < INFINITY;
    /* A little beyond: it had better end on the other side. A slope that is rounding error alone asks for steps too
     * short to change it: farther and farther then. */
    const double after = delta + (between ? 1.01 : at_least(ldexp(1.0, trial - PATIENCE), 1.01)) * step;
    const int inside = after > low && after < high && (trial % 3 < 2 || !between);
    delta = inside || !between ? after : 0.5 * (low + high);
    s = expand(z, penalty, 0, delta, JET);
  }
  z->b += delta;
  z->value = s.value, z->offset_left = z->offset ? left : 0.0;
}

static void round_off(newton *z, double rounding) {
  z->rounding = rounding;
  z->floor = (rounding * z->unit) * (rounding * z->unit);
}

/* By how much F is above its minimum at most, with the best offset: sets F too. */
static double certify(newton *z) {
  look(z, 0);
  settle(z, z->far ? 0.0 : CERTIFIED);
  look(z, 0);
  const double gap = 0.5 * dot(z->G, z->G, z->d) + z->offset_left;
  return gap < z->value ? gap : z->value;
}

static int sound(const newton *z) {
  double sum = z->value + z->g + z->corner + z->dv;
  for (ptrdiff_t j = 0; j < z->d; j++) sum += z->G[j] * 0.0 + z->H[j * z->wide + j] * 0.0;
  return isfinite(sum);
}

typedef struct {
  double value, gap, left;
  int converged, iterations, stopped, broken;
} newton_end;

/* Whether to stop, asked after every iteration; of the last one, minus its number is given. */
typedef int (*newton_watch)(void *who, int iteration, double value, double left);

/* The state as those who watch see it; whether they stop here. */
static int show(const newton *z, int iteration, double left, newton_watch watch, void *who) {
  *z->told = z->b - (z->centre ? dot(z->centre, z->w, z->d) : 0.0);
  return watch(who, iteration, z->value, left);
}

/* The first rounding of a kink: fine enough for the end if (w, b) may be the solution. */
static double first_rounding(newton *z, newton_rules rules) {
  if (!z->kinked || z->least > 1e-10) return z->least;
  const int zero = !(dot(z->w, z->w, z->d) > 0);
  const double otherwise = zero ? rules.cold : rules.warm;
  if (zero && z->b == 0) return rules.cold; /* with an offset w = 0 may be the solution */
  for (double rounding = rules.warm; rounding > z->least; rounding *= rules.sharpen) {
    round_off(z, rounding);
    look(z, 0);
    if (excess(z) > 0.5 * rules.tol * z->value) continue;
    look(z, 1);
    const int solved = sound(z) && rules.safety * step(z) + excess(z) <= rules.tol * z->value;
    return solved ? rounding : otherwise;
  }
  return otherwise;
}

/* w = 0 where F is no higher there: the tip of a cone, to which steps come ever closer. F is strongly convex, so that
 * only a w of |w|^2/2 <= 4 gap can be as bad. */
static void give_up(newton *z, newton_end *end) {
  const double ww = dot(z->w, z->w, z->d), value = z->value, b = z->b, left = z->offset_left;
  if (!z->kinked || !z->noisy || !(ww > 0) || ww > 8 * end->gap) return;
  memcpy(z->kept, z->w, z->wide * sizeof(double));
  memset(z->w, 0, z->wide * sizeof(double));
  look(z, 0);
  settle(z, CERTIFIED);
  if (z->value <= value) {
    end->gap = at_most(end->gap - (value - z->value), z->value);
    return;
  }
  memcpy(z->w, z->kept, z->wide * sizeof(double));
  z->value = value, z->b = b, z->offset_left = left;
}

static newton_end newton_solve(newton *z, newton_rules rules, int max_iter, newton_watch watch, void *who) {
  newton_end end = {0, 0, 0, 0, 1, 0, 0};
  double promised = 0, before = 0;
  int iteration = 0;
  round_off(z, first_rounding(z, rules));
  z->offset_left = 0;
  for (;; iteration++) {
    look(z, 1);
    if (!sound(z)) {
      end.broken = 1;
      return end;
    }
    const double gain = step(z), above = excess(z);
    const double brought = promised > 0 ? (before - z->value) / promised : rules.early;
    const double left = 0.5 * at_least(brought, rules.safety) * gain;
    const int sure = !z->kinked || gain <= CROSSING * z->mass;
    end.left = left + above;
    end.value = z->value;
    if (iteration) {
      end.iterations = iteration;
      z->history[iteration - 1] = z->value;
      const double fall = iteration > STALL ? z->history[iteration - 1 - STALL] - z->value : INFINITY;
      end.converged = (sure && end.left + z->offset_left <= rules.tol * z->value) ||
                      fall <= at_least(0.01 * rules.tol, ROUNDING) * fabs(z->value);
      if (!end.converged && iteration < max_iter) end.stopped = show(z, iteration, end.left, watch, who);
    }
    promised = 0.5 * gain, before = z->value;
    if (end.stopped) break; /* the point that was shown is the result */
    /* The step is there, whether it is needed or not: of an error e in F, sqrt(e) is left in the weights. */
    const int held = z->offset && z->dw_b == 0 && z->g != 0;
    move(z, 1.0);
    if (end.converged || iteration == max_iter) break;
    if (held) look(z, 0), settle(z, CERTIFIED); /* no example curves: the next step would not move it either */
    if (z->rounding > z->least && sure && left <= at_least(above, rules.stage * z->value)) {
      round_off(z, at_least(rules.sharpen * z->rounding, z->least));
      promised = 0;
    }
  }
  const double shown = z->b;
  double gap = certify(z);
  for (int steps = end.stopped || iteration == max_iter ? 0 : rules.polish; steps && gap > rules.little * z->value;
       steps--) {
    const double w_b = z->b;
    memcpy(z->kept, z->w, z->wide * sizeof(double));
    look(z, 1);
    step(z);
    move(z, 1.0);
    const double after = certify(z);
    if (!(after < gap)) {
      memcpy(z->w, z->kept, z->wide * sizeof(double));
      z->b = w_b;
      gap = certify(z);
      break;
    }
    gap = after;
  }
  end.gap = gap + ROUNDING * z->value;
  if (z->rounding > z->least) {
    const double low = z->value - gap - excess(z);
    round_off(z, z->least);
    look(z, 0);
    if (!end.stopped && iteration < max_iter) settle(z, CERTIFIED);
    gap = z->value - low;
    end.gap = gap < 0 ? 0 : gap < z->value ? gap : z->value;
  }
  if (!end.stopped && iteration < max_iter) give_up(z, &end);
  if (end.stopped) { /* with its own offset */
    const double low = z->value - end.gap;
    z->b = shown;
    look(z, 0);
    end.gap = at_most(z->value - low, z->value);
  }
  end.value = z->value;
  end.converged = end.converged || end.gap <= rules.tol * z->value;
  if (end.iterations) z->history[end.iterations - 1] = z->value;
  if (!end.stopped) end.stopped = show(z, -end.iterations, end.left, watch, who);
  return end;
}

#endif
