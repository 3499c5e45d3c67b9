# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""One pass over a CSR matrix for every verb of the design, all problems at once.

The variance of a corrupted entry is V = kappa_j * x**2 (``square``) or kappa_j * x, so
it is read off x on the way and never stored. Coefficients are (features, problems)
arrays in C order: the inner loop over problems is contiguous and vectorises, and a row
of X is read once for all of them. Values may be float32; every sum is float64.
Threads take fixed, equally heavy ranges of rows, so a result depends on the number of
threads but never on their timing.
"""
from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #else
    static int omp_get_max_threads(void) { return 1; }
    #endif
    """
    int omp_get_max_threads() noexcept nogil

ctypedef fused value_t:
    float
    double

ctypedef fused index_t:
    int32_t
    int64_t


cdef enum:
    # Problems whose sums are kept at hand while a row is read: the compiler can see that
    # they overlap with nothing, and vectorises.
    LANES = 64


def max_threads():
    """Threads a pass may use now; 1 in a build without OpenMP."""
    return omp_get_max_threads()


cdef Py_ssize_t first_row(const index_t[::1] indptr, Py_ssize_t part, Py_ssize_t parts) noexcept nogil:
    """The first row of a part when the non-zeros are shared out evenly."""
    cdef Py_ssize_t low = 0, high = indptr.shape[0] - 1, mid
    cdef double target = (<double> indptr[high]) * part / parts
    if part == parts:
        return high
    while low < high:
        mid = (low + high) // 2
        if indptr[mid] < target:
            low = mid + 1
        else:
            high = mid
    return low


cdef void line_rows(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, const double* kappa, bint uniform, bint square, Py_ssize_t K,
    const double* W, const double* P, double* xp, double* vwp, double* vpp,
) noexcept nogil:
    cdef Py_ssize_t i, e, c, l, width
    cdef double x, u, p1, a, b, d
    cdef double xs[LANES]
    cdef double ws[LANES]
    cdef double ps[LANES]
    cdef const double* w
    cdef const double* p
    if K == 1 and uniform and square:
        # The common case, a third faster: kappa leaves the sums.
        for i in range(begin, end):
            a = b = d = 0
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                u = x * P[indices[e]]
                a += u
                b += u * (x * W[indices[e]])
                d += u * u
            xp[i] = a
            vwp[i] = kappa[0] * b
            vpp[i] = kappa[0] * d
        return
    if K == 1:
        for i in range(begin, end):
            a = b = d = 0
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                p1 = P[indices[e]]
                u = kappa[indices[e]] * (x * x if square else x) * p1
                a += x * p1
                b += u * W[indices[e]]
                d += u * p1
            xp[i] = a
            vwp[i] = b
            vpp[i] = d
        return
    for i in range(begin, end):
        c = 0
        while c < K:
            width = K - c if K - c < LANES else LANES
            for l in range(width):
                xs[l] = ws[l] = ps[l] = 0
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                u = kappa[indices[e]] * (x * x if square else x)
                w = W + indices[e] * K + c
                p = P + indices[e] * K + c
                for l in range(width):
                    xs[l] += x * p[l]
                    ws[l] += u * p[l] * w[l]
                    ps[l] += u * p[l] * p[l]
            for l in range(width):
                xp[i * K + c + l] = xs[l]
                vwp[i * K + c + l] = ws[l]
                vpp[i * K + c + l] = ps[l]
            c += LANES


cdef void pullback_rows(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, bint square, Py_ssize_t K,
    const double* U, const double* dm, const double* dv, double* G,
) noexcept nogil:
    cdef Py_ssize_t i, e, c
    cdef double x, y
    cdef const double* u
    cdef double* g
    if K == 1:
        for i in range(begin, end):
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                G[indices[e]] += x * (dm[i] + (x if square else 1) * U[indices[e]] * dv[i])
        return
    for i in range(begin, end):
        for e in range(indptr[i], indptr[i + 1]):
            x = data[e]
            y = x * x if square else x
            u = U + indices[e] * K
            g = G + indices[e] * K
            for c in range(K):
                g[c] += x * dm[i * K + c] + y * dv[i * K + c] * u[c]


cdef void squares_rows(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, Py_ssize_t K, const double* a, double* G,
) noexcept nogil:
    cdef Py_ssize_t i, e, c
    cdef double x
    cdef double* g
    if K == 1:
        for i in range(begin, end):
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                G[indices[e]] += x * x * a[i]
        return
    for i in range(begin, end):
        for e in range(indptr[i], indptr[i + 1]):
            x = data[e]
            g = G + indices[e] * K
            for c in range(K):
                g[c] += x * x * a[i * K + c]


def csr_line(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const double[::1] kappa, bint uniform, bint square,
    const double[:, ::1] W, const double[:, ::1] P,
    double[:, ::1] xp, double[:, ::1] vwp, double[:, ::1] vpp, int threads,
):
    """xp = X P, vwp = V (W*P), vpp = V (P*P)."""
    cdef Py_ssize_t t, K = W.shape[1]
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        line_rows(
            first_row(indptr, t, threads), first_row(indptr, t + 1, threads),
            &data[0], &indices[0], &indptr[0], &kappa[0], uniform, square, K,
            &W[0, 0], &P[0, 0], &xp[0, 0], &vwp[0, 0], &vpp[0, 0],
        )


def csr_pullback(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    bint square, const double[:, ::1] U,
    const double[:, ::1] dm, const double[:, ::1] dv, double[:, :, ::1] G, int threads,
):
    """G[t] += the part of X'dm + U * ((X or X*X)'dv) that thread t's rows contribute."""
    cdef Py_ssize_t t, K = U.shape[1]
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        pullback_rows(
            first_row(indptr, t, threads), first_row(indptr, t + 1, threads),
            &data[0], &indices[0], &indptr[0], square, K,
            &U[0, 0], &dm[0, 0], &dv[0, 0], &G[t, 0, 0],
        )


def csr_squares(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const double[:, ::1] a, double[:, :, ::1] G, int threads,
):
    """G[t] += the part of (X*X)'a that thread t's rows contribute."""
    cdef Py_ssize_t t, K = a.shape[1]
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        squares_rows(
            first_row(indptr, t, threads), first_row(indptr, t + 1, threads),
            &data[0], &indices[0], &indptr[0], K, &a[0, 0], &G[t, 0, 0],
        )
