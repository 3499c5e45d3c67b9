/* The bound on E|zeta|, for the type REAL: losses.h includes this for double, _single_precision.h for vectors of
 * floats. OF(name) is a name for this type, ALL(x) the constant x, ABS(z) = |z|.
 *
 * E|zeta| = |z| + excess of zeta with mean z and variance v: derivatives in z and h = v / 2, which have no constants.
 * The second derivatives are dh bend times zz, -zh and -hh; rise = 1 + dz; gamma is the curvature of a majoriser. */
typedef struct {
  REAL excess, rise, dz, dh, bend, zz, zh, hh, gamma;
} OF(absolute);

/* E|zeta| <= root = sqrt(z^2 + v). No smaller gamma would do. */
static inline INLINED OF(absolute) OF(abs_bound)(REAL z, REAL v, REAL root) {
  const REAL i = 1 / root, dz = z * i;
  return (OF(absolute)){v / (root + ABS(z)), 1 + dz, dz, i, i * i, v, z, ALL(1), i};
}
