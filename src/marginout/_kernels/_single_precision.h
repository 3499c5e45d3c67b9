/* Nonlinear conjugate gradients for eight problems at once, in single precision.
 *
 * What solvers/ncg.py does, for the case that a search over C and noise runs hundreds of times: rows of CSR, dropout
 * at one rate per problem, the bound on the hinge loss or a loss of a normal score (HINGE, SQUARED or MIXTURE of
 * losses.h + GAUSSIAN), and a tolerance that single precision can reach. The eight problems are the lanes of one vector: a row of X is read once for all, and no iteration returns to Python. Sums
 * over examples or features are added to doubles after every FLUSH terms. */
#ifndef MARGINOUT_SINGLE_PRECISION_H
#define MARGINOUT_SINGLE_PRECISION_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "losses.h"

/* Compiled for AVX2 and FMA, and used where the processor has both; elsewhere ncg does the work. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define LANES_KNOWN 1
#else
#define LANES_KNOWN 0
#endif

#define LANES 8
#define FLUSH 64
#define TERMS 9
/* The smallest deviation of a score, over the loss's unit: single precision sees no smaller one beside it. */
#define DEVIATION 1e-6f

/* The thresholds of solvers/lanes.py, where they are explained. */
typedef struct {
  int trials, renewal, drift;
  double decline, longest, safety, grain, share;
} lanes_rules;

/* Buffers of the caller: n and d rows of lanes. */
typedef struct {
  int64_t n, d;
  const void *data;
  int is_float;
  const int32_t *indices, *indptr;
  void *rows[9];    /* of n lanes: y, s = C times the weights, m, v, a, c, e, dm, dv */
  void *columns[5]; /* of d lanes: W, P, G, G before, D */
  float kappa[LANES];
  double b[LANES], value[LANES], left[LANES];
  int32_t done[LANES], iterations[LANES];
  double margin, unit, tol;
  const double *nodes, *shares; /* of MIXTURE, as in losses.h */
  int code, size, fit_intercept, max_iter;
  lanes_rules rules;
  int (*stops)(void *); /* asked now and then whether to stop */
  void *watch;          /* its argument */
} lanes_problem;

#if LANES_KNOWN
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define lanes_inline static inline __attribute__((always_inline))

#define EACH for (int l = 0; l < LANES; l++)

typedef float lane __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(32), aligned(4), may_alias));

lanes_inline lane lanes_choose(mask which, lane yes, lane no) {
  return (lane)((which & (mask)yes) | (~which & (mask)no));
}

lanes_inline lane lanes_max(lane a, lane b) { return lanes_choose(a > b, a, b); }

lanes_inline lane lanes_load(const double *values) {
  lane out;
  EACH out[l] = (float)values[l];
  return out;
}

lanes_inline lane lanes_sqrt(lane square) {
  float in[LANES], out[LANES];
  memcpy(in, &square, sizeof in);
#pragma GCC unroll 1
  for (int l = 0; l < LANES; l++) out[l] = sqrtf(in[l]);
  lane root;
  memcpy(&root, out, sizeof root);
  return root;
}

#define REAL lane
#define OF(name) lanes_##name
#define ALL(x) ((lane){0} + (x))
#define ABS(z) lanes_max(z, -(z))
#include "_abs_bound.h"

/* The same, with types. */
typedef struct {
  int64_t n, d;
  const void *data;
  const int32_t *indices, *indptr;
  lane *y, *s, *m, *v, *a, *c, *e, *dm, *dv, *W, *P, *G, *G_before, *D, kappa, floor;
  double *b, *value, *left, tol;
  const double *nodes, *shares;
  float margin;
  int32_t *done, *iterations;
  int size, fit_intercept, max_iter;
  lanes_rules rules;
  int (*stops)(void *);
  void *watch;
  time_t asked;
} lanes_state;

