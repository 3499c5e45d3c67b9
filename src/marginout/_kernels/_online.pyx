# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""One pass over a stream, row by row: the steps of `_online/stream.py`, O(non-zeros) each.

Every feature, and the offset as the last one, has a line of 2 + 5K numbers in `lines`:

    n, f             the weight of the examples that held it, and its step's factor, about n**(1 - decay)
    w, u, h, f/p, o  for each of K problems: weight, averaged n-th part of w·p, curvature, last step, and
                     the outlook, the weight that losses are seen with

where p = ridge + h is what h, the ridge and additive noise amount to. A row is first packed into
(x, variance, line) of its non-zeros, so that dense rows and CSR rows take the very same steps.
"""
from libc.math cimport sqrt
from libc.stdlib cimport free, malloc

include "_csr.pxi"

cdef extern from "_simd.h":
    ctypedef void inlined_void

ctypedef const double* doubles

cdef extern from "losses.h" nogil:
    int HINGE, TUBE, LOGISTIC, SQUARED, PINBALL, GAUSSIAN
    double LOGISTIC_CURVATURE
    ctypedef struct jet:  # of 2sφ, in m and v/2
        double dm, dh, bend, mm, gamma
    ctypedef struct loss:
        double parameter, least
        doubles nodes, shares, tilts
        int size
    loss make_loss(double parameter, doubles mixture, int size)
    jet jet_of(int code, loss q, double s, double m, double v, double y)

# In units of the loss's scale: a deviation that every score has, so that there is no kink, and the length
# that majorisers are cut off at.
cdef double ROUNDED_BY = 1e-3
cdef double CUT_OFF_AT = 0.1

cdef struct Slopes:
    double dm      # ∂φ/∂m
    double dv      # 2·∂φ/∂v
    double gamma   # a majoriser's curvature, cut off
    double bend    # ∂²φ/∂m², seen from a distance of the loss's scale
    double pace    # a factor of all steps

cdef struct Stream:
    double* lines
    double* ridges     # (K,) Σ s·2∂φ/∂v: additive noise is a ridge of this times its variance
    double* spread     # (K,) the additive noise's variance of the scores
    double* scales     # (K,) the loss's unit of length
    double* reaches    # (K,) how far an example's full steps move its own score, lately, in this unit
    Py_ssize_t d, K, width
    double ridge, decay, calm, fading, offset_fading, blend
    bint fit_intercept, regression
    double least  # unit of length of a regression
    int code
    loss q

cdef struct Noise:
    const double* factor   # E x̃ = factor·x
    const double* kappa    # Var x̃ = kappa·(factor·x)**power
    const Py_ssize_t* groups  # of every feature, or NULL
    Py_ssize_t n_groups
    bint uniform           # one factor and kappa for all
    int power

cdef struct Row:
    Py_ssize_t size
    double* x          # means of the noisy non-zeros
    double* v          # their variances
    Py_ssize_t* j      # their features
    double* sums       # (groups, K), zero between rows
    double* m          # (K,) each
    double* variance
    double* reach      # Σ step·x²
    Slopes* slopes     # of each problem, times the weight


cdef inline inlined_void kinked(
    const int code, loss q, double m, double v, double y, double scale, Slopes* out,
) noexcept nogil:
    """Slopes of a loss with kinks, which are rounded off."""
    # For a normal score, functions made for vectors take 3 % of a step longer than the C library's erf and
    # exp, which would be a second formula.
    cdef jet near, far
    v += ROUNDED_BY * ROUNDED_BY * scale * scale
    q.least = CUT_OFF_AT * scale
    near = jet_of(code, q, 0.5, m, v, y)
    far = jet_of(code, q, 0.5, m, v + scale * scale, y)
    out.dm, out.dv, out.gamma, out.bend = near.dm, near.dh, near.gamma, far.bend * far.mm


cdef inline inlined_void logistic(loss q, double m, double v, double y, Slopes* out) noexcept nogil:
    """Slopes of the logistic loss: of its bound, or of a mixture of normal hinge losses."""
    cdef jet j
    cdef int i
    if q.size == 0:
        j = jet_of(LOGISTIC, q, 0.5, m, v, y)
        out.dm, out.dv, out.gamma, out.bend = j.dm, j.dh, j.gamma, j.bend * j.mm
        return
    out.dm = out.dv = 0
    for i in range(q.size):
        j = jet_of(HINGE + GAUSSIAN, q, 0.5 * q.shares[i], m, v + q.nodes[i], y)
        out.dm += j.dm
        out.dv += j.dh
    out.bend, out.gamma = out.dv, LOGISTIC_CURVATURE  # by the heat equation; and a bound that costs nothing


cdef inline inlined_void squared(
    const int code, loss q, double m, double v, double y, double scale, Slopes* out,
) noexcept nogil:
    """Slopes of the squared hinge loss, which has no kink."""
    cdef jet j = jet_of(code, q, 0.5, m, v, y)
    # Its curvature has a jump: seen from a distance, it is that of a normal score.
    cdef jet far = jet_of(SQUARED + GAUSSIAN, q, 0.5, m, v + scale * scale, y)
    out.dm, out.dv, out.gamma, out.bend = j.dm, j.dh, j.gamma, far.bend * far.mm


cdef inline Slopes expected(Stream* stream, double m, double v, double y, double scale) noexcept nogil:
    """Slopes of the loss at a score of mean m and variance v."""
    cdef Slopes out
    # The code must be known to the compiler.
    if stream.code == HINGE:
        kinked(HINGE, stream.q, m, v, y, scale, &out)
    elif stream.code == HINGE + GAUSSIAN:
        kinked(HINGE + GAUSSIAN, stream.q, m, v, y, scale, &out)
    elif stream.code == TUBE:
        kinked(TUBE, stream.q, m, v, y, scale, &out)
    elif stream.code == TUBE + GAUSSIAN:
        kinked(TUBE + GAUSSIAN, stream.q, m, v, y, scale, &out)
    elif stream.code == SQUARED:
        squared(SQUARED, stream.q, m, v, y, scale, &out)
    elif stream.code == SQUARED + GAUSSIAN:
        squared(SQUARED + GAUSSIAN, stream.q, m, v, y, scale, &out)
    elif stream.code == PINBALL:
        kinked(PINBALL, stream.q, m, v, y, scale, &out)
    elif stream.code == PINBALL + GAUSSIAN:
        kinked(PINBALL + GAUSSIAN, stream.q, m, v, y, scale, &out)
    else:
        logistic(stream.q, m, v, y, &out)
    return out


cdef inline double kappa_at(Noise* noise, Py_ssize_t j) noexcept nogil:
    return noise.kappa[0 if noise.uniform else j]


cdef inline inlined_void spread(Row* row, Noise* noise) noexcept nogil:
    """Means and variances of a row's noisy non-zeros, of the values in `x`."""
    cdef Py_ssize_t e
    cdef double factor = noise.factor[0], kappa = noise.kappa[0]
    if not noise.uniform:
        for e in range(row.size):
            row.x[e] *= noise.factor[row.j[e]]
            row.v[e] = noise.kappa[row.j[e]]
    else:
        for e in range(row.size):
            row.x[e] *= factor
            row.v[e] = kappa
    if noise.power == 2:
        for e in range(row.size):
            row.v[e] *= row.x[e] * row.x[e]
    elif noise.power == 1:
        for e in range(row.size):
            row.v[e] *= row.x[e]


