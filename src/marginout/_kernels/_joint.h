/* Newton's method for multinomial logistic regression under noise, all classes at once: see solvers/newton.py.
 *
 *     F = |W|^2/2 + sum s log sum_k exp(u_k),    u_k = x.(w_k - w_y) + b_k - b_y + v_k/2,   v_k = V (w_k - w_y)^2
 *
 * With the shares p_k of the sum, a_k = x + V (w_k - w_y) and D = diag(p) - pp', an example of class y adds
 *
 *     gradient in w_k - w_y   s p_k a_k                 Hessian   s (D_kl a_k a_l' + [k = l] p_k V),   k, l != y
 *
 * and minus the sum over k to what belongs to w_y. The steps solve Hessian . step = -gradient by conjugate gradients.
 * A product with the Hessian takes as long as a gradient. The preconditioner has the blocks of the classes,
 * s p_k (1 - p_k) xx' + s p_k V + I, with which one to three products are enough. It is made anew when they were not.
 *
 * The offset is the weight of one more feature, 1; the others are stored without their mean then. A block of examples is of one class. All steps keep sum_k w_k = 0,
 * as the losses depend on differences, and |W| falls with the sum. Arrays (wide, outs) have a row for each feature. */
#ifndef MARGINOUT_JOINT_H
#define MARGINOUT_JOINT_H

#include "_newton.h"

/* Classes are padded to a multiple of PAIR, and rows are taken ROWS at a time, as many sums as there are registers. */
enum { PAIR = 2, ROWS = 4 * QUAD };
/* A step leaves so much of the gradient's norm in the preconditioner's metric, squared; most products for it. */
#define FORCING 0.0625
#define PRODUCTS 100
/* What a new preconditioner costs in products, per feature, and at least: a step that took more is reason for one. */
#define COST 0.07
#define MANY 2.0
/* A step is good that brings this fraction of what its slope promises. */
#define BROUGHT 1e-4

typedef struct {
  ptrdiff_t blocks, d, wide, R, outs;               /* blocks of examples; features, with the offset, padded; classes */
  const char *x;                                    /* as of newton */
  ptrdiff_t row, column;
  int is_float, sparse, power, noisy, additive, offset;
  const double *entries;
  const int32_t *indices;
  const int64_t *indptr, *rows;                     /* rows: those in X of each block's examples, or -1 */
  const int32_t *labels;                            /* the class of each block */
  const double *scale, *kappa, *constant;
  double factor;
  double *s, *u, *p;                                /* weights; u and p: (blocks, outs, PANEL) */
  double *centre;                                   /* what is taken from the means, if there is an offset */
  double *cache, *panel, *weighted, *jet;           /* all of X or NULL, a block, and arrays of a block */
  double *W, *G, *kept, *best, *step, *rest, *solved, *along, *product; /* (wide, outs) */
  double *apart, *towards, *spread, *first, *second; /* the same of one class */
  double *curved;                                   /* (R, wide, outs): sum s p_k x^power over the rows of a class */
  ptrdiff_t factors;                                /* of the preconditioner: R, or 1 for all classes */
  double *A, *shrink;                               /* (factors, wide, wide) and (factors, wide) */
  double *corner, *room, *one;                      /* of the offsets, (R, R) and R numbers; (widest, widest); widest */
  double value, offset_left;
  double *history, *told;                           /* F after every iteration; the offsets, for those who watch */
} joint;

static const volatile double LARGEST_EXPONENT = 700.0;

