# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""The hidden layer over a block of CSR rows, at O(non-zeros x units) for each output.

Rows begin..end of X meet hidden weights alpha (features, units). The variance of an entry
is V = kappa_j * x**2 (``square``) or kappa_j * x, read off x on the way. Nothing here has
threads of its own: blocks of rows run side by side.
"""
from libc.stdint cimport int32_t, int64_t

ctypedef fused value_t:
    float
    double

ctypedef fused index_t:
    int32_t
    int64_t


def csr_inputs(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const double[::1] kappa, bint square, bint variance,
    const double[:, ::1] alpha, double[:, ::1] A, double[:, ::1] S,
):
    """A += X alpha and, if asked for, S += V (alpha*alpha)."""
    cdef Py_ssize_t i, e, k, K = alpha.shape[1]
    cdef double x, u
    cdef const double* w
    cdef double* a
    cdef double* s
    with nogil:
        for i in range(begin, end):
            a = &A[i - begin, 0]
            s = &S[i - begin, 0]
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                w = &alpha[indices[e], 0]
                for k in range(K):
                    a[k] += x * w[k]
                if variance:
                    u = kappa[indices[e]] * (x * x if square else x)
                    for k in range(K):
                        s[k] += u * w[k] * w[k]


def csr_spread(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const double[::1] kappa, bint square,
    const double[:, ::1] alpha, const double[:, :, ::1] U,
    double[:, ::1] Q, double[:, ::1] v, double[:, :, ::1] T,
):
    """For h = alpha u: Q = V*h entry by entry, v += sum of V*h*h, T += alpha'(V*h)."""
    cdef Py_ssize_t i, e, k, p, K = alpha.shape[1], P = U.shape[1], first = indptr[begin]
    cdef double x, kx, h, q
    cdef const double* w
    cdef const double* u
    cdef double* t
    with nogil:
        for i in range(begin, end):
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                kx = kappa[indices[e]] * (x * x if square else x)
                w = &alpha[indices[e], 0]
                for p in range(P):
                    u = &U[i - begin, p, 0]
                    t = &T[i - begin, p, 0]
                    h = 0
                    for k in range(K):
                        h += u[k] * w[k]
                    q = kx * h
                    Q[e - first, p] = q
                    v[i - begin, p] += q * h
                    for k in range(K):
                        t[k] += q * w[k]


def csr_pull(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    Py_ssize_t begin, Py_ssize_t end, const double[::1] kappa, bint square, bint spread, bint variance,
    const double[:, ::1] alpha, const double[:, ::1] dA, const double[:, ::1] dS,
    const double[:, ::1] Q, const double[:, :, ::1] E, double[:, ::1] G,
):
    """G += X'dA, plus Q'E over all outputs, plus alpha * (V'dS), the last two if asked for."""
    cdef Py_ssize_t i, e, k, p, K = alpha.shape[1], P = E.shape[1], first = indptr[begin]
    cdef double x, u, q
    cdef const double* w
    cdef const double* a
    cdef const double* z
    cdef double* g
    with nogil:
        for i in range(begin, end):
            a = &dA[i - begin, 0]
            for e in range(indptr[i], indptr[i + 1]):
                x = data[e]
                g = &G[indices[e], 0]
                for k in range(K):
                    g[k] += x * a[k]
                if spread:
                    for p in range(P):
                        z = &E[i - begin, p, 0]
                        q = Q[e - first, p]
                        for k in range(K):
                            g[k] += q * z[k]
                if variance:
                    u = kappa[indices[e]] * (x * x if square else x)
                    w = &alpha[indices[e], 0]
                    z = &dS[i - begin, 0]
                    for k in range(K):
                        g[k] += u * w[k] * z[k]


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
