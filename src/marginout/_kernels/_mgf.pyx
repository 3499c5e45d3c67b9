# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sums of log-MGFs under deletion, over the rows of X, and their derivatives.

An entry x that survives with probability 1 - q as s*x has, at t, with z = t*s*x,

    log(q + (1 - q)*exp(z)) = max(z, 0) + log(r),    r = q*e1 + (1 - q)*e2 in (0, 1],

where e1 = exp(-max(z, 0)), e2 = exp(min(z, 0)): nothing overflows. The factors r of a row
are multiplied up and their logarithm is taken once in a while, so that an entry costs one
exponential. Row i meets the contrast t_k = a[c, k]*W[:, k] - joint*W[:, c] of its class c.
Zeros of X add nothing and are skipped, in dense rows too. Every sum is float64; threads
take fixed ranges of rows.
"""
from cython.parallel cimport prange
from libc.math cimport exp, fabs, log
from libc.stdlib cimport free, malloc

include "_csr.pxi"

cdef enum:
    # Entries of a row whose exponentials are taken together.
    BUFFER = 2048


cdef struct Noise:
    const double* rate
    const double* factor
    Py_ssize_t K
    Py_ssize_t joint
    const double* a
    const double* W


cdef void exponentials(double* z, double* e, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        e[i] = exp(-fabs(z[i]))


cdef inline void contrasts(
    const Noise* noise, Py_ssize_t c, Py_ssize_t d, double x, double* z,
) noexcept nogil:
    """z_k = s*x*t_k of one entry."""
    cdef Py_ssize_t k, K = noise.K
    cdef const double* w = noise.W + d * K
    cdef const double* a = noise.a + c * K
    cdef double own = w[c] if noise.joint else 0
    x *= noise.factor[d]
    for k in range(K):
        z[k] = x * (a[k] * w[k] - own)


cdef void forward_row(
    const Noise* noise, Py_ssize_t c, const double* x, const int64_t* columns, Py_ssize_t size,
    double* z, double* e, double* product, double* S,
) noexcept nogil:
    """S_k += the log-MGF of one row at its contrasts."""
    cdef Py_ssize_t i, j, k, K = noise.K, step = BUFFER // K if K < BUFFER else 1, stop
    cdef double q, r
    for k in range(K):
        product[k] = 1
    i = 0
    while i < size:
        stop = i + step if i + step < size else size
        for j in range(i, stop):
            contrasts(noise, c, columns[j], x[j], z + (j - i) * K)
        exponentials(z, e, (stop - i) * K)
        for j in range(i, stop):
            q = noise.rate[columns[j]]
            for k in range(K):
                r = e[(j - i) * K + k]
                if z[(j - i) * K + k] > 0:
                    S[k] += z[(j - i) * K + k]
                    r = q * r + (1 - q)
                elif q == 0:
                    S[k] += z[(j - i) * K + k]
                    r = 1
                else:
                    r = q + (1 - q) * r
                if r < 1e-100:  # a product of such would underflow
                    S[k] += log(r)
                    r = 1
                product[k] *= r
                if product[k] < 1e-100:
                    S[k] += log(product[k])
                    product[k] = 1
        i = stop
    for k in range(K):
        S[k] += log(product[k])


cdef void backward_row(
    const Noise* noise, Py_ssize_t c, const double* x, const int64_t* columns, Py_ssize_t size,
    double* z, double* e, const double* R, double* G,
) noexcept nogil:
    """G += the derivative of sum_k R_k S_k of one row in W."""
    cdef Py_ssize_t i, j, k, d, K = noise.K, step = BUFFER // K if K < BUFFER else 1, stop
    cdef double q, r, value, own
    cdef const double* a = noise.a + c * K
    i = 0
    while i < size:
        stop = i + step if i + step < size else size
        for j in range(i, stop):
            contrasts(noise, c, columns[j], x[j], z + (j - i) * K)
        exponentials(z, e, (stop - i) * K)
        for j in range(i, stop):
            d = columns[j]
            q = noise.rate[d]
            value = x[j] * noise.factor[d] * (1 - q)
            own = 0
            for k in range(K):
                r = e[(j - i) * K + k]
                if q == 0:
                    r = value
                elif z[(j - i) * K + k] > 0:
                    r = value / (q * r + (1 - q))
                else:
                    r = value * r / (q + (1 - q) * r)
                r *= R[k]
                own += r
                G[d * K + k] += a[k] * r
            if noise.joint:
                G[d * K + c] -= own
        i = stop


cdef Py_ssize_t gather(
    const value_t* data, const index_t* indices, const index_t* indptr, Py_ssize_t i,
    double* x, int64_t* columns,
) noexcept nogil:
    cdef Py_ssize_t e, size = 0
    for e in range(indptr[i], indptr[i + 1]):
        x[size] = data[e]
        columns[size] = indices[e]
        size += 1
    return size


cdef Py_ssize_t gather_dense(const value_t[:, :] X, Py_ssize_t i, double* x, int64_t* columns) noexcept nogil:
    cdef Py_ssize_t d, size = 0
    for d in range(X.shape[1]):
        if X[i, d] != 0:
            x[size] = X[i, d]
            columns[size] = d
            size += 1
    return size


cdef double* workspace(Py_ssize_t d, Py_ssize_t K) noexcept nogil:
    """Room for a row (values, columns), its exponents, their exponentials and a product."""
    cdef Py_ssize_t buffer = BUFFER if K < BUFFER else K
    return <double*> malloc((2 * d + 2 * buffer + K + 1) * sizeof(double))


def csr_pass(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const double[::1] rate, const double[::1] factor, const int64_t[::1] classes,
    const double[:, ::1] a, bint joint, const double[:, ::1] W,
    double[:, ::1] S, const double[:, ::1] R, double[:, :, ::1] G, bint backward, int threads,
):
    """S += the log-MGFs of all rows; or, backward, G[t] += thread t's part of their derivatives."""
    cdef Py_ssize_t n = indptr.shape[0] - 1, d = W.shape[0], K = W.shape[1]
    cdef Py_ssize_t t, i, size
    cdef double* room
    cdef bint failed = False
    cdef Noise noise = Noise(&rate[0], &factor[0], K, joint, &a[0, 0], &W[0, 0])
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        room = workspace(d, K)
        if room == NULL:
            failed = True
        else:
            for i in range(n * t // threads, n * (t + 1) // threads):
                size = gather(&data[0], &indices[0], &indptr[0], i, room, <int64_t*> (room + d))
                apply_row(
                    &noise, classes[i], size, d, room, &S[i, 0], &R[i, 0], &G[t, 0, 0], backward,
                )
            free(room)
    if failed:
        raise MemoryError()


def dense_pass(
    const value_t[:, :] X,
    const double[::1] rate, const double[::1] factor, const int64_t[::1] classes,
    const double[:, ::1] a, bint joint, const double[:, ::1] W,
    double[:, ::1] S, const double[:, ::1] R, double[:, :, ::1] G, bint backward, int threads,
):
    """The same for dense X in any memory order."""
    cdef Py_ssize_t n = X.shape[0], d = W.shape[0], K = W.shape[1]
    cdef Py_ssize_t t, i, size
    cdef double* room
    cdef bint failed = False
    cdef Noise noise = Noise(&rate[0], &factor[0], K, joint, &a[0, 0], &W[0, 0])
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        room = workspace(d, K)
        if room == NULL:
            failed = True
        else:
            for i in range(n * t // threads, n * (t + 1) // threads):
                size = gather_dense(X, i, room, <int64_t*> (room + d))
                apply_row(
                    &noise, classes[i], size, d, room, &S[i, 0], &R[i, 0], &G[t, 0, 0], backward,
                )
            free(room)
    if failed:
        raise MemoryError()


cdef void apply_row(
    const Noise* noise, Py_ssize_t c, Py_ssize_t size, Py_ssize_t d, double* room,
    double* S, const double* R, double* G, bint backward,
) noexcept nogil:
    cdef Py_ssize_t buffer = BUFFER if noise.K < BUFFER else noise.K
    cdef double* z = room + 2 * d
    cdef double* e = z + buffer
    if backward:
        backward_row(noise, c, room, <int64_t*> (room + d), size, z, e, R, G)
    else:
        forward_row(noise, c, room, <int64_t*> (room + d), size, z, e, e + buffer, S)