/* A block without the features' centre, feature by feature, times the scale; and a 1 for the offset. */
static void joint_pack(const joint *z, ptrdiff_t block, double *out) {
  memset(out, 0, z->wide * PANEL * sizeof(double));
  for (int k = 0; k < PANEL; k++) {
    const int64_t row = z->rows[block * PANEL + k];
    if (row < 0) continue;
    for (ptrdiff_t j = 0; j < z->d; j++) {
      const char *x = z->x + row * z->row + j * z->column;
      const double dense = z->sparse ? 0.0 : z->is_float ? *(const float *)x : *(const double *)x;
      out[j * PANEL + k] = z->scale[j] * dense - z->centre[j];
    }
    for (int64_t e = z->sparse ? z->indptr[row] : 0; z->sparse && e < z->indptr[row + 1]; e++)
      out[z->indices[e] * PANEL + k] += z->entries[e];
    out[z->d * PANEL + k] = 1.0;
  }
}

/* The mean of every feature over the examples: with an offset, features far from 0 lose no digits without it. */
static void joint_find_centre(joint *z) {
  memset(z->centre, 0, z->wide * sizeof(double));
  memset(z->best, 0, z->wide * sizeof(double));
  for (ptrdiff_t i = 0; z->offset && i < z->blocks; i++) {
    joint_pack(z, i, z->panel);
    for (ptrdiff_t j = 0; j <= z->d; j++)
      for (int t = 0; t < PANEL; t++) z->best[j] += z->panel[j * PANEL + t];
  }
  for (ptrdiff_t j = 0; z->offset && j < z->d; j++) z->centre[j] = z->best[j] / at_least(z->best[z->d], 1.0);
}

/* What the offset of class k has more of than without the centre. */
static double joint_shift_of(const joint *z, ptrdiff_t k) {
  double sum = 0;
  for (ptrdiff_t j = 0; j < z->d; j++) sum += z->centre[j] * z->W[j * z->outs + k];
  return sum;
}

static const double *joint_panel(joint *z, ptrdiff_t block) {
  if (z->cache) return z->cache + block * z->wide * PANEL;
  joint_pack(z, block, z->panel);
  return z->panel;
}

/* u = U'X + V'X^power of a block, for all classes; power 0: without the second term. */
static inline INLINED void joint_scores_of(
    const int power, const double *x, const double *centre, ptrdiff_t features, ptrdiff_t outs, const double *U,
    const double *V, double *u) {
  for (ptrdiff_t k = 0; k < outs; k += PAIR)
    for (int i = 0; i < PANEL; i += ROWS) {
      quad t[PAIR][ROWS / QUAD] = {{{0}}};
      for (ptrdiff_t j = 0; j < features; j++) {
        const double *f = x + j * PANEL + i, *one = U + j * outs + k, *two = V + j * outs + k;
#pragma GCC unroll 4
        for (int row = 0; row < ROWS / QUAD; row++) {
          quad f_i = AT(f, row * QUAD);
          t[0][row] += one[0] * f_i, t[1][row] += one[1] * f_i;
          if (power) f_i += centre[j];
          if (power == 2) f_i *= f_i;
          if (power) t[0][row] += two[0] * f_i, t[1][row] += two[1] * f_i;
        }
      }
      for (int out = 0; out < PAIR; out++)
        for (int row = 0; row < ROWS / QUAD; row++) *(quad *)(u + (k + out) * PANEL + i + row * QUAD) = t[out][row];
    }
}

static cloned_void joint_scores(
    int power, const double *x, const double *centre, ptrdiff_t features, ptrdiff_t outs, const double *U,
    const double *V, double *u) {
  if (power == 2) joint_scores_of(2, x, centre, features, outs, U, V, u);
  else if (power == 1) joint_scores_of(1, x, centre, features, outs, U, V, u);
  else joint_scores_of(0, x, centre, features, outs, U, V, u);
}

