# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sweeps of dual coordinate descent for a plain SVM or SVR, over the rows of X.

The dual of ½‖w‖² + Σ c_i·loss(w·x_i + b) is a problem in one β_i per example,

    min ½‖Σβ_i x_i‖² − Σ target_i β_i + ε Σ|β_i|,   low_i ≤ β_i ≤ high_i,   Σβ_i = 0.

The last condition, which the unregularised offset brings, enters by an augmented
Lagrangian: its multiplier is the offset's centre, its penalty ½ρ(Σβ_i)², so that
b = centre + ρ Σβ_i at any moment.
"""
from libc.math cimport fabs

include "_csr.pxi"
include "_shuffle.pxi"


cdef inline double coordinate(
    double g, double q, double epsilon, double low, double high, double beta, double* violation,
) noexcept nogil:
    """The best β_i given the gradient g of the smooth part; and how far it was from optimal."""
    cdef double new = beta - g / q
    cdef double threshold = epsilon / q
    if new > threshold:
        new -= threshold
    elif new < -threshold:
        new += threshold
    else:
        new = 0
    new = low if new < low else (high if new > high else new)
    violation[0] = fabs(new - beta) * q
    return new


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


def csr_sweep(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const double[::1] norms, const double[::1] target, double epsilon,
    const double[::1] low, const double[::1] high, double rho,
    double[::1] beta, double[::1] w, double[::1] offset, int64_t[::1] order,
    Py_ssize_t active, double limit, uint64_t[::1] seed,
):
    """One sweep over order[:active].

    Changes beta, w = Σβx and offset = (Σβ, centre); moves idle examples to the end of
    order[:active]. Returns how many are left, and the largest violation seen.
    """
    cdef Py_ssize_t s = 0, i, e
    cdef double g, new, step, violation = 0, worst = 0
    with nogil:
        shuffle(&order[0], active, &seed[0])
        while s < active:
            i = order[s]
            g = offset[1] + rho * offset[0] - target[i]
            for e in range(indptr[i], indptr[i + 1]):
                g += data[e] * w[indices[e]]
            if idle(g, epsilon, low[i], high[i], beta[i], limit):
                active -= 1
                order[s] = order[active]
                order[active] = i
                continue
            new = coordinate(g, norms[i] + rho, epsilon, low[i], high[i], beta[i], &violation)
            worst = violation if violation > worst else worst
            step = new - beta[i]
            if step != 0:
                beta[i] = new
                offset[0] += step
                for e in range(indptr[i], indptr[i + 1]):
                    w[indices[e]] += step * data[e]
            s += 1
    return active, worst


def dense_sweep(
    const value_t[:, :] X,
    const double[::1] norms, const double[::1] target, double epsilon,
    const double[::1] low, const double[::1] high, double rho,
    double[::1] beta, double[::1] w, double[::1] offset, int64_t[::1] order,
    Py_ssize_t active, double limit, uint64_t[::1] seed,
):
    """The same for dense X in any memory order."""
    cdef Py_ssize_t s = 0, i, e, d = X.shape[1]
    cdef double g, new, step, violation = 0, worst = 0
    with nogil:
        shuffle(&order[0], active, &seed[0])
        while s < active:
            i = order[s]
            g = offset[1] + rho * offset[0] - target[i]
            for e in range(d):
                g += X[i, e] * w[e]
            if idle(g, epsilon, low[i], high[i], beta[i], limit):
                active -= 1
                order[s] = order[active]
                order[active] = i
                continue
            new = coordinate(g, norms[i] + rho, epsilon, low[i], high[i], beta[i], &violation)
            worst = violation if violation > worst else worst
            step = new - beta[i]
            if step != 0:
                beta[i] = new
                offset[0] += step
                for e in range(d):
                    w[e] += step * X[i, e]
            s += 1
    return active, worst