/* Whether to stop: asked at most once a second, as the answer is Python's. */
static int lanes_stops(lanes_state *q) {
  const time_t now = time(0);
  if (now == q->asked) return 0;
  q->asked = now;
  return q->stops(q->watch);
}

lanes_inline float lanes_entry(const lanes_state *q, int is_float, int64_t e) {
  return is_float ? ((const float *)q->data)[e] : (float)((const double *)q->data)[e];
}

/* a = X P, c = kappa X2 (W P), e = kappa X2 (P P). */
lanes_inline void lanes_line(lanes_state *q, const lane *W, const lane *P, int is_float) {
  for (int64_t i = 0; i < q->n; i++) {
    lane a = {0}, c = {0}, e = {0};
    for (int64_t at = q->indptr[i]; at < q->indptr[i + 1]; at++) {
      const float x = lanes_entry(q, is_float, at);
      const lane xp = x * P[q->indices[at]], xw = x * W[q->indices[at]];
      a += xp;
      c += xp * xw;
      e += xp * xp;
    }
    q->a[i] = a;
    q->c[i] = q->kappa * c;
    q->e[i] = q->kappa * e;
  }
}

/* 2 phi, its derivatives in z and h = v / 2, and gamma, as in losses.h. */
typedef struct {
  lane value, dz, dh, zz, zh, hh, gamma;
} lanes_jet;

/* exp(x) for x in [-87, 0]: 2^k times a polynomial. */
lanes_inline lane lanes_exp(lane x) {
  const mask k = __builtin_convertvector(x * 1.44269504f - 0.5f, mask);
  const lane whole = __builtin_convertvector(k, lane), r = x - whole * 0.693359375f - whole * -2.12194440e-4f;
  const lane p = 1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720 + r * (1.0f / 5040)));
  return (1 + r * (1 + r * (0.5f + r * (1.0f / 6 + r * p)))) * (lane)((k + 127) << 23);
}

/* What normal_parts of _normal.h has, to 5e-6 of itself: the density over s, tail times density times s, and
 * 2 Phi(-|r|), for r = z / s. Q is interpolated for |r| up to EDGE, beyond which the density counts as 0. */
lanes_inline void lanes_normal(lane z, lane s, lane *over, lane *excess, lane *below, lane *ri) {
  const float edge = 13.0f;
  const lane i = 1 / s, far = ALL(edge), all = ABS(z) * i, a = lanes_choose(all < far, all, far);
  const lane u = a * (1.0f / 6), g = 1 / (1 + u), x = 1 - 2 * g;
  lane p = -0.35749751f + x * (0.16551127f + x * (-0.06224912f + x * (0.02295325f + x * 0.00270521f)));
  p = g * (-1.79412794f + x * (1.44041920f + x * (-1.02977669f + x * (0.65005529f + x * p))));
  const lane whole = lanes_exp(-0.5f * a * a) * 0.79788456f, density = lanes_choose(a < far, whole, (lane){0});
  *over = density * i;
  *excess = s * density * (g * g * (1 + u * p));
  *below = density * (g * g * (2 + u - p) * (1.0f / 6));
  *ri = lanes_choose(z < 0, -a, a) * i;
}

lanes_inline lanes_jet lanes_normal_hinge(lane z, lane s, float share) {
  lane dh, excess, below, ri;
  lanes_normal(z, s, &dh, &excess, &below, &ri);
  const lane positive = lanes_max(z, (lane){0}), i = 1 / s;
  const lane value = share * (2 * positive + excess), gamma = share * (float)GAUSSIAN_CURVATURE / (ABS(z) + excess);
  dh *= share;
  return (lanes_jet){
      value, share * lanes_choose(z < 0, below, 2 - below), dh, dh, -dh * ri, dh * (ri * ri - i * i), gamma};
}

