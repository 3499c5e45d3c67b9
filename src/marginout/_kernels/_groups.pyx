# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Passes over a CSR matrix whose features are corrupted in groups.

A row's entries are summed by group first, s_g = w_g . x_g, and the variance is made of the
sums: sum of kappa_g * s_g**2. The sums of a row live in ``room``, a line of zeros with a place for
every group, which is left as it was found: an entry that empties its group's place leaves nothing
for the group's next entry to count. Otherwise as in ``_passes``.
"""
from cython.parallel cimport prange
from libc.string cimport memset

include "_shared_passes.pxi"


cdef enum:
    # Groups for every entry of a row up to which all places are looked at, one after the other.
    WIDE = 4


cdef inline inlined_void line_one(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, const int32_t* groups, const double* kappa, Py_ssize_t count, Py_ssize_t K,
    const double* W, const double* P, double* xp, double* vwp, double* vpp, double* room,
) noexcept nogil:
    cdef Py_ssize_t i, e, at, g
    cdef double x, u, w, p, s, t, a, b, d
    for i in range(begin, end):
        a = b = d = 0
        for e in range(indptr[i], indptr[i + 1]):
            at = indices[e] * 2 * K
            g = 2 * groups[indices[e]]
            x = data[e]
            w = W[at]
            p = P[at]
            s = room[g] + x * w
            t = room[g + 1] + x * p
            room[g] = s
            room[g + 1] = t
        if count <= WIDE * (indptr[i + 1] - indptr[i]):
            for g in range(count):
                t = room[2 * g + 1]
                u = kappa[g] * t
                a += t
                b += u * room[2 * g]
                d += u * t
            memset(room, 0, 2 * count * sizeof(double))
        else:
            for e in range(indptr[i], indptr[i + 1]):
                g = groups[indices[e]]
                s = room[2 * g]
                t = room[2 * g + 1]
                u = kappa[g] * t
                a += t
                b += u * s
                d += u * t
                room[2 * g] = 0
                room[2 * g + 1] = 0
        xp[i * K] = a
        vwp[i * K] = b
        vpp[i * K] = d


cdef inline inlined_void line_quad(
    const int lanes, Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, const int32_t* groups, const double* kappa, Py_ssize_t count, Py_ssize_t K,
    const double* W, const double* P, double* xp, double* vwp, double* vpp, double* room,
) noexcept nogil:
    """The same for up to four neighbouring problems."""
    cdef Py_ssize_t i, e, at, g
    cdef double x
    cdef double* sums
    cdef quad w, p, a, b, d, zero = load_quad(ZEROS, 4)
    for i in range(begin, end):
        a = b = d = zero
        for e in range(indptr[i], indptr[i + 1]):
            at = indices[e] * 2 * K
            sums = room + 8 * groups[indices[e]]
            x = data[e]
            w = load_quad(sums, 4) + x * load_quad(W + at, lanes)
            p = load_quad(sums + 4, 4) + x * load_quad(P + at, lanes)
            store_quad(sums, 4, w)
            store_quad(sums + 4, 4, p)
        if count <= indptr[i + 1] - indptr[i]:
            for g in range(count):
                sums = room + 8 * g
                p = load_quad(sums + 4, 4)
                w = kappa[g] * p
                a += p
                b += w * load_quad(sums, 4)
                d += w * p
                store_quad(sums, 4, zero)
                store_quad(sums + 4, 4, zero)
        else:
            for e in range(indptr[i], indptr[i + 1]):
                g = groups[indices[e]]
                sums = room + 8 * g
                p = load_quad(sums + 4, 4)
                w = kappa[g] * p
                a += p
                b += w * load_quad(sums, 4)
                d += w * p
                store_quad(sums, 4, zero)
                store_quad(sums + 4, 4, zero)
        store_quad(xp + i * K, lanes, a)
        store_quad(vwp + i * K, lanes, b)
        store_quad(vpp + i * K, lanes, d)


cdef cloned_void line_rows(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, const int32_t* groups, const double* kappa, Py_ssize_t count, Py_ssize_t K,
    const double* WP, double* xp, double* vwp, double* vpp, double* room,
) noexcept nogil:
    # The compiler must know how many lanes there are.
    cdef Py_ssize_t c = 0
    if K == 1:  # known to be neighbours: one load
        line_one(begin, end, data, indices, indptr, groups, kappa, count, 1, WP, WP + 1, xp, vwp, vpp, room)
        return
    while c < K:
        if K - c >= 4 and QUAD == 4:
            line_quad(
                4, begin, end, data, indices, indptr, groups, kappa, count, K, WP + c, WP + K + c,
                xp + c, vwp + c, vpp + c, room,
            )
            c += 4
        elif K - c == 3 and QUAD == 4:
            line_quad(
                3, begin, end, data, indices, indptr, groups, kappa, count, K, WP + c, WP + K + c,
                xp + c, vwp + c, vpp + c, room,
            )
            c += 3
        elif K - c == 2 and QUAD == 4:
            line_quad(
                2, begin, end, data, indices, indptr, groups, kappa, count, K, WP + c, WP + K + c,
                xp + c, vwp + c, vpp + c, room,
            )
            c += 2
        else:
            line_one(
                begin, end, data, indices, indptr, groups, kappa, count, K, WP + c, WP + K + c,
                xp + c, vwp + c, vpp + c, room,
            )
            c += 1


cdef inline inlined_void pullback_one(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, const int32_t* groups, Py_ssize_t count, Py_ssize_t K, const double* U,
    const double* dm, const double* dv, double* G, double* room,
) noexcept nogil:
    cdef Py_ssize_t i, e, g
    cdef double m, v
    for i in range(begin, end):
        m = dm[i * K]
        v = dv[i * K]
        for e in range(indptr[i], indptr[i + 1]):
            room[groups[indices[e]]] += data[e] * U[indices[e] * K]
        if count <= WIDE * (indptr[i + 1] - indptr[i]):
            for g in range(count):
                room[g] = m + v * room[g]
            for e in range(indptr[i], indptr[i + 1]):
                G[indices[e] * K] += data[e] * room[groups[indices[e]]]
            memset(room, 0, count * sizeof(double))
        else:
            for e in range(indptr[i], indptr[i + 1]):
                G[indices[e] * K] += data[e] * (m + v * room[groups[indices[e]]])
            for e in range(indptr[i], indptr[i + 1]):
                room[groups[indices[e]]] = 0


cdef inline inlined_void pullback_quad(
    const int lanes, Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, const int32_t* groups, Py_ssize_t count, Py_ssize_t K, const double* U,
    const double* dm, const double* dv, double* G, double* room,
) noexcept nogil:
    cdef Py_ssize_t i, e, at
    cdef double x
    cdef double* sums
    cdef quad m, v, zero = load_quad(ZEROS, 4)
    for i in range(begin, end):
        m = load_quad(dm + i * K, lanes)
        v = load_quad(dv + i * K, lanes)
        for e in range(indptr[i], indptr[i + 1]):
            sums = room + 4 * groups[indices[e]]
            x = data[e]
            store_quad(sums, 4, load_quad(sums, 4) + x * load_quad(U + indices[e] * K, lanes))
        for e in range(indptr[i], indptr[i + 1]):
            at = indices[e] * K
            sums = room + 4 * groups[indices[e]]
            x = data[e]
            store_quad(G + at, lanes, load_quad(G + at, lanes) + x * (m + v * load_quad(sums, 4)))
        if count <= indptr[i + 1] - indptr[i]:
            memset(room, 0, 4 * count * sizeof(double))
        else:
            for e in range(indptr[i], indptr[i + 1]):
                store_quad(room + 4 * groups[indices[e]], 4, zero)


cdef cloned_void pullback_rows(
    Py_ssize_t begin, Py_ssize_t end, const value_t* data, const index_t* indices,
    const index_t* indptr, const int32_t* groups, Py_ssize_t count, Py_ssize_t K,
    const double* U, const double* dm, const double* dv, double* G, double* room,
) noexcept nogil:
    cdef Py_ssize_t c = 0
    while c < K:
        if K - c >= 4 and QUAD == 4:
            pullback_quad(
                4, begin, end, data, indices, indptr, groups, count, K, U + c, dm + c, dv + c, G + c, room
            )
            c += 4
        elif K - c == 3 and QUAD == 4:
            pullback_quad(
                3, begin, end, data, indices, indptr, groups, count, K, U + c, dm + c, dv + c, G + c, room
            )
            c += 3
        elif K - c == 2 and QUAD == 4:
            pullback_quad(
                2, begin, end, data, indices, indptr, groups, count, K, U + c, dm + c, dv + c, G + c, room
            )
            c += 2
        else:
            pullback_one(
                begin, end, data, indices, indptr, groups, count, K, U + c, dm + c, dv + c, G + c, room
            )
            c += 1


def csr_line(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const int32_t[::1] groups, const double[::1] kappa,
    const double[:, ::1] WP,
    double[:, ::1] xp, double[:, ::1] vwp, double[:, ::1] vpp, double[:, ::1] room, int threads,
):
    """xp = X P; vwp, vpp = sum over groups of kappa*s(W)*s(P), kappa*s(P)*s(P), for W beside P.

    There is room for 8 zeros a group.
    """
    cdef Py_ssize_t t, K = xp.shape[1]
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        line_rows(
            first_row(indptr, t, threads), first_row(indptr, t + 1, threads),
            &data[0], &indices[0], &indptr[0], &groups[0], &kappa[0],
            kappa.shape[0], K, &WP[0, 0], &xp[0, 0], &vwp[0, 0], &vpp[0, 0], &room[t, 0],
        )


def csr_pullback(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const int32_t[::1] groups, const double[:, ::1] U,
    const double[:, ::1] dm, const double[:, ::1] dv, double[:, :, ::1] G, double[:, ::1] room,
    int threads,
):
    """G[t] += the part of X'(dm + dv*s(U)), s that of each entry's group, of thread t's rows.

    There is room for 4 zeros a group.
    """
    cdef Py_ssize_t t, K = U.shape[1], count = room.shape[1] // 4
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        pullback_rows(
            first_row(indptr, t, threads), first_row(indptr, t + 1, threads),
            &data[0], &indices[0], &indptr[0], &groups[0], count, K,
            &U[0, 0], &dm[0, 0], &dv[0, 0], &G[t, 0, 0], &room[t, 0],
        )


def csr_sums(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const int32_t[::1] groups,
    const double[:, ::1] W, double[:, :, ::1] S,
):
    """S[i, g] += w_g . x_g of rows begin..end."""
    cdef Py_ssize_t i, e, k, K = W.shape[1]
    cdef double x
    cdef const double* w
    cdef double* s
    with nogil:
        for i in range(begin, end):
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                w = &W[indices[e], 0]
                s = &S[i - begin, groups[indices[e]], 0]
                for k in range(K):
                    s[k] += x * w[k]


def csr_sums_back(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const int32_t[::1] groups,
    const double[:, :, ::1] D, double[:, ::1] G,
):
    """G += x_d * D[i, g(d)] of rows begin..end: the adjoint of `csr_sums`."""
    cdef Py_ssize_t i, e, k, K = G.shape[1]
    cdef double x
    cdef const double* s
    cdef double* g
    with nogil:
        for i in range(begin, end):
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                s = &D[i - begin, groups[indices[e]], 0]
                g = &G[indices[e], 0]
                for k in range(K):
                    g[k] += x * s[k]


cdef cloned_void blocks_rows(
    Py_ssize_t begin, Py_ssize_t end, Py_ssize_t step, const value_t* data, const index_t* indices,
    const index_t* indptr, const int32_t* groups, const int64_t* corner, const int32_t* rank,
    const int32_t* sizes, Py_ssize_t K, const double* a, double* B, int64_t* first, int64_t* following,
) noexcept nogil:
    cdef Py_ssize_t i, e, k, d, low
    cdef int64_t f
    cdef int32_t g
    cdef double x
    cdef double* b
    i = begin
    while i < end:
        low = indptr[i]
        for e in range(low, indptr[i + 1]):
            d = indices[e]
            g = groups[d]
            following[e - low] = first[g]
            first[g] = e - low
            f = e - low
            while f >= 0:  # this entry, and those of its group before it
                x = data[e] * data[low + f]
                b = B + (corner[g] + rank[d] * sizes[g] + rank[indices[low + f]]) * K
                for k in range(K):
                    b[k] += x * a[i * K + k]
                f = following[f]
        for e in range(low, indptr[i + 1]):
            first[groups[indices[e]]] = -1
        i += step


def csr_blocks(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const int32_t[::1] groups, const int64_t[::1] corner, const int32_t[::1] rank,
    const int32_t[::1] sizes, const double[:, ::1] a, double[:, :, ::1] B,
    int64_t[:, ::1] first, int64_t[:, ::1] following, Py_ssize_t step, int threads,
):
    """B[t] += half of each group's block of X'diag(a)X, of every step-th of thread t's rows.

    A feature is the rank-th of its group; group g's block begins at corner g. Of an entry and its
    mirror image one is filled, or both in parts: their sum counts. `first` holds -1 for every
    group, and `following` has a place for every entry of a row.
    """
    cdef Py_ssize_t t, K = a.shape[1]
    for t in prange(threads, nogil=True, num_threads=threads, schedule="static"):
        blocks_rows(
            first_row(indptr, t, threads), first_row(indptr, t + 1, threads), step,
            &data[0], &indices[0], &indptr[0], &groups[0], &corner[0], &rank[0], &sizes[0], K,
            &a[0, 0], &B[t, 0, 0], &first[t, 0], &following[t, 0],
        )
