# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Coordinate descent on the second-order model of F in some of the weights, plus an ℓ1 penalty.

The weights' features are columns of X; `spans` says where each begins and ends. A column j holds means x of
some examples; their variances are V = κ_j·x**power, and b = 2 V w is the slope of v in w_j. An example has
numbers side by side, in a line of the cache: the second derivatives of its loss, mm, mv, vv, and by how much
its mean and, linearly, its variance have moved, r = Σ x·step and u = Σ b·step. The best offset is a function
of the steps, so that a constant β, common to all examples, is added to r and never written.
"""
from libc.math cimport fabs

include "_csr.pxi"

cdef enum:
    MM, MV, VV, R, U


cdef inline double power_of(double x, int power) noexcept nogil:
    return x * x if power == 2 else (x if power == 1 else 1.0)


def prepare(
    const double[::1] data, const index_t[::1] indices, const index_t[:, ::1] spans,
    const double[::1] kappa, int power, const double[::1] w, const double[::1] dm, const double[::1] dv,
    const double[::1] bends, const double[:, ::1] state, double[:, ::1] columns,
):
    """Rows of `columns`: gradient, curvature, 2Vᵀbends, and the second derivative with the offset."""
    cdef Py_ssize_t j, e, i
    cdef double x, v, b, gradient, curvature, bend, cross, twice
    with nogil:
        for j in range(w.shape[0]):
            gradient = curvature = bend = cross = 0
            twice = 2 * w[j]
            for e in range(spans[0, j], spans[1, j]):
                i = indices[e]
                x = data[e]
                v = kappa[j] * power_of(x, power)
                b = twice * v
                gradient += x * dm[i] + b * dv[i]
                curvature += x * (x * state[i, MM] + 2 * b * state[i, MV]) + b * b * state[i, VV]
                bend += v * bends[i]
                cross += x * state[i, MM] + b * state[i, MV]
            columns[0, j] = gradient
            columns[1, j] = curvature + 2 * bend
            columns[2, j] = 2 * bend
            columns[3, j] = cross


def descend(
    const double[::1] data, const index_t[::1] indices, const index_t[:, ::1] spans,
    const double[::1] kappa, int power, const double[::1] w, const double[:, ::1] columns,
    double l1, double corner, double beta, double share, Py_ssize_t sweeps,
    double[:, ::1] state, double[::1] step,
):
    """Sweep over the columns until the largest violation is a share of the first; or so many times.

    In `columns`: the gradient, the curvature once the offset moves, the part of it that is diagonal, and the
    second derivative with the offset. Changes the step and the state. Returns the offset's step β, and the
    sweeps made.

    Between sweeps over all columns come sweeps over those whose weight is not 0.
    """
    cdef Py_ssize_t j, e, i, sweep = 0
    cdef double x, b, g, twice, now, new, delta, worst, first = 0, moved, curvature
    cdef bint everywhere = True
    with nogil:
        while sweep < sweeps:
            worst = 0
            for j in range(w.shape[0]):
                now = w[j] + step[j]
                if not everywhere and now == 0:
                    continue
                g = columns[0, j] + columns[2, j] * step[j]
                twice = 2 * w[j] * kappa[j]
                if twice == 0:
                    for e in range(spans[0, j], spans[1, j]):
                        i = indices[e]
                        g += data[e] * (state[i, MM] * (state[i, R] + beta) + state[i, MV] * state[i, U])
                else:
                    for e in range(spans[0, j], spans[1, j]):
                        i = indices[e]
                        x = data[e]
                        b = twice * power_of(x, power)
                        moved = state[i, R] + beta
                        g += x * (state[i, MM] * moved + state[i, MV] * state[i, U])
                        g += b * (state[i, MV] * moved + state[i, VV] * state[i, U])
                curvature = columns[1, j]
                new = now * curvature - g
                new = (new - l1 if new > l1 else (new + l1 if new < -l1 else 0)) / curvature
                delta = new - now
                if delta == 0:
                    continue
                worst = max(worst, fabs(delta) * curvature)
                step[j] += delta
                beta -= delta * columns[3, j] / corner
                if twice == 0:
                    for e in range(spans[0, j], spans[1, j]):
                        state[indices[e], R] += data[e] * delta
                else:
                    for e in range(spans[0, j], spans[1, j]):
                        i = indices[e]
                        x = data[e]
                        state[i, R] += x * delta
                        state[i, U] += twice * power_of(x, power) * delta
            sweep += 1
            if sweep == 1:
                first = worst
            if worst <= share * first and everywhere:
                break
            everywhere = worst <= share * first
    return beta, sweep


def along(
    const double[::1] data, const index_t[::1] indices, const index_t[:, ::1] spans,
    const double[::1] kappa, int power, const double[::1] w, const double[::1] step,
    double[::1] cross, double[::1] square,
):
    """Add V (w∘step) and V (step∘step)."""
    cdef Py_ssize_t j, e, i
    cdef double v
    with nogil:
        for j in range(w.shape[0]):
            if step[j] == 0:
                continue
            for e in range(spans[0, j], spans[1, j]):
                i = indices[e]
                v = kappa[j] * power_of(data[e], power) * step[j]
                cross[i] += v * w[j]
                square[i] += v * step[j]
