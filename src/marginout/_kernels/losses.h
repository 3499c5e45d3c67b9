/* Expected losses phi(m, v; y) of a score with mean m and variance v. Each formula stands here once, and all loops
 * are made from it: in every call of jet_of the code is a constant, so that each loss has a loop of its own.
 *
 *   HINGE      phi = (z + E|zeta|) / 2,                      z = margin - y m
 *   TUBE       phi = (E|zeta_1| + E|zeta_2|) / 2 - epsilon,  z_1 and z_2 = y - m -+ epsilon
 *   PINBALL    phi = (E|zeta| + tilt z) / 2,                 z = y - m, tilt = 2 quantile - 1
 *   LOGISTIC   phi = log 2cosh(omega / 2) - y m / 2,         omega = sqrt(m^2 + v)
 *   SQUARED    phi = E max(0, zeta)^2,                       z = margin - y m
 *
 * zeta has mean z and variance v, and E|zeta| means its bound sqrt(z^2 + v), and E max(0, zeta)^2 its bound max(0, z)^2 + v. With + GAUSSIAN it is the value for a
 * normal zeta, and the logistic loss is a MIXTURE of hinge losses. Nothing has a branch: loops vectorise. */
#ifndef MARGINOUT_LOSSES_H
#define MARGINOUT_LOSSES_H

#include <math.h>
#include <stddef.h>

#include "_normal.h"
#include "_simd.h"

enum { HINGE = 0, GAUSSIAN = 1, TUBE = 2, LOGISTIC = 4, MIXTURE = LOGISTIC + GAUSSIAN, SQUARED = 6, PINBALL = 8 };

/* Smallest radius sqrt(z^2 + v) or deviation sqrt(v) that is divided by: its cube is still a normal number. */
#define LEAST_RADIUS 1e-100
/* Largest curvature of (E|zeta|)^2 / 2 for a normal zeta, over all directions of (mean, deviations): the largest
 * eigenvalue of h h'' + h' h'^T over all r, h = E|r + N(0, 1)|, reached at |r| = 1.615. */
#define GAUSSIAN_CURVATURE 1.4678957898220109
/* Largest curvature of log(1 + exp(z)). */
#define LOGISTIC_CURVATURE 0.25
/* The same of max(0, z)^2. */
#define SQUARED_CURVATURE 2.0

#define REAL double
#define OF(name) name
#define ALL(x) (x)
#define ABS(z) fabs(z)
#include "_abs_bound.h"
#undef REAL
#undef OF
#undef ALL
#undef ABS

/* A loss, passed by value, so that the compiler knows that no store changes it. */
typedef struct {
  double parameter;             /* margin, epsilon or tilt */
  double least;                 /* of the lengths that gamma is divided by */
  double tiny, edge, cut;       /* LEAST_RADIUS, NORMAL_EDGE, largest x in exp(-x): unknown numbers, see _exp.h */
  const double *nodes, *shares; /* of a mixture: what is added to v, and weights */
  int size;                     /* nodes of the mixture */
  const double *tilts;          /* of each output, or NULL */
  ptrdiff_t outputs;
} loss;

static const volatile double LEAST = LEAST_RADIUS;

static inline loss make_loss(double parameter, const double *mixture, int size) {
  const double tiny = LEAST, edge = NORMAL_EDGE;
  return (loss){parameter, tiny, tiny, edge, 0.5 * edge * edge, mixture, size ? mixture + size : mixture, size, NULL, 0};
}

/* This way round, NaN stays NaN. */
static inline INLINED double at_least(double x, double least) { return x < least ? least : x; }
static inline INLINED double at_most(double x, double most) { return x > most ? most : x; }

/* The bound, which holds for every distribution. */
static inline INLINED absolute abs_of_any(loss q, double z, double v) {
  const double root = at_least(sqrt(z * z + v), q.tiny);
  absolute a = abs_bound(z, v, root);
  a.gamma = 1.0 / at_least(root, q.least);
  return a;
}

/* A normal zeta. gamma: h = E|zeta| is at most (h^2 / h_0 + h_0) / 2 for every h_0. */
static inline INLINED absolute abs_of_normal(loss q, double z, double v) {
  const double s = at_least(sqrt(v), q.tiny), i = 1.0 / s, r = at_least(at_most(z * i, q.edge), -q.edge), ri = r * i;
  double density, tail, below;
  normal_parts(r, q.edge, &density, &tail, &below);
  const double excess = s * density * tail, sign = copysign(1.0, r);
  return (absolute){
      excess, (1.0 + sign) - sign * below, sign * (1.0 - below), density * i, 1.0, 1.0, ri, i * i - ri * ri,
      GAUSSIAN_CURVATURE / at_least(fabs(z) + excess, q.least)};
}

static inline INLINED absolute abs_of(const int code, loss q, double z, double v) {
  return code & GAUSSIAN ? abs_of_normal(q, z, v) : abs_of_any(q, z, v);
}

/* 2 s phi(m, v; y): value, derivatives in m and h = v / 2, and the curvature gamma of a majoriser. So formulas have
 * no constants, and halves are multiplied once, with the weight s. The second derivatives are bend times mm, mh and
 * hh: bend takes the longest to compute, and loops multiply by it last. */
typedef struct {
  double value, dm, dh, bend, mm, mh, hh, gamma;
} jet;

static inline INLINED jet hinge(double s, double z, double y, absolute a) {
  const double dh = s * a.dh;
  return (jet){
      s * (2.0 * at_least(z, 0.0) + a.excess), -(s * y) * a.rise, dh, dh * a.bend, a.zz, y * a.zh, -a.hh,
      s * a.gamma};
}