/* first += X't, second += X^power't over a block. */
static inline INLINED void joint_sums_of(
    const int power, const double *x, const double *centre, ptrdiff_t features, ptrdiff_t outs, const double *t,
    double *first, double *second) {
  for (ptrdiff_t j = 0; j < features; j += PAIR)
    for (ptrdiff_t k = 0; k < outs; k += PAIR) {
      const double *f = x + j * PANEL, *g = t + k * PANEL;
      quad m[PAIR][PAIR] = {{{0}}}, v[PAIR][PAIR] = {{{0}}};
      for (int i = 0; i < PANEL; i += QUAD) {
        quad f_0 = AT(f, i), f_1 = AT(f + PANEL, i);
        const quad g_0 = AT(g, i), g_1 = AT(g + PANEL, i);
        m[0][0] += f_0 * g_0, m[0][1] += f_0 * g_1, m[1][0] += f_1 * g_0, m[1][1] += f_1 * g_1;
        if (power) f_0 += centre[j], f_1 += centre[j + 1];
        if (power == 2) f_0 *= f_0, f_1 *= f_1;
        if (power) v[0][0] += f_0 * g_0, v[0][1] += f_0 * g_1, v[1][0] += f_1 * g_0, v[1][1] += f_1 * g_1;
      }
      for (int a = 0; a < PAIR; a++)
        for (int b = 0; b < PAIR; b++) {
          first[(j + a) * outs + k + b] += sum_of(m[a][b]);
          if (power) second[(j + a) * outs + k + b] += sum_of(v[a][b]);
        }
    }
}

static cloned_void joint_sums(
    int power, const double *x, const double *centre, ptrdiff_t features, ptrdiff_t outs, const double *t,
    double *first, double *second) {
  if (power == 2) joint_sums_of(2, x, centre, features, outs, t, first, second);
  else if (power == 1) joint_sums_of(1, x, centre, features, outs, t, first, second);
  else joint_sums_of(0, x, centre, features, outs, t, first, second);
}

/* The rows of x, each times a. */
static cloned_void joint_weigh(const double *x, ptrdiff_t wide, const double *a, double *restrict out) {
  for (ptrdiff_t j = 0; j < wide; j++)
    for (int i = 0; i < PANEL; i++) out[j * PANEL + i] = a[i] * x[j * PANEL + i];
}

/* p = shares of exp(u), and the sum of s log sum exp(u): of a block. */
static cloned_void joint_shares(
    ptrdiff_t R, const double *s, const double *u, double cut, double *restrict p, double *restrict out) {
  double top[PANEL], total[PANEL];
  memcpy(top, u, sizeof(top));
  for (ptrdiff_t k = 1; k < R; k++)
    for (int i = 0; i < PANEL; i++) top[i] = at_least(u[k * PANEL + i], top[i]);
  memset(total, 0, sizeof(total));
  for (ptrdiff_t k = 0; k < R; k++) {
    const double *restrict u_k = u + k * PANEL;
    double *restrict p_k = p + k * PANEL;
#pragma GCC ivdep
    for (int i = 0; i < PANEL; i++) p_k[i] = exp_of_negative(at_least(u_k[i] - top[i], -cut));
    for (int i = 0; i < PANEL; i++) total[i] += p_k[i];
  }
  for (int i = 0; i < PANEL; i++)
    if (s[i] > 0) *out += s[i] * (top[i] + log(total[i]));
  for (int i = 0; i < PANEL; i++) total[i] = 1.0 / total[i];
  for (ptrdiff_t k = 0; k < R; k++)
    for (int i = 0; i < PANEL; i++) p[k * PANEL + i] *= total[i];
}

/* t_k = s (p_k - [k = y]) if a is NULL, else s p_k (a_k - sum p a), which overwrites a: both add up to 0. */
static cloned_void joint_slopes(
    ptrdiff_t R, ptrdiff_t y, const double *s, const double *restrict p, const double *a, double *t) {
  double mean[PANEL] = {0};
  for (ptrdiff_t k = 0; a && k < R; k++)
    for (int i = 0; i < PANEL; i++) mean[i] += p[k * PANEL + i] * a[k * PANEL + i];
  for (ptrdiff_t k = 0; k < R; k++)
    for (int i = 0; i < PANEL; i++)
      t[k * PANEL + i] = s[i] * p[k * PANEL + i] * (a ? a[k * PANEL + i] - mean[i] : 1.0);
  for (int i = 0; !a && i < PANEL; i++) t[y * PANEL + i] -= s[i];
}

