# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sums of log-MGFs under deletion, over the rows of X, and their derivatives.

An entry x that survives with probability 1 - q as s*x has, at t, with z = t*s*x,

    log(q + (1 - q)*exp(z)) = max(z, 0) + log(r),    r = q*e1 + (1 - q)*e2 in (0, 1],

where e1 = exp(-max(z, 0)), e2 = exp(min(z, 0)): nothing overflows. The factors r of a row
are multiplied up and their logarithm is taken once in a while, so that an entry costs one
exponential, and none where nothing is deleted. Row i meets the contrast
t_k = a[c, k]*W[:, k] - joint*W[:, c] of its class c. Zeros of X add nothing and are skipped, in
dense rows too. Every sum is float64; threads take fixed ranges of rows.
"""
from cython.parallel cimport prange
from libc.math cimport log
from libc.stdlib cimport free, malloc

include "_csr.pxi"

cdef extern from "_mgf.h":
    ctypedef struct Deletion:
        const double* rate
        const double* factor
        Py_ssize_t K
        bint joint
        bint silent
        const double* a
        const double* W

    void contrasts(
        const Deletion* noise, Py_ssize_t c, const double* x, const int64_t* columns, Py_ssize_t size,
        double* z,
    ) nogil
    void exp_minus_abs(const double* z, double* e, Py_ssize_t size) nogil
    void add_log_mgfs(
        const Deletion* noise, const int64_t* columns, Py_ssize_t size, const double* z, const double* e,
        double* product, double* least, double* S,
    ) nogil
    void add_slopes(
        const Deletion* noise, Py_ssize_t c, const double* x, const int64_t* columns, Py_ssize_t size,
        const double* z, const double* e, const double* R, double* G,
    ) nogil

    ctypedef struct Kinds:
        const int64_t* column
        const double* value
        const double* rate
        const double* reach
        const double* E
        Py_ssize_t K
        double most

    void add_kinds(
        const Kinds* kinds, Py_ssize_t c, const int64_t* own, Py_ssize_t size, double* product, double* S,
    ) nogil
    void add_kind_slopes(
        const Kinds* kinds, Py_ssize_t c, const int64_t* own, Py_ssize_t size, const double* R, double* G,
    ) nogil

cdef enum:
    # Entries of a row whose exponentials are taken together.
    BUFFER = 2048


cdef void apply_row(
    const Deletion* noise, Py_ssize_t c, const double* x, const int64_t* columns, Py_ssize_t size,
    double* room, double* S, const double* R, double* G, bint backward,
) noexcept nogil:
    """S_k += the log-MGF of one row at its contrasts; or G += the derivative of sum_k R_k S_k in W."""
    cdef Py_ssize_t i, k, some, K = noise.K, step = BUFFER // K if K < BUFFER else 1
    cdef double* z = room
    cdef double* e = z + step * K
    cdef double* product = e + step * K
    cdef double least = 1
    for k in range(K):
        product[k] = 1
    i = 0
    while i < size:
        some = min(step, size - i)
        contrasts(noise, c, x + i, columns + i, some, z)
        if not noise.silent:
            exp_minus_abs(z, e, some * K)
        if backward:
            add_slopes(noise, c, x + i, columns + i, some, z, e, R, G)
        else:
            add_log_mgfs(noise, columns + i, some, z, e, product, &least, S)
        i += some
    if not backward:
        for k in range(K):
            S[k] += log(product[k])


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


cdef Deletion make_noise(
    const double[::1] rate, const double[::1] factor, const double[:, ::1] a, bint joint,
    const double[:, ::1] W,
):
    cdef Py_ssize_t j
    cdef bint silent = True
    for j in range(rate.shape[0]):
        silent &= rate[j] == 0
    return Deletion(&rate[0], &factor[0], W.shape[1], joint, silent, &a[0, 0], &W[0, 0])


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
    cdef int failed = 0  # summed over the threads
    cdef Deletion noise = make_noise(rate, factor, a, joint, W)
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        room = workspace(d, K)
        if room == NULL:
            failed += 1
        else:
            for i in range(n * t // threads, n * (t + 1) // threads):
                size = gather(&data[0], &indices[0], &indptr[0], i, room, <int64_t*> (room + d))
                apply_row(
                    &noise, classes[i], room, <int64_t*> (room + d), size, room + 2 * d,
                    &S[i, 0], &R[i, 0], &G[t, 0, 0], backward,
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
    cdef int failed = 0  # summed over the threads
    cdef Deletion noise = make_noise(rate, factor, a, joint, W)
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        room = workspace(d, K)
        if room == NULL:
            failed += 1
        else:
            for i in range(n * t // threads, n * (t + 1) // threads):
                size = gather_dense(X, i, room, <int64_t*> (room + d))
                apply_row(
                    &noise, classes[i], room, <int64_t*> (room + d), size, room + 2 * d,
                    &S[i, 0], &R[i, 0], &G[t, 0, 0], backward,
                )
            free(room)
    if failed:
        raise MemoryError()


def kinds_table(
    const int64_t[::1] column, const double[::1] value, const double[:, ::1] W, double[:, ::1] E,
    double[::1] spread,
):
    """E = exp(z - max z) of every kind of entry, z = value*W[column], and spread = max z - min z."""
    cdef Py_ssize_t u, j, k, some, kinds = column.shape[0], K = W.shape[1], step = max(1, BUFFER // K)
    cdef double low, high
    cdef double* z = <double*> malloc(step * K * sizeof(double))
    if z == NULL:
        raise MemoryError()
    with nogil:
        u = 0
        while u < kinds:
            some = min(step, kinds - u)
            for j in range(some):
                low = high = value[u + j] * W[column[u + j], 0]
                for k in range(K):
                    z[j * K + k] = value[u + j] * W[column[u + j], k]
                    low = min(low, z[j * K + k])
                    high = max(high, z[j * K + k])
                for k in range(K):
                    z[j * K + k] -= high
                spread[u + j] = high - low
            exp_minus_abs(z, &E[u, 0], some * K)
            u += some
        free(z)


def kinds_pass(
    const index_t[::1] numbers, const index_t[::1] indptr, const int64_t[::1] column,
    const double[::1] value, const double[::1] rate, const double[::1] reach, const double[:, ::1] E,
    const int64_t[::1] classes, double[:, ::1] S, const double[:, ::1] R, double[:, :, ::1] G,
    double most, bint backward, int threads,
):
    """`csr_pass` for joint contrasts, where entry e is of kind numbers[e]."""
    cdef Py_ssize_t n = indptr.shape[0] - 1, K = E.shape[1], longest = 0
    cdef Py_ssize_t t, i, k, e, size
    cdef int64_t* own
    cdef double* product
    cdef int failed = 0  # summed over the threads
    cdef Kinds kinds = Kinds(&column[0], &value[0], &rate[0], &reach[0], &E[0, 0], K, most)
    for i in range(n):
        longest = max(longest, indptr[i + 1] - indptr[i])
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        product = <double*> malloc((K + longest + 1) * sizeof(double))
        if product == NULL:
            failed += 1
        else:
            own = <int64_t*> (product + K)
            for i in range(n * t // threads, n * (t + 1) // threads):
                size = 0
                for e in range(indptr[i], indptr[i + 1]):
                    own[size] = numbers[e]
                    size = size + 1
                if backward:
                    add_kind_slopes(&kinds, classes[i], own, size, &R[i, 0], &G[t, 0, 0])
                else:
                    for k in range(K):
                        product[k] = 1
                    add_kinds(&kinds, classes[i], own, size, product, &S[i, 0])
                    for k in range(K):
                        S[i, k] += log(product[k])
            free(product)
    if failed:
        raise MemoryError()
