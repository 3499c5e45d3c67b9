# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sums over the examples for a trial step: what NumPy would need twenty temporaries for.

On the plane (w + t·p, b + δ), with a = M p, c = V (w∘p) and e = V (p∘p), example n has
mean m + t·a + δ and variance v + 2t·c + t²·e. All arrays are (n, K) in C order; weights
are (n, 1) or (n, K); t and δ are (K,).
"""

from libc.math cimport exp, fabs, log1p, sqrt

cdef extern from "_simd.h":
    ctypedef void cloned_void
    ctypedef void inlined_void

cdef enum:
    # Sums are taken over so many elements side by side, which vectorises.
    LANES = 4
    SUMS = 6


cdef inline inlined_void hinge_bound_lanes(
    Py_ssize_t rows, Py_ssize_t stride, const int lanes, Py_ssize_t weight_stride, bint own,
    const double* weights, const double* y, double margin, double tiny, const double* m,
    const double* v, const double* a, const double* c, const double* e, const double* t,
    const double* delta, double floor, double* out,
) noexcept nogil:
    """The sums of `lanes` neighbouring elements in each row, (SUMS, LANES)."""
    cdef Py_ssize_t i, at
    cdef int l
    cdef double s, z, u, q, r, g, h, ya, w, slope
    cdef double sums[SUMS][LANES]
    for i in range(SUMS):
        for l in range(lanes):
            sums[i][l] = 0
    for i in range(rows):
        at = i * stride
        for l in range(lanes):
            u = v[at + l] + t[l] * (2 * c[at + l] + t[l] * e[at + l])
            u = u if u > floor else floor
            z = margin - y[at + l] * (m[at + l] + t[l] * a[at + l] + delta[l])
            q = sqrt(z * z + u)
            q = q if q > tiny else tiny
            w = 1 / q
            s = 0.5 * weights[i * weight_stride + (l if own else 0)]
            g = s * w
            h = g * w * w  # with the weight: z'' = h·u, z'v' = −½h·z, v'' = −¼h
            r = 2 * (c[at + l] + t[l] * e[at + l])
            ya = y[at + l] * a[at + l]
            slope = s * (1 + z * w)
            sums[0][l] += s * (z + fabs(z) + u / (q + fabs(z)))
            sums[1][l] += 0.5 * g * r - slope * ya
            sums[2][l] -= slope * y[at + l]
            sums[3][l] += h * (u * ya * ya + z * ya * r - 0.25 * r * r) + g * e[at + l]
            sums[4][l] += h * y[at + l] * (u * ya + 0.5 * z * r)
            sums[5][l] += h * u
    for i in range(SUMS):
        for l in range(lanes):
            out[i * LANES + l] = sums[i][l]


cdef cloned_void hinge_bound_wide(
    Py_ssize_t rows, Py_ssize_t stride, Py_ssize_t weight_stride, bint own,
    const double* weights, const double* y, double margin, double tiny, const double* m,
    const double* v, const double* a, const double* c, const double* e, const double* t,
    const double* delta, double floor, double* out,
) noexcept nogil:
    # The number of lanes, and whether weights are shared, must be known to the compiler.
    if own:
        hinge_bound_lanes(
            rows, stride, LANES, weight_stride, True, weights, y, margin, tiny, m, v, a, c, e, t,
            delta, floor, out,
        )
    else:
        hinge_bound_lanes(
            rows, stride, LANES, weight_stride, False, weights, y, margin, tiny, m, v, a, c, e, t,
            delta, floor, out,
        )


def hinge_bound(
    const double[:, ::1] weights, const double[:, ::1] y, double margin, double tiny,
    const double[:, ::1] m, const double[:, ::1] v, const double[:, ::1] a,
    const double[:, ::1] c, const double[:, ::1] e, const double[::1] t,
    const double[::1] delta, double floor, double[:, ::1] sums,
):
    """`moments`, the jet of ½(z + √(z² + v)) with z = margin − y·m, and `expansion`, in one loop.

    The default loss is searched along so often that its temporaries would show in every profile.
    One problem is read as LANES problems of every LANES-th example.
    """
    cdef Py_ssize_t n = m.shape[0], K = m.shape[1], k, l, j, whole, width
    cdef Py_ssize_t own = weights.shape[1] > 1
    cdef double lane[SUMS * LANES]
    cdef double ts[LANES]
    cdef double ds[LANES]
    if n == 0:
        return
    with nogil:
        if K == 1:
            for l in range(LANES):
                ts[l] = t[0]
                ds[l] = delta[0]
            whole = n // LANES
            hinge_bound_wide(
                whole, LANES, LANES, True, &weights[0, 0], &y[0, 0], margin, tiny, &m[0, 0],
                &v[0, 0], &a[0, 0], &c[0, 0], &e[0, 0], ts, ds, floor, lane,
            )
            for j in range(SUMS):
                for l in range(LANES):
                    sums[j, 0] += lane[j * LANES + l]
            whole *= LANES
            if whole < n:
                hinge_bound_lanes(
                    n - whole, 1, 1, 1, True, &weights[whole, 0], &y[whole, 0], margin, tiny,
                    &m[whole, 0], &v[whole, 0], &a[whole, 0], &c[whole, 0], &e[whole, 0], ts, ds,
                    floor, lane,
                )
                for j in range(SUMS):
                    sums[j, 0] += lane[j * LANES]
        else:
            k = 0
            while k < K:
                if K - k >= LANES:
                    width = LANES
                    hinge_bound_wide(
                        n, K, weights.shape[1], own, &weights[0, k * own], &y[0, k], margin, tiny,
                        &m[0, k], &v[0, k], &a[0, k], &c[0, k], &e[0, k], &t[k], &delta[k], floor,
                        lane,
                    )
                else:
                    width = 1
                    hinge_bound_lanes(
                        n, K, 1, weights.shape[1], own, &weights[0, k * own], &y[0, k], margin,
                        tiny, &m[0, k], &v[0, k], &a[0, k], &c[0, k], &e[0, k], &t[k], &delta[k],
                        floor, lane,
                    )
                for j in range(SUMS):
                    for l in range(width):
                        sums[j, k + l] += lane[j * LANES + l]
                k += width


cdef cloned_void hinge_majorizer_rows(
    Py_ssize_t n, Py_ssize_t K, bint own, const double* weights, const double* y, double margin,
    double tiny, const double* m, const double* v, const double* a, const double* c,
    const double* e, const double* t, const double* delta, double floor, double* tt, double* tb,
    double* bb,
) noexcept nogil:
    cdef Py_ssize_t i, k, at
    cdef double u, z, q, g
    for i in range(n):
        for k in range(K):
            at = i * K + k
            u = v[at] + t[k] * (2 * c[at] + t[k] * e[at])
            u = u if u > floor else floor
            z = margin - y[at] * (m[at] + t[k] * a[at] + delta[k])
            q = sqrt(z * z + u)
            g = 0.5 * weights[at if own else i] / (q if q > tiny else tiny)
            tt[k] += g * (a[at] * a[at] + e[at])
            tb[k] += g * a[at]
            bb[k] += g


def hinge_bound_majorizer(
    const double[:, ::1] weights, const double[:, ::1] y, double margin, double tiny,
    const double[:, ::1] m, const double[:, ::1] v, const double[:, ::1] a,
    const double[:, ::1] c, const double[:, ::1] e, const double[::1] t,
    const double[::1] delta, double floor, double[:, ::1] sums,
):
    """`moments`, the majoriser's curvature of ½(z + √(z² + v)), and `majorizer`, in one loop."""
    if m.shape[0]:
        with nogil:
            hinge_majorizer_rows(
                m.shape[0], m.shape[1], weights.shape[1] > 1, &weights[0, 0], &y[0, 0], margin, tiny,
                &m[0, 0], &v[0, 0], &a[0, 0], &c[0, 0], &e[0, 0], &t[0], &delta[0], floor,
                &sums[0, 0], &sums[1, 0], &sums[2, 0],
            )