static inline ptrdiff_t sizes(const joint *z) { return z->wide * z->outs; }

/* w_k - w_y, (wide, outs). */
static void joint_apart(const joint *z, const double *W, ptrdiff_t y, double *out) {
  for (ptrdiff_t j = 0; j <= z->d; j++)
    for (ptrdiff_t k = 0; k < z->outs; k++) out[j * z->outs + k] = k < z->R ? W[j * z->outs + k] - W[j * z->outs + y] : 0.0;
}


/* What x^power is multiplied by along differences Q from differences U; what additive noise adds goes to the offset of
 * Q. Both may be the same. */
static void joint_spread(const joint *z, const double *U, double *Q, double half) {
  double *constant = Q + z->d * z->outs;
  for (ptrdiff_t j = 0; (z->noisy || z->additive) && j < z->d; j++)
    for (ptrdiff_t k = 0; k < z->outs; k++) {
      const double both = half * z->factor * U[j * z->outs + k] * Q[j * z->outs + k];
      z->spread[j * z->outs + k] = z->kappa[j] * both, constant[k] += z->constant[j] * both;
    }
}

/* Add a class's sums to out: first, and with the noise's second of w_k - w_y; of a product with the Hessian, Q too. */
static void joint_gather(const joint *z, ptrdiff_t y, const double *U, const double *Q, double *out) {
  const double *curved = z->curved + y * sizes(z), *mean = z->first + z->d * z->outs, *more = curved + z->d * z->outs;
  for (ptrdiff_t f = 0; f < (z->d + 1) * z->outs; f++) out[f] += z->first[f];
  for (ptrdiff_t j = 0; (z->noisy || z->additive) && j < z->d; j++)
    for (ptrdiff_t k = 0; k < z->R; k++) {
      const ptrdiff_t f = j * z->outs + k;
      double sum = U[f] * (z->kappa[j] * z->second[f] + z->constant[j] * mean[k]);
      if (Q) sum += Q[f] * (z->kappa[j] * curved[f] + z->constant[j] * more[k]);
      out[f] += z->factor * sum, out[j * z->outs + y] -= z->factor * sum;
    }
}

/* u at W: one pass over X. */
static void joint_look(joint *z) {
  for (ptrdiff_t i = 0; i < z->blocks; i++) {
    const ptrdiff_t y = z->labels[i];
    if (!i || z->labels[i - 1] != y) joint_apart(z, z->W, y, z->apart), joint_spread(z, z->apart, z->apart, 0.5);
    joint_scores(
        z->noisy ? z->power : 0, joint_panel(z, i), z->centre, z->d + 1, z->outs, z->apart, z->spread,
        z->u + i * z->outs * PANEL);
  }
}

/* p and F at u. */
static void joint_value(joint *z) {
  const double largest = LARGEST_EXPONENT;
  z->value = 0;
  for (ptrdiff_t j = 0; j < z->d; j++) z->value += 0.5 * dot(z->W + j * z->outs, z->W + j * z->outs, z->R);
  for (ptrdiff_t i = 0; i < z->blocks; i++) {
    const ptrdiff_t at = i * z->outs * PANEL;
    joint_shares(z->R, z->s + i * PANEL, z->u + at, largest, z->p + at, &z->value);
  }
}