cdef inline inlined_void measure(
    Stream* stream, Noise* noise, Row* row, const Py_ssize_t K,
) noexcept nogil:
    """Moments of the scores, and how far a unit step of every feature would move each."""
    cdef Py_ssize_t e, c
    cdef double x, u, own, m, v, q
    cdef double* line
    cdef double* sums
    # Only variances that belong to an example are summed here, feature by feature.
    own = 1 if noise.power and noise.groups == NULL else 0
    for c in range(K):
        row.m[c] = row.reach[c] = 0
        row.variance[c] = stream.spread[c]
    if K == 1:  # sums in registers
        m = q = v = 0
        for e in range(row.size):
            line, x = stream.lines + row.j[e] * stream.width, row.x[e]
            m += x * line[6]
            v += row.v[e] * line[6] * line[6]
            q += x * x * line[5]
        row.m[0], row.reach[0] = m, q
        row.variance[0] += own * v
    else:
        for e in range(row.size):
            line, x = stream.lines + row.j[e] * stream.width, row.x[e]
            for c in range(K):
                u = line[6 + 5 * c]
                row.m[c] += x * u
                row.variance[c] += own * row.v[e] * u * u
                row.reach[c] += x * x * line[5 + 5 * c]
    if noise.groups == NULL:
        return
    for e in range(row.size):
        line, sums = stream.lines + row.j[e] * stream.width, row.sums + noise.groups[row.j[e]] * K
        for c in range(K):
            sums[c] += row.x[e] * line[6 + 5 * c]
    for e in range(row.size):
        line, sums = stream.lines + row.j[e] * stream.width, row.sums + noise.groups[row.j[e]] * K
        for c in range(K):  # κ·Σ_g s_g² is κ·Σ_e s_g·x·w
            row.variance[c] += kappa_at(noise, row.j[e]) * row.x[e] * line[6 + 5 * c] * sums[c]


