r"""The hidden layer: moments of its scores under noise, and their pullback to the weights.

With hidden weights α (d, K), offsets a, and output weights W (K, P), the scores of a noisy
example are σ(x̃·α + a)·W + b. Its pre-activations have mean and covariance

    A = μ·α + a        Σ = αᵀ diag(V) α                       (K, K), one for every example

and with g, η, r of `activations` and u = η∘w for each output w, a score has

    m = g·w + b        v = uᵀΣu + r·(w∘w) = Σ_d V_d h_d² + r·(w∘w),     h = α u

Σ is not formed for v: h costs d·K for each output. With T = αᵀ(V∘h) = Σu and the slopes dm, dv of the
loss, the gradient of Σ_n φ is

    dη = Σ_outputs 2 dv·w∘T        dA = (dm·w)∘η + dη∘∂η/∂A + dr∘∂r/∂A        dS likewise
    dα = μᵀdA + 2 (V∘h)ᵀ(dv·u) + 2 α∘(VᵀdS)         dw = g·dm + 2 dv·η∘T + 2 w∘(r·dv)

F is a sum over examples. It is computed for one block of rows at a time (`blocks`), and each block is read
once: memory is O(block), and neither an N×D×K nor an N×D array is made. Additive noise has the same Σ for
every example: it costs O(K²) per example and does not read X.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marginout._core.design.storage import Design
from marginout._core.shard import ROUNDING
from marginout._core.threads import one_blas_thread, worker_threads
from marginout._models.latent.activations import Activation, Unit
from marginout._models.latent.blocks import Block, LayerInputs
from marginout.losses import Loss

Array = NDArray[np.float64]

#: Entries of h in one block, rows × outputs × features.
BLOCK_ENTRIES = 50_000
#: Entries of h, examples × outputs × features, beyond which single precision pays.
SINGLE_WORK = 200_000
#: Curvature of the loss in a parameter, per example, that `scales` assumes.
CURVATURE = 0.1
#: Values of the parameter `propagation`.
PROPAGATIONS = ("taylor", "gaussian")


class Net(NamedTuple):
    """Hidden weights (d, K) and offsets (K,), output weights (K, P) and offsets (P,)."""

    alpha: Array
    a: Array
    W: Array
    b: Array

    def pack(self) -> Array:
        """All parameters in one vector."""
        return np.concatenate([part.ravel() for part in self])

    def unpack(self, x: Array) -> Net:
        """A network of this shape from a vector."""
        ends = np.cumsum([part.size for part in self])
        parts = np.split(x, ends[:-1])
        return Net(*(part.reshape(old.shape) for part, old in zip(parts, self, strict=True)))


class _Sums:
    """Sums over the blocks of one thread: F, its gradient, and R."""

    def __init__(self, net: Net) -> None:
        self.value = 0.0
        self.net = Net(*(np.zeros_like(part, order="C") for part in net))
        self.R = np.zeros((net.alpha.shape[1],) * 2)  # Σ dv·uuᵀ + diag dS, for additive noise

    def __iadd__(self, other: Self) -> Self:
        self.value += other.value
        self.R += other.R
        for mine, theirs in zip(self.net, other.net, strict=True):
            mine += theirs
        return self


class LatentObjective:
    r"""F(α, a, W, b) = ½‖W‖² + ½·hidden_penalty·‖α‖² + C Σ_n s_n φ(m_n, v_n; y_n).

    Parameters
    ----------
    design : Design
        X with the moments of its noise.
    activation : Activation
    propagation : "taylor" or "gaussian"
    loss : Loss
    Y : (n, P) targets
    weights : (n, 1) or (n, P), C times the weight of each example
    hidden_penalty : float
    fit_intercept : bool
        Whether the offsets a and b are free, or zero.
    rounding : float
        Fraction of the loss's scale by which its kinks are rounded off.
    """

    def __init__(
        self,
        design: Design,
        activation: Activation,
        propagation: str,
        loss: Loss,
        Y: Array,
        weights: Array,
        hidden_penalty: float,
        fit_intercept: bool,
        rounding: float = ROUNDING,
    ) -> None:
        self.design, self.inputs = design, LayerInputs(design)
        self.activation, self.propagation = activation, propagation
        self.loss, self.Y, self.weights = loss, Y, weights
        self.hidden_penalty, self.fit_intercept = hidden_penalty, fit_intercept
        self.floor = (rounding * loss.scale) ** 2

    def single(self) -> LatentObjective:
        """The same objective, with products of dense X in single precision if these pay, and F bears them."""
        n, P = self.Y.shape
        inputs = self.inputs.single() if n * self.design.d * P > SINGLE_WORK else None
        if inputs is None:
            return self
        fast = copy(self)
        fast.inputs = inputs
        return fast

    def rounded(self, rounding: float) -> LatentObjective:
        """The same objective with the loss's kinks rounded off by a fraction of its scale."""
        smooth = copy(self)
        smooth.floor = (rounding * self.loss.scale) ** 2
        return smooth

    def value_and_gradient(self, net: Net) -> tuple[float, Net]:
        """F, and its gradient in the shape of a network: one pass over X."""
        shared = self.inputs.additive_covariance(net.alpha)

        def work(rows: slice, block: Block, sums: _Sums) -> None:
            self._add_block(rows, block, net, shared, sums)

        sums = self._each_block(work, net)
        with np.errstate(over="ignore", invalid="ignore"):
            G = self.inputs.scaled(sums.net.alpha) + self.hidden_penalty * net.alpha
            if shared is not None:
                G += self.inputs.additive_gradient(net.alpha, sums.R)
            squares = 0.5 * (np.vdot(net.W, net.W) + self.hidden_penalty * np.vdot(net.alpha, net.alpha))
        if not self.fit_intercept:
            sums.net.a[:], sums.net.b[:] = 0.0, 0.0
        return float(sums.value + squares), Net(G, sums.net.a, sums.net.W + net.W, sums.net.b)

    def value(self, net: Net) -> float:
        """F alone."""
        return self.value_and_gradient(net)[0]

    def moments(self, net: Net) -> tuple[Array, Array]:
        """Mean and variance of every score, each (n, P)."""
        shared = self.inputs.additive_covariance(net.alpha)
        m, v = np.empty(self.Y.shape), np.empty(self.Y.shape)

        def work(rows: slice, block: Block, sums: _Sums) -> None:
            unit, U = self._units(block, net, shared)
            m[rows], v[rows], _ = self._block_moments(block, unit, U, net, shared)

        self._each_block(work, net)
        return m, v - self.floor

    def start(self, n_hidden: int, rng: Any) -> Net:
        """A random network whose pre-activations, noise included, have mean 0 and variance 1."""
        mean, spread = self._feature_moments()
        alpha = rng.standard_normal((self.design.d, n_hidden)) / (np.sqrt(spread.sum()) or 1.0)
        a = -(mean @ alpha) if self.fit_intercept else np.zeros(n_hidden)
        W = np.zeros((n_hidden, self.Y.shape[1]))
        b = np.sum(self.weights / self.weights.sum(axis=0) * self.Y, axis=0)
        return Net(alpha, a, W, b if self.fit_intercept else 0 * b)

    def scales(self, net: Net) -> Net:
        """Roots of typical curvatures in each parameter: units in which all parameters are alike."""
        mean, spread = self._feature_moments()
        total = float(self.weights.sum()) * (self.Y.shape[1] / self.weights.shape[1])
        hidden = np.sqrt(self.hidden_penalty + CURVATURE * total * (mean * mean + spread))
        return Net(
            np.broadcast_to(hidden[:, None], net.alpha.shape),
            np.full_like(net.a, np.sqrt(CURVATURE * total)),
            np.full_like(net.W, np.sqrt(1.0 + CURVATURE * total)),
            np.full_like(net.b, np.sqrt(CURVATURE * total)),
        )

    def _feature_moments(self) -> tuple[Array, Array]:
        """Weighted mean of every feature, and its variance, noise included; (d,) each."""
        s = self.weights / self.weights.max()
        s = s.sum(axis=1, keepdims=True) / s.sum()
        zero = np.zeros((self.design.d, 1))
        mean = self.design.pullback(zero, s, np.zeros_like(s))[:, 0]
        squares, variance = (part[:, 0] for part in self.design.diagonal(s))
        return mean, np.maximum(squares - mean * mean, 0.0) + variance

    def output_curvature(self, net: Net) -> Array:
        """The majoriser's matrix for the output weights and offsets, (P, K + 1, K + 1).

        I + C Σ γ (ggᵀ + Cov), bordered by the offset: the matrix of the paper's closed form.
        """
        shared = self.inputs.additive_covariance(net.alpha)
        K, P = net.W.shape
        total = np.zeros((P, K + 1, K + 1))

        def work(rows: slice, block: Block, sums: _Sums) -> None:
            unit, U = self._units(block, net, shared)
            m, v, _ = self._block_moments(block, unit, U, net, shared)
            gamma = self.weights[rows] * self.loss.majorizer(m, v, self.Y[rows])
            G1 = np.column_stack([unit.g, np.ones(len(m))])
            second = G1[:, :, None] * G1[:, None, :]
            if self.inputs.multiplicative or shared is not None:
                S = block.covariance() if shared is None else shared
                second[:, :K, :K] += S * unit.eta[:, :, None] * unit.eta[:, None, :]
            if unit.rest is not None:
                np.einsum("nkk->nk", second)[:, :K] += unit.rest.r
            total[...] += np.tensordot(gamma.T, second, 1)

        self._each_block(work, net, cubes=True, threads=1)
        total[:, range(K), range(K)] += 1.0
        return total

    # ------------------------------------------------------------------ one block

    def _units(self, block: Block, net: Net, shared: Array | None) -> tuple[Unit, Array]:
        """The hidden units at the rows of a block, and u = η∘w of every output, (size, P, K)."""
        noisy = self.propagation == "gaussian" and not self.design.noiseless
        A, S = block.inputs(noisy and self.inputs.multiplicative)
        A += net.a
        if noisy:
            if shared is not None:
                S = S + np.diagonal(shared)
            unit = self.activation.gaussian(A, S)
        else:
            unit = self.activation.taylor(A)
        return unit, np.ascontiguousarray(unit.eta[:, None, :] * net.W.T)

    def _block_moments(
        self, block: Block, unit: Unit, U: Array, net: Net, shared: Array | None
    ) -> tuple[Array, Array, Array | None]:
        """Means and variances of the scores, (size, P), and T."""
        m = unit.g @ net.W + net.b
        T: Array | None = None
        if self.inputs.multiplicative:
            v, T = block.spread(U)
        elif shared is not None:
            T = U @ shared
            v = np.einsum("npk,npk->np", U, T)
        else:
            v = np.zeros_like(m)
        if unit.rest is not None:
            v += unit.rest.r @ (net.W * net.W)
        v += self.floor
        return m, v, T

    def _add_block(self, rows: slice, block: Block, net: Net, shared: Array | None, sums: _Sums) -> None:
        """Add the part of one block to Σ C s φ and its gradient."""
        unit, U = self._units(block, net, shared)
        m, v, T = self._block_moments(block, unit, U, net, shared)
        jet = self.loss.jet(m, v, self.Y[rows])
        weights = self.weights[rows]
        sums.value += float(np.sum(weights * jet.value))
        dm, dv = weights * jet.dm, weights * jet.dv
        total = sums.net
        total.b[:] += dm.sum(axis=0)
        total.W[:] += unit.g.T @ dm
        dg = dm @ net.W.T
        dA = dg * unit.eta
        E, d_eta = None, np.zeros_like(dA)
        if T is not None:
            E = (2 * dv)[:, :, None] * U
            T *= (2 * dv)[:, :, None]
            total.W[:] += np.einsum("npk,nk->kp", T, unit.eta)
            d_eta = np.einsum("npk,kp->nk", T, net.W)
            dA += d_eta * unit.eta_a
        dS = None
        if (rest := unit.rest) is not None:
            total.W[:] += 2 * net.W * (rest.r.T @ dv)
            dr = dv @ (net.W * net.W).T
            dA += dr * rest.r_a
            dS = dg * rest.g_s + d_eta * rest.eta_s + dr * rest.r_s
        total.a[:] += dA.sum(axis=0)
        if shared is not None and E is not None:
            sums.R += 0.5 * np.tensordot(E, U, ([0, 1], [0, 1]))
            if dS is not None:
                sums.R += np.diag(dS.sum(axis=0))
            E = dS = None
        block.pull(dA, None if dS is None else 2 * dS, E, total.alpha)

    # ------------------------------------------------------------------ all blocks

    def _blocks(self, entries: int) -> list[slice]:
        """Slices of rows, such that the largest array of a block has about BLOCK_ENTRIES entries."""
        n = self.design.n
        size = min(n, max(16, BLOCK_ENTRIES // max(entries, 1)))
        return [slice(i, min(i + size, n)) for i in range(0, n, size)]

    def _each_block(
        self,
        work: Callable[[slice, Block, _Sums], None],
        net: Net,
        cubes: bool = False,
        threads: int | None = None,
    ) -> _Sums:
        """Run `work(rows, block, sums)` over all blocks and add up the sums.

        `cubes` says that it makes (rows, K, K) arrays. Every thread takes fixed blocks, and BLAS is kept to
        one thread in each: a result depends on the number of threads, but not on their timing.
        """
        K, P = net.W.shape
        alpha = self.inputs.scaled(net.alpha).astype(self.inputs.dtype, copy=False)
        blocks = self._blocks(self.inputs.entries(K, max(K, P) if cubes else P))
        if threads is None:
            threads = min(worker_threads(self.design.nnz * K * P), len(blocks))

        def share(first: int) -> _Sums:
            sums = _Sums(net)
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # a trial step that is too long has a value of inf or nan
                for rows in blocks[first::threads]:
                    work(rows, self.inputs.block(rows, alpha), sums)
            return sums

        if threads == 1:
            return share(0)
        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
            total, *others = pool.map(share, range(threads))
        for other in others:
            total += other
        return total
