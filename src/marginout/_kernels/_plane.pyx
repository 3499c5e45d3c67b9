# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sums over the examples for a trial step: what NumPy would need twenty temporaries for.

On the plane (w + t·p, b + δ), with a = M p, c = V (w∘p) and e = V (p∘p), example n has
mean m + t·a + δ and variance v + 2t·c + t²·e. All arrays are (n, K) in C order; weights
are (n, 1) or (n, K); t and δ are (K,).
"""

from libc.math cimport fabs, sqrt


def hinge_bound(
    const double[:, ::1] weights, const double[:, ::1] y, double margin, double tiny,
    const double[:, ::1] m, const double[:, ::1] v, const double[:, ::1] a,
    const double[:, ::1] c, const double[:, ::1] e, const double[::1] t,
    const double[::1] delta, double floor, double[:, ::1] sums,
):
    """`moments`, the jet of ½(z + √(z² + v)) with z = margin − y·m, and `expansion`, in one loop.

    The default loss is searched along so often that its temporaries would show in every profile.
    """
    cdef Py_ssize_t i, k, own = weights.shape[1] > 1
    cdef double s, z, u, q, r, g, h, ya, w, slope
    with nogil:
        for i in range(m.shape[0]):
            for k in range(m.shape[1]):
                u = v[i, k] + t[k] * (2 * c[i, k] + t[k] * e[i, k])
                u = u if u > floor else floor
                z = margin - y[i, k] * (m[i, k] + t[k] * a[i, k] + delta[k])
                q = sqrt(z * z + u)
                q = q if q > tiny else tiny
                w = 1 / q
                s = 0.5 * weights[i, k * own]
                g = s * w
                h = g * w * w  # with the weight: z'' = h·u, z'v' = −½h·z, v'' = −¼h
                r = 2 * (c[i, k] + t[k] * e[i, k])
                ya = y[i, k] * a[i, k]
                slope = s * (1 + z * w)
                sums[0, k] += s * (z + fabs(z) + u / (q + fabs(z)))
                sums[1, k] += 0.5 * g * r - slope * ya
                sums[2, k] -= slope * y[i, k]
                sums[3, k] += h * (u * ya * ya + z * ya * r - 0.25 * r * r) + g * e[i, k]
                sums[4, k] += h * y[i, k] * (u * ya + 0.5 * z * r)
                sums[5, k] += h * u


def moments(
    const double[:, ::1] m, const double[:, ::1] v, const double[:, ::1] a,
    const double[:, ::1] c, const double[:, ::1] e, const double[::1] t,
    const double[::1] delta, double floor, double[:, ::1] mean, double[:, ::1] variance,
):
    """Mean and variance (at least `floor`, whatever the rounding) of the scores at a step."""
    cdef Py_ssize_t i, k
    cdef double u
    with nogil:
        for i in range(m.shape[0]):
            for k in range(m.shape[1]):
                mean[i, k] = m[i, k] + t[k] * a[i, k] + delta[k]
                u = v[i, k] + t[k] * (2 * c[i, k] + t[k] * e[i, k])
                variance[i, k] = u if u > floor else floor


def expansion(
    const double[:, ::1] weights, const double[:, ::1] value, const double[:, ::1] dm,
    const double[:, ::1] dv, const double[:, ::1] dmm, const double[:, ::1] dmv,
    const double[:, ::1] dvv, const double[:, ::1] a, const double[:, ::1] c,
    const double[:, ::1] e, const double[::1] t, double[:, ::1] sums,
):
    """sums += weighted loss, its slopes in t and δ, and its second derivatives tt, tδ, δδ."""
    cdef Py_ssize_t i, k, j, own = weights.shape[1] > 1
    cdef double s, r, cross
    with nogil:
        for i in range(value.shape[0]):
            for k in range(value.shape[1]):
                s = weights[i, k * own]
                r = 2 * (c[i, k] + t[k] * e[i, k])  # the variance's slope in t
                cross = dmm[i, k] * a[i, k] + dmv[i, k] * r
                sums[0, k] += s * value[i, k]
                sums[1, k] += s * (dm[i, k] * a[i, k] + dv[i, k] * r)
                sums[2, k] += s * dm[i, k]
                sums[3, k] += s * (
                    cross * a[i, k] + (dmv[i, k] * a[i, k] + dvv[i, k] * r) * r + 2 * dv[i, k] * e[i, k]
                )
                sums[4, k] += s * cross
                sums[5, k] += s * dmm[i, k]


def majorizer(
    const double[:, ::1] weights, const double[:, ::1] gamma, const double[:, ::1] a,
    const double[:, ::1] e, double[:, ::1] sums,
):
    """sums += the majoriser's second derivatives tt, tδ, δδ."""
    cdef Py_ssize_t i, k, own = weights.shape[1] > 1
    cdef double g
    with nogil:
        for i in range(gamma.shape[0]):
            for k in range(gamma.shape[1]):
                g = weights[i, k * own] * gamma[i, k]
                sums[0, k] += g * (a[i, k] * a[i, k] + e[i, k])
                sums[1, k] += g * a[i, k]
                sums[2, k] += g
