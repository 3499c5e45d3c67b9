# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sweeps of dual block coordinate descent for the SVM whose adversary deletes up to K features.

The loss max(0, 1 - y(w.x + b) + s_K), s_K the sum of the K largest positive y*w_d*x_d, is a
maximum over deletions, and its dual has for every example a weight a and the shares p_d of it
with which the feature d was kept:

    min ½|sum y p∘x|² - sum a,   0 <= a <= c,  0 <= p_d <= a,  sum_d p_d >= (m - K) a,  sum y a = 0,

m the number of entries of x; w = sum y p∘x. The last condition enters by an augmented
Lagrangian as in `_dual.pyx`. One example's part, given the others, is solved exactly: for a fixed a
the shares are p_d = clip((tau - z_d)/h_d, 0, a), z_d = y*w_d*x_d without the example's own part
and h_d = x_d², with the smallest tau >= 0 that keeps enough; and the best a is the root of

    V'(a) = rho*a - e + tau*(m - K) - sum_d max(0, tau - z_d - h_d*a),

which never falls. Both are found by Newton's method inside of a bracket.
"""
from libc.math cimport fabs
from libc.stdlib cimport free, malloc

include "_csr.pxi"
include "_shuffle.pxi"

cdef enum:
    ROOT_STEPS = 60
    BLOCK_STEPS = 30


cdef double largest(double* z, Py_ssize_t size, Py_ssize_t K) noexcept nogil:
    """The sum of the K largest positive numbers of z, whose order is changed: quickselect."""
    cdef Py_ssize_t i, j, low = 0, high, count = 0
    cdef double pivot, swap, total = 0
    for i in range(size):  # the positive ones to the front
        if z[i] > 0:
            swap = z[i]
            z[i] = z[count]
            z[count] = swap
            count += 1
    if K < count:
        high = count - 1
        while low < high:
            pivot = z[(low + high) // 2]
            i = low
            j = high
            while i <= j:
                while z[i] > pivot:
                    i += 1
                while z[j] < pivot:
                    j -= 1
                if i <= j:
                    swap = z[i]
                    z[i] = z[j]
                    z[j] = swap
                    i += 1
                    j -= 1
            if K <= j + 1:
                high = j
            elif K > i:
                low = i
            else:
                break
        count = K
    for i in range(count):
        total += z[i]
    return total


cdef double threshold(
    const double* z, const double* g, Py_ssize_t m, Py_ssize_t kept, double a, double tau,
) noexcept nogil:
    """The smallest tau >= 0 with sum_d clip((tau - z_d)*g_d, 0, a) >= kept*a, a > 0, g = 1/h."""
    cdef Py_ssize_t d, _step
    cdef bint zero = True  # whether zero, the answer if nothing binds, has still to be tried
    cdef double low = 0, high = 0, total, slope, share, goal = kept * a
    if kept <= 0:
        return 0
    for d in range(m):
        share = z[d] + a / g[d]
        high = share if share > high else high
    if kept >= m:
        return high
    if not 0 <= tau <= high:
        tau = 0
    for _step in range(ROOT_STEPS):
        total = -goal
        slope = 0
        for d in range(m):
            share = (tau - z[d]) * g[d]
            slope += g[d] if 0 < share < a else 0
            share = share if share > 0 else 0
            total += share if share < a else a
        if fabs(total) <= 1e-15 * goal or (total > 0 and tau == 0):
            break
        zero = zero and tau > 0
        if total > 0:
            high = tau
        else:
            low = tau
        if slope > 0:
            tau -= total / slope
        if slope == 0 or tau <= low or tau >= high:
            tau = 0 if zero and tau <= 0 else 0.5 * (low + high)
        if high - low <= 1e-16 * high:
            break
    return tau


cdef double derivative(
    const double* z, const double* h, const double* g, Py_ssize_t m, Py_ssize_t kept, double a,
    double tau, double rho, double e, double* bend,
) noexcept nogil:
    """V'(a), and V''(a) on the side where the same shares bind."""
    cdef Py_ssize_t d
    cdef double value = rho * a - e + tau * kept, curve = rho, loose = 0, bound = 0, excess
    for d in range(m):
        excess = tau - z[d] - h[d] * a
        value -= excess if excess > 0 else 0
        curve += h[d] if excess >= 0 else 0
        bound += 1 if excess >= 0 else 0
        loose += g[d] if excess < 0 and tau > z[d] else 0
    bend[0] = curve
    if tau > 0 and loose > 0:
        bend[0] += (kept - bound) * (kept - bound) / loose
    return value