cdef inline double recent(double fading, double n, double s) noexcept nogil:
    """The last example's part in an average in which the n-th counts n**fading."""
    return (fading + 1) * s / (n + fading * s)


cdef inline inlined_void judge(
    Stream* stream, Row* row, const double* y, double s, const Py_ssize_t K,
) noexcept nogil:
    """The losses' slopes; a step that goes along with the row's own curvature never overshoots."""
    cdef Py_ssize_t c
    cdef double* offset = stream.lines + stream.d * stream.width
    cdef double residual = 1, part = recent(stream.offset_fading, offset[0] + s, s)
    cdef double own = 1 - stream.blend  # what the outlook moves by when the weight makes a step
    cdef Slopes out
    for c in range(K):
        if stream.fit_intercept:
            row.m[c] += offset[6 + 5 * c]
            row.reach[c] += offset[5 + 5 * c]
        if stream.q.tilts != NULL:
            stream.q.parameter = stream.q.tilts[c]
        if stream.regression:
            # A regression's unit of length is the recent size of its residuals.
            residual = sqrt((y[c] - row.m[c]) * (y[c] - row.m[c]) + row.variance[c])
            stream.scales[c] += part * (max(residual, stream.least) - stream.scales[c])
        if residual > 0:
            out = expected(stream, row.m[c], row.variance[c], y[c], stream.scales[c])
            stream.reaches[c] += part * (s * row.reach[c] / stream.scales[c] - stream.reaches[c])
        else:  # A target met exactly, as the first is by the offset that it starts: no step, no curvature.
            out.dm = out.dv = out.gamma = out.bend = 0
        # Scores that tremble would round off the loss: the farther steps reach, the shorter they become.
        # But where they reach far because all is new, there is more to learn than to lose.
        out.pace = 1 / (1 + stream.calm * min(stream.reaches[c], 1))
        out.dm *= s / (1 + s * out.gamma * out.pace * own * row.reach[c])
        out.dv *= s
        out.gamma *= s
        out.bend *= s
        row.slopes[c] = out


