/* exp(x) for x in [-708, 0], below which it is no normal double, to (1 + |x|) 1e-16 of itself or so: 2^k times a
 * polynomial. NaN stays NaN. It has no branch, and loops that call it vectorise, but only if what cuts x off is
 * a number that the compiler does not know: else the values beyond it are a case, a branch of its own. */
#ifndef MARGINOUT_EXP_H
#define MARGINOUT_EXP_H

#include <stdint.h>

#include "_simd.h"

static inline INLINED double exp_of_negative(double x) {
  int32_t k = (int32_t)(x * 1.4426950408889634 - 0.5); /* towards zero: rounded, as x <= 0 */
  double r = x - k * 0.6931471805599453;
  /* Taylor's series to r^13 / 13!, whose remainder is below 5e-18: two chains, which are computed side by side. */
  double rr = r * r, even = 1.0 / 40320 + rr * (1.0 / 3628800 + rr * (1.0 / 479001600));
  double odd = 1.0 / 362880 + rr * (1.0 / 39916800 + rr * (1.0 / 6227020800.0));
  even = 1.0 + rr * (0.5 + rr * (1.0 / 24 + rr * (1.0 / 720 + rr * even)));
  odd = 1.0 + rr * (1.0 / 6 + rr * (1.0 / 120 + rr * (1.0 / 5040 + rr * odd)));
  union {
    uint64_t bits; /* of a NaN, k is negative: a shift of a negative number has no meaning in C */
    double value;
  } power = {(uint64_t)(k + 1023) << 52};
  return (even + r * odd) * power.value;
}

#endif
