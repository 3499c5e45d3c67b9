# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Expected losses of a normal score: see `_normal.h`.

Compiled without leave to reorder sums and products, this module gives an element the same bits in a
vector and in what is left over at the end of one.
"""
import numpy as np

cdef extern from "_normal.h" nogil:
    void abs_parts(
        Py_ssize_t size, double tiny, const double* z, const double* v, double* excess, double* dz,
        double* dv, double* dzz, double* dzv, double* dvv,
    )
    void hinge_terms(
        Py_ssize_t size, double margin, double tiny, double floor, const double* weights,
        const double* y, const double* m, const double* v, const double* a, const double* c,
        const double* e, const double* t, const double* delta, double* value, double* dt, double* db,
        double* dtt, double* dtb, double* dbb,
    )

cdef enum:
    SUMS = 6
    # Elements of whole rows that one loop runs over; their terms are kept apart until the end.
    BLOCK = 256


def abs_gaussian(double tiny, const double[::1] z, const double[::1] v, double[:, ::1] parts):
    """Six rows: E|ζ| − |z| and the derivatives z, v, zz, zv, vv of E|ζ|, for ζ ~ N(z, v)."""
    if z.shape[0]:
        with nogil:
            abs_parts(
                z.shape[0], tiny, &z[0], &v[0], &parts[0, 0], &parts[1, 0], &parts[2, 0], &parts[3, 0],
                &parts[4, 0], &parts[5, 0],
            )


def hinge_gaussian(
    const double[:, ::1] weights, const double[:, ::1] y, double margin, double tiny,
    const double[:, ::1] m, const double[:, ::1] v, const double[:, ::1] a,
    const double[:, ::1] c, const double[:, ::1] e, const double[::1] t,
    const double[::1] delta, double floor, double[:, ::1] sums,
):
    """As `_plane.hinge_bound`, for the loss of a normal score, zΦ(z/√v) + √v φ(z/√v)."""
    cdef Py_ssize_t n = m.shape[0], K = m.shape[1], i, j, k, row = 0, some, rows = max(1, BLOCK // K)
    cdef bint own = weights.shape[1] == K
    cdef double[:, ::1] room = np.empty((3, rows * K)), terms = np.zeros((SUMS, rows * K))
    with nogil:
        for i in range(rows):
            for k in range(K):
                room[0, i * K + k] = t[k]
                room[1, i * K + k] = delta[k]
        while row < n:
            some = min(rows, n - row)
            if not own:
                for i in range(some):
                    for k in range(K):
                        room[2, i * K + k] = weights[row + i, 0]
            hinge_terms(
                some * K, margin, tiny, floor, &weights[row, 0] if own else &room[2, 0], &y[row, 0],
                &m[row, 0], &v[row, 0], &a[row, 0], &c[row, 0], &e[row, 0], &room[0, 0], &room[1, 0],
                &terms[0, 0], &terms[1, 0], &terms[2, 0], &terms[3, 0], &terms[4, 0], &terms[5, 0],
            )
            row += some
        for j in range(SUMS):
            for i in range(rows):
                for k in range(K):
                    sums[j, k] += terms[j, i * K + k]
