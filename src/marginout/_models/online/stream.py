r"""The learner behind :meth:`partial_fit`: one pass over a stream, without a learning rate.

After examples 1 … t the objective that is approached is that of `fit` on these t examples,

    F_t(w, b) = ½‖w‖² + C Σ_{n≤t} s_n φ(m_n, v_n; y_n),

the ridge and the expected loss, with the noise integrated out. Every example is read once. Each feature j
that it holds (x_j ≠ 0) counts its own examples, of total weight n_j, and has

    h_j += s (φ_mm x_j² + γ V_j)          its curvature: γ is the majoriser's, and φ_mm that of a loss whose
                                          kink is as wide as its scale, so that a distant kink counts
    p_j  = 1/C + h_j                      what Newton's method would divide by, if features were independent
    w_j −= r f_j/p_j · (∂φ/∂w_j + s w_j/(C n_j))    f_j ≈ n_j^0.35: longer than Newton's step, then averaged

An example pays the share s/n_j of the ridge. r ≤ 1 shortens all steps while they move the score of an
example by much of the loss's scale, because a score that varies rounds off the loss. The step is implicit: it
includes the example's own curvature and divides by what is proportional to w_j, so it cannot overshoot. A
rare feature learns as much from an example as a frequent one, whatever their scales.

w varies with every example, and a loss at w is rounded off. So a classifier takes slopes at a point between w
and the result, closer to the result (Defazio et al., The Road Less Scheduled, 2024). The result is an average
of the iterates (Polyak & Ruppert) in which early ones fade: weights grow like n_j, or, in a regression, n_j⁴.
The average is taken of w_j·p_j/n_j. This is constant while the ridge fades (p ≈ 1/C, w grows like n) and
afterwards (p grows like n, w is constant). The offset is one more feature, present in every example, without
ridge and noise. Additive noise is a ridge that grows by 2φ_v σ_j² with every example, for all features.

The result is a function of the examples in their order: how they are cut into calls changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._kernels import _online
from marginout.losses import Loss
from marginout.noise import Moments, Noise

Array = NDArray[np.float64]

#: Exponent: steps of a feature shrink like n**-DECAY. Above ½, averages converge at the best rate; measured.
DECAY = 0.65
#: Factor: steps are divided by 1 + CALM·min(u, 1), where full steps move an example's own score by u scales.
CALM = 5.0
#: Exponent: averages weigh the n-th example by n**FADING; half of the weight is on the last 0.3 of a stream.
FADING = 1.0
#: The same for the offset, which every example moves: its early values may fade faster.
OFFSET_FADING = 20.0
#: Share of the average in the point at which losses are taken.
BLEND = 0.7
#: The same two for a regression. Its unit of length is the size of its residuals; where these vanish, w would
#: swing around an average that lags behind. So its averages fade faster, and losses are taken at w.
TUBE_FADING, TUBE_BLEND = 4.0, 0.0


class Stream:
    """The state after a part of a stream, of K problems on the same examples.

    Parameters
    ----------
    W, b : (d, K) weights and (K,) offsets to start from; a weight stays until its feature occurs
    noise : Noise
    """

    #: Whether the state holds numbers that are not finite. A class attribute, because older pickles lack it.
    broken = False

    def __init__(self, W: Array, b: Array, noise: Noise) -> None:
        d, K = W.shape
        #: A line per feature and one for the offset: n, f, and w, u, h, f/p, o per problem (see the kernel).
        self.lines = np.zeros((d + 1, 2 + 5 * K))
        self.lines[:d, 2::5], self.lines[d, 2::5] = W, b
        self.lines[:, 6::5] = self.lines[:, 2::5]
        #: Per problem: Σ s·2φ_v, the ridge of additive noise of variance 1; the variance of the scores by
        #: additive noise; the loss's unit of length; how far an example's steps move its own score.
        self.sums = np.zeros((4, K))
        #: C and noise of the last `solution`.
        self.shown: tuple[float, Noise] | None = None
        self._take(noise)

    def _take(self, noise: Noise) -> None:
        """Use this noise for the next examples. Its moments are stored: computing them takes O(d)."""
        W = self.lines[:-1, 6::5]
        scale, coefficient, power, groups = noise.moments(len(W))
        if np.all(scale == scale[0]) and np.all(coefficient == coefficient[0]):
            scale, coefficient = scale[:1].copy(), coefficient[:1].copy()
        self.noise, self.moments = noise, Moments(scale, coefficient, power, groups)
        self.sums[1] = (coefficient[:, None] * W**2).sum(axis=0) if power == 0 else 0.0

    def _check(self, d: int, K: int) -> None:
        """Refuse a state that does not fit the examples: files hold anything, the kernel checks nothing."""
        scale, coefficient, _, groups = self.moments
        lengths = len(scale), len(coefficient), d if groups is None else len(groups)
        shapes = self.lines.shape, self.sums.shape, lengths
        known = [((d + 1, 2 + 5 * K), (4, K), (length, length, d)) for length in (1, d)]
        if shapes not in known or (groups is not None and not 0 <= groups.min() <= groups.max() < d):
            raise ValueError(
                f"The state of this stream has arrays of shapes {shapes}, for {d} features and {K} problems "
                f"it must have {known[0]}: another version of marginout has stored it. Start the stream "
                "anew, with a new model."
            )

    def learn(
        self, X: Any, noise: Noise, loss: Loss, Y: Array, weights: Array, C: float, offset: bool
    ) -> None:
        """Learn the rows of X, dense or CSR, in their order, with targets Y (n, K) and weights (n,)."""
        self._check(X.shape[1], Y.shape[1])
        kernel = loss.kernel
        if kernel is None:
            raise TypeError(f"{type(loss).__name__} cannot be learnt online")
        if kernel.unit:
            self.sums[2] = kernel.unit
        if noise != self.noise:
            self._take(noise)
        fading, blend = (FADING, BLEND) if kernel.unit else (TUBE_FADING, TUBE_BLEND)
        state = self.lines, self.sums, kernel, 1.0 / C, offset, (DECAY, CALM, fading, OFFSET_FADING, blend)
        rest = np.ascontiguousarray(Y), weights, state, self.moments
        shown, self.shown = self.shown, None  # Ctrl-C comes after the kernel: the next call then shows all
        if sp.issparse(X):
            _online.csr_learn(X.data, X.indices, X.indptr, *rest)
        else:
            _online.dense_learn(X, *rest)
        self.shown = shown

    def solution(self, X: Any, C: float) -> tuple[Any, Array, Array]:
        """Features whose weights may have changed since X was learnt, their weights, and all offsets."""
        d = len(self.lines) - 1
        _, kappa, power, _ = self.moments
        # Additive noise moves all weights with every example; other noise only those of features that occur.
        few = sp.issparse(X) and 2 * X.nnz < d and power != 0 and self.shown == (C, self.noise)
        features = np.unique(X.indices) if few else slice(None)
        lines, offset = self.lines[:d][features], self.lines[d]
        p = 1.0 / C + lines[:, 4::5]
        if power == 0:
            p += kappa[:, None] * self.sums[0]
        W = np.where(lines[:, :1] > 0, lines[:, :1] * lines[:, 3::5] / p, lines[:, 2::5])
        self.shown = C, self.noise
        return features, W, np.where(offset[0] > 0, offset[3::5], offset[2::5])
