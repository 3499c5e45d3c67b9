# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Newton's method for few features, one problem after the other: see `_newton.h` and `_interior.h`."""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from functools import partial

import numpy as np

ctypedef const double* doubles

cdef extern from "_newton.h" nogil:
    int PANEL, TILE
    ctypedef struct loss:
        doubles tilts
        Py_ssize_t outputs
    loss make_loss(double parameter, doubles mixture, int size)
    ctypedef struct newton_rules:
        double tol, cold, warm, sharpen, safety, early, stage, little, tight
        int polish
    ctypedef struct newton:
        Py_ssize_t n, d, wide
        const char* x
        Py_ssize_t row, column
        int is_float, sparse, power, noisy
        const double* entries
        const int32_t* indices
        const int64_t* indptr
        const int64_t* rows
        doubles scale
        doubles kappa
        doubles constant
        double factor
        loss q
        int code, kinked, offset, far
        double unit, rounding, least, floor
        double* y
        double* s
        double* m
        double* v
        double* a
        double* c
        double* e
        double* cache
        double* panel
        double* left
        double* right
        double* H
        double* A
        double* w
        double* p
        double* G
        double* g2
        double* cross
        double* mean
        double* size
        double* r
        double* kept
        double* shrink
        double b
        doubles centre
        double* history
        double* told
    ctypedef struct newton_end:
        double value, gap, left
        int converged, iterations, stopped, broken
    ctypedef int (*newton_watch)(void* who, int iteration, double value, double left) noexcept nogil
    newton_end newton_solve(newton* z, newton_rules rules, int max_iter, newton_watch watch, void* who)
    void pack(const newton* z, Py_ssize_t i, double* out)

cdef extern from "_interior.h" nogil:
    ctypedef struct interior:
        int kinks
        double* target
        double* low
        double* high
        double* beta
        double* p
        double* q
        double* move
        double* move_p
        double* move_q
    newton_end interior_solve(
        newton* z, interior* k, newton_rules rules, int max_iter, newton_watch watch, void* who,
    )

cdef extern from "_joint.h" nogil:
    int PAIR
    ctypedef struct joint:
        Py_ssize_t blocks, d, wide, R, outs
        const char* x
        Py_ssize_t row, column
        int is_float, sparse, power, noisy, additive, offset
        const double* entries
        const int32_t* indices
        const int64_t* indptr
        const int64_t* rows
        const int32_t* labels
        doubles scale
        doubles kappa
        doubles constant
        double factor
        double* s
        double* u
        double* p
        double* centre
        double* cache
        double* panel
        double* weighted
        double* jet
        double* W
        double* G
        double* kept
        double* best
        double* step
        double* rest
        double* solved
        double* along
        double* product
        double* apart
        double* towards
        double* spread
        double* first
        double* second
        double* curved
        double* A
        double* shrink
        double* corner
        double* room
        double* one
        double* history
        double* told
    void joint_begin(joint* z)
    void joint_pull(joint* z, double* P, double* out)
    newton_end joint_solve(joint* z, newton_rules rules, int max_iter, newton_watch watch, void* who)
    void joint_find_centre(joint* z)
    void joint_pack(const joint* z, Py_ssize_t block, double* out)

ctypedef fused value_t:
    float
    double

#: Multiplications of an iteration from which on it asks for signals.
LONG = 1_000_000
#: Numbers of X that are kept in blocks for a problem; of a larger X a block is made whenever it is needed.
CACHED = 2**20


cdef int never(void* who, int iteration, double value, double left) noexcept nogil:
    return 0


cdef int ask(void* who, int iteration, double value, double left) noexcept with gil:
    """Whether who[0](iteration, value, left) is true, or something is raised: then who[1] has the exception.

    Sets: who[2], the weights, to who[3], where they are now.
    """
    stops, raised, shown, now = <tuple> who
    try:
        PyErr_CheckSignals()
        shown[:] = now
        return stops is not None and bool(stops(iteration, value, left))
    except BaseException as error:
        raised.append(error)
        return 1


