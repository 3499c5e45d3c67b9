# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""One pass over a stream, row by row: the steps of `solvers/online.py`, O(non-zeros) each.

Every feature, and the offset as the last one, has a line of 2 + 5K numbers in `lines`:

    n, f             the weight of the examples that held it, and its step's factor, about n**(1 - decay)
    w, u, h, f/p, o  for each of K problems: weight, averaged n-th part of w·p, curvature, last step, and
                     the outlook, the weight that losses are seen with

where p = ridge + h is what h, the ridge and additive noise amount to. A row is first packed into
(x, variance, line) of its non-zeros, so that dense rows and CSR rows take the very same steps.
"""
from libc.math cimport erf, exp, sqrt, tanh
from libc.stdlib cimport free, malloc

cdef extern from "_simd.h":
    ctypedef void inlined_void

include "_csr.pxi"

cdef enum:
    # What `loss` may be, plus one for a normal score.
    HINGE = 0
    TUBE = 2
    LOGISTIC = 4

cdef double ROOT_HALF = 0.7071067811865476
cdef double DENSITY = 0.3989422804014327  # of a standard normal variable, at 0
#: The largest curvature of ½(E|ζ|)² for a normal ζ: see `losses`.
cdef double NORMAL_CURVATURE = 1.4678957898220109
#: Deviations, in units of the loss's scale: of every score, and one that majorisers are cut off at.
cdef double FLOOR = 1e-3
cdef double GRAIN = 0.1

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
    const double* nodes  # the mixture of the logistic loss under a normal score: 4k² and weights
    Py_ssize_t d, K, width, n_nodes
    int loss
    double parameter, ridge, decay, calm, memory, offset_memory, blend
    bint fit_intercept

cdef struct Noise:
    const double* factor   # E x̃ = factor·x
    const double* kappa    # Var x̃ = kappa·(factor·x)**power
    const int32_t* groups  # of every feature, or NULL
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


cdef inline Slopes absolute(double z, double v, double scale, bint normal) noexcept nogil:
    """E|ζ| of ζ with mean z and variance v: its bound √(z² + v), or its value for a normal ζ."""
    cdef Slopes out
    cdef double r, a, u
    v += FLOOR * FLOOR * scale * scale
    u = v + scale * scale
    if normal:
        r = sqrt(v)
        a = DENSITY * exp(-0.5 * z * z / v)
        out.dm = erf(ROOT_HALF * z / r)
        out.dv = 2 * a / r
        r = z * out.dm + 2 * r * a
        out.gamma = NORMAL_CURVATURE / max(r, GRAIN * scale)
        out.bend = 2 * DENSITY * exp(-0.5 * z * z / u) / sqrt(u)
    else:
        r = sqrt(z * z + v)
        out.dm = z / r
        out.dv = 1 / r
        out.gamma = 1 / max(r, GRAIN * scale)
        r = 1 / sqrt(z * z + u)
        out.bend = u * r * r * r
    return out


cdef inline Slopes logistic(double m, double v, double y) noexcept nogil:
    """log 2cosh(½ω) − ½y·m, ω = √(m² + v)."""
    cdef Slopes out
    cdef double omega = sqrt(m * m + v), t, slope
    if omega < 0.03:
        out.gamma, slope = 0.25 - omega * omega / 48, -1.0 / 24
    else:
        t = tanh(0.5 * omega)
        out.gamma = 0.5 * t / omega
        slope = (0.25 * (1 - t * t) - out.gamma) / (omega * omega)
    out.dm = out.gamma * m - 0.5 * y
    out.dv = out.gamma
    out.bend = out.gamma + slope * m * m
    return out


cdef inline Slopes logistic_normal(
    double m, double v, double y, const double* nodes, Py_ssize_t size,
) noexcept nogil:
    """The mixture of normal hinges over Kolmogorov's distribution: see `losses.LogisticGaussian`."""
    cdef Slopes out
    cdef Py_ssize_t i
    cdef double z = -y * m, u, weight
    out.dm, out.dv = 0.5, 0
    for i in range(size):
        u, weight = v + nodes[i], nodes[size + i]
        out.dm += 0.5 * weight * erf(ROOT_HALF * z / sqrt(u))
        out.dv += weight * DENSITY * exp(-0.5 * z * z / u) / sqrt(u)
    out.dm *= -y
    out.bend = out.dv  # the heat equation
    out.gamma = 0.25
    return out


cdef inline Slopes expected(Stream* stream, double m, double v, double y, double scale) noexcept nogil:
    """The slopes of a loss at a score of mean m and variance v."""
    cdef Slopes out, other
    cdef bint normal = stream.loss & 1
    if stream.loss - normal == HINGE:
        out = absolute(stream.parameter - y * m, v, scale, normal)
        out.dm = -0.5 * y * (1 + out.dm)
    elif stream.loss - normal == TUBE:
        out = absolute(y - m - stream.parameter, v, scale, normal)
        other = absolute(y - m + stream.parameter, v, scale, normal)
        out.dm = -0.5 * (out.dm + other.dm)
        out.dv += other.dv
        out.gamma += other.gamma
        out.bend += other.bend
    elif normal:
        return logistic_normal(m, v, y, stream.nodes, stream.n_nodes)
    else:
        return logistic(m, v, y)
    out.dv *= 0.5
    out.gamma *= 0.5
    out.bend *= 0.5
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