/* The gradient, or with P the product of P and the Hessian: one pass over X, or two. */
static void joint_pull(joint *z, double *P, double *out) {
  const ptrdiff_t size = sizes(z), last = z->d * z->outs;
  const int power = z->noisy ? z->power : 0;
  memcpy(out, P ? P : z->W, size * sizeof(double));
  for (ptrdiff_t k = 0; k < z->outs; k++) out[last + k] = 0;
  for (ptrdiff_t i = 0; i < z->blocks; i++) {
    const ptrdiff_t y = z->labels[i];
    const double *x = joint_panel(z, i), *s = z->s + i * PANEL, *p = z->p + i * z->outs * PANEL;
    if (!i || z->labels[i - 1] != y) {
      joint_apart(z, z->W, y, z->apart);
      if (P) joint_apart(z, P, y, z->towards), joint_spread(z, z->apart, z->towards, 1.0);
      memset(z->first, 0, size * sizeof(double));
      memset(z->second, 0, size * sizeof(double));
    }
    if (P) joint_scores(power, x, z->centre, z->d + 1, z->outs, z->towards, z->spread, z->jet);
    joint_slopes(z->R, y, s, p, P ? z->jet : NULL, z->jet);
    joint_sums(power, x, z->centre, z->d + 1, z->outs, z->jet, z->first, z->second);
    if (i + 1 < z->blocks && z->labels[i + 1] == y) continue;
    if (!P) {
      memcpy(z->curved + y * size, z->second, size * sizeof(double));
      memcpy(z->curved + y * size + last, z->first + last, z->outs * sizeof(double));
    }
    joint_gather(z, y, z->apart, P ? z->towards : NULL, out);
  }
  for (ptrdiff_t k = 0; !z->offset && k < z->outs; k++) out[last + k] = 0;
}

/* A = L L' for A scaled to a unit diagonal, in place; whether it succeeded. */
static int joint_factorize(double *A, double *room, double *shrink, ptrdiff_t d, ptrdiff_t wide) {
  for (ptrdiff_t j = 0; j < d; j++) shrink[j] = 1.0 / sqrt(at_least(A[j * wide + j], FLATTEST));
  for (size_t t = 0; t < sizeof(JITTERS) / sizeof(double); t++) {
    for (ptrdiff_t j = 0; j < d; j++) {
      for (ptrdiff_t k = 0; k <= j; k++) room[j * wide + k] = A[j * wide + k] * (shrink[j] * shrink[k]);
      room[j * wide + j] += JITTERS[t];
    }
    if (!factorize(room, d, wide)) continue;
    for (ptrdiff_t j = 0; j < d; j++) memcpy(A + j * wide, room + j * wide, (j + 1) * sizeof(double));
    return 1;
  }
  return 0;
}

/* r = A^-1 r, given the factor. */
static void joint_unroll(const double *A, const double *shrink, ptrdiff_t d, ptrdiff_t wide, double *r) {
  for (ptrdiff_t j = 0; j < d; j++) r[j] = (shrink[j] * r[j] - dot(A + j * wide, r, j)) / A[j * wide + j];
  for (ptrdiff_t j = d - 1; j >= 0; j--) {
    const double r_j = r[j] /= A[j * wide + j];
    for (ptrdiff_t k = 0; k < j; k++) r[k] -= A[j * wide + k] * r_j;
  }
  for (ptrdiff_t j = 0; j < d; j++) r[j] *= shrink[j];
}

