"""The interfaces of the core, as formulas. A newcomer reads this page first.

    F(w, b) = penalty(w) + Σ_shards Σ_n C·s_n φ(m_n, v_n; y_n)      m = M w + b,  v = V (w∘w)

n examples, d features, K outputs (columns of W), P problems (each with K/P outputs: 1 for one-vs-rest, all of
them for a joint loss). Weights W are (d, K), offsets b (K,), moments m and v (n, K). Sums over examples are
(K,) for every output or (P,) for every problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # nothing else of the library
    from marginout._core.design.groups import Grouping
    from marginout.losses import Box, Jet, Kernel

Array = NDArray[np.float64]
Columns = NDArray[np.intp]
Number = TypeVar("Number", bound=np.generic)
#: Arrays of one row per example, (n, K) each, that stay where the shard is.
State = tuple[Array, ...]
#: One object per shard, in the executor's own terms: the shards themselves, or a state of each.
Handles = Sequence[Any]


class Slope(NamedTuple):
    """F at (w + t·p, b + t·q + δ), as a function of (t, δ): its value, gradient and Hessian.

    value, dt and dtt are (P,), db and dtb (K,). dbb is (K,) where a problem has one output, else (P, R, R)
    with R = K/P.
    """

    value: Array
    dt: Array
    db: Array
    dtt: Array
    dtb: Array
    dbb: Array


class Preconditioner(Protocol):
    """A matrix A_k ≈ ∇²F for each output, quickly solved.

    `mean` is μ, (d, K), if A takes it that the offset changes by −μ·dw where w changes by dw; else None.
    """

    mean: Array | None

    def solve(self, G: Array) -> Array:
        """S with A_k s_k = g_k, (d, K)."""

    def select(self, columns: Columns) -> Self:
        """The same for some of the outputs."""


class Design(Protocol):
    """M and V: the means and variances of the corrupted examples.

    A class that derives from this one needs `line`, `pullback`, `diagonal` and `apply`. The other methods
    have defaults, or are for solvers that ask for them.
    """

    n: int
    d: int
    nnz: int
    noiseless: bool
    batch: int | None = None  # problems that are best solved together; None: all
    grouping: Any = None  # which features are corrupted together; None: each by itself
    dependent: bool = False  # whether features of an example are not independent: Cov(x̃_n) is not diagonal
    classes: tuple[Columns, Columns] | None = None  # order of the examples by class, and where classes begin

    def line(self, W: Array, P: Array) -> tuple[Array, Array, Array]:
        """M P, V (W∘P) and V (P∘P), each (n, K)."""

    def pullback(self, W: Array, dm: Array, dv: Array) -> Array:
        """Mᵀdm + 2 W∘(Vᵀdv), (d, K): the adjoint of `moments` at W."""

    def diagonal(self, a: Array) -> tuple[Array, Array]:
        """(M∘M)ᵀa and Vᵀa, each (d, K)."""

    def apply(self, W: Array) -> Array:
        """M W, (n, K)."""

    def moments(self, W: Array) -> tuple[Array, Array]:
        """M W and V (W∘W), each (n, K)."""
        mean, _, variance = self.line(W, W)
        return mean, variance

    def centre(self, a: Array) -> tuple[Array, Array]:
        """Mᵀa, (d, K), and Σa, (K,): one pass."""
        zero = np.zeros((self.d, a.shape[1]))
        return self.pullback(zero, a, np.zeros_like(a)), a.sum(axis=0)

    def far(self) -> bool:
        """Whether features lie far from zero, compared with their deviation and the noise."""
        return False

    def select(self, columns: Columns) -> Self:
        """The same for some of the outputs, which may have a noise factor each."""
        return self

    def serial(self) -> Self:
        """The same for a caller that has threads of its own."""
        return self

    def threads(self, work: int) -> int:
        """How many threads some multiplications are worth."""
        return 1

    def scores(self, count: int, K: int) -> tuple[Array, ...]:
        """Uninitialised (n, K) arrays."""
        return tuple(np.empty((count, self.n, K)))

    def gram(self, a: Array) -> Array:
        """Mᵀdiag(a)M + Σ_n a_n Cov(x̃_n), (d, d), for one vector a; for `newton` and `irls`."""
        raise TypeError(f"{type(self).__name__} has no Gram matrix.")

    def hessian(self, W: Array, mm: Array, mv: Array, vv: Array, dv: Array) -> Array:
        """Mᵀdiag(mm)M + Mᵀdiag(mv)B + Bᵀdiag(mv)M + Bᵀdiag(vv)B + 2V(dv) of every output, (K, d, d).

        B has the rows ∂v_n/∂w, and V(dv) is the matrix with w·V(dv)w = Σ dv·v; for `newton`. This default
        takes two passes over X for d outputs each.
        """
        d, K = W.shape
        H, basis = np.empty((K, d, d)), np.eye(d)
        for k in range(K):
            own = self.select(np.full(d, k))
            A, half, _ = own.line(np.repeat(W[:, [k]], d, axis=1), basis)
            B, a, c, e = 2 * half, mm[:, [k]], mv[:, [k]], vv[:, [k]]
            H[k] = A.T @ (a * A + c * B) + B.T @ (c * A + e * B)
            H[k] += own.pullback(basis, np.zeros_like(A), np.repeat(dv[:, [k]], d, axis=1))
        return H

    def kernel(self, weights: Array) -> Array:
        """M diag(weights) Mᵀ, (n, n), where every Cov(x̃_n) is diagonal; for `newton` and `irls`."""
        raise TypeError(f"{type(self).__name__} has no kernel matrix.")

    def group_grams(self, a: Array, step: int) -> list[Array]:
        """M_gᵀdiag(a_k)M_g + Var_g of all groups of a size, over every step-th row.

        Each is (count, K, size, size). Asked for where `grouping` is given.
        """
        raise TypeError(f"{type(self).__name__} has no groups of features.")

    def row_norms(self) -> Array:
        """‖x_n‖², (n,); for `dual`."""
        raise TypeError(f"{type(self).__name__} has no rows.")

    def sweep(self, *state: Any) -> Any:
        """One sweep of dual coordinate descent over the rows; for `dual`."""
        raise TypeError(f"{type(self).__name__} has no rows.")

    def columns(self, features: Columns) -> tuple[Any, Any, Any, Array, int]:
        """Columns of M: data, rows, where each begins and ends; κ of each, p of V = κ·Mᵖ; for `proximal`."""
        raise TypeError(f"{type(self).__name__} has no columns.")

    def uniform_rows(self) -> tuple[Any, ...] | None:
        """data, indices, indptr (int32) and κ, (1,) or (K,), if M is X in CSR and V = κ·X∘X; else None."""
        return None

    def table(self) -> tuple[Any, ...] | None:
        """X, dense or CSR; scale, κ and constant, (d,); the power p; factors, 1 or (K,). Or else None.

        M = X·scale and V = factor·(κ·Mᵖ + constant); for `newton`.
        """
        return None


class Loss(Protocol):
    """φ(m, v; y), convex in the weights that m and v come from."""

    kinked: bool  # whether φ has kinks in m at v = 0
    boxed: bool  # whether it has a dual there, `box`: all kinked losses do
    scale: float  # the length by which scores are measured
    grain: float  # curvature is not estimated from differences of scores below this
    outputs: int  # R, the outputs of one problem
    relative: bool  # whether φ sees differences of a problem's outputs alone
    chunk: int  # examples times outputs that are worked on at a time
    kernel: Kernel | None  # the formula in compiled code, if there is one
    multinomial: bool  # whether it is log Σ exp(m_k − m_y + ½v_k), which compiled code knows too

    def add_expansion(self, plane: Any, y: Array, weights: Array, sums: Array) -> None:
        """Add Σ s·φ and its derivatives at a step (t, δ) of a `losses.Plane` to sums, (5 + R, K).

        The rows are value, t, δ, tt, tδ, and R rows δδ. Of value, t and tt only the sum
        over the outputs of a problem matters.
        """

    def add_value(self, plane: Any, y: Array, weights: Array, sums: Array) -> None:
        """Add Σ s·φ to sums, (1, K), likewise."""

    def add_majorizer(self, plane: Any, y: Array, weights: Array, sums: Array) -> None:
        """Add the majoriser's second derivatives tt, tδ and its R rows of δδ to (2 + R, K) sums."""

    def fill_slopes(self, m: Array, v: Array, y: Array, dm: Array, dv: Array) -> None:
        """dm, dv = ∂φ/∂m, ∂φ/∂v, each (n, K)."""

    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        """γ with φ(w') ≤ φ(w) + ∇φ·(w' − w) + ½Σγ[(m' − m)² + Σ_d V_d (w'_d − w_d)²], (n, K)."""

    def curvature(self, m: Array, v: Array, y: Array) -> Array:
        """The curvature of φ in m that a preconditioner takes, (n, K): never more than 1/grain."""

    def arrange(self, design: Any, Y: Array, weights: Array) -> tuple[Any, Array, Array]:
        """Design, targets and weights of the examples as φ takes them, such as sorted by class."""

    def select(self, columns: Columns) -> Self:
        """The same for some of the outputs, which may differ."""

    def least_squares(self, y: Array) -> Array:
        """Targets of a least-squares problem whose solution is a fair start."""

    def jet(self, m: Array, v: Array, y: Array) -> Jet:
        """φ and its five derivatives; for `newton`."""

    def box(self, y: Array, weights: Array) -> Box:
        """The dual of one output without noise, where `boxed`; for `dual`."""


