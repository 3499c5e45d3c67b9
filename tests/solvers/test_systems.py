"""The linear systems of Newton-like steps against NumPy on the whole bordered matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from marginout._core.design.storage import make_design
from marginout.noise import Dropout, Gaussian, GroupDropout
from marginout.solvers._systems import (
    FORMS,
    ConjugateGradients,
    Effort,
    bordered_steps,
    cheapest,
    make_system,
)

N, D, K = 12, 7, 3
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, D)) * (_RNG.random((N, D)) < 0.7) + 0.5
A = _RNG.random((N, K)) + 0.1
G, SLOPE = _RNG.normal(size=(D, K)), _RNG.normal(size=K)
EXACT = Effort(largest=100, passes=10, tol=1e-14, max_iter=200, centred=True)
DIAGONALS = {"number": 1.0, "feature": np.linspace(0.0, 3.0, D) + 0.1, "each": _RNG.random((D, K)) + 0.1}
NOISES = {
    "none": Dropout(0.0),
    "dropout": Dropout(0.3),
    "gaussian": Gaussian(0.2),
    "groups": GroupDropout(np.arange(D) // 2, 0.3),
}


def bordered(design, D, a, k, offset):
    """The matrix of problem k in (w, b)."""
    H = np.zeros((design.d + 1, design.d + 1))
    diagonal = np.broadcast_to(D[:, None] if np.ndim(D) == 1 else D, (design.d, K))[:, k]
    H[:-1, :-1] = np.diag(diagonal) + design.gram(a[:, k])
    H[:-1, -1] = H[-1, :-1] = a[:, k] @ (design.X * design.scale)
    H[-1, -1] = a[:, k].sum()
    return H if offset else H[:-1, :-1]


#: Woodbury's identity needs a diagonal Λ, which groups do not have.
CASES = [(form, noise) for form in FORMS for noise in NOISES if (form, noise) != ("woodbury", "groups")]


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("diagonal", DIAGONALS)
@pytest.mark.parametrize(("form", "noise"), CASES)
def test_every_form_solves_the_bordered_system(form, noise, diagonal, offset):
    D = DIAGONALS[diagonal]
    design = make_design(X, NOISES[noise])
    slope = SLOPE if offset else np.zeros(K)
    for centred in (True, False):
        effort = Effort(EXACT.largest, EXACT.passes, EXACT.tol, EXACT.max_iter, centred)
        for data in (X, sp.csr_array(X)):
            system = make_system(form, make_design(data, NOISES[noise]), D, A, offset, effort)
            dW, db = system.step(G, slope)
            for k in range(K):
                right = np.append(G[:, k], slope[k]) if offset else G[:, k]
                exact = -np.linalg.solve(bordered(design, D, A, k, offset), right)
                assert_allclose(dW[:, k], exact[: design.d], atol=1e-10)
                assert_allclose(db[k], exact[-1] if offset else 0.0, atol=1e-10)


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_one_matrix_serves_all_problems(form, offset):
    """Shared weights, as of least squares, equal the same weights for every problem."""
    design = make_design(X, Dropout(0.3))
    shared = make_system(form, design, 2.0, A[:, :1].copy(), offset, EXACT)
    each = make_system(form, design, 2.0, np.repeat(A[:, :1], K, axis=1), offset, EXACT)
    for _ in range(2):  # a kept factor is not spent by the first solution
        assert_allclose(shared.solve(G), each.solve(G), atol=1e-11)


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("singular", [False, True], ids=["definite", "singular"])
def test_steps_of_given_matrices(offset, singular):
    """Of bordered Hessians, one for each problem; one that has no Cholesky factor spoils no other."""
    design = make_design(X, Dropout(0.0))
    H = np.array([bordered(design, DIAGONALS["each"][:, k], A, k, True) for k in range(K)])
    wanted = np.empty((D + 1, K))
    for k in range(K):
        system = H[k] if offset else H[k, :D, :D]
        wanted[: len(system), k] = np.linalg.solve(system, -np.append(G[:, k], SLOPE[k])[: len(system)])
    wanted[D] *= offset
    if singular:
        H[0, :D, :D] = np.outer(H[0, D, :D], H[0, D, :D]) / H[0, D, D] - 1e-9 * np.eye(D)
    blocks = H[:, :D, :D].copy(), H[:, :D, D].T.copy(), H[:, D, D]
    steps = np.vstack(bordered_steps(*blocks, G, SLOPE * offset, offset))
    assert np.isfinite(steps).all()
    assert_allclose(steps[:, singular:], wanted[:, singular:], atol=1e-11)


def test_conjugate_gradients_say_when_they_are_cut_short():
    design = make_design(X * np.logspace(0, 3, D), Dropout(0.0))
    for most, cut_short in ((1, True), (200, False)):
        effort = Effort(100, 10, 1e-8, most, True)
        system = ConjugateGradients(design, 1.0, A, True, effort)
        system.solve(G)
        assert system.cut_short is cut_short


def test_the_cheapest_form_is_the_smaller_matrix_within_its_limit():
    wide, tall = (
        make_design(X.repeat(4, axis=1), Dropout(0.3)),
        make_design(X.repeat(9, axis=0), Dropout(0.3)),
    )
    effort = Effort(largest=100, passes=1000, tol=0.1, max_iter=10, centred=True)
    assert cheapest(wide, K, K, effort) == "woodbury"
    assert cheapest(tall, K, K, effort) == "cholesky"
    none = Effort(largest=1, passes=1000, tol=0.1, max_iter=10, centred=True)
    assert cheapest(wide, K, K, none) == cheapest(tall, K, K, none) == "cg"
    groups = make_design(X.repeat(4, axis=1), GroupDropout(np.arange(4 * D) // 2, 0.3))
    assert cheapest(groups, K, K, effort) == "cholesky"