lanes_inline lanes_jet lanes_jet_of(const int code, const lanes_state *q, lane z, lane v) {
  if (code == HINGE) {
    const lane square = z * z + v;
    const lanes_absolute x = lanes_abs_bound(z, v, lanes_sqrt(square));
    const lane bend = x.dh * x.bend;
    return (lanes_jet){z + square * x.dh, x.rise, x.dh, bend * x.zz, -bend * x.zh, -bend * x.hh, x.gamma};
  }
  if (code == MIXTURE) {
    lanes_jet sum = {0};
    for (int k = 0; k < q->size; k++) {
      const lanes_jet j = lanes_normal_hinge(z, lanes_sqrt(v + (float)q->nodes[k]), (float)q->shares[k]);
      sum.value += j.value, sum.dz += j.dz, sum.dh += j.dh, sum.zz += j.zz, sum.zh += j.zh, sum.hh += j.hh;
      sum.gamma += j.gamma;
    }
    return sum;
  }
  const lane s = lanes_sqrt(v);
  if (code == HINGE + GAUSSIAN) return lanes_normal_hinge(z, s, 1.0f);
  lane over, excess, below, ri;
  lanes_normal(z, s, &over, &excess, &below, &ri);
  const mask minus = z < 0;
  const lane positive = lanes_max(z, (lane){0}), little = lanes_max(v * below - ABS(z) * excess, (lane){0});
  const lane rise = lanes_choose(minus, below, 2 - below);
  return (lanes_jet){
      lanes_choose(minus, little, 2 * (positive * positive + v) - little), 4 * positive + 2 * excess, 2 * rise,
      2 * rise, 2 * over, -2 * over * ri, ALL((float)(2 * SQUARED_CURVATURE))};
}

/* Slopes of the weighted loss at (m, v); dv carries the 2 kappa of the pullback. */
lanes_inline void lanes_slopes(const int code, lanes_state *q) {
  for (int64_t i = 0; i < q->n; i++) {
    const lane y = q->y[i], s = 0.5f * q->s[i];
    const lanes_jet x = lanes_jet_of(code, q, q->margin - y * q->m[i], q->v[i]);
    q->dm[i] = -y * s * x.dz;
    q->dv[i] = q->kappa * s * x.dh;
  }
}

/* G = W + X'dm + W * X2'dv. */
lanes_inline void lanes_gradient(lanes_state *q, int is_float) {
  memcpy(q->G, q->W, q->d * sizeof(lane));
  for (int64_t i = 0; i < q->n; i++) {
    const lane dm = q->dm[i], dv = q->dv[i];
    for (int64_t at = q->indptr[i]; at < q->indptr[i + 1]; at++) {
      const float x = lanes_entry(q, is_float, at);
      const int32_t j = q->indices[at];
      q->G[j] += x * (dm + x * (q->W[j] * dv));
    }
  }
}

/* D = 1 + (1 + kappa) X2'gamma, with Loss.curvature of losses.py for gamma: at most one over the loss's grain. */
lanes_inline void lanes_curvature(const int code, lanes_state *q, int is_float) {
  const lane sharpest = ALL((float)(1.0 / q->rules.grain));
  memset(q->D, 0, q->d * sizeof(lane));
  for (int64_t i = 0; i < q->n; i++) {
    const lanes_jet x = lanes_jet_of(code, q, q->margin - q->y[i] * q->m[i], q->v[i]);
    const lane gamma = 0.5f * (code == HINGE ? x.gamma : lanes_max(x.zz, (float)q->rules.share * x.gamma));
    const lane g = q->s[i] * lanes_choose(gamma < sharpest, gamma, sharpest) * (1.0f + q->kappa);
    for (int64_t at = q->indptr[i]; at < q->indptr[i + 1]; at++) {
      const float x = lanes_entry(q, is_float, at);
      q->D[q->indices[at]] += x * x * g;
    }
  }
  for (int64_t j = 0; j < q->d; j++) q->D[j] += 1.0f;
}

