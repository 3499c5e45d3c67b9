# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""The hidden layer over a block of CSR rows, at O(non-zeros x units) for each output.

Rows begin..end of X meet hidden weights alpha (features, units). The variance of an entry
is V = kappa_j * x**2 (``square``) or kappa_j * x, read off x on the way. Nothing here has
threads of its own: blocks of rows run side by side.
"""
from libc.string cimport memset

import numpy as np

cdef extern from "_simd.h":
    ctypedef void cloned_void

cdef extern from "_panels.h":
    enum: PANEL
    void panel_product(
        Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t depth, const double* A, Py_ssize_t A_row,
        Py_ssize_t A_deep, const double* B, Py_ssize_t B_row, double* C, Py_ssize_t C_row,
    ) noexcept nogil

include "_csr.pxi"


cdef inline Py_ssize_t padded(Py_ssize_t count) noexcept nogil:
    return (count + PANEL - 1) // PANEL * PANEL


cdef Py_ssize_t longest(const index_t[::1] indptr, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """The most entries of a row."""
    cdef Py_ssize_t i, most = 0
    for i in range(begin, end):
        most = max(most, indptr[i + 1] - indptr[i])
    return most


cdef cloned_void inputs_row(
    Py_ssize_t n, const value_t* data, const index_t* indices, const double* kappa, bint square,
    bint variance, Py_ssize_t K, const double* alpha, double* A, double* S,
) noexcept nogil:
    cdef Py_ssize_t e, k
    cdef double x, kx
    cdef const double* w
    for e in range(n):
        x = data[e]
        w = alpha + indices[e] * K
        for k in range(K):
            A[k] += x * w[k]
        if variance:
            kx = kappa[indices[e]] * (x * x if square else x)
            for k in range(K):
                S[k] += kx * w[k] * w[k]


def csr_inputs(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const double[::1] kappa, bint square, bint variance,
    const double[:, ::1] alpha, double[:, ::1] A, double[:, ::1] S,
):
    """A += X alpha and, if asked for, S += V (alpha*alpha)."""
    cdef Py_ssize_t i, start, K = alpha.shape[1]
    with nogil:
        for i in range(begin, end):
            start = indptr[i]
            if indptr[i + 1] > start:
                inputs_row(
                    indptr[i + 1] - start, &data[start], &indices[start], &kappa[0], square, variance, K,
                    &alpha[0, 0], &A[i - begin, 0], &S[i - begin, 0],
                )


cdef cloned_void spread_one(
    Py_ssize_t n, const index_t* indices, const double* V, Py_ssize_t K, const double* alpha,
    const double* u, double* Q, double* v, double* t,
) noexcept nogil:
    """A row's part of csr_spread, of one output."""
    cdef Py_ssize_t e, k
    cdef double h, q
    cdef const double* w
    for e in range(n):
        w = alpha + indices[e] * K
        h = 0
        for k in range(K):
            h += u[k] * w[k]
        q = V[e] * h
        for k in range(K):
            t[k] += q * w[k]
        v[0] += q * h
        Q[e] = q


cdef cloned_void spread_several(
    Py_ssize_t n, const index_t* indices, const double* V, Py_ssize_t K, const double* alpha, Py_ssize_t P,
    const double* U, double* Q, double* v, double* T, double* panels,
) noexcept nogil:
    """The same of P outputs, as products of panels.

    These are the rows of alpha that the row meets (n, K), h of each (n, P), u (K, P) and T (P, K).
    """
    cdef Py_ssize_t e, k, p, K4 = padded(K), P4 = padded(P), n4 = padded(n)
    cdef double h
    cdef double* W = panels
    cdef double* H = W + n4 * K4
    cdef double* u = H + n4 * P4
    cdef double* t = u + K * P4
    memset(H, 0, (n4 * P4 + K * P4 + P4 * K4) * sizeof(double))
    for e in range(n):
        for k in range(K):
            W[e * K4 + k] = alpha[indices[e] * K + k]
    for p in range(P):
        for k in range(K):
            u[k * P4 + p] = U[p * K + k]
    panel_product(n4, P4, K, W, K4, 1, u, P4, H, P4)
    for e in range(n):
        for p in range(P):
            h = H[e * P4 + p]
            v[p] += V[e] * h * h
            H[e * P4 + p] = V[e] * h
            Q[e * P + p] = V[e] * h
    panel_product(P4, K4, n, H, 1, P4, W, K4, t, K4)
    for p in range(P):
        for k in range(K):
            T[p * K + k] += t[p * K4 + k]


