# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Losses of many scores, and their sums over the examples for a trial step (`losses.h`, `_expansions.h`).

On the plane (w + t·p, b + δ), with a = M p, c = V (w∘p) and e = V (p∘p), example n has mean m + t·a + δ and
variance v + 2t·c + t²·e. All arrays are (n, K) in C order; weights are (n, 1) or (n, K); t and δ are (K,).

This module is compiled without leave to reorder sums and products: an element has the same bits in a vector
and in what is left over at the end of one.
"""

ctypedef const double* doubles

cdef extern from "_expansions.h" nogil:
    int HINGE, TUBE, LOGISTIC, SQUARED, PINBALL, GAUSSIAN, GAMMA, SLOPES, JET, SUMS
    const double C_LEAST_RADIUS "LEAST_RADIUS", C_GAUSSIAN_CURVATURE "GAUSSIAN_CURVATURE"
    ctypedef struct loss:
        doubles tilts
        Py_ssize_t outputs
    ctypedef struct plane:
        Py_ssize_t n, K
        doubles weights, y, m, v, a, c, e, t, delta
        double floor
        bint own
    loss make_loss(double parameter, doubles mixture, int size)
    double mean_at(plane p, Py_ssize_t i, Py_ssize_t l)
    double variance_at(plane p, Py_ssize_t i, Py_ssize_t l)
    void fill(int code, int wanted, loss q, Py_ssize_t size, doubles m, doubles v, doubles y, double** out)
    void add_plane(int code, int wanted, loss q, plane p, double* out)

LEAST_RADIUS, GAUSSIAN_CURVATURE = C_LEAST_RADIUS, C_GAUSSIAN_CURVATURE
#: The code of every formula.
CODES = {
    (name, expectation): family + normal
    for name, family in (
        ("hinge", HINGE), ("tube", TUBE), ("logistic", LOGISTIC), ("squared", SQUARED), ("pinball", PINBALL),
    )
    for expectation, normal in (("bound", 0), ("gaussian", GAUSSIAN))
}


cdef loss loss_of(kernel):
    cdef const double[:, ::1] mixture = kernel[3]
    cdef const double[::1] tilts = kernel[4]
    cdef loss q = make_loss(kernel[1], NULL, 0)
    if mixture is not None:
        q = make_loss(kernel[1], &mixture[0, 0], mixture.shape[1])
    if tilts is not None:
        q.tilts, q.outputs = &tilts[0], tilts.shape[0]
    return q


cdef plane plane_of(arrays):
    cdef const double[:, ::1] m = arrays[0], v = arrays[1], a = arrays[2], c = arrays[3], e = arrays[4]
    cdef const double[::1] t = arrays[5], delta = arrays[6]
    cdef plane p
    p.n, p.K, p.weights, p.y, p.own, p.floor = m.shape[0], m.shape[1], NULL, NULL, False, arrays[7]
    p.m, p.v, p.a, p.c, p.e = &m[0, 0], &v[0, 0], &a[0, 0], &c[0, 0], &e[0, 0]
    p.t, p.delta = &t[0], &delta[0]
    return p


def moments(arrays, double[:, ::1] mean, double[:, ::1] variance):
    """Mean and variance (at least the floor, whatever the rounding) of the scores on a plane."""
    cdef plane p = plane_of(arrays)
    cdef Py_ssize_t i, k
    with nogil:
        for i in range(p.n):
            for k in range(p.K):
                mean[i, k] = mean_at(p, i * p.K + k, k)
                variance[i, k] = variance_at(p, i * p.K + k, k)


def add_expansion(kernel, arrays, const double[:, ::1] y, const double[:, ::1] weights, double[:, ::1] sums):
    """sums += Σ weight·φ on a plane, its slopes in t and δ, and its second derivatives tt, tδ, δδ: six rows.

    Three rows: the second derivatives of its majoriser.
    """
    cdef loss q = loss_of(kernel)
    cdef plane p = plane_of(arrays)
    cdef int code = kernel[0], wanted = JET if sums.shape[0] == SUMS else GAMMA
    if p.n:
        p.weights, p.y, p.own = &weights[0, 0], &y[0, 0], weights.shape[1] == p.K
        with nogil:
            add_plane(code, wanted, q, p, &sums[0, 0])


def jets(kernel, const double[::1] m, const double[::1] v, const double[::1] y, double[:, ::1] out):
    """out = φ, dm, dv, dmm, dmv, dvv: six rows. One row: the majoriser's γ."""
    cdef loss q = loss_of(kernel)
    cdef int code = kernel[0], wanted = out.shape[0], k
    cdef double* rows[6]
    if m.shape[0]:
        for k in range(wanted):
            rows[k] = &out[k, 0]
        with nogil:
            fill(code, wanted, q, m.shape[0], &m[0], &v[0], &y[0], rows)


def slopes(
    kernel, const double[:, ::1] m, const double[:, ::1] v, const double[:, ::1] y, double[:, ::1] dm,
    double[:, ::1] dv,
):
    """dm, dv = ∂φ/∂m, ∂φ/∂v."""
    cdef loss q = loss_of(kernel)
    cdef int code = kernel[0]
    cdef double* rows[2]
    if m.shape[0]:
        rows[0], rows[1] = &dm[0, 0], &dv[0, 0]
        with nogil:
            fill(code, SLOPES, q, m.shape[0] * m.shape[1], &m[0, 0], &v[0, 0], &y[0, 0], rows)