/* F without the ridge, its slopes and Hessian in (t, delta), and the majoriser's Hessian. */
lanes_inline void lanes_expand(const int code, const lanes_state *q, const double *t8, const double *delta8,
                               double sums[TERMS][LANES]) {
  const lane t = lanes_load(t8), delta = lanes_load(delta8), floor = q->floor;
  memset(sums, 0, TERMS * LANES * sizeof(double));
  for (int64_t first = 0; first < q->n; first += FLUSH) {
    const int64_t end = first + FLUSH < q->n ? first + FLUSH : q->n;
    lane part[TERMS] = {{0}};
    for (int64_t i = first; i < end; i++) {
      const lane a = q->a[i], c = q->c[i], e = q->e[i], y = q->y[i], te = t * e;
      const lane u = lanes_max(q->v[i] + t * (2 * c + te), floor);
      const lane s = 0.5f * q->s[i], r = 2 * (c + te), ya = y * a;
      const lanes_jet x = lanes_jet_of(code, q, q->margin - y * (q->m[i] + t * a + delta), u);
      part[0] += s * x.value;
      part[1] += s * (0.5f * x.dh * r - x.dz * ya);
      part[2] -= s * x.dz * y;
      part[3] += s * (x.zz * ya * ya - x.zh * ya * r + 0.25f * x.hh * r * r + x.dh * e);
      part[4] += s * y * (x.zz * ya - 0.5f * x.zh * r);
      part[5] += s * x.zz;
      part[6] += s * x.gamma * (a * a + e);
      part[7] += s * x.gamma * a;
      part[8] += s * x.gamma;
    }
    for (int k = 0; k < TERMS; k++) EACH sums[k][l] += part[k][l];
  }
}

typedef struct {
  double value, dt, db, dtt, dtb, dbb, mtt, mtb, mbb;
} lanes_slope;

lanes_inline void lanes_plane(const int code, const lanes_state *q, const double *t, const double *delta,
                              const double squares[3][LANES], lanes_slope *out) {
  double sums[TERMS][LANES];
  lanes_expand(code, q, t, delta, sums);
  EACH {
    out[l] = (lanes_slope){sums[0][l], sums[1][l], sums[2][l], sums[3][l], sums[4][l],
                           sums[5][l], sums[6][l], sums[7][l], sums[8][l]};
    out[l].value += 0.5 * (squares[0][l] + t[l] * (2 * squares[1][l] + t[l] * squares[2][l]));
    out[l].dt += squares[1][l] + t[l] * squares[2][l];
    out[l].dtt += squares[2][l];
    out[l].mtt += squares[2][l];
  }
}

static void lanes_step(const lanes_state *q, const lanes_slope *f, double lean, double *t, double *d) {
  const double longest = q->rules.longest;
  double tt = f->dtt + lean * f->mtt, tb = f->dtb + lean * f->mtb, bb = f->dbb + lean * f->mbb;
  tt = tt > 0 ? tt : 1.0;
  *d = 0.0;
  if (q->fit_intercept) {
    const double schur = bb - tb * (tb / tt), reduced = f->db - tb * (f->dt / tt);
    if (schur > 1e-6 * bb) *d = fmin(fmax(-reduced / schur, -longest), longest);
  }
  *t = -(f->dt + tb * *d) / tt;
}

static double lanes_offset_left(const lanes_state *q, const lanes_slope *f) {
  if (!q->fit_intercept) return 0.0;
  return 0.5 * fabs(f->db) * fmin(fabs(f->db) / fmax(f->dbb, 1e-30), q->rules.longest);
}