class PenaltyLine(Protocol):
    """The penalty along w + t·p."""

    def expand(self, t: Array) -> tuple[Array, Array, Array]:
        """Its value, first and second derivative in t, each (K,)."""


class Penalty(Protocol):
    """A convex function of the weights, one term for each output; offsets are free."""

    self_conjugate: bool  # whether it is ½‖w‖², which is its own convex conjugate
    l1: float  # the weight of ‖w‖₁ in it, which `gradient` and `curvature` leave out

    def value(self, W: Array) -> Array:
        """The penalty of each output, (K,)."""

    def gradient(self, W: Array) -> Array:
        """Its gradient, (d, K)."""

    def curvature(self, W: Array) -> Array:
        """A diagonal matrix D that bounds its curvature at W, (d, K)."""

    def line(self, W: Array, P: Array | None) -> PenaltyLine:
        """The penalty along P from W; None: it does not change."""

    def certificate(self, W: Array, G: Array, value: Array) -> Array:
        """A bound on F − min F for each output where F, (K,), has the gradient G, (K,)."""


class Executor(Protocol):
    """Runs tasks where the shards are. A task is a pure function of a shard, its states and some vectors."""

    def map(self, task: Callable[..., Any], handles: Sequence[Handles], *args: Any) -> Handles:
        """task(*(h[i] for h in handles), *args) for every shard i; the results stay there."""

    def sum(self, task: Callable[..., Any], handles: Sequence[Handles], *args: Any) -> Any:
        """The sum over all shards of the same: an array, or a tuple of arrays."""


