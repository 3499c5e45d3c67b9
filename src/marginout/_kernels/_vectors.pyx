# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Dot products of the columns of two arrays."""

cdef extern from "_simd.h":
    ctypedef void cloned_void

cdef enum:
    # Sums are taken over so many elements side by side, which vectorises.
    SIDE_BY_SIDE = 4


cdef cloned_void add_dots(
    Py_ssize_t n, Py_ssize_t K, const double* A, const double* B, double* out
) noexcept nogil:
    cdef Py_ssize_t i, k, size = n * K, whole = size - size % SIDE_BY_SIDE
    cdef int l
    cdef double sums[SIDE_BY_SIDE]
    if SIDE_BY_SIDE % K:
        for i in range(n):
            for k in range(K):
                out[k] += A[i * K + k] * B[i * K + k]
        return
    for l in range(SIDE_BY_SIDE):
        sums[l] = 0
    i = 0
    while i < whole:
        for l in range(SIDE_BY_SIDE):
            sums[l] += A[i + l] * B[i + l]
        i += SIDE_BY_SIDE
    for i in range(whole, size):
        sums[i % SIDE_BY_SIDE] += A[i] * B[i]
    for l in range(SIDE_BY_SIDE):
        out[l % K] += sums[l]


def dots(const double[:, ::1] A, const double[:, ::1] B, double[::1] out):
    """out += Σ_i A_ik·B_ik, (K,)."""
    if A.shape[0]:
        with nogil:
            add_dots(A.shape[0], A.shape[1], &A[0, 0], &B[0, 0], &out[0])
