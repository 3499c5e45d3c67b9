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

include "_shared_passes.pxi"

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #else
    static int omp_get_max_threads(void) { return 1; }
    #endif
    """
    int omp_get_max_threads() noexcept nogil


def max_threads():
    """Threads a pass may use now; 1 in a build without OpenMP."""
    return omp_get_max_threads()


cdef cloned_void look_through(
    Py_ssize_t n, Py_ssize_t d, const index_t* indices, const index_t* indptr, bint* inside, bint* ascending,
) noexcept nogil:
    # Falls from one entry to the next are counted across rows, and those between rows taken off: one loop.
    cdef Py_ssize_t i, e
    cdef index_t low = indices[0], high = indices[0], falls = 0
    for e in range(1, indptr[n]):
        falls += indices[e] <= indices[e - 1]
        low = indices[e] if indices[e] < low else low
        high = indices[e] if indices[e] > high else high
    for i in range(1, n):
        e = indptr[i]
        if 0 < e < indptr[i + 1]:  # a row that holds something, after others that do
            falls -= indices[e] <= indices[e - 1]
    inside[0] = 0 <= low and high < d
    ascending[0] = falls == 0


def csr_form(const index_t[::1] indices, const index_t[::1] indptr, Py_ssize_t d, Py_ssize_t size):
    """Whether the rows lie within `size` entries and their indices within 0 … d - 1; whether these ascend."""
    cdef Py_ssize_t i, n = indptr.shape[0] - 1
    cdef bint inside = n >= 0 and indptr[0] == 0 and indptr[n] <= size, ascending = True
    if inside:
        with nogil:
            for i in range(n):
                inside &= indptr[i] <= indptr[i + 1]
            if inside and indptr[n] > 0:
                look_through(n, d, &indices[0], &indptr[0], &inside, &ascending)
    return inside, ascending


cdef inline inlined_void line_one(
    const bint uniform, Py_ssize_t begin, Py_ssize_t end, const value_t* data,
    const index_t* indices, const index_t* indptr, const double* kappa, bint square, Py_ssize_t K,
    const double* W, const double* P, double* xp, double* vwp, double* vpp,
) noexcept nogil:
    cdef Py_ssize_t i, e, at
    cdef double x, u, a, b, d, common = kappa[0] if uniform else 1
    for i in range(begin, end):
        a = b = d = 0
        for e in range(indptr[i], indptr[i + 1]):
            at = indices[e] * K
            x = data[e]
            u = x * P[at]
            a += u
            if not uniform:
                u *= kappa[indices[e]]
            if square:
                u *= x
            b += u * W[at]
            d += u * P[at]
        xp[i * K] = a
        vwp[i * K] = common * b
        vpp[i * K] = common * d


cdef inline inlined_void line_quad(
    const int lanes, const bint uniform, Py_ssize_t begin, Py_ssize_t end, const value_t* data,
    const index_t* indices, const index_t* indptr, const double* kappa, bint square, Py_ssize_t K,
    const double* W, const double* P, double* xp, double* vwp, double* vpp,
) noexcept nogil:
    """The same for up to four neighbouring problems."""
    cdef Py_ssize_t i, e, at
    cdef double x, u, common = kappa[0] if uniform else 1
    cdef quad w, p, a, b, d, zero = load_quad(ZEROS, 4)
    for i in range(begin, end):
        a = b = d = zero
        for e in range(indptr[i], indptr[i + 1]):
            at = indices[e] * K
            x = data[e]
            u = x * x if square else x
            if not uniform:
                u *= kappa[indices[e]]
            w = load_quad(W + at, lanes)
            p = load_quad(P + at, lanes)
            a += x * p
            p *= u
            b += p * w
            d += p * load_quad(P + at, lanes)
        store_quad(xp + i * K, lanes, a)
        store_quad(vwp + i * K, lanes, common * b)
        store_quad(vpp + i * K, lanes, common * d)


cdef cloned_void line_rows(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, const double* kappa, bint uniform, bint square, Py_ssize_t K,
    const double* W, const double* P, double* xp, double* vwp, double* vpp,
) noexcept nogil:
    # The compiler must know how many lanes there are, and whether kappa leaves the sums.
    cdef Py_ssize_t c = 0
    while c < K:
        if K - c >= 4 and QUAD == 4 and uniform:
            line_quad(
                4, True, begin, end, data, indices, indptr, kappa, square, K, W + c, P + c,
                xp + c, vwp + c, vpp + c,
            )
            c += 4
        elif K - c >= 4 and QUAD == 4:
            line_quad(
                4, False, begin, end, data, indices, indptr, kappa, square, K, W + c, P + c,
                xp + c, vwp + c, vpp + c,
            )
            c += 4
        elif K - c == 3 and QUAD == 4:
            line_quad(
                3, False, begin, end, data, indices, indptr, kappa, square, K, W + c, P + c,
                xp + c, vwp + c, vpp + c,
            )
            c += 3
        elif K - c == 2 and QUAD == 4:
            line_quad(
                2, False, begin, end, data, indices, indptr, kappa, square, K, W + c, P + c,
                xp + c, vwp + c, vpp + c,
            )
            c += 2
        elif uniform:
            line_one(
                True, begin, end, data, indices, indptr, kappa, square, K, W + c, P + c,
                xp + c, vwp + c, vpp + c,
            )
            c += 1
        else:
            line_one(
                False, begin, end, data, indices, indptr, kappa, square, K, W + c, P + c,
                xp + c, vwp + c, vpp + c,
            )
            c += 1


cdef inline inlined_void pullback_one(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, bint square, Py_ssize_t K, const double* U, const double* dm,
    const double* dv, double* G,
) noexcept nogil:
    cdef Py_ssize_t i, e, at
    cdef double x
    for i in range(begin, end):
        for e in range(indptr[i], indptr[i + 1]):
            at = indices[e] * K
            x = data[e]
            G[at] += x * (dm[i * K] + (x if square else 1) * U[at] * dv[i * K])


cdef inline inlined_void pullback_quad(
    const int lanes, Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, bint square, Py_ssize_t K, const double* U, const double* dm,
    const double* dv, double* G,
) noexcept nogil:
    cdef Py_ssize_t i, e, at
    cdef double x
    cdef quad m, v
    for i in range(begin, end):
        m = load_quad(dm + i * K, lanes)
        v = load_quad(dv + i * K, lanes)
        for e in range(indptr[i], indptr[i + 1]):
            at = indices[e] * K
            x = data[e]
            store_quad(
                G + at, lanes,
                load_quad(G + at, lanes) + x * m + (x * x if square else x) * v * load_quad(U + at, lanes),
            )


cdef cloned_void pullback_rows(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, bint square, Py_ssize_t K,
    const double* U, const double* dm, const double* dv, double* G,
) noexcept nogil:
    cdef Py_ssize_t c = 0
    while c < K:
        if K - c >= 4 and QUAD == 4:
            pullback_quad(4, begin, end, data, indices, indptr, square, K, U + c, dm + c, dv + c, G + c)
            c += 4
        elif K - c == 3 and QUAD == 4:
            pullback_quad(3, begin, end, data, indices, indptr, square, K, U + c, dm + c, dv + c, G + c)
            c += 3
        elif K - c == 2 and QUAD == 4:
            pullback_quad(2, begin, end, data, indices, indptr, square, K, U + c, dm + c, dv + c, G + c)
            c += 2
        else:
            pullback_one(begin, end, data, indices, indptr, square, K, U + c, dm + c, dv + c, G + c)
            c += 1


cdef cloned_void squares_rows(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, Py_ssize_t K, const double* a, double* G,
) noexcept nogil:
    cdef Py_ssize_t i, e, c
    cdef double x
    cdef double* g
    for i in range(begin, end):
        for e in range(indptr[i], indptr[i + 1]):
            x = data[e]
            g = G + indices[e] * K
            for c in range(K):
                g[c] += x * x * a[i * K + c]


cdef cloned_void hessian_rows(
    Py_ssize_t begin, Py_ssize_t end, const double* x, const double* b, const index_t* indices,
    const index_t* indptr, Py_ssize_t d, const double* mm, const double* mv, const double* vv, double* H,
) noexcept nogil:
    # One half of a symmetric matrix, whatever the order of a row's entries: the other is its transpose.
    cdef Py_ssize_t i, e, f
    cdef double p, q
    cdef double* h
    for i in range(begin, end):
        if mm[i] == 0 and mv[i] == 0 and vv[i] == 0:
            continue
        for e in range(indptr[i], indptr[i + 1]):
            p = mm[i] * x[e] + mv[i] * b[e]
            q = mv[i] * x[e] + vv[i] * b[e]
            h = H + indices[e] * d
            for f in range(indptr[i], e):
                h[indices[f]] += p * x[f] + q * b[f]
            h[indices[e]] += 0.5 * (p * x[e] + q * b[e])


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


def csr_hessian(
    const double[::1] x, const double[::1] b, const index_t[::1] indices, const index_t[::1] indptr,
    const double[::1] mm, const double[::1] mv, const double[::1] vv, double[:, :, ::1] H, int threads,
):
    """H[t] += thread t's rows' half of X'mm X + X'mv B + B'mv X + B'vv B, with B's entries where X's are."""
    cdef Py_ssize_t t, d = H.shape[1]
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        hessian_rows(
            first_row(indptr, t, threads), first_row(indptr, t + 1, threads), &x[0], &b[0], &indices[0],
            &indptr[0], d, &mm[0], &mv[0], &vv[0], &H[t, 0, 0],
        )
