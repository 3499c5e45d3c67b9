r"""Learning from a stream, one pass, no learning rate: what :meth:`partial_fit` runs.

After examples 1 … t have gone by, what is approached is the batch objective of those t,

    F_t(w, b) = ½‖w‖² + C Σ_{n≤t} s_n φ(m_n, v_n; y_n),

the expected loss over the stream with the noise integrated out, and the ridge. Example n is looked at
once. Each feature j that it holds (x_j ≠ 0) keeps time by its own examples, of total weight n_j, and has

    h_j += s (φ_mm x_j² + γ V_j)          its curvature; φ_mm is that of a loss rounded off by its own
                                          scale, so that a kink far away counts, and γ is the majoriser's
    p_j  = 1/C + h_j                      what Newton's method would divide by, if features were alone
    w_j −= r f_j/p_j · (∂φ/∂w_j + s w_j/(C n_j))    f_j ≈ n_j^0.35: larger than Newton's step, then averaged

where the ridge is paid in shares of s/n_j; r ≤ 1 calms all steps as long as they move an example's score
by much of the loss's scale, for the loss is rounded off by scores that tremble; and the step is implicit: it
goes along with the example's own curvature, and divides by what is proportional to w_j, so that it cannot
overshoot. A feature that is rare in the stream learns as much from an example as one that is frequent,
whatever their scales.

w trembles with every example, and a loss that is seen from there is rounded off. So a classifier's slopes
are taken between w and the answer, closer to the answer (Defazio et al., The Road Less Scheduled, 2024).
The answer is an average of the iterates (Polyak & Ruppert) that forgets: weights grow like n_j, or, in a
regression, n_j⁴. It is taken of w_j·p_j/n_j, which stands still while the ridge fades (p ≈ 1/C, w grows
like n) as well as when it has (p grows like n, w stands still). The offset is one more feature, always
there, without ridge and noise. Additive noise is a ridge that grows by 2φ_v σ_j² with every example, for
all features at once.

Everything is a function of the examples in their order: how they are cut into calls changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._kernels import _online
from marginout.losses import EpsilonInsensitive, Hinge, Logistic, LogisticGaussian, Loss, _kolmogorov_rule
from marginout.noise import Moments, Noise

Array = NDArray[np.float64]

#: Steps shrink like n**-DECAY, per feature. Above ½ their averages converge like the best; measured.
DECAY = 0.65
#: Steps are divided by 1 + CALM times how far they move an example's own score, in the loss's scale, up to 1.
CALM = 5.0
#: Averages weigh the n-th example by n**MEMORY: half of the weight is on the last 0.3 of a stream.
MEMORY = 1.0
#: The offset, which every example moves, can afford to forget faster.
OFFSET_MEMORY = 20.0
#: The average's share in the point that losses are seen from.
BLEND = 0.7
#: A regression is different: its unit of length are its residuals, and where these vanish, w would swing
#: around an average that lags behind. It forgets faster, and sees losses from w itself.
TUBE_MEMORY, TUBE_BLEND = 4.0, 0.0


def _code(loss: Loss) -> tuple[int, float, float]:
    """The kernel's number of a loss, its parameter, and its unit of length; 0 if that is to be measured."""
    if isinstance(loss, Hinge):
        return 0 if loss.bound else 1, loss.margin, loss.margin
    if isinstance(loss, EpsilonInsensitive):
        return 2 if loss.bound else 3, loss.epsilon, 0.0
    if isinstance(loss, (Logistic, LogisticGaussian)):
        return 4 if isinstance(loss, Logistic) else 5, 0.0, 1.0
    raise TypeError(f"{type(loss).__name__} cannot be learnt online")


