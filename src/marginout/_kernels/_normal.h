/* Expectations of a normal variable zeta of mean z and variance v, r = z / sqrt(v). Nothing has a branch, so that
 * the loops vectorise.
 *
 * normal_parts   With a = |r| and phi, Phi the standard normal density and distribution,
 *                    density = phi(a),  below = Phi(-a),  tail = 1 - a Phi(-a) / phi(a):
 *                each to (1 + a^2) 1e-16 of itself or so. One polynomial Q gives the last two, with
 *                u = a / 6 and g = 1 / (1 + u):
 *                    tail = g^2 (1 + u g Q),  Phi(-a) / phi(a) = g^2 (2 + u - g Q) / 6.
 *                Q is interpolated at the Chebyshev points of q = 1 - 2g for a up to 38. Beyond
 *                NORMAL_EDGE the density is 0, exactly: phi is below 1e-307 there. NaN stays NaN.
 * abs_parts      excess = E|zeta| - |z| and the five derivatives of E|zeta| in z and v, zeta ~ N(z, v); the first
 *                of these to 1e-15, and not of itself.
 * hinge_terms    Adds what every element adds to the six sums of _normal.hinge_gaussian. */
#ifndef MARGINOUT_NORMAL_H
#define MARGINOUT_NORMAL_H

#include <math.h>
#include <stddef.h>

#include "_exp.h"
#include "_simd.h"

/* Loops read it before they start; why it is volatile is told in _exp.h. */
static const volatile double NORMAL_EDGE = 37.6;

static inline inlined_double clip(double r, double edge) {
  r = r > edge ? edge : r;
  return r < -edge ? -edge : r;
}

/* r is clipped at the edge. */
static inline inlined_void normal_parts(double r, double edge, double *density, double *tail, double *below) {
  const double a = fabs(r), u = a * (1.0 / 6.0), g = 1.0 / (1.0 + u), q = 1.0 - 2.0 * g, qq = q * q;
  double even = 8.099923849013597e-10;
  even = even * qq - 7.501458292425438e-08;
  even = even * qq + 4.98911831434258e-07;
  even = even * qq - 7.687470817295881e-07;
  even = even * qq - 2.9890043653131975e-05;
  even = even * qq + 0.0005005573860262899;
  even = even * qq - 0.0022861667543752767;
  even = even * qq - 0.06322145376474159;
  even = even * qq - 0.3570837224316148;
  even = even * qq - 1.0298047808297106;
  even = even * qq - 1.7941277230496382;
  double odd = -2.9098340428962935e-08;
  odd = odd * qq + 2.577183513587127e-07;
  odd = odd * qq - 2.299881871924757e-06;
  odd = odd * qq + 1.875142596460593e-05;
  odd = odd * qq - 8.928873203036803e-05;
  odd = odd * qq - 0.000728017757291612;
  odd = odd * qq + 0.017528253580524764;
  odd = odd * qq + 0.1667035104650864;
  odd = odd * qq + 0.6499793913679183;
  odd = odd * qq + 1.4404207712771422;
  const double p = g * (even + q * odd);
  const double e = exp_of_negative(-0.5 * a * a) * 0.3989422804014327; /* 1/sqrt(2 pi) */
  *density = e * (a < edge ? 1.0 : 0.0);
  *tail = g * g * (1.0 + u * p);
  *below = *density * (g * g * (2.0 + u - p) * (1.0 / 6.0));
}

static cloned_void abs_parts(
    ptrdiff_t size, double tiny, const double *restrict z, const double *restrict v, double *restrict excess,
    double *restrict dz, double *restrict dv, double *restrict dzz, double *restrict dzv, double *restrict dvv) {
  const double edge = NORMAL_EDGE;
  for (ptrdiff_t i = 0; i < size; i++) {
    double s = sqrt(v[i]), density, tail, below;
    s = s < tiny ? tiny : s; /* this way round, NaN stays NaN */
    const double inverse = 1.0 / s, r = clip(z[i] * inverse, edge);
    normal_parts(r, edge, &density, &tail, &below);
    const double n1 = density * inverse, n2 = n1 * inverse, n3 = n2 * inverse, mass = 1.0 - 2.0 * below;
    excess[i] = 2.0 * s * density * tail;
    dz[i] = r < 0.0 ? -mass : mass;
    dv[i] = n1;
    dzz[i] = 2.0 * n1;
    dzv[i] = -r * n2;
    dvv[i] = 0.5 * (r * r - 1.0) * n3;
  }
}

static cloned_void hinge_terms(
    ptrdiff_t size, double margin, double tiny, double floor, const double *restrict weights,
    const double *restrict y, const double *restrict m, const double *restrict v, const double *restrict a,
    const double *restrict c, const double *restrict e, const double *restrict t, const double *restrict delta,
    double *restrict value, double *restrict dt, double *restrict db, double *restrict dtt,
    double *restrict dtb, double *restrict dbb) {
  const double edge = NORMAL_EDGE;
  for (ptrdiff_t i = 0; i < size; i++) {
    const double change = 2.0 * (c[i] + t[i] * e[i]), ya = y[i] * a[i];
    const double z = margin - y[i] * (m[i] + t[i] * a[i] + delta[i]);
    double u = v[i] + t[i] * (2.0 * c[i] + t[i] * e[i]), density, tail, below;
    u = u < floor ? floor : u;
    double s = sqrt(u);
    s = s < tiny ? tiny : s;
    const double inverse = 1.0 / s, r = clip(z * inverse, edge);
    normal_parts(r, edge, &density, &tail, &below);
    /* With the weight, the loss has the derivatives v: g, zz: 2g, zv: -g r / s, vv: g (r^2 - 1) / (2 s^2). */
    const double slope = weights[i] * (r < 0.0 ? below : 1.0 - below);
    const double g = 0.5 * weights[i] * density * inverse, p = change * inverse, b = 2.0 * ya + r * p;
    value[i] += weights[i] * ((z > 0.0 ? z : 0.0) + s * density * tail);
    dt[i] += g * change - slope * ya;
    db[i] -= slope * y[i];
    dtt[i] += g * (0.5 * (b * b - p * p) + 2.0 * e[i]);
    dtb[i] += g * y[i] * b;
    dbb[i] += 2.0 * g;
  }
}

#endif
