# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sweeps of dual coordinate descent for a plain SVM or SVR, over the rows of X.

The dual of ½‖w‖² + Σ c_i·loss(w·x_i + b) is a problem in one β_i per example,

    min ½‖Σβ_i x_i‖² + ½Σ soft_i β_i² − Σ target_i β_i + ε Σ|β_i|,   low_i ≤ β_i ≤ high_i,   Σβ_i = 0.

The last condition, which the unregularised offset brings, enters by an augmented
Lagrangian: its multiplier is the offset's centre, its penalty ½ρ(Σβ_i)², so that
b = centre + ρ Σβ_i at any moment.
"""
from libc.math cimport fabs

include "_csr.pxi"
include "_shuffle.pxi"


cdef inline bint idle(
    double g, double epsilon, double low, double high, double beta, double limit,
) noexcept nogil:
    """Whether β_i sits at a bound, or at the kink 0, and is pushed there by more than `limit`."""
    if beta == 0 and low < 0 < high:
        return fabs(g) < epsilon - limit
    if beta == low and beta == 0:
        return g + epsilon > limit
    if beta == high and beta == 0:
        return g - epsilon < -limit
    if beta == low:
        return g - epsilon > limit
    if beta == high:
        return g + epsilon < -limit
    return False


cdef struct Sweep:
    double* beta
    double* offset         # Σβ, and the centre
    int64_t* order
    const double* soft
    double epsilon, rho, limit, worst
    Py_ssize_t at, active  # the next place in order[:active]


cdef inline double moved(Sweep* q, double g, double norm, double low, double high) noexcept nogil:
    """By how much β_i changes for the example in turn, with g the gradient of ½‖Σβx‖² − target·β; go on."""
    cdef Py_ssize_t i = q.order[q.at]
    cdef double beta = q.beta[i], curvature = norm + q.rho + q.soft[i], threshold = q.epsilon / curvature, new
    g += q.soft[i] * beta
    if idle(g, q.epsilon, low, high, beta, q.limit):
        q.active -= 1
        q.order[q.at], q.order[q.active] = q.order[q.active], i
        return 0
    new = beta - g / curvature
    if new > threshold:
        new -= threshold
    elif new < -threshold:
        new += threshold
    else:
        new = 0
    new = low if new < low else (high if new > high else new)
    q.worst = max(q.worst, fabs(new - beta) * curvature)
    q.at += 1
    q.beta[i] = new
    q.offset[0] += new - beta
    return new - beta


def csr_sweep(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const double[::1] norms, const double[::1] target, double epsilon,
    const double[::1] low, const double[::1] high, const double[::1] soft, double rho,
    double[::1] beta, double[::1] w, double[::1] offset, int64_t[::1] order,
    Py_ssize_t active, double limit, uint64_t[::1] seed,
):
    """One sweep over order[:active].

    Changes beta, w = Σβx and offset = (Σβ, centre); moves idle examples to the end of
    order[:active]. Returns how many are left, and the largest violation seen.
    """
    cdef Sweep q = [&beta[0], &offset[0], &order[0], &soft[0], epsilon, rho, limit, 0, 0, active]
    cdef Py_ssize_t i, e
    cdef double g, step
    with nogil:
        shuffle(q.order, active, &seed[0])
        while q.at < q.active:
            i = q.order[q.at]
            g = offset[1] + rho * offset[0] - target[i]
            for e in range(indptr[i], indptr[i + 1]):
                g += data[e] * w[indices[e]]
            step = moved(&q, g, norms[i], low[i], high[i])
            if step != 0:
                for e in range(indptr[i], indptr[i + 1]):
                    w[indices[e]] += step * data[e]
    return q.active, q.worst


def dense_sweep(
    const value_t[:, :] X,
    const double[::1] norms, const double[::1] target, double epsilon,
    const double[::1] low, const double[::1] high, const double[::1] soft, double rho,
    double[::1] beta, double[::1] w, double[::1] offset, int64_t[::1] order,
    Py_ssize_t active, double limit, uint64_t[::1] seed,
):
    """The same for dense X in any memory order."""
    cdef Sweep q = [&beta[0], &offset[0], &order[0], &soft[0], epsilon, rho, limit, 0, 0, active]
    cdef Py_ssize_t i, e, d = X.shape[1]
    cdef double g, step
    with nogil:
        shuffle(q.order, active, &seed[0])
        while q.at < q.active:
            i = q.order[q.at]
            g = offset[1] + rho * offset[0] - target[i]
            for e in range(d):
                g += X[i, e] * w[e]
            step = moved(&q, g, norms[i], low[i], high[i])
            if step != 0:
                for e in range(d):
                    w[e] += step * X[i, e]
    return q.active, q.worst