cdef cloned_void hinge_slopes_flat(
    Py_ssize_t size, const double* y, double margin, double tiny, const double* m,
    const double* v, double* dm, double* dv,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double z, q, w
    for i in range(size):
        z = margin - y[i] * m[i]
        q = sqrt(z * z + v[i])
        q = q if q > tiny else tiny
        w = 0.5 / q
        dm[i] = -y[i] * (0.5 + z * w)
        dv[i] = 0.5 * w


def hinge_bound_slopes(
    const double[:, ::1] y, double margin, double tiny, const double[:, ::1] m,
    const double[:, ::1] v, double[:, ::1] dm, double[:, ::1] dv,
):
    """dm, dv = the slopes of ½(z + √(z² + v)), z = margin − y·m, in m and v."""
    if m.shape[0]:
        with nogil:
            hinge_slopes_flat(
                m.shape[0] * m.shape[1], &y[0, 0], margin, tiny, &m[0, 0], &v[0, 0], &dm[0, 0],
                &dv[0, 0],
            )


cdef inline inlined_void tanh_quotients(
    double omega, double decay, double* gamma, double* slope
) noexcept nogil:
    """γ = f'/ω and γ'/ω of f = log 2cosh(ω/2), given exp(−ω); by their series near 0."""
    cdef double u = omega * omega, th
    if omega < 0.03:  # the series' next terms are below 1e-13 there
        gamma[0] = 0.25 - u / 48 + u * u / 480
        slope[0] = -1.0 / 24 + u / 120 - 17 * u * u / 13440
    else:
        th = (1 - decay) / (1 + decay)
        gamma[0] = 0.5 * th / omega
        slope[0] = (0.25 * (1 - th * th) - gamma[0]) / u


def logistic_bound(
    const double[:, ::1] weights, const double[:, ::1] y, double tiny,
    const double[:, ::1] m, const double[:, ::1] v, const double[:, ::1] a,
    const double[:, ::1] c, const double[:, ::1] e, const double[::1] t,
    const double[::1] delta, double floor, double[:, ::1] sums,
):
    """`moments`, the jet of log 2cosh(ω/2) − ½y·m with ω = √(m² + v), and `expansion`, in one loop."""
    cdef Py_ssize_t i, k, own = weights.shape[1] > 1
    cdef double s, mean, size, u, omega, decay, r, dm, dmm, dmv, cross
    cdef double gamma = 0, slope = 0
    with nogil:
        for i in range(m.shape[0]):
            for k in range(m.shape[1]):
                s = weights[i, k * own]
                mean = m[i, k] + t[k] * a[i, k] + delta[k]
                u = v[i, k] + t[k] * (2 * c[i, k] + t[k] * e[i, k])
                u = u if u > floor else floor
                omega = sqrt(mean * mean + u)
                decay = exp(-omega)
                tanh_quotients(omega, decay, &gamma, &slope)
                size = fabs(mean)
                r = 2 * (c[i, k] + t[k] * e[i, k])
                dm = gamma * mean - 0.5 * y[i, k]
                dmm = gamma + slope * mean * mean
                dmv = 0.5 * slope * mean
                cross = dmm * a[i, k] + dmv * r
                sums[0, k] += s * (
                    0.5 * u / (omega + size if omega + size > tiny else tiny)
                    + 0.5 * (size - y[i, k] * mean) + log1p(decay)
                )
                sums[1, k] += s * (dm * a[i, k] + 0.5 * gamma * r)
                sums[2, k] += s * dm
                sums[3, k] += s * (
                    cross * a[i, k] + (dmv * a[i, k] + 0.25 * slope * r) * r + gamma * e[i, k]
                )
                sums[4, k] += s * cross
                sums[5, k] += s * dmm


def logistic_bound_slopes(
    const double[:, ::1] y, const double[:, ::1] m, const double[:, ::1] v,
    double[:, ::1] dm, double[:, ::1] dv,
):
    """dm, dv = the slopes of log 2cosh(√(m² + v)/2) − ½y·m in m and v."""
    cdef Py_ssize_t i, k
    cdef double omega, gamma = 0, slope = 0
    with nogil:
        for i in range(m.shape[0]):
            for k in range(m.shape[1]):
                omega = sqrt(m[i, k] * m[i, k] + v[i, k])
                tanh_quotients(omega, exp(-omega), &gamma, &slope)
                dm[i, k] = gamma * m[i, k] - 0.5 * y[i, k]
                dv[i, k] = 0.5 * gamma


cdef cloned_void add_dots(
    Py_ssize_t n, Py_ssize_t K, const double* A, const double* B, double* out
) noexcept nogil:
    cdef Py_ssize_t i, k, size = n * K, whole = size - size % LANES
    cdef int l
    cdef double sums[LANES]
    if LANES % K:
        for i in range(n):
            for k in range(K):
                out[k] += A[i * K + k] * B[i * K + k]
        return
    for l in range(LANES):
        sums[l] = 0
    i = 0
    while i < whole:
        for l in range(LANES):
            sums[l] += A[i + l] * B[i + l]
        i += LANES
    for i in range(whole, size):
        sums[i % LANES] += A[i] * B[i]
    for l in range(LANES):
        out[l % K] += sums[l]


def dots(const double[:, ::1] A, const double[:, ::1] B, double[::1] out):
    """out += Σ_i A_ik·B_ik, (K,)."""
    if A.shape[0]:
        with nogil:
            add_dots(A.shape[0], A.shape[1], &A[0, 0], &B[0, 0], &out[0])


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
    cdef Py_ssize_t i, k, own = weights.shape[1] > 1
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