def solve(
    const value_t[:, :] x, const int32_t[::1] indices, const int64_t[::1] indptr, moments, kernel,
    const double[:, ::1] Y, const double[:, ::1] weights, const double[::1] factors,
    double[:, ::1] W, double[::1] b, boxes, traits, rules, int max_iter, watch, histories,
):
    """Minimise all problems from (W, b), which become the solutions.

    x is dense, (n, d), or holds the entries of CSR times the scale, (nnz, 1), in double precision.
    `moments` are scale, kappa, constant and the power; `traits` are kinked, offset, far, the loss's unit
    and the rounding in the end. watch(k, iteration, value, left) is asked after every iteration of a
    problem whether to end, unless it is None. Of its last iteration minus the number is given.

    `boxes` are the kinks of losses without noise, whose solutions start anew: target, (n, K), half of the
    distance between two of them, low and high, (n, K); else None.

    Returns value, gap, left, converged, iterations, stopped. Problems without a finite solution become NaN.
    """
    cdef newton z
    cdef newton_rules order
    cdef newton_end end
    cdef newton_watch watcher = never
    cdef const double[::1] scale = moments[0], kappa = moments[1], constant = moments[2], tilts
    cdef const double[:, ::1] mixture = kernel[3]
    cdef Py_ssize_t n = Y.shape[0], d = W.shape[0], K = W.shape[1], i, k, wide, blocks, count, own
    cdef bint same
    cdef double[:, ::1] results = np.zeros((4, K))
    cdef int[:, ::1] marks = np.zeros((3, K), dtype=np.intc)
    wide = (d + TILE - 1) // TILE * TILE
    blocks = (n + PANEL - 1) // PANEL
    cdef double[:, ::1] examples = np.empty((7, blocks * PANEL + 1))
    cdef double[:, ::1] features = np.zeros((10, wide))
    cdef double[:, ::1] square = np.empty((2 * wide, wide))
    cdef double[::1] room = np.zeros(5 * wide * PANEL)
    cdef double[::1] history = np.empty(max_iter + 1)
    cdef int64_t[::1] rows = np.empty(n + 1, dtype=np.int64)
    cdef double[::1] cache = None, centre = np.zeros(d)
    cdef interior kink
    cdef Py_ssize_t all = blocks * PANEL
    cdef const double[:, ::1] target, low, high
    cdef double epsilon
    cdef double[:, ::1] kinks
    if boxes is not None:
        target, epsilon, low, high = boxes
        kink.kinks = 2 if epsilon > 0 else 1
        kinks = np.zeros((9, kink.kinks * all + 1))
        kink.target, kink.low, kink.high = &kinks[0, 0], &kinks[1, 0], &kinks[2, 0]
        kink.beta, kink.p, kink.q = &kinks[3, 0], &kinks[4, 0], &kinks[5, 0]
        kink.move, kink.move_p, kink.move_q = &kinks[6, 0], &kinks[7, 0], &kinks[8, 0]
    memset(&z, 0, sizeof(newton))
    z.d, z.wide, z.sparse = d, wide, indptr is not None
    z.is_float = value_t is float
    if not z.sparse and n * wide <= CACHED:
        cache = np.empty(blocks * PANEL * wide)
        z.cache = &cache[0]
    if x.shape[0]:
        z.x = <const char*> &x[0, 0]
    z.row, z.column = x.strides[0], x.strides[1]
    if z.sparse:
        z.entries, z.indices, z.indptr = <const double*> z.x, &indices[0], &indptr[0]
    z.rows, z.scale, z.kappa, z.constant, z.power = &rows[0], &scale[0], &kappa[0], &constant[0], moments[3]
    for i in range(d):
        z.noisy = z.noisy or kappa[i] != 0
    z.q = make_loss(kernel[1], NULL, 0)
    if mixture is not None:
        z.q = make_loss(kernel[1], &mixture[0, 0], mixture.shape[1])
    if kernel[4] is not None:
        tilts = kernel[4]
        z.q.outputs = 1
    z.code = kernel[0]
    z.kinked, z.offset, z.far, z.unit, z.least = traits
    cdef bint centred = z.far and z.offset and not z.noisy and not z.sparse
    if centred:
        z.far, z.centre = 0, &centre[0]
    z.y, z.s, z.m, z.v = &examples[0, 0], &examples[1, 0], &examples[2, 0], &examples[3, 0]
    z.a, z.c, z.e = &examples[4, 0], &examples[5, 0], &examples[6, 0]
    z.panel, z.left, z.right = &room[0], &room[wide * PANEL], &room[3 * wide * PANEL]
    z.H, z.A = &square[0, 0], &square[wide, 0]
    z.w, z.p, z.G, z.g2, z.cross = (
        &features[0, 0], &features[1, 0], &features[2, 0], &features[3, 0], &features[4, 0]
    )
    z.mean, z.size, z.r, z.kept = &features[5, 0], &features[6, 0], &features[7, 0], &features[8, 0]
    z.shrink, z.history = &features[9, 0], &history[0]
    order.tol, order.cold, order.warm, order.sharpen, order.safety, order.early = rules[:6]
    order.stage, order.little, order.polish, order.tight = rules[6:]
    cdef list raised = []
    cdef tuple who = None
    for k in range(K):
        if kernel[4] is not None:
            z.q.tilts = &tilts[k]
        count, own, same = 0, k if weights.shape[1] > 1 else 0, k > 0
        with nogil:
            for i in range(n):
                if weights[i, own] > 0:
                    same = same and count < z.n and rows[count] == i
                    rows[count] = i
                    z.y[count], z.s[count] = Y[i, k], weights[i, own]
                    count += 1
            same = same and count == z.n
            z.n = count
            for i in range(count, (count + PANEL - 1) // PANEL * PANEL):
                z.y[i], z.s[i] = 1.0, 0.0
            if centred and not same:
                for i in range(d):
                    centre[i] = 0
                    for own in range(count):
                        centre[i] += scale[i] * x[rows[own], i] / count
            if z.cache and not same:
                for i in range((count + PANEL - 1) // PANEL):
                    pack(&z, i * PANEL, z.cache + i * PANEL * wide)
            for i in range(d):
                z.w[i] = W[i, k]
        z.told, z.b, z.factor = &b[k], b[k], factors[k]
        for i in range(d):
            z.b += centre[i] * W[i, k]
        if watch is not None:
            who = (partial(watch, k), raised, np.asarray(W)[:, k], np.asarray(features)[0, :d])
        elif count * d * d > LONG:
            who = (None, raised, np.asarray(W)[:, k], np.asarray(features)[0, :d])
        if who is not None:
            watcher = ask
        if boxes is not None:
            blocks = (count + PANEL - 1) // PANEL
            for i in range(count):
                own = rows[i]
                kinks[0, i], kinks[1, i], kinks[2, i] = target[own, k], low[own, k], high[own, k]
                if epsilon > 0:
                    kinks[0, i] -= epsilon
                    kinks[1, i] = 0
                    kinks[0, blocks * PANEL + i] = target[own, k] + epsilon
                    kinks[1, blocks * PANEL + i], kinks[2, blocks * PANEL + i] = low[own, k], 0
            with nogil:
                end = interior_solve(&z, &kink, order, max_iter, watcher, <void*> who)
        else:
            with nogil:
                end = newton_solve(&z, order, max_iter, watcher, <void*> who)
        b[k] = float("nan") if end.broken else z.b
        for i in range(d):
            W[i, k] = float("nan") if end.broken else z.w[i]
            b[k] -= centre[i] * z.w[i]
        results[0, k], results[1, k], results[2, k] = end.value, end.gap, end.left
        marks[0, k], marks[1, k], marks[2, k] = end.converged and not end.broken, end.iterations, end.stopped
        histories.append(np.asarray(history)[: end.iterations].tolist() if end.iterations else [end.value])
        if raised:
            raise raised[0]
        if end.stopped:
            break
    return np.asarray(results), np.asarray(marks)


def solve_joint(
    const value_t[:, :] x, const int32_t[::1] indices, const int64_t[::1] indptr, moments,
    const int64_t[::1] order, const int64_t[::1] edges, const double[:, ::1] weights,
    const double[::1] factors, double[:, ::1] W, double[::1] b, bint offset, rules, int max_iter, watch,
    histories,
    double[:, ::1] probe=None,
):
    """The same for multinomial problems of R classes each, whose outputs W and b hold side by side.

    Examples are sorted by class: those of class y are the rows order[edges[y]], ... of x. Their weights,
    (n, problems) or (n, 1), are sorted likewise. Results are (4, problems) and (3, problems).

    `probe`, (d + 1, K), becomes the product of the Hessian at (W, b) with itself; then nothing is solved. Its
    last row is of the offsets, with features of mean 0.
    """
    cdef joint z
    cdef newton_rules sequence
    cdef newton_end end
    cdef newton_watch watcher = never
    cdef const double[::1] scale = moments[0], kappa = moments[1], constant = moments[2]
    cdef Py_ssize_t n = order.shape[0], d = W.shape[0], R = edges.shape[0] - 1, K = W.shape[1]
    cdef Py_ssize_t i, j, k, y, own, most, count, size, problem
    cdef bint same
    cdef double[:, ::1] results = np.zeros((4, K // R))
    cdef int[:, ::1] marks = np.zeros((3, K // R), dtype=np.intc)
    memset(&z, 0, sizeof(joint))
    z.d, z.R, z.outs, z.wide = d, R, (R + PAIR - 1) // PAIR * PAIR, (d + TILE) // TILE * TILE
    most, size = n // PANEL + R, z.wide * z.outs
    cdef int64_t[::1] rows = np.empty(most * PANEL, dtype=np.int64)
    cdef int32_t[::1] labels = np.empty(most, dtype=np.int32)
    cdef double[:, ::1] shares = np.zeros((2, most * PANEL * z.outs + 1))
    cdef double[::1] s = np.zeros(most * PANEL), history = np.empty(max_iter + 1), cache = None
    cdef double[:, ::1] panels = np.zeros((3, PANEL * max(z.wide, z.outs)))
    cdef double[:, ::1] features = np.zeros((15, size))
    cdef double[::1] curved = np.zeros(R * size), A = np.empty(R * z.wide * (z.wide + 1))
    cdef double[::1] room = np.empty(max(z.wide, R) ** 2 + R * R + 3 * max(z.wide, R))
    z.sparse, z.is_float, z.offset, z.power = indptr is not None, value_t is float, offset, moments[3]
    if most * PANEL * z.wide <= CACHED:
        cache = np.empty(most * PANEL * z.wide)
        z.cache = &cache[0]
    if x.shape[0]:
        z.x = <const char*> &x[0, 0]
    z.row, z.column = x.strides[0], x.strides[1]
    if z.sparse:
        z.entries, z.indices, z.indptr = <const double*> z.x, &indices[0], &indptr[0]
    z.rows, z.labels, z.scale, z.kappa, z.constant = &rows[0], &labels[0], &scale[0], &kappa[0], &constant[0]
    for j in range(d):
        z.noisy, z.additive = z.noisy or kappa[j] != 0, z.additive or constant[j] != 0
    z.s, z.u, z.p, z.panel, z.weighted, z.jet = (
        &s[0], &shares[0, 0], &shares[1, 0], &panels[0, 0], &panels[1, 0], &panels[2, 0]
    )
    z.W, z.G, z.kept, z.best, z.step = (
        &features[0, 0], &features[1, 0], &features[2, 0], &features[3, 0], &features[4, 0]
    )
    z.rest, z.solved, z.along, z.product, z.apart = (
        &features[5, 0], &features[6, 0], &features[7, 0], &features[8, 0], &features[9, 0]
    )
    z.towards, z.spread, z.first, z.second, z.centre = (
        &features[10, 0], &features[11, 0], &features[12, 0], &features[13, 0], &features[14, 0]
    )
    z.A, z.shrink, z.room, z.history, z.curved = (
        &A[0], &A[R * z.wide * z.wide], &room[0], &history[0], &curved[0]
    )
    z.corner = z.room + max(z.wide, R) ** 2
    z.one = z.corner + R * R
    sequence.tol, sequence.safety, sequence.early, sequence.little, sequence.polish = rules
    cdef list raised = []
    cdef tuple who = None
    now = np.asarray(features)[0].reshape(z.wide, z.outs)[:d, :R]
    for problem in range(K // R):
        own, same, count = problem if weights.shape[1] > 1 else 0, problem > 0, 0
        with nogil:
            for y in range(R):
                for i in range(edges[y], edges[y + 1]):
                    if weights[i, own] > 0:
                        same = same and count < z.blocks * PANEL and rows[count] == order[i]
                        labels[count // PANEL], rows[count], s[count] = <int32_t> y, order[i], weights[i, own]
                        count += 1
                while count % PANEL:
                    same = same and count < z.blocks * PANEL and rows[count] == -1
                    rows[count], s[count] = -1, 0.0
                    count += 1
            same = same and count == z.blocks * PANEL
            z.blocks = count // PANEL
            if not same:
                joint_find_centre(&z)
            for i in range(z.blocks if z.cache and not same else 0):
                joint_pack(&z, i, z.cache + i * PANEL * z.wide)
            z.factor = factors[problem * R]
            z.told = &b[problem * R]
            for k in range(R):
                for j in range(d):
                    z.W[j * z.outs + k] = W[j, problem * R + k]
        if probe is not None:
            joint_begin(&z)
            for j in range(d + 1):
                for k in range(R):
                    z.along[j * z.outs + k] = probe[j, problem * R + k]
            joint_pull(&z, z.along, z.product)
            for j in range(d + 1):
                for k in range(R):
                    probe[j, problem * R + k] = z.product[j * z.outs + k]
            continue
        if watch is not None or z.blocks * PANEL * d * R > LONG:
            named = None if watch is None else partial(watch, problem)
            who = (named, raised, np.asarray(W)[:, problem * R : problem * R + R], now)
            watcher = ask
        with nogil:
            end = joint_solve(&z, sequence, max_iter, watcher, <void*> who)
        for k in range(R):
            if end.broken:
                b[problem * R + k] = float("nan")
            for j in range(d):
                W[j, problem * R + k] = float("nan") if end.broken else z.W[j * z.outs + k]
        results[0, problem], results[1, problem], results[2, problem] = end.value, end.gap, end.left
        marks[0, problem], marks[1, problem] = end.converged and not end.broken, end.iterations
        marks[2, problem] = end.stopped
        histories.append(np.asarray(history)[: end.iterations].tolist() if end.iterations else [end.value])
        if raised:
            raise raised[0]
        if end.stopped:
            break
    return np.asarray(results), np.asarray(marks)