cdef inline inlined_void step(
    Stream* stream, Noise* noise, Row* row, double s, const bint additive, const bint together,
    const Py_ssize_t K,
) noexcept nogil:
    """Every feature of the row: its curvature, its weight, its average."""
    cdef Py_ssize_t e, c, size = row.size if row.slopes[0].gamma > 0 else 0
    # Copies, which the compiler knows that no store below can change.
    cdef double growth = 1 - stream.decay, fading = stream.fading, base = stream.ridge, blend = stream.blend
    cdef double x, v, w, g, p, n, f, both, each, ridge, share, part, shrink, kappa
    cdef double* line
    cdef double* cell
    cdef double* sums
    cdef Slopes slopes = row.slopes[0]
    for e in range(size):
        line, x, v = stream.lines + row.j[e] * stream.width, row.x[e], row.v[e]
        n = line[0] + s
        both = 1 / (n * (n + fading * s))  # one division for two: they are what takes time
        each = both * (n + fading * s)
        share = s * each
        part = (fading + 1) * s * both * n
        f = line[1] * (1 + growth * share) if line[1] > 0 else 1
        line[0], line[1] = n, f
        for c in range(K):
            cell = line + 2 + 5 * c
            if K > 1:
                slopes = row.slopes[c]
            w, g, ridge, shrink = cell[0], slopes.dm * x, base, 0
            if additive:
                ridge += v * stream.ridges[c]
                cell[2] += x * x * slopes.bend
            else:
                cell[2] += x * x * slopes.bend + v * slopes.gamma
                shrink = v * slopes.dv
            if together:
                sums, kappa = row.sums + noise.groups[row.j[e]] * K, kappa_at(noise, row.j[e])
                g += x * kappa * slopes.dv * sums[c] / (
                    1 + slopes.gamma * kappa * slopes.pace * (1 - blend) * row.reach[c]
                )
                shrink = 0
            p = ridge + cell[2]
            # w − η·g over 1 + η·(…), with η = pace·f/p
            cell[0] = (p * w - slopes.pace * f * g) / (p + slopes.pace * f * (shrink + ridge * share))
            cell[1] += part * (cell[0] * p * each - cell[1])
            p = 1 / p
            cell[3] = f * p
            w = cell[4]
            cell[4] = cell[0] + blend * (cell[1] * n * p - cell[0])
            if additive:
                stream.spread[c] = max(stream.spread[c] + v * (cell[4] * cell[4] - w * w), 0)
    if together:
        for e in range(row.size):
            for c in range(K):
                row.sums[noise.groups[row.j[e]] * K + c] = 0


cdef inline inlined_void step_offset(Stream* stream, Row* row, double s, const Py_ssize_t K) noexcept nogil:
    """What all examples share: the offset, and the ridge of additive noise."""
    cdef Py_ssize_t c
    cdef double* line = stream.lines + stream.d * stream.width
    cdef double* cell
    cdef double part
    line[0] += s
    line[1] = line[1] * (1 + (1 - stream.decay) * s / line[0]) if line[1] > 0 else 1
    part = recent(stream.offset_fading, line[0], s)
    for c in range(K):
        stream.ridges[c] += row.slopes[c].dv
        cell = line + 2 + 5 * c
        cell[2] += row.slopes[c].bend
        if stream.fit_intercept and cell[2] > 0:
            cell[3] = line[1] / cell[2]
            cell[0] -= row.slopes[c].pace * cell[3] * row.slopes[c].dm
        cell[1] += part * (cell[0] - cell[1])
        cell[4] = cell[0] + stream.blend * (cell[1] - cell[0])


cdef inline inlined_void learn_row(
    Stream* stream, Noise* noise, Row* row, const double* y, double s, const Py_ssize_t K,
) noexcept nogil:
    spread(row, noise)
    measure(stream, noise, row, K)
    judge(stream, row, y, s, K)
    if noise.groups != NULL:
        step(stream, noise, row, s, False, True, K)
    elif noise.power == 0:
        step(stream, noise, row, s, True, False, K)
    else:
        step(stream, noise, row, s, False, False, K)
    step_offset(stream, row, s, K)


cdef void learn(Stream* stream, Noise* noise, Row* row, const double* y, double s) noexcept nogil:
    # The compiler makes loops of their own for one problem, and for every kind of noise.
    if stream.K == 1:
        learn_row(stream, noise, row, y, s, 1)
    else:
        learn_row(stream, noise, row, y, s, stream.K)


cdef bint make_row(Row* row, Py_ssize_t longest, Py_ssize_t groups, Py_ssize_t K) noexcept nogil:
    """Room for rows of so many non-zeros, and for one that turns out to be zero; False without memory."""
    cdef Py_ssize_t i
    longest += 1
    row.size = 0
    row.x = <double*> malloc((2 * longest + (groups + 3) * K) * sizeof(double))
    row.j = <Py_ssize_t*> malloc(longest * sizeof(Py_ssize_t))
    row.slopes = <Slopes*> malloc(K * sizeof(Slopes))
    if row.x == NULL or row.j == NULL or row.slopes == NULL:
        return False
    row.v = row.x + longest
    row.sums = row.v + longest
    row.m = row.sums + groups * K
    row.variance = row.m + K
    row.reach = row.variance + K
    for i in range(groups * K):
        row.sums[i] = 0
    return True