class Shard(Protocol):
    """Σ_n C·s_n φ(m_n, v_n; y_n) over some examples, in the process that has them.

    Its methods are pure: what they need of a point is in a state, m and v of the shard's examples.
    """

    design: Design
    Y: Array  # targets, (n, K)
    weights: Array  # C·s, (n, 1) or (n, K)
    floor: float  # a variance that is added to every score, and smooths kinks

    def slopes(self, state: State) -> tuple[Array, Array]:
        """C·s·∂φ/∂m and C·s·∂φ/∂v, (n, K) each."""

    def majorizer(self, state: State) -> Array:
        """C·s·γ, (n, K)."""

    def second_derivatives(self, state: State) -> Array:
        """C·s·∂²φ/∂m², (n, K)."""

    def derivatives(self, state: State) -> list[Array]:
        """C·s times the first two derivatives of φ, and mm, mv and vv, each (n, K)."""


class Traits(NamedTuple):
    """What solvers ask of all examples together."""

    n: int
    d: int
    nnz: int
    noiseless: bool
    far: bool  # whether features lie far from zero
    grouping: Grouping | None  # which features are corrupted together; None: each by itself


@dataclass
class Point:
    """Weights and offsets, and what is known of F there; the moments m and v stay with the shards."""

    W: Array
    b: Array
    value: Array  # F, (P,)
    offset_left: Array  # about how far F falls with the best offset, (P,); inf where it is not known
    state: Handles


class Line(Protocol):
    """F on the plane (w + t·p, b + t·q + δ). A trial step costs O(n) and no pass over X."""

    @property
    def objective(self) -> Objective:
        """F."""

    def rounded(self, rounding: float) -> Line:
        """The same line where kinks are smoothed by a fraction of the loss's scale."""

    def expand(self, t: Array, delta: Array) -> Slope:
        """F, its gradient and Hessian in (t, δ)."""

    def majorize(self, t: Array, delta: Array) -> tuple[Array, Array, Array]:
        """The majoriser's second derivatives tt, tδ and δδ."""

    def move(self, t: Array, delta: Array, value: Array, offset_left: Array) -> Point:
        """The point at a step."""