/* The preconditioner at p, factorised, with a block for every class, or the mean for all; whether it succeeded. */
static int joint_precondition(joint *z, int together) {
  const ptrdiff_t wide = z->wide, R = z->R;
  z->factors = together ? 1 : R;
  memset(z->A, 0, z->factors * wide * wide * sizeof(double));
  for (ptrdiff_t i = 0; i < z->blocks; i++) {
    const double *x = joint_panel(z, i), *s = z->s + i * PANEL, *p = z->p + i * z->outs * PANEL;
    double a[PANEL] = {0};
    for (ptrdiff_t k = 0; k < R; k++, p += PANEL) {
      for (int t = 0; t < PANEL; t++) a[t] += s[t] * p[t] * (1.0 - p[t]) / (together ? R : 1);
      if (together && k + 1 < R) continue;
      joint_weigh(x, wide, a, z->weighted);
      add_products(z->weighted, x, wide, PANEL, z->A + (together ? 0 : k) * wide * wide);
      memset(a, 0, sizeof(a));
    }
  }
  for (ptrdiff_t k = 0; k < R; k++) {
    double *A = z->A + (together ? 0 : k) * wide * wide, *last = A + z->d * wide;
    for (ptrdiff_t j = 0; j < z->d; j++) {
      double sum = 1.0;
      for (ptrdiff_t y = 0; y < R; y++) { /* of its own class, minus the sum over the others */
        const double *curved = z->curved + y * sizes(z) + k, own = y == k ? -z->factor : z->factor;
        sum += own * (z->kappa[j] * curved[j * z->outs] + z->constant[j] * curved[z->d * z->outs]);
      }
      A[j * wide + j] += sum / (together ? R : 1);
    }
    if (together && k + 1 < R) continue;
    if (!z->offset) memset(last, 0, z->d * sizeof(double)), last[z->d] = 1.0;
    if (!joint_factorize(A, z->room, z->shrink + (together ? 0 : k) * wide, z->d + 1, wide)) return 0;
  }
  return 1;
}

/* The losses do not change, and |W| falls, if the mean over the classes is taken away. */
static void joint_balance(const joint *z, double *W) {
  for (ptrdiff_t j = 0; j <= z->d; j++) {
    double mean = 0;
    for (ptrdiff_t k = 0; k < z->R; k++) mean += W[j * z->outs + k] / z->R;
    for (ptrdiff_t k = 0; k < z->R; k++) W[j * z->outs + k] -= mean;
  }
}

/* S = the preconditioner's solution for G. */
static void joint_relax(joint *z, const double *G, double *S) {
  memset(S, 0, sizes(z) * sizeof(double));
  for (ptrdiff_t k = 0; k < z->R; k++) {
    const ptrdiff_t own = z->factors > 1 ? k : 0;
    for (ptrdiff_t j = 0; j <= z->d; j++) z->one[j] = G[j * z->outs + k];
    joint_unroll(z->A + own * z->wide * z->wide, z->shrink + own * z->wide, z->d + 1, z->wide, z->one);
    for (ptrdiff_t j = 0; j <= z->d; j++) S[j * z->outs + k] = z->one[j];
  }
  joint_balance(z, S);
}

/* The step, and minus its slope; how many products with the Hessian it took. */
static double joint_step(joint *z, int *products) {
  const ptrdiff_t size = sizes(z);
  memset(z->step, 0, size * sizeof(double));
  for (ptrdiff_t f = 0; f < size; f++) z->rest[f] = -z->G[f];
  joint_relax(z, z->rest, z->solved);
  memcpy(z->along, z->solved, size * sizeof(double));
  double norm = dot(z->rest, z->solved, size);
  const double enough = FORCING * norm;
  for (*products = 0; *products < PRODUCTS && norm > enough;) {
    joint_pull(z, z->along, z->product), ++*products;
    const double length = norm / dot(z->along, z->product, size);
    if (!(length > 0) || !isfinite(length)) break;
    for (ptrdiff_t f = 0; f < size; f++) z->step[f] += length * z->along[f], z->rest[f] -= length * z->product[f];
    joint_relax(z, z->rest, z->solved);
    const double after = dot(z->rest, z->solved, size), ratio = after / norm;
    for (ptrdiff_t f = 0; f < size; f++) z->along[f] = z->solved[f] + ratio * z->along[f];
    norm = after;
  }
  return -dot(z->G, z->step, size);
}