cdef void free_row(Row* row) noexcept nogil:
    free(row.x)
    free(row.j)
    free(row.slopes)


cdef Stream make_stream(tuple state):
    cdef double[:, ::1] lines = state[0], sums = state[1]
    kernel, ridge, fit_intercept, rates = state[2:]
    cdef const double[:, ::1] mixture = kernel[3]
    cdef const double[::1] tilts = kernel[4]
    cdef Stream stream
    stream.lines, stream.width, stream.d = &lines[0, 0], lines.shape[1], lines.shape[0] - 1
    stream.K = sums.shape[1]
    stream.ridges, stream.spread = &sums[0, 0], &sums[1, 0]
    stream.scales, stream.reaches = &sums[2, 0], &sums[3, 0]
    stream.code, stream.q = kernel[0], make_loss(kernel[1], NULL, 0)
    stream.regression = stream.code in (TUBE, TUBE + GAUSSIAN, PINBALL, PINBALL + GAUSSIAN)
    stream.least = kernel[1]
    if mixture is not None:
        stream.q = make_loss(kernel[1], &mixture[0, 0], mixture.shape[1])
    if tilts is not None:
        stream.q.tilts = &tilts[0]
    stream.ridge, stream.fit_intercept = ridge, fit_intercept
    stream.decay, stream.calm, stream.fading, stream.offset_fading, stream.blend = rates
    return stream


cdef Noise make_noise(moments):
    cdef const double[::1] factor = moments[0], kappa = moments[1]
    cdef const Py_ssize_t[::1] groups = moments[3]
    cdef Noise noise
    noise.factor, noise.kappa, noise.power = &factor[0], &kappa[0], moments[2]
    noise.uniform = factor.shape[0] == kappa.shape[0] == 1
    noise.groups, noise.n_groups = NULL, 0
    if groups is not None:
        noise.groups, noise.n_groups = &groups[0], moments[3].max() + 1
    return noise


def csr_learn(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const double[:, ::1] Y, const double[::1] weights, tuple state, moments,
):
    """One step for every row of a CSR matrix, in order."""
    cdef Stream stream = make_stream(state)
    cdef Noise noise = make_noise(moments)
    cdef Row row
    cdef Py_ssize_t i, e, size, longest = 0, n = Y.shape[0]
    cdef bint enough
    with nogil:
        for i in range(n):
            longest = max(longest, <Py_ssize_t> (indptr[i + 1] - indptr[i]))
        enough = make_row(&row, longest, noise.n_groups, stream.K)
        if enough:
            for i in range(n):
                if weights[i] <= 0:
                    continue
                size = 0
                for e in range(indptr[i], indptr[i + 1]):
                    row.x[size], row.j[size] = data[e], indices[e]
                    size += data[e] != 0
                row.size = size
                learn(&stream, &noise, &row, &Y[i, 0], weights[i])
        free_row(&row)
    if not enough:
        raise MemoryError


def dense_learn(
    const value_t[:, :] X, const double[:, ::1] Y, const double[::1] weights, tuple state, moments,
):
    """One step for every row of a dense array, in order."""
    cdef Stream stream = make_stream(state)
    cdef Noise noise = make_noise(moments)
    cdef Row row
    cdef Py_ssize_t i, j, size, n = Y.shape[0], d = X.shape[1]
    cdef bint enough
    with nogil:
        enough = make_row(&row, d, noise.n_groups, stream.K)
        if enough:
            for i in range(n):
                if weights[i] <= 0:
                    continue
                size = 0
                for j in range(d):
                    row.x[size], row.j[size] = X[i, j], j
                    size += X[i, j] != 0
                row.size = size
                learn(&stream, &noise, &row, &Y[i, 0], weights[i])
        free_row(&row)
    if not enough:
        raise MemoryError