/* The best (t, delta) of every lane that is not done, F there, and how much a better offset would lower it. */
lanes_inline void lanes_search(const int code, lanes_state *q, const double squares[3][LANES], double *t,
                               double *delta, double *offset_left) {
  lanes_slope base[LANES], trial[LANES];
  double steepest[LANES], lean[LANES] = {0}, step_t[LANES], step_d[LANES], try_t[LANES], try_d[LANES];
  int good[LANES], all;
  EACH t[l] = delta[l] = 0.0;
  lanes_plane(code, q, t, delta, squares, base);
  EACH {
    good[l] = q->done[l];
    steepest[l] = q->rules.decline * fabs(base[l].dt);
    lanes_step(q, &base[l], 0.0, &step_t[l], &step_d[l]);
    offset_left[l] = lanes_offset_left(q, &base[l]);
  }
  for (int count = 0; count < q->rules.trials; count++) {
    EACH {
      try_t[l] = good[l] ? t[l] : t[l] + step_t[l];
      try_d[l] = good[l] ? delta[l] : delta[l] + step_d[l];
    }
    lanes_plane(code, q, try_t, try_d, squares, trial);
    all = 1;
    EACH {
      if (good[l]) continue;
      if (trial[l].value > base[l].value * (1 + 1e-6)) { /* up: cut where the tangents meet */
        const double before = base[l].dt * step_t[l] + base[l].db * step_d[l];
        const double after = trial[l].dt * step_t[l] + trial[l].db * step_d[l];
        double meet = after > before ? (trial[l].value - after - base[l].value) / (before - after) : 0.5;
        meet = meet > 0.01 ? (meet < 0.9 ? meet : 0.9) : 0.01;
        step_t[l] *= meet;
        step_d[l] *= meet;
        lean[l] = 1.0;
        all = 0;
        continue;
      }
      t[l] = try_t[l];
      delta[l] = try_d[l];
      base[l] = trial[l];
      offset_left[l] = lanes_offset_left(q, &base[l]);
      good[l] = fabs(base[l].dt) <= steepest[l] && offset_left[l] <= 1e-2 * q->tol * base[l].value;
      all &= good[l];
      lean[l] = lean[l] > 0.05 ? 0.2 * lean[l] : 0.0;
      lanes_step(q, &base[l], lean[l], &step_t[l], &step_d[l]);
    }
    if (all) break;
  }
  EACH q->value[l] = q->done[l] ? q->value[l] : base[l].value;
}

/* Sums over the features for every lane; `body` adds feature j's terms to `part`. */
#define FEATURE_SUMS(count, sums, body)                                                       \
  do {                                                                                        \
    memset(sums, 0, (count) * LANES * sizeof(double));                                        \
    for (int64_t first = 0; first < q->d; first += FLUSH) {                                   \
      const int64_t end = first + FLUSH < q->d ? first + FLUSH : q->d;                        \
      lane part[count] = {{0}};                                                               \
      for (int64_t j = first; j < end; j++) body;                                             \
      for (int k = 0; k < (count); k++) EACH sums[k][l] += part[k][l];                        \
    }                                                                                         \
  } while (0)

/* Means and variances from X; steps only update them. */
lanes_inline void lanes_moments(lanes_state *q, int is_float) {
  const lane offset = lanes_load(q->b);
  lanes_line(q, q->W, q->W, is_float);
  for (int64_t i = 0; i < q->n; i++) {
    q->m[i] = q->a[i] + offset;
    q->v[i] = lanes_max(q->e[i], q->floor);
  }
}