/* The first of ever shorter steps that brings enough: one pass over X for each. And the gradient there: one more. */
static void joint_move(joint *z, double gain) {
  const double before = z->value;
  double t = 1.0;
  memcpy(z->kept, z->W, sizes(z) * sizeof(double));
  for (int trial = 0; trial < TRIALS; trial++) {
    for (ptrdiff_t f = 0; f < sizes(z); f++) z->W[f] = z->kept[f] + t * z->step[f];
    joint_look(z);
    joint_value(z);
    if (z->value <= before - BROUGHT * t * gain + ROUNDING * before) break;
    const double cut = 0.5 * t * gain / (z->value - before + t * gain); /* of the parabola through both */
    t *= cut > 0.1 ? at_most(cut, 0.9) : 0.1;
  }
  joint_pull(z, NULL, z->G);
}

/* Add t g_k - t g_y to u_k, and t g to the offsets. */
static void joint_shift(joint *z, const double *g, double t) {
  for (ptrdiff_t i = 0; i < z->blocks; i++)
    for (ptrdiff_t k = 0; k < z->R; k++) {
      const double add = t * (g[k] - g[z->labels[i]]);
      for (int row = 0; row < PANEL; row++) z->u[(i * z->outs + k) * PANEL + row] += add;
    }
  for (ptrdiff_t k = 0; k < z->R; k++) z->W[z->d * z->outs + k] += t * g[k];
}

/* ∂F/∂b, and the second derivatives, to which a constant is added: F does not see a common offset. */
static void joint_corner(joint *z, double *g) {
  const ptrdiff_t R = z->R;
  memset(g, 0, R * sizeof(double));
  memset(z->corner, 0, R * R * sizeof(double));
  for (ptrdiff_t i = 0; i < z->blocks; i++) {
    const double *p = z->p + i * z->outs * PANEL;
    joint_slopes(R, z->labels[i], z->s + i * PANEL, p, NULL, z->jet);
    for (ptrdiff_t k = 0; k < R; k++)
      for (int t = 0; t < PANEL; t += QUAD) g[k] += sum_of(AT(z->jet + k * PANEL, t));
    for (ptrdiff_t k = 0; k < R; k++)
      for (ptrdiff_t l = 0; l <= k; l++) {
        quad sum = {0};
        for (int t = 0; t < PANEL; t += QUAD) {
          const quad p_k = AT(p + k * PANEL, t), s = AT(z->s + i * PANEL, t);
          sum += k == l ? s * p_k * (1.0 - p_k) : -s * p_k * AT(p + l * PANEL, t);
        }
        z->corner[k * R + l] += sum_of(sum);
      }
  }
  double trace = 0;
  for (ptrdiff_t k = 0; k < R; k++) trace += z->corner[k * R + k] / R;
  for (ptrdiff_t k = 0; k < R; k++)
    for (ptrdiff_t l = 0; l <= k; l++) z->corner[k * R + l] += trace;
}

/* The best offsets for the weights, to a fraction of F: no pass over X. */
static void joint_settle(joint *z) {
  double *g = z->one, *shrink = z->one + z->R, *slope = z->one + 2 * z->R;
  z->offset_left = 0;
  for (int trial = 0; z->offset && trial < TRIALS; trial++) {
    const double before = z->value;
    joint_corner(z, slope);
    memcpy(g, slope, z->R * sizeof(double));
    if (!joint_factorize(z->corner, z->room, shrink, z->R, z->R)) {
      z->offset_left = before;  /* nothing is known */
      return;
    }
    joint_unroll(z->corner, shrink, z->R, z->R, g);
    z->offset_left = 0.5 * dot(g, slope, z->R);
    if (!(z->offset_left > CERTIFIED * before)) return;
    for (double t = 1.0; t > FLAT; t *= 0.5) {
      joint_shift(z, g, -t);
      joint_value(z);
      if (z->value <= before + ROUNDING * before) break;
      joint_shift(z, g, t);
    }
  }
}

/* By how much F is above its minimum at most, with the best offsets: sets F too. */
static double joint_certify(joint *z) {
  joint_settle(z);
  joint_pull(z, NULL, z->G);
  return at_most(0.5 * dot(z->G, z->G, z->d * z->outs) + z->offset_left, z->value);
}

