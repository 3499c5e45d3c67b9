# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""The input layer on a batch of corrupted examples, in single precision.

A batch is drawn from rows of X: entry j of a row is deleted with probability threshold_j/2**16, or
multiplied by factor_j. Its random bits are a function of the seed and of the entry's number in the batch.
What is left is a small CSR matrix: values, columns, starts. Its transpose serves the gradient: each row of G
is then a sum of rows of dA, written once. Loops over units are the inner ones; threads share rows, features
or weights, so that the result does not depend on their number.
"""
from cython.parallel cimport prange
from libc.math cimport sqrtf
from libc.stdint cimport uint16_t, uint64_t
from libc.string cimport memcpy

cdef extern from "_simd.h":
    ctypedef void cloned_void

include "_csr.pxi"

#: Units: a panel of alpha, for a thousand features, stays in the second-level cache.
cdef enum: UNITS = 256
#: Words of 64 random bits, those of four entries each, that are drawn at a time.
cdef enum: WORDS = 256


cdef cloned_void draw(uint64_t seed, uint64_t first, Py_ssize_t count, uint64_t* words) noexcept nogil:
    """splitmix64: words first … first + count − 1 of the sequence, 64 random bits each."""
    cdef Py_ssize_t i
    cdef uint64_t z
    for i in range(count):
        z = seed + (first + <uint64_t> i + 1) * <uint64_t> 0x9E3779B97F4A7C15
        z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
        words[i] = z ^ (z >> 31)


cdef inline const uint16_t* drawn(
    uint64_t seed, uint64_t at, Py_ssize_t count, uint16_t* bits
) noexcept nogil:
    """16 random bits for each of entries at … at + count − 1 of a batch, count <= 4·WORDS."""
    cdef uint64_t words[WORDS + 2]
    cdef Py_ssize_t some = (count + 6) >> 2
    draw(seed, at >> 2, some, words)
    memcpy(bits, words, some * sizeof(uint64_t))
    return bits + (at & 3)


cdef cloned_void keep(
    Py_ssize_t count, const uint16_t* bits, const int32_t* threshold, const float* factor, bint each, float* x
) noexcept nogil:
    """Multiply the survivors of x by their factor, the others by zero."""
    cdef Py_ssize_t j
    cdef int32_t bar = threshold[0]
    cdef float more = factor[0]
    if each:
        for j in range(count):
            x[j] *= factor[j] if <int32_t> bits[j] >= threshold[j] else 0
    else:
        for j in range(count):
            x[j] *= more if <int32_t> bits[j] >= bar else 0


def csr_batch(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr, const int64_t[::1] rows,
    const int32_t[::1] threshold, const float[::1] factor, uint64_t seed,
    float[::1] values, int32_t[::1] columns, int32_t[::1] starts,
):
    """Draw the rows of a batch from CSR X."""
    cdef Py_ssize_t i, e, first, last, end, count = 0
    cdef int32_t j
    cdef uint64_t at = 0
    cdef uint16_t room[4 * WORDS + 8]
    cdef const uint16_t* bits
    cdef bint each = threshold.shape[0] > 1
    with nogil:
        starts[0] = 0
        for i in range(rows.shape[0]):
            last, end = indptr[rows[i]], indptr[rows[i] + 1]
            while last < end:
                first, last = last, min(end, last + 4 * WORDS)
                bits = drawn(seed, at, last - first, room)
                at += <uint64_t> (last - first)
                for e in range(first, last):
                    j = <int32_t> indices[e]
                    # Written in any case, and counted if it survives: no branch to predict.
                    values[count] = <float> data[e] * factor[j if each else 0]
                    columns[count] = j
                    count += <int32_t> bits[e - first] >= threshold[j if each else 0]
            starts[i + 1] = <int32_t> count


cdef void dense_row(
    const value_t[:, :] X, int64_t row, Py_ssize_t i, const int32_t[::1] threshold, const float[::1] factor,
    uint64_t seed, float* out,
) noexcept nogil:
    """Row i of a batch."""
    cdef Py_ssize_t j, first, last = 0, d = X.shape[1]
    cdef uint16_t room[4 * WORDS + 8]
    cdef bint each = threshold.shape[0] > 1
    for j in range(d):
        out[j] = <float> X[row, j]
    while last < d:
        first, last = last, min(d, last + 4 * WORDS)
        keep(
            last - first, drawn(seed, <uint64_t> (i * d + first), last - first, room),
            &threshold[first if each else 0], &factor[first if each else 0], each, out + first,
        )


def dense_batch(
    const value_t[:, :] X, const int64_t[::1] rows, const int32_t[::1] threshold, const float[::1] factor,
    uint64_t seed, float[:, ::1] out, int threads,
):
    """Draw the rows of a batch from dense X, which may be `out` if these are all its rows, in order."""
    cdef Py_ssize_t i
    if X.shape[1] == 0:
        return
    for i in prange(rows.shape[0], nogil=True, num_threads=threads, schedule="static"):
        dense_row(X, rows[i], i, threshold, factor, seed, &out[i, 0])


def transpose(
    const float[::1] values, const int32_t[::1] columns, const int32_t[::1] starts,
    float[::1] turned, int32_t[::1] rows, int32_t[::1] ends,
):
    """The transpose of a batch: `ends` has an entry for each feature, and one more."""
    cdef Py_ssize_t i, e, at, n = starts.shape[0] - 1, d = ends.shape[0] - 1
    with nogil:
        for i in range(d + 1):
            ends[i] = 0
        for e in range(starts[n]):
            ends[columns[e]] += 1
        at = 0
        for i in range(d + 1):  # where each feature begins
            at += ends[i]
            ends[i] = <int32_t> at - ends[i]
        for i in range(n):
            for e in range(starts[i], starts[i + 1]):
                at = ends[columns[e]]
                turned[at] = values[e]
                rows[at] = <int32_t> i
                ends[columns[e]] += 1
        for i in range(d, 0, -1):
            ends[i] = ends[i - 1]
        ends[0] = 0


cdef cloned_void sum_rows(
    Py_ssize_t count, const float* x, const int32_t* which, const float* rows, Py_ssize_t width,
    Py_ssize_t K, float* total,
) noexcept nogil:
    """total = Σ_e x_e rows[which_e], (K,); the rows are `width` apart."""
    cdef Py_ssize_t e, k
    cdef const float *r0
    cdef const float *r1
    cdef const float *r2
    cdef const float *r3
    cdef float x0, x1, x2, x3
    for k in range(K):
        total[k] = 0
    for e in range(0, count - 3, 4):
        x0, x1, x2, x3 = x[e], x[e + 1], x[e + 2], x[e + 3]
        r0, r1 = rows + which[e] * width, rows + which[e + 1] * width
        r2, r3 = rows + which[e + 2] * width, rows + which[e + 3] * width
        for k in range(K):
            total[k] += (x0 * r0[k] + x1 * r1[k]) + (x2 * r2[k] + x3 * r3[k])
    for e in range(count - count % 4, count):
        x0, r0 = x[e], rows + which[e] * width
        for k in range(K):
            total[k] += x0 * r0[k]


def product(
    const float[::1] values, const int32_t[::1] columns, const int32_t[::1] starts,
    const float[:, ::1] M, float[:, ::1] out, int threads,
):
    """out = (the CSR matrix) @ M, for a batch or its transpose."""
    cdef Py_ssize_t i, first, n = starts.shape[0] - 1, K = M.shape[1]
    if n == 0 or K == 0:
        return
    for first in range(0, K, UNITS):
        for i in prange(n, nogil=True, num_threads=threads, schedule="static"):
            sum_rows(
                starts[i + 1] - starts[i], &values[0] + starts[i], &columns[0] + starts[i],
                &M[0, 0] + first, K, min(K - first, UNITS), &out[i, first],
            )


cdef cloned_void adam_part(
    Py_ssize_t count, float* w, const float* g, float* m, float* v, float rate, float beta, float beta2,
    float epsilon, float decay,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef float slope
    for i in range(count):
        slope = g[i] + decay * w[i]
        m[i] += (1 - beta) * (slope - m[i])
        v[i] += (1 - beta2) * (slope * slope - v[i])
        w[i] -= rate * m[i] / (sqrtf(v[i]) + epsilon)


def adam(
    float[::1] w, const float[::1] g, float[::1] m, float[::1] v, float rate, float beta, float beta2,
    float epsilon, float decay, int threads,
):
    """One step of Adam for the slopes g + decay·w, in place; `rate` and `epsilon` are free of bias."""
    cdef Py_ssize_t i, n = w.shape[0], size = 16384
    cdef Py_ssize_t parts = (n + size - 1) // size
    for i in prange(parts, nogil=True, num_threads=threads, schedule="static"):
        adam_part(
            min(size, n - i * size), &w[i * size], &g[i * size], &m[i * size], &v[i * size],
            rate, beta, beta2, epsilon, decay,
        )
