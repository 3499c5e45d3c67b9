/* A standard normal variable beyond a = |r|, with phi and Phi its density and distribution:
 *
 *     density = 2 phi(a),  below = 2 Phi(-a),  tail = 1 - a Phi(-a) / phi(a),
 *
 * each to (1 + a^2) 1e-16 of itself or so. One polynomial Q gives the last two, with u = a / 6 and g = 1 / (1 + u):
 *
 *     tail = g^2 (1 + u g Q),  Phi(-a) / phi(a) = g^2 (2 + u - g Q) / 6.
 *
 * Q is interpolated at the Chebyshev points of q = 1 - 2g for a up to 38. From NORMAL_EDGE on the density is 0,
 * exactly: phi is below 1e-307 there. NaN stays NaN. There is no branch, so that loops vectorise. */
#ifndef MARGINOUT_NORMAL_H
#define MARGINOUT_NORMAL_H

#include <math.h>

#include "_exp.h"
#include "_simd.h"

/* Loops read it before they start; why it is volatile is told in _exp.h. */
static const volatile double NORMAL_EDGE = 37.6;

/* r is cut off at the edge. */
static inline INLINED void normal_parts(double r, double edge, double *density, double *tail, double *below) {
  const double a = fabs(r), u = a * (1.0 / 6.0), g = 1.0 / (1.0 + u), q = 1.0 - 2.0 * g, qq = q * q, x = qq * qq;
  /* Q = p0 + q p1 + q^2 p2 + q^3 p3: polynomials in q^4, which are computed side by side. */
  double p0 = -2.9890043653131975e-05 + x * (4.98911831434258e-07 + x * 8.099923849013597e-10);
  double p1 = -0.000728017757291612 + x * (1.875142596460593e-05 + x * 2.577183513587127e-07);
  double p2 = 0.0005005573860262899 + x * (-7.687470817295881e-07 + x * -7.501458292425438e-08);
  double p3 = -8.928873203036803e-05 + x * (-2.299881871924757e-06 + x * -2.9098340428962935e-08);
  p0 = -1.7941277230496382 + x * (-0.3570837224316148 + x * (-0.0022861667543752767 + x * p0));
  p1 = 1.4404207712771422 + x * (0.1667035104650864 + x * p1);
  p2 = -1.0298047808297106 + x * (-0.06322145376474159 + x * p2);
  p3 = 0.6499793913679183 + x * (0.017528253580524764 + x * p3);
  const double p = g * (p0 + q * p1 + qq * (p2 + q * p3));
  const double e = exp_of_negative(-0.5 * a * a) * 0.7978845608028654; /* sqrt(2 / pi) */
  *density = e * (a < edge ? 1.0 : 0.0);
  *tail = g * g * (1.0 + u * p);
  *below = *density * (g * g * (2.0 + u - p) * (1.0 / 6.0));
}

#endif
