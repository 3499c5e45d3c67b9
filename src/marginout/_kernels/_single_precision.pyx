# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Eight problems under dropout at once, in single precision: see `_single_precision.h`."""
from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef extern from "_single_precision.h":
    ctypedef struct lanes_rules:
        int trials, renewal, drift
        double decline, longest, safety, grain, share
    ctypedef struct lanes_problem:
        int64_t n, d
        const void* data
        int is_float
        const int32_t* indices
        const int32_t* indptr
        void* rows[9]
        void* columns[5]
        float kappa[8]
        double b[8]
        double value[8]
        double left[8]
        int32_t done[8]
        int32_t iterations[8]
        double margin, unit, tol
        const double* nodes
        const double* shares
        int code, size, fit_intercept, max_iter
        lanes_rules rules
        int (*stops)(void*) noexcept nogil
        void* watch
    void lanes_solve(lanes_problem* q) noexcept nogil
    int lanes_available() noexcept nogil

ctypedef fused value_t:
    float
    double

LANES = 8
#: Whether this processor has what the kernel is made for.
AVAILABLE = bool(lanes_available())


cdef int ask(void* watch) noexcept with gil:
    """Whether watch[0]() is true, or raises: then watch[1] has the exception, Ctrl-C for instance."""
    stopped, raised = <tuple> watch
    try:
        return bool(stopped())
    except BaseException as error:
        raised.append(error)
        return 1


def solve(
    const value_t[::1] data, const int32_t[::1] indices, const int32_t[::1] indptr,
    const float[:, ::1] y, const float[:, ::1] s, const float[::1] kappa,
    float[:, ::1] W, double[::1] b, kernel, bint fit_intercept, double tol, int max_iter, rules, stopped,
):
    """Minimise 8 problems from (W, b), which become the solution; return F, what is left, and iterations.

    The loss is kernel = (code, margin, unit, mixture or None). y and s = C·weights are (n, 8), W is (d, 8);
    lanes without weight are idle. The loop ends when stopped(), asked once a second, is true.
    """
    cdef lanes_problem q
    cdef const double[:, ::1] mixture = kernel[3]
    cdef tuple watch = (stopped, [])
    cdef Py_ssize_t l
    cdef float[:, :, ::1] rows = np.empty((7, y.shape[0], 8), dtype=np.float32)
    cdef float[:, :, ::1] columns = np.zeros((4, W.shape[0], 8), dtype=np.float32)
    q.n, q.d = y.shape[0], W.shape[0]
    q.data, q.is_float = &data[0], value_t is float
    q.indices, q.indptr = &indices[0], &indptr[0]
    q.rows[0], q.rows[1], q.columns[0] = <void*> &y[0, 0], <void*> &s[0, 0], <void*> &W[0, 0]
    for l in range(7):
        q.rows[l + 2] = &rows[l, 0, 0]
    for l in range(4):
        q.columns[l + 1] = &columns[l, 0, 0]
    q.code, q.margin, q.unit, q.size = kernel[0], kernel[1], kernel[2], 0
    if mixture is not None:
        q.nodes, q.shares, q.size = &mixture[0, 0], &mixture[1, 0], mixture.shape[1]
    q.tol, q.fit_intercept, q.max_iter = tol, fit_intercept, max_iter
    q.rules.trials, q.rules.renewal, q.rules.drift, q.rules.decline = rules[:4]
    q.rules.longest, q.rules.safety, q.rules.grain, q.rules.share = rules[4:]
    q.stops, q.watch = ask, <void*> watch
    for l in range(8):
        q.kappa[l] = kappa[l]
        q.b[l] = b[l]
        q.value[l] = q.left[l] = 0
        q.done[l] = q.iterations[l] = 0
    with nogil:
        lanes_solve(&q)
    if watch[1]:
        raise watch[1][0]
    for l in range(8):
        b[l] = q.b[l]
    return (
        np.array([q.value[l] for l in range(8)]),
        np.array([q.left[l] for l in range(8)]),
        np.array([q.iterations[l] for l in range(8)]),
    )