static int joint_show(const joint *z, int iteration, double left, newton_watch watch, void *who) {
  for (ptrdiff_t k = 0; k < z->R; k++) z->told[k] = z->W[z->d * z->outs + k] - joint_shift_of(z, k);
  return watch(who, iteration, z->value, left);
}

static int joint_sound(const joint *z) {
  double sum = z->value;
  for (ptrdiff_t f = 0; f < sizes(z); f++) sum += z->G[f] * 0.0;
  return isfinite(sum);
}

/* The value and the gradient at the start. */
static void joint_begin(joint *z) {
  for (ptrdiff_t k = 0; k < z->R; k++) z->W[z->d * z->outs + k] = z->told[k] + joint_shift_of(z, k);
  joint_balance(z, z->W);
  joint_look(z);
  joint_value(z);
  joint_pull(z, NULL, z->G);
}

static newton_end joint_solve(joint *z, newton_rules rules, int max_iter, newton_watch watch, void *who) {
  newton_end end = {0, 0, 0, 0, 1, 0, 0};
  double promised = 0, before = 0;
  const double many = at_least(COST * z->d, MANY);
  int products = 0;
  joint_begin(z);
  for (int iteration = 0;; iteration++) {
    if (!joint_sound(z) || ((!iteration || products > many) && !joint_precondition(z, !iteration))) {
      end.broken = 1;
      return end;
    }
    const double gain = joint_step(z, &products);
    const double brought = promised > 0 ? (before - z->value) / promised : rules.early;
    end.left = 0.5 * at_least(brought, rules.safety) * gain;
    if (iteration) {
      end.iterations = iteration;
      z->history[iteration - 1] = z->value;
      const double fall = iteration > STALL ? z->history[iteration - 1 - STALL] - z->value : INFINITY;
      end.converged = end.left <= rules.tol * z->value ||
                      fall <= at_least(0.01 * rules.tol, ROUNDING) * fabs(z->value);
      if (!end.converged && iteration < max_iter) end.stopped = joint_show(z, iteration, end.left, watch, who);
    }
    promised = 0.5 * gain, before = z->value;
    if (end.stopped) break; /* the point that was shown is the result */
    /* The step is there, whether it is needed or not: of an error e in F, sqrt(e) is left in the weights. */
    joint_move(z, gain);
    if (end.converged || iteration == max_iter) break;
  }
  const ptrdiff_t size = sizes(z), last = z->d * z->outs;
  memcpy(z->step, z->W + last, z->R * sizeof(double)); /* the offsets that were shown */
  end.gap = joint_certify(z);
  for (int steps = end.stopped || end.iterations == max_iter ? 0 : rules.polish; steps; steps--) {
    if (end.gap <= rules.little * z->value) break;
    const double kept = z->offset_left;
    memcpy(z->best, z->W, size * sizeof(double));
    joint_move(z, joint_step(z, &products));
    const double after = joint_certify(z);
    if (after < end.gap) {
      end.gap = after;
      continue;
    }
    memcpy(z->W, z->best, size * sizeof(double));
    joint_look(z);
    joint_value(z);
    z->offset_left = kept;
    break;
  }
  if (end.stopped) {
    const double low = z->value - end.gap;
    for (ptrdiff_t k = 0; k < z->R; k++) z->along[k] = z->step[k] - z->W[last + k];
    joint_shift(z, z->along, 1.0);
    joint_value(z);
    end.gap = z->value - low;
  }
  end.gap = at_most(end.gap + ROUNDING * z->value, z->value);
  end.value = z->value;
  end.converged = end.converged || end.gap <= rules.tol * z->value;
  if (end.iterations) z->history[end.iterations - 1] = z->value;
  if (!end.stopped) end.stopped = joint_show(z, -end.iterations, end.left, watch, who);
  return end;
}

#endif