class Stream:
    """What is known after a part of a stream, for K problems that share it.

    Parameters
    ----------
    W, b : (d, K) weights and (K,) offsets to start from; weights stay until their feature is met
    noise : Noise
    """

    #: Whether it has ended in numbers that are not finite. An attribute of the class: older streams lack it.
    broken = False

    def __init__(self, W: Array, b: Array, noise: Noise) -> None:
        d, K = W.shape
        #: Of every feature, and the offset: n, f, and w, u, h, f/p, o of each problem (see the kernel).
        self.lines = np.zeros((d + 1, 2 + 5 * K))
        self.lines[:d, 2::5], self.lines[d, 2::5] = W, b
        self.lines[:, 6::5] = self.lines[:, 2::5]
        #: Σ s·2φ_v, by which additive noise acts as a ridge; its variance of the scores; the loss's unit of
        #: length; how far an example's steps move its own score.
        self.sums = np.zeros((4, K))
        #: The C and the noise that the weights were last shown for.
        self.shown: tuple[float, Noise] | None = None
        self._go_on_under(noise)

    def _go_on_under(self, noise: Noise) -> None:
        """Take this noise for the examples to come. Its moments are kept: they are as long as W."""
        W = self.lines[:-1, 6::5]
        scale, coefficient, power, groups = noise.moments(len(W))
        if np.all(scale == scale[0]) and np.all(coefficient == coefficient[0]):
            scale, coefficient = scale[:1].copy(), coefficient[:1].copy()
        self.noise, self.moments = noise, Moments(scale, coefficient, power, groups)
        self.sums[1] = (coefficient[:, None] * W**2).sum(axis=0) if power == 0 else 0.0

    def _check(self, d: int, K: int) -> None:
        """Refuse a state of another shape than the examples, from a file perhaps: the kernel trusts it."""
        scale, coefficient, _, groups = self.moments
        numbers = np.arange(d) if groups is None else groups
        shapes = self.lines.shape, self.sums.shape, (len(scale), len(coefficient), len(numbers))
        known = [((d + 1, 2 + 5 * K), (4, K), (length, length, d)) for length in (1, d)]
        if shapes not in known or not 0 <= numbers.min() <= numbers.max() < d:
            raise ValueError(
                f"The state of this stream has arrays of shapes {shapes}, for {d} features and {K} problems "
                f"it must have {known[0]}: another version of marginout has stored it. Start the stream "
                "anew, with a new model."
            )

    def learn(
        self, X: Any, noise: Noise, loss: Loss, Y: Array, weights: Array, C: float, offset: bool
    ) -> None:
        """Take in the rows of X, dense or CSR, with targets Y (n, K) and weights (n,), in their order."""
        self._check(X.shape[1], Y.shape[1])
        kind, parameter, scale = _code(loss)
        if scale:
            self.sums[2] = scale
        if noise != self.noise:
            self._go_on_under(noise)
        factor, kappa, power, groups = self.moments
        uniform = len(factor) == len(kappa) == 1
        numbers = np.zeros(0, np.int32) if groups is None else groups.astype(np.int32)
        memory, blend = (MEMORY, BLEND) if scale else (TUBE_MEMORY, TUBE_BLEND)
        stream = (
            self.lines, self.sums, np.array(_kolmogorov_rule()), kind, parameter, 1.0 / C, offset,
            DECAY, CALM, memory, OFFSET_MEMORY, blend,
        )  # fmt: skip
        rest = (
            np.ascontiguousarray(Y), weights, stream, (factor, kappa, numbers, uniform, power),
            0 if groups is None else int(groups.max()) + 1,
        )  # fmt: skip
        shown, self.shown = self.shown, None  # Ctrl-C comes after the kernel: the next call shows all then
        if sp.issparse(X):
            _online.csr_learn(X.data, X.indices, X.indptr, *rest)
        else:
            _online.dense_learn(X, *rest)
        self.shown = shown

    def solution(self, X: Any, C: float) -> tuple[Any, Array, Array]:
        """The features whose weights have changed, now that X was learnt; their weights; all offsets."""
        d = len(self.lines) - 1
        _, kappa, power, _ = self.moments
        # Additive noise moves all weights with every example; otherwise those that were not met stay.
        few = sp.issparse(X) and 2 * X.nnz < d and power != 0 and self.shown == (C, self.noise)
        features = np.unique(X.indices) if few else slice(None)
        lines, offset = self.lines[:d][features], self.lines[d]
        p = 1.0 / C + lines[:, 4::5]
        if power == 0:
            p += kappa[:, None] * self.sums[0]
        W = np.where(lines[:, :1] > 0, lines[:, :1] * lines[:, 3::5] / p, lines[:, 2::5])
        self.shown = C, self.noise
        return features, W, np.where(offset[0] > 0, offset[3::5], offset[2::5])