cdef inline double recent(double memory, double n, double s) noexcept nogil:
    """The last example's part in an average in which the n-th counts n**memory."""
    return (memory + 1) * s / (n + memory * s)


cdef inline inlined_void judge(
    Stream* stream, Row* row, const double* y, double s, const Py_ssize_t K,
) noexcept nogil:
    """The losses' slopes; a step that goes along with the row's own curvature never overshoots."""
    cdef Py_ssize_t c
    cdef double* offset = stream.lines + stream.d * stream.width
    cdef double residual = 1, part = recent(stream.offset_memory, offset[0] + s, s)
    cdef double own = 1 - stream.blend  # what the outlook moves by when the weight makes a step
    cdef Slopes out
    for c in range(K):
        if stream.fit_intercept:
            row.m[c] += offset[6 + 5 * c]
            row.reach[c] += offset[5 + 5 * c]
        if stream.loss - (stream.loss & 1) == TUBE:
            # A regression's unit of length is the recent size of its residuals.
            residual = sqrt((y[c] - row.m[c]) * (y[c] - row.m[c]) + row.variance[c])
            stream.scales[c] += part * (max(residual, stream.parameter) - stream.scales[c])
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
    cdef double growth = 1 - stream.decay, memory = stream.memory, base = stream.ridge, blend = stream.blend
    cdef double x, v, w, g, p, n, f, both, each, ridge, share, part, shrink, kappa
    cdef double* line
    cdef double* cell
    cdef double* sums
    cdef Slopes slopes = row.slopes[0]
    for e in range(size):
        line, x, v = stream.lines + row.j[e] * stream.width, row.x[e], row.v[e]
        n = line[0] + s
        both = 1 / (n * (n + memory * s))  # one division for two: they are what takes time
        each = both * (n + memory * s)
        share = s * each
        part = (memory + 1) * s * both * n
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
    part = recent(stream.offset_memory, line[0], s)
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


cdef Stream make_stream(tuple arguments):
    cdef double[:, ::1] lines = arguments[0], sums = arguments[1]
    cdef const double[:, ::1] nodes = arguments[2]
    cdef Stream stream
    stream.lines, stream.width, stream.d = &lines[0, 0], lines.shape[1], lines.shape[0] - 1
    stream.K = sums.shape[1]
    stream.ridges, stream.spread = &sums[0, 0], &sums[1, 0]
    stream.scales, stream.reaches = &sums[2, 0], &sums[3, 0]
    stream.nodes, stream.n_nodes = &nodes[0, 0], nodes.shape[1]
    stream.loss, stream.parameter, stream.ridge, stream.fit_intercept = arguments[3:7]
    stream.decay, stream.calm, stream.memory, stream.offset_memory, stream.blend = arguments[7:12]
    return stream


cdef Noise make_noise(tuple arguments):
    cdef const double[::1] factor = arguments[0], kappa = arguments[1]
    cdef const int32_t[::1] groups = arguments[2]
    cdef Noise noise
    noise.factor, noise.kappa = &factor[0], &kappa[0]
    noise.groups = &groups[0] if groups.shape[0] else NULL
    noise.uniform, noise.power = arguments[3], arguments[4]
    return noise


def csr_learn(
    const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const double[:, ::1] Y, const double[::1] weights, tuple stream_arguments, tuple noise_arguments,
    Py_ssize_t groups,
):
    """One step for every row of a CSR matrix, in order."""
    cdef Stream stream = make_stream(stream_arguments)
    cdef Noise noise = make_noise(noise_arguments)
    cdef Row row
    cdef Py_ssize_t i, e, size, longest = 0, n = Y.shape[0]
    cdef bint enough
    with nogil:
        for i in range(n):
            longest = max(longest, <Py_ssize_t> (indptr[i + 1] - indptr[i]))
        enough = make_row(&row, longest, groups, stream.K)
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
    const value_t[:, :] X,
    const double[:, ::1] Y, const double[::1] weights, tuple stream_arguments, tuple noise_arguments,
    Py_ssize_t groups,
):
    """One step for every row of a dense array, in order."""
    cdef Stream stream = make_stream(stream_arguments)
    cdef Noise noise = make_noise(noise_arguments)
    cdef Row row
    cdef Py_ssize_t i, j, size, n = Y.shape[0], d = X.shape[1]
    cdef bint enough
    with nogil:
        enough = make_row(&row, d, groups, stream.K)
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