def csr_spread(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const double[::1] kappa, bint square,
    const double[:, ::1] alpha, const double[:, :, ::1] U,
    double[:, ::1] Q, double[:, ::1] v, double[:, :, ::1] T,
):
    """For h = alpha u: Q = V*h entry by entry, v += sum of V*h*h, T += alpha'(V*h)."""
    cdef Py_ssize_t i, e, start, n, K = alpha.shape[1], P = U.shape[1], first = indptr[begin]
    cdef Py_ssize_t K4 = padded(K), P4 = padded(P), most = padded(longest(indptr, begin, end))
    cdef double[::1] V = np.empty(most), panels = np.zeros(most * (K4 + P4) + (K + K4) * P4)
    cdef double x
    with nogil:
        for i in range(begin, end):
            start = indptr[i]
            n = indptr[i + 1] - start
            if n == 0:
                continue
            for e in range(n):
                x = data[start + e]
                V[e] = kappa[indices[start + e]] * (x * x if square else x)
            if P == 1:
                spread_one(
                    n, &indices[start], &V[0], K, &alpha[0, 0], &U[i - begin, 0, 0], &Q[start - first, 0],
                    &v[i - begin, 0], &T[i - begin, 0, 0],
                )
            else:
                spread_several(
                    n, &indices[start], &V[0], K, &alpha[0, 0], P, &U[i - begin, 0, 0],
                    &Q[start - first, 0], &v[i - begin, 0], &T[i - begin, 0, 0], &panels[0],
                )


cdef cloned_void pull_one(
    Py_ssize_t n, const value_t* data, const index_t* indices, Py_ssize_t K, const double* dA,
    const double* Q, const double* E, double* G,
) noexcept nogil:
    """A row's part of X'dA + Q'E, of one output."""
    cdef Py_ssize_t e, k
    cdef double x, q
    cdef double* g
    for e in range(n):
        x = data[e]
        q = Q[e]
        g = G + indices[e] * K
        for k in range(K):
            g[k] += x * dA[k] + q * E[k]


cdef cloned_void pull_several(
    Py_ssize_t n, const value_t* data, const index_t* indices, Py_ssize_t K, const double* dA,
    Py_ssize_t P, const double* Q, const double* E, double* G, double* panels,
) noexcept nogil:
    """The same of P outputs, or of none, as a product of panels (n, 1 + P) and (1 + P, K)."""
    cdef Py_ssize_t e, k, p, K4 = padded(K), n4 = padded(n)
    cdef double* D = panels
    cdef double* z = D + n4 * K4
    cdef double* q = z + (1 + P) * K4
    memset(D, 0, (n4 * K4 + (1 + P) * K4) * sizeof(double))
    for k in range(K):
        z[k] = dA[k]
    for p in range(P):
        for k in range(K):
            z[(1 + p) * K4 + k] = E[p * K + k]
    for e in range(n):
        q[e * (1 + P)] = data[e]
        for p in range(P):
            q[e * (1 + P) + 1 + p] = Q[e * P + p]
    panel_product(n4, K4, 1 + P, q, 1 + P, 1, z, K4, D, K4)
    for e in range(n):
        for k in range(K):
            G[indices[e] * K + k] += D[e * K4 + k]


def csr_pull(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const double[::1] kappa, bint square, bint spread, bint variance,
    const double[:, ::1] alpha, const double[:, ::1] dA, const double[:, ::1] dS,
    const double[:, ::1] Q, const double[:, :, ::1] E, double[:, ::1] G,
):
    """G += X'dA, plus Q'E over all outputs, plus alpha * (V'dS), the last two if asked for."""
    cdef Py_ssize_t i, e, k, start, n, K = alpha.shape[1], P = E.shape[1] if spread else 0
    cdef Py_ssize_t first = indptr[begin], K4 = padded(K), most = padded(longest(indptr, begin, end))
    cdef double[::1] panels = np.zeros(most * (K4 + 1 + P) + (1 + P) * K4)
    cdef double x, kx
    with nogil:
        for i in range(begin, end):
            start = indptr[i]
            n = indptr[i + 1] - start
            if n == 0:
                continue
            if P == 1:
                pull_one(
                    n, &data[start], &indices[start], K, &dA[i - begin, 0], &Q[start - first, 0],
                    &E[i - begin, 0, 0], &G[0, 0],
                )
            else:
                pull_several(
                    n, &data[start], &indices[start], K, &dA[i - begin, 0], P,
                    &Q[start - first, 0] if P else NULL, &E[i - begin, 0, 0] if P else NULL, &G[0, 0],
                    &panels[0],
                )
            if variance:
                for e in range(start, start + n):
                    x = data[e]
                    kx = kappa[indices[e]] * (x * x if square else x)
                    for k in range(K):
                        G[indices[e], k] += kx * alpha[indices[e], k] * dS[i - begin, k]


def csr_covariance(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const double[::1] kappa, bint square,
    const double[:, ::1] alpha, double[:, :, ::1] S,
):
    """S += alpha' diag(V) alpha of every row."""
    cdef Py_ssize_t i, e, k, l, K = alpha.shape[1]
    cdef double x, kx, q
    cdef const double* w
    cdef double* s
    with nogil:
        for i in range(begin, end):
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                kx = kappa[indices[e]] * (x * x if square else x)
                w = &alpha[indices[e], 0]
                for k in range(K):
                    q = kx * w[k]
                    s = &S[i - begin, k, 0]
                    for l in range(K):
                        s[l] += q * w[l]