lanes_inline void lanes_solve_typed(const int code, lanes_state *q, int is_float) {
  double gs_before[LANES] = {0}, offset_left[LANES], t[LANES], delta[LANES];
  lanes_moments(q, is_float);
  lanes_slopes(code, q);
  for (int iteration = 0; iteration <= q->max_iter; iteration++) {
    lanes_gradient(q, is_float);
    if (iteration % q->rules.renewal == 0) lanes_curvature(code, q, is_float);
    double sums[2][LANES], squares[4][LANES], slopes[3][LANES];
    lane beta;
    mask forward, going;
    FEATURE_SUMS(2, sums, {
      const lane S = q->G[j] / q->D[j];
      part[0] += q->G[j] * S;
      part[1] += q->G_before[j] * S;
    });
    int all = 1;
    EACH {
      if (iteration && !q->done[l]) {
        q->left[l] = 0.5 * q->rules.safety * sums[0][l] + offset_left[l];
        q->iterations[l] = iteration;
        q->done[l] = q->left[l] <= q->tol * q->value[l] || !(sums[0][l] < INFINITY);
      }
      all &= q->done[l];
      const double change = sums[0][l] - sums[1][l];
      beta[l] = iteration && gs_before[l] > 0 && change > 0 ? (float)(change / gs_before[l]) : 0.0f;
      gs_before[l] = sums[0][l];
    }
    if (all || iteration == q->max_iter || lanes_stops(q)) break;
    FEATURE_SUMS(1, slopes, {
      q->P[j] = beta * q->P[j] - q->G[j] / q->D[j];
      part[0] += q->G[j] * q->P[j];
    });
    EACH {
      forward[l] = slopes[0][l] < 0 ? -1 : 0; /* uphill: the gradient alone */
      going[l] = q->done[l] ? 0 : -1;
    }
    FEATURE_SUMS(3, squares, {
      const lane p = (lane)(going & (mask)lanes_choose(forward, q->P[j], -q->G[j] / q->D[j]));
      q->P[j] = p;
      q->G_before[j] = q->G[j];
      part[0] += q->W[j] * q->W[j];
      part[1] += q->W[j] * p;
      part[2] += p * p;
    });
    lanes_line(q, q->W, q->P, is_float);
    lanes_search(code, q, squares, t, delta, offset_left);
    const lane step = lanes_load(t), shift = lanes_load(delta);
    EACH q->b[l] += delta[l];
    for (int64_t i = 0; i < q->n; i++) {
      q->m[i] += step * q->a[i] + shift;
      q->v[i] = lanes_max(q->v[i] + step * (2 * q->c[i] + step * q->e[i]), q->floor);
    }
    for (int64_t j = 0; j < q->d; j++) q->W[j] += step * q->P[j];
    if ((iteration + 1) % q->rules.drift == 0) lanes_moments(q, is_float);
    lanes_slopes(code, q);
  }
}

static void lanes_solve(lanes_problem *p) {
  lane **r = (lane **)p->rows, **c = (lane **)p->columns;
  lanes_state q = {
      .n = p->n, .d = p->d, .data = p->data, .indices = p->indices, .indptr = p->indptr,
      .y = r[0], .s = r[1], .m = r[2], .v = r[3], .a = r[4], .c = r[5], .e = r[6], .dm = r[7], .dv = r[8],
      .W = c[0], .P = c[1], .G = c[2], .G_before = c[3], .D = c[4],
      .b = p->b, .value = p->value, .left = p->left, .margin = (float)p->margin, .tol = p->tol,
      .nodes = p->nodes, .shares = p->shares, .size = p->size,
      .done = p->done, .iterations = p->iterations,
      .fit_intercept = p->fit_intercept, .max_iter = p->max_iter, .rules = p->rules,
      .stops = p->stops, .watch = p->watch, .asked = time(0)};
  memcpy(&q.kappa, p->kappa, sizeof q.kappa);
  q.floor = ALL(DEVIATION * DEVIATION * (float)(p->unit * p->unit));
#define SOLVE(code)                          \
  case code:                                 \
    if (p->is_float) lanes_solve_typed(code, &q, 1); \
    else lanes_solve_typed(code, &q, 0);     \
    break
  switch (p->code) {
    SOLVE(HINGE);
    SOLVE(HINGE + GAUSSIAN);
    SOLVE(SQUARED + GAUSSIAN);
    SOLVE(MIXTURE);
  }
#undef SOLVE
}

#pragma GCC pop_options

static int lanes_available(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#else
static void lanes_solve(lanes_problem *p) { (void)p; }
static int lanes_available(void) { return 0; }
#endif

#endif