class Objective(Protocol):
    """F = penalty(w) + Σ_shards Σ C·s φ(m, v; y) of P problems with K outputs."""

    K: int
    P: int
    fit_intercept: bool
    traits: Traits
    coupled: bool  # whether a problem has several outputs

    @property
    def penalty(self) -> Penalty: ...
    @property
    def loss(self) -> Loss: ...
    @property
    def rows(self) -> Shard | None:
        """The only shard, if it is in this process."""

    @property
    def examples(self) -> Shard:
        """The same; a TypeError if there is none."""

    @property
    def batch(self) -> int | None:
        """How many problems are best solved together; None: all of them."""

    @property
    def threads(self) -> int:
        """How many threads a pass over X for all outputs is worth."""

    @property
    def rounding(self) -> float:
        """The fraction of the loss's scale by which kinks are smoothed."""

    def rounded(self, rounding: float) -> Objective:
        """F with other smoothing."""

    def serial(self) -> Objective:
        """F for a caller that has threads of its own."""

    def select(self, problems: Columns) -> Objective:
        """F of some of the problems."""

    def restrict(self, point: Point, problems: Columns) -> Point:
        """A point of some of the problems."""

    def columns(self, problems: Columns) -> Columns:
        """Their outputs."""

    def total(self, values: Array) -> Array:
        """Σ over a problem's outputs, (K,) to (P,)."""

    def spread(self, values: NDArray[Number]) -> NDArray[Number]:
        """A problem's value for each of its outputs, (P,) to (K,)."""

    def dots(self, A: Array, B: Array) -> Array:
        """Σ A∘B of every problem, (P,)."""

    def total_weight(self) -> Array:
        """C Σ s, (K,)."""

    def point(self, W: Array, b: Array) -> Point:
        """The point (W, b): one pass over X, or none at W = 0."""

    def evaluate(self, W: Array, b: Array, state: Handles) -> Point:
        """The point (W, b) whose moments are known: no pass."""

    def gradient(self, point: Point) -> tuple[Array, Array]:
        """∂F/∂w, (d, K), and ∂F/∂b, (K,), which is 0 without an offset: one pass."""

    def certificate(self, point: Point, G: Array) -> Array:
        """A bound on F − min F where the offset is the best one and ∂F/∂w = G, (P,)."""

    def line(
        self, point: Point, P: Array | None, q: Array | float = 0.0, along: Handles | None = None
    ) -> Line:
        """F along (P, q) from a point: one pass, now; None: along the offset alone.

        No pass if `along` is given: M P + q, V (w∘P) and V (P∘P) of every shard.
        """

    def first_line(self) -> tuple[Line, Array, Array]:
        """A line from (0, 0), and a fair step (t, δ) on it: three passes."""

    def curvature(self, point: Point) -> Array:
        """The diagonal of D + Mᵀdiag(a)M + Var, (d, K), with the penalty's curvature D and the loss's a."""

    def preconditioner(self, point: Point) -> Preconditioner:
        """An approximation of the same matrix that is quickly solved: about one pass."""

    def hessian(self, point: Point) -> tuple[Array, ...]:
        """Σ C·s ∂²φ in w and b, (K, d, d), (d, K) and (K,); ∇F in w and in b; Σ C·s·∂φ/∂v, (K,)."""

    def variance_slope(self, point: Point) -> Array:
        """Σ C·s·∂φ/∂v, (K,): no pass."""


@dataclass
class Result:
    """The outcome of a batch of P problems with K outputs."""

    W: Array
    b: Array
    value: Array  # F, (P,)
    gap: Array  # a certificate: F exceeds its minimum by no more than this, (P,)
    converged: NDArray[np.bool_]  # (P,)
    n_iter: int
    history: list[float]  # history[i] = Σ F over the problems, each after i iterations
    left: Array | float = np.inf  # the last estimate of F − min F; above tol·F if F did not fall any more


#: Gives the weights and offsets of all problems as they are now.
Solution = Callable[[], tuple[Array, Array]]
#: Called after every iteration with (iteration, F, estimated suboptimality, solution), the numbers summed
#: over the problems; a true answer ends the fit. At iteration 0 there is nothing new to see: it only
#: asks whether to end.
Monitor = Callable[[int, float, float, Solution], bool | None]


class Minimizer(Protocol):
    """Minimises its F for all problems from (W, b) until F is about tol·F above its minimum."""

    def __call__(
        self, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
    ) -> Result: ...


class Solver(Protocol):
    """The same for any objective."""

    def __call__(
        self,
        objective: Objective,
        W: Array,
        b: Array,
        *,
        tol: float,
        max_iter: int,
        monitor: Monitor | None = None,
    ) -> Result: ...
