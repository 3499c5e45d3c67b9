/* The inner loops of _mgf.pyx: `size` entries x of a row, in `columns`, at K contrasts each. Loops over
 * contrasts have no branches, so that they vectorise.
 *
 * contrasts        z = s x t
 * exp_minus_abs    e = exp(-|z|). |z| is cut off at 708, beyond which exp(-|z|) is no normal double.
 * add_log_mgfs     S += max(z, 0), product *= r: what the entries add to the log-MGFs of their row.
 * add_slopes       G += their part of the derivative of sum_k R_k S_k in W.
 *
 * Entries of few kinds (a column and a value each) have their exponentials in a table, E = exp(z - max z)
 * with z = s x w. As exp(s x (w_k - w_c)) = E_k / E_c, none is left to be taken:
 *
 * add_kinds        product *= q + (1 - q) E_k / E_c, its logarithms to S before it leaves the doubles' range.
 * add_kind_slopes  as add_slopes. */
#ifndef MARGINOUT_MGF_H
#define MARGINOUT_MGF_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "_exp.h"
#include "_simd.h"

typedef struct {
  const double *rate, *factor; /* of every feature */
  ptrdiff_t K;
  int joint;
  int silent;      /* all rates are 0 */
  const double *a; /* (classes, K) */
  const double *W; /* (features, K) */
} Deletion;

static cloned_void contrasts(
    const Deletion *noise, ptrdiff_t c, const double *x, const int64_t *columns, ptrdiff_t size,
    double *restrict z) {
  const ptrdiff_t K = noise->K;
  const double *a = noise->a + c * K;
  for (ptrdiff_t j = 0; j < size; j++, z += K) {
    const double *w = noise->W + columns[j] * K;
    const double value = x[j] * noise->factor[columns[j]], own = noise->joint ? w[c] : 0;
    for (ptrdiff_t k = 0; k < K; k++) z[k] = value * (a[k] * w[k] - own);
  }
}

static cloned_void exp_minus_abs(const double *restrict z, double *restrict e, ptrdiff_t size) {
  const volatile double least = -708.0; /* see _exp.h */
  const double floor = least;
  for (ptrdiff_t i = 0; i < size; i++) {
    const double x = -fabs(z[i]);
    e[i] = exp_of_negative(x < floor ? floor : x);
  }
}

/* r is min(q, 1 - q) or more, and so is a product of them: logarithms are taken before `least`, what the
 * product cannot fall below, leaves the doubles' range. */
static cloned_void add_log_mgfs(
    const Deletion *noise, const int64_t *columns, ptrdiff_t size, const double *restrict z,
    const double *restrict e, double *restrict product, double *least, double *restrict S) {
  const ptrdiff_t K = noise->K;
  for (ptrdiff_t j = 0; j < size; j++, z += K, e += K) {
    const double q = noise->rate[columns[j]], p = 1 - q;
    if (q == 0) {
      for (ptrdiff_t k = 0; k < K; k++) S[k] += z[k];
      continue;
    }
    *least *= q < p ? q : p;
    if (*least < 1e-200) {
      *least = q < p ? q : p;
      for (ptrdiff_t k = 0; k < K; k++) {
        S[k] += log(product[k]);
        product[k] = 1;
      }
    }
    for (ptrdiff_t k = 0; k < K; k++) {
      S[k] += z[k] > 0 ? z[k] : 0;
      product[k] *= z[k] > 0 ? q * e[k] + p : q + p * e[k];
    }
  }
}

static cloned_void add_slopes(
    const Deletion *noise, ptrdiff_t c, const double *x, const int64_t *columns, ptrdiff_t size,
    const double *restrict z, const double *restrict e, const double *restrict R, double *restrict G) {
  const ptrdiff_t K = noise->K;
  const double *a = noise->a + c * K;
  for (ptrdiff_t j = 0; j < size; j++, z += K, e += K) {
    const double q = noise->rate[columns[j]], p = 1 - q, value = x[j] * noise->factor[columns[j]] * p;
    double *restrict g = G + columns[j] * K;
    double own = 0;
    if (q == 0) { /* e may not have been computed */
      for (ptrdiff_t k = 0; k < K; k++) {
        own += value * R[k];
        g[k] += a[k] * value * R[k];
      }
    } else {
      for (ptrdiff_t k = 0; k < K; k++) {
        const double up = z[k] > 0 ? 1 : e[k], down = z[k] > 0 ? e[k] : 1;
        const double slope = value * R[k] * up / (q * down + p * up);
        own += slope;
        g[k] += a[k] * slope;
      }
    }
    if (noise->joint) g[c] -= own;
  }
}

typedef struct {
  const int64_t *column;
  const double *value; /* s x */
  const double *rate;
  const double *reach; /* |log(q + (1 - q) E_k / E_c)| is no larger */
  const double *E;     /* (kinds, K) */
  ptrdiff_t K;
  double most; /* reach that the doubles' range allows */
} Kinds;

static cloned_void add_kinds(
    const Kinds *kinds, ptrdiff_t c, const int64_t *own, ptrdiff_t size, double *restrict product,
    double *restrict S) {
  const ptrdiff_t K = kinds->K;
  double reach = 0;
  for (ptrdiff_t j = 0; j < size; j++) {
    const double *e = kinds->E + own[j] * K;
    const double q = kinds->rate[own[j]], p = (1 - q) / e[c];
    reach += kinds->reach[own[j]];
    if (reach > kinds->most) {
      reach = kinds->reach[own[j]];
      for (ptrdiff_t k = 0; k < K; k++) {
        S[k] += log(product[k]);
        product[k] = 1;
      }
    }
    for (ptrdiff_t k = 0; k < K; k++) product[k] *= q + p * e[k];
  }
}

static cloned_void add_kind_slopes(
    const Kinds *kinds, ptrdiff_t c, const int64_t *own, ptrdiff_t size, const double *restrict R,
    double *restrict G) {
  const ptrdiff_t K = kinds->K;
  for (ptrdiff_t j = 0; j < size; j++) {
    const double *e = kinds->E + own[j] * K;
    const double value = kinds->value[own[j]], q = kinds->rate[own[j]], p = (1 - q) / e[c];
    double *restrict g = G + kinds->column[own[j]] * K;
    double sum = 0;
    for (ptrdiff_t k = 0; k < K; k++) {
      const double slope = value * R[k] * (p * e[k] / (q + p * e[k]));
      sum += slope;
      g[k] += slope;
    }
    g[c] -= sum;
  }
}

#endif