cdef double best_weight(
    const double* z, const double* h, const double* g, Py_ssize_t m, Py_ssize_t kept, double a,
    double c, double rho, double e, double* tau, double* violation,
) noexcept nogil:
    """The root of V' in [0, c], from a > 0; how far a was from it, as V' tells; sets tau."""
    cdef double low = 0, high = c, slope, bend = 0, new, first = 0
    cdef Py_ssize_t step
    for step in range(BLOCK_STEPS):
        tau[0] = threshold(z, g, m, kept, a, tau[0])
        slope = derivative(z, h, g, m, kept, a, tau[0], rho, e, &bend)
        if step == 0:
            first = fabs(slope)
            violation[0] = 0 if a >= c and slope < 0 else first
        if slope > 0:
            high = a
        else:
            low = a
            if a >= c:
                break
        if (step > 0 and fabs(slope) <= 1e-2 * first) or fabs(slope) <= 1e-14:
            break
        new = a - slope / bend if bend > 0 else (c if slope < 0 else 0.5 * (low + high))
        if new >= c and slope < 0 and high == c:
            new = c
        elif not low < new < high:
            new = 0.5 * (low + high)
        if fabs(new - a) <= 1e-15 * c:
            break
        a = new
        if a <= 1e-14 * c:
            return 0
    return a


def sweep(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr, Py_ssize_t K,
    const double[::1] y, const double[::1] c, double rho, double[::1] a, double[::1] p,
    double[::1] tau, double[::1] w, double[::1] offset, int64_t[::1] order, Py_ssize_t active,
    Py_ssize_t widest, double limit, uint64_t[::1] seed,
):
    """One sweep over order[:active].

    Changes a, p, tau, w = Σ y p∘x and offset = (Σ y a, centre); moves idle examples to the end of
    order[:active]. Returns how many are left, and the largest violation seen.
    """
    cdef Py_ssize_t s = 0, i, j, m, begin, kept
    cdef double e, slope, total, squares, new, share, x, violation, worst = 0
    cdef double* z = <double*> malloc((4 * widest + 1) * sizeof(double))
    cdef double* h = z + widest
    cdef double* g = h + widest
    cdef double* copy = g + widest
    if z == NULL:
        raise MemoryError()
    with nogil:
        shuffle(&order[0], active, &seed[0])
        while s < active:
            i = order[s]
            begin = indptr[i]
            m = indptr[i + 1] - begin
            kept = m - K if m > K else 0
            e = 1 - y[i] * (offset[1] + rho * (offset[0] - y[i] * a[i]))
            total = 0
            squares = 0
            for j in range(m):
                x = data[begin + j]
                h[j] = x * x
                g[j] = 1 / h[j]
                z[j] = y[i] * w[indices[begin + j]] * x - p[begin + j] * h[j]
                total += z[j]
                squares += h[j]
                copy[j] = z[j]
            new = a[i]
            violation = 0
            if new == 0:
                slope = total - largest(copy, m, K) - e
                if slope >= 0:
                    if slope > limit:
                        active -= 1
                        order[s] = order[active]
                        order[active] = i
                    else:
                        s += 1
                    continue
                violation = -slope
                new = c[i]
                if squares + rho > 0 and -slope / (squares + rho) < new:
                    new = -slope / (squares + rho)
                tau[i] = -1
            new = best_weight(z, h, g, m, kept, new, c[i], rho, e, &tau[i], &share)
            violation = violation if violation > share else share
            worst = violation if violation > worst else worst
            for j in range(m):
                share = 0
                if new > 0:
                    share = (tau[i] - z[j]) * g[j]
                    share = 0 if share < 0 else (new if share > new else share)
                if share != p[begin + j]:
                    w[indices[begin + j]] += y[i] * (share - p[begin + j]) * data[begin + j]
                    p[begin + j] = share
            offset[0] += y[i] * (new - a[i])
            a[i] = new
            s += 1
    free(z)
    return active, worst


def slacks(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr, Py_ssize_t K,
    const double[::1] y, const double[::1] w, Py_ssize_t widest, double[::1] out,
):
    """out_i = 1 - y w.x + s_K of every row."""
    cdef Py_ssize_t i, j, m, begin
    cdef double total
    cdef double* z = <double*> malloc((widest + 1) * sizeof(double))
    if z == NULL:
        raise MemoryError()
    with nogil:
        for i in range(y.shape[0]):
            begin = indptr[i]
            m = indptr[i + 1] - begin
            total = 0
            for j in range(m):
                z[j] = y[i] * w[indices[begin + j]] * data[begin + j]
                total += z[j]
            out[i] = 1 - total + largest(z, m, K)
    free(z)


def assemble(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const double[::1] weights, const double[::1] p, double[::1] w,
):
    """w += Σ_i weights_i p_i∘x_i."""
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(weights.shape[0]):
            if weights[i] != 0:
                for j in range(indptr[i], indptr[i + 1]):
                    w[indices[j]] += weights[i] * p[j] * data[j]