/* The bound of E max(0, zeta)^2 is reached in the limit by two values, one of them far away. */
static inline INLINED jet squared(double s, double z, double v, double y) {
  const double active = z > 0.0 ? 1.0 : 0.0, positive = at_least(z, 0.0);
  return (jet){
      s * (2.0 * (positive * positive + v)), -(s * y) * (4.0 * positive), 4.0 * s, 4.0 * s, active, 0.0, 0.0,
      (2.0 * SQUARED_CURVATURE) * s};
}

/* Of a normal zeta; little = 2 E max(0, zeta)^2 at -|z|, to (1 + r^2) 1e-15 of itself. On the other side of the kink
 * this is missing from 2 (z^2 + v). */
static inline INLINED jet squared_of_normal(loss q, double s, double z, double v, double y) {
  const double d = at_least(sqrt(v), q.tiny), i = 1.0 / d, r = at_least(at_most(z * i, q.edge), -q.edge);
  double density, tail, below;
  normal_parts(r, q.edge, &density, &tail, &below);
  const double excess = d * density * tail, sign = copysign(1.0, z), positive = at_least(z, 0.0);
  const double little = at_least(v * below - fabs(z) * excess, 0.0), rise = (1.0 + sign) - sign * below;
  return (jet){
      s * ((1.0 + sign) * (positive * positive + v) - sign * little), -(s * y) * (4.0 * positive + 2.0 * excess),
      2.0 * s * rise, 2.0 * s, rise, -y * (density * i), -(density * i) * (r * i), (2.0 * SQUARED_CURVATURE) * s};
}

static inline INLINED jet tube(double s, double z, double epsilon, absolute a, absolute b) {
  const double outside = at_least(fabs(z) - epsilon, 0.0), g = s * a.dh * a.bend, h = s * b.dh * b.bend;
  return (jet){
      s * (2.0 * outside + a.excess + b.excess), -s * (a.dz + b.dz), s * (a.dh + b.dh), 1.0, g * a.zz + h * b.zz,
      g * a.zh + h * b.zh, -(g * a.hh + h * b.hh), s * (a.gamma + b.gamma)};
}

static inline INLINED jet pinball(double s, double z, double tilt, absolute a) {
  const double dh = s * a.dh;
  return (jet){
      s * (fabs(z) * (1.0 + copysign(tilt, tilt * z)) + a.excess), -s * (a.dz + tilt), dh, dh * a.bend, a.zz, a.zh, -a.hh,
      s * a.gamma};
}

/* f = 2 log 2cosh(omega / 2) has gamma = f' / omega and slope = gamma' / omega = (f'' - gamma) / u, u = omega^2.
 * Both cancel near 0: there they are series in u, up to terms below 1e-15. log(1 + decay) = 2 atanh(x). */
static inline INLINED jet logistic(loss q, double s, double m, double v, double y) {
  const double u = m * m + v, omega = sqrt(u), decay = exp_of_negative(-at_most(omega, q.cut)), size = fabs(m);
  const double share = 1.0 / (1.0 + decay), quotient = (1.0 - decay) * share / at_least(omega, 0.1);
  const double w = at_most(u, 0.01), inside = omega < 0.1 ? 1.0 : 0.0, outside = 1.0 - inside;
  double gamma = 1.0 / 240 + w * (-17.0 / 40320 + w * (31.0 / 725760 + w * (-691.0 / 159667200)));
  double slope = 1.0 / 60 + w * (-17.0 / 6720 + w * (31.0 / 90720 + w * (-691.0 / 15966720)));
  gamma = inside * (0.5 + w * (-1.0 / 24 + w * gamma)) + outside * quotient;
  slope = inside * (-1.0 / 12 + w * slope) + outside * (2.0 * decay * share * share - quotient) / at_least(u, 0.01);
  const double x = decay / (2.0 + decay), p = x * x;
  double sum = 1.0 / 25 + p * (1.0 / 27 + p * (1.0 / 29 + p * (1.0 / 31 + p * (1.0 / 33))));
  sum = 1.0 / 13 + p * (1.0 / 15 + p * (1.0 / 17 + p * (1.0 / 19 + p * (1.0 / 21 + p * (1.0 / 23 + p * sum)))));
  sum = x + x * p * (1.0 / 3 + p * (1.0 / 5 + p * (1.0 / 7 + p * (1.0 / 9 + p * (1.0 / 11 + p * sum)))));
  return (jet){
      s * (v / at_least(omega + size, q.tiny) + (size - y * m) + 4.0 * sum), /* nothing cancels */
      s * (gamma * m - y), s * gamma, s, gamma + slope * m * m, slope * m, slope, s * gamma};
}

/* The jet of any loss but a mixture. */
static inline INLINED jet jet_of(const int code, loss q, double s, double m, double v, double y) {
  const double z = y - m, hinge_z = q.parameter - y * m;
  if (code >= PINBALL) return pinball(s, z, q.parameter, abs_of(code, q, z, v));
  if (code <= HINGE + GAUSSIAN) return hinge(s, hinge_z, y, abs_of(code, q, hinge_z, v));
  if (code == SQUARED) return squared(s, hinge_z, v, y);
  if (code == SQUARED + GAUSSIAN) return squared_of_normal(q, s, hinge_z, v, y);
  if (code >= LOGISTIC) return logistic(q, s, m, v, y);
  return tube(s, z, q.parameter, abs_of(code, q, z - q.parameter, v), abs_of(code, q, z + q.parameter, v));
}

#endif
