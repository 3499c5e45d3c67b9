"""Paragraphs that the docstrings of several estimators share: each is written once, here.

A line of a docstring that holds a name in braces and nothing else stands for a paragraph::

    Parameters
    ----------
    {noise}
        Without noise this is a plain SVM.
    {latent.tol}

`{noise}` is the paragraph `noise` of all models, `{latent.tol}` is `tol` of models with a hidden layer, and
`{search.attributes}` are all attributes of a search. A line below such a name continues the paragraph.
:func:`documented` inserts the text when a class is created, so that `help`, Sphinx and numpydoc see all of
it.
"""

from __future__ import annotations

import re
from textwrap import indent
from typing import TypeVar

Class = TypeVar("Class", bound=type)

MODEL = """
C : float, default=1.0
    Weight of the loss against the ridge.
noise : float, noise model, None or "auto", default="auto"
    A dropout rate (the probability that a feature is deleted), or a model from
    :mod:`marginout.noise`. None is no noise. "auto" is the dropout rate that the data bear, by a
    rule that does not look at y: noise is a ridge, and d features learnt from n examples bear one
    of about d/n. So it is 0.5 where features outnumber examples, as in text, and little for most
    tables. Who expects features to be missing at prediction time says how many.
l1_ratio : float, default=0.0
    From 0 to 1, with scikit-learn's meaning: the penalty is (1 − ρ)/2·‖w‖² + ρ‖w‖₁. Above 0 many
    weights are exactly zero. `solver` must then be "auto", and features must be corrupted
    independently of each other.
loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    L(z) = max(0, z)², which is smooth, or max(0, z), the paper's. Without noise, the same `C` and
    `loss` give the solution of :class:`sklearn.svm.LinearSVC`, whose default is the square, too, but
    for the offset, which liblinear regularises.
quantile : float or sequence of floats, default=0.5
    The quantiles τ, each between 0 and 1. A sequence gives one column of predictions for each.
margin : float, default=1.0
    The margin ℓ.
epsilon : float, default=0.1
    Errors below ε cost nothing. In units of y.
expectation : {"bound", "gaussian"}, default="bound"
    The paper's bound on the expected loss, or the expected loss of a normal score.
fit_intercept : bool, default=True
    Whether to fit an offset.
class_weight : dict, "balanced" or None, default=None
    A dict multiplies the weight of each example by that of its class. "balanced" gives
    both sides of every one-vs-rest problem the same total weight.
missing : {"error", "deleted"}, default="error"
    What NaN or null in X means. "error" refuses it. "deleted" takes it for a feature that is
    dead in this example, in training and in prediction: it adds nothing to the score. If the
    noise is unbiased and a share s of the features is dead (of the groups, if the noise has
    groups), the others are multiplied by 1/(1 − s). Under raw deletion they stay as they are.
    The offset does not change.
solver : {"auto", "irls", "lbfgs", "ncg", "newton"}, default="auto"
    "irls" is the paper's algorithm, "lbfgs" is L-BFGS, "ncg" is nonlinear conjugate gradients,
    and "newton" is Newton's method, for at most 1024 features. "auto" is "newton" where features are
    few, and "ncg" elsewhere. All reach the same optimum. Without noise, whatever is said here, small
    problems are solved by Newton's method, and large ones of an SVM or SVR by dual coordinate descent
    (on blocks, by L-BFGS on a loss that is smoothed less and less).
tol : float, default=1e-3
    The fit ends when the objective is estimated to be within tol/10 (relative) of its
    minimum. The factor of ten is left for errors of the estimate.
max_iter : int, default=1000
    Most iterations. A fit that reaches it warns, with the distance left.
warm_start : bool, default=False
    Whether to start from the last solution.
verbose : int, default=0
    Above 0, print a line per iteration.
noise_ : float or noise model
    The noise of the fit: `noise`, or the rate that "auto" stands for.
n_iter_ : int
    Iterations of the fit.
objective_history_ : array of shape (n_iterations,)
    F after every iteration.
optimality_gap_ : float
    Certificate: `objective_` exceeds the minimum by no more than this.
n_features_in_ : int
    Number of features.
feature_names_in_ : array of shape (n_features,)
    Names of the features. Exists if the features of X all have names.
"""

LINEAR = """
missing : {"error", "deleted", "conditional"}, default="error"
    What NaN or null in X means. "error" refuses it. "deleted" takes it for a feature that is
    dead in this example, in training and in prediction: it adds nothing to the score. If the
    noise is unbiased and a share s of the features is dead (of the groups, if the noise has
    groups), the others are multiplied by 1/(1 − s). Under raw deletion they stay as they are.
    The offset does not change. "conditional" takes it for a value that nobody saw, of the normal
    law of :class:`GaussianImputer`, which the fit estimates from X: scores have the mean and the
    variance of that law given what is known, and what is known has the noise. Probabilities
    soften with the variance. Classifiers of up to 64 features predict with a law for each class
    where these fill in held-out values better. X must be dense.
"""

CLASSIFIER = """
coef_ : array of shape (1, n_features) or (n_classes, n_features)
    Weights w, one row for two classes, or one per class or label.
intercept_ : array of shape (1,) or (n_classes,)
    Offsets b.
classes_ : array of shape (n_classes,)
    Class labels, in ascending order. Of an indicator matrix, the numbers of its columns.
objective_ : float
    F at the solution, summed over the one-vs-rest problems if they are several.
"""

REGRESSOR = """
coef_ : array of shape (n_features,)
    Weights w.
intercept_ : array of shape (1,)
    Offset b.
objective_ : float
    F at the solution.
"""

LATENT = """
n_hidden : int, default=20
    Number of hidden units, for every class with ``shared=False``, or in all.
C : float, default=1.0
    Weight of the loss against the ridges.
noise : float, noise model or "auto", default="auto"
    A dropout rate (the probability that a feature is deleted), or a model from
    :mod:`marginout.noise`. "auto" is the dropout rate that the data bear, by a rule that does
    not look at y: 0.5 where features outnumber examples, as in text, and little for most tables.
    Set a rate, or `noise.Missing`, if features will be missing.
    With 0 or None this is a plain network.
hidden_penalty : float, default=1.0
    The weight λ of ½‖α‖². 1 is the paper's.
hidden_noise : float, default=0.0
    Dropout rate of the hidden units in training, in [0, 1): a unit is deleted, or divided by one
    minus the rate. It is drawn, by the solver "stochastic" alone.
activation : {"sigmoid", "tanh", "relu", "identity"}, default="sigmoid"
    The function σ. "sigmoid" is the paper's, and "identity" makes the model linear.
propagation : {"taylor", "gaussian"}, default="taylor"
    How noise passes the hidden layer. "taylor", the paper's, expands σ at the mean of
    a unit's input: saturated units show no variance. "gaussian" takes the mean and
    variance of σ for a normal input, and takes up to about twice the time
    (`benchmarks/results/latent_time.csv`).
fit_intercept : bool, default=True
    Whether to fit the offsets a and b.
shared : bool, default=True
    Whether all classes share one hidden layer, or each has a layer of `n_hidden` units
    of its own (the paper's one-vs-rest).
solver : {"auto", "joint", "alternating", "stochastic"}, default="auto"
    "joint" is L-BFGS over all parameters. "alternating" is the paper's coordinate descent:
    output weights in closed form, hidden weights by gradient steps. Both minimise F as
    `propagation` and `expectation` approximate it. "stochastic" draws the noise: Adam on
    batches of corrupted examples, in single precision, minimises F with the expectation itself.
    "auto" is "stochastic" where it takes less time (non-zeros × units × (1 + outputs) > 1e6)
    unless `propagation` or `expectation` ask for an approximation, and wherever there is
    `hidden_noise`; otherwise "joint".
n_init : int, default=1
    Number of random starts. The fit of the lowest objective is kept.
tol : float, default=1e-3
    The fit ends when ten iterations together lower the objective by less than this,
    relatively. "stochastic" makes 30 passes over the examples or 1000 steps, whichever is more,
    times √(0.001/tol).
max_iter : int, default=1000
    Most iterations. A fit that reaches it warns. Of "stochastic": most passes over the examples;
    the rate of its steps has fallen to zero by then, and nothing warns.
hidden_coef_ : array of shape (n_units, n_features)
    Hidden weights α of `n_hidden` units, or with ``shared=False`` of as many for every class
    of several, those of the first class first.
hidden_intercept_ : array of shape (n_units,)
    Hidden offsets a.
coef_ : array of shape (1, n_units) or (n_classes, n_units)
    Weights w. Zero where a class does not see the units of another.
random_state : int, RandomState or None, default=None
    Draws the hidden weights to start from. The same seed gives the same bits.
objective_ : float
    F at the solution, a local minimum. Of "stochastic": its mean over new draws.
objective_history_ : array of shape (n_iterations,)
    The objective after every iteration. Kinks of the loss are smoothed at first, so
    early values are a little above F. Of "stochastic": about F, from the batches of each
    epoch.
"""

SEARCH = """
Cs : int or sequence of floats, default=10
    The values of C, or how many: upwards from the C below which w is negligible, three
    to every two powers of ten.
noises : "auto" or sequence of floats or noise models, default="auto"
    Dropout rates, models from :mod:`marginout.noise`, "auto" for the rate that the data bear, or
    several of these. "auto" alone stands for four rates: 0, the one that the data bear, and those of
    4 and 16 times its variance q/(1 − q); or of a quarter and 4 times, where 16 is above a rate of 0.8.
    On long texts these are 0, 0.2, 0.5 and 0.8.
cv : int, splitter, iterable of splits or None, default=None
    As in :class:`sklearn.model_selection.GridSearchCV`.
scoring : str, callable or None, default=None
    As in :class:`sklearn.model_selection.GridSearchCV`, one metric.
n_jobs : int, default=None
    Threads of the search. None is one. The result does not depend on it.
refit : bool, default=True
    Whether to fit a model to all data with the chosen cell, at full tolerance.
select : {"best", "one_se"}, default="best"
    "best" takes the cell of the best mean score. "one_se" looks at the cells within one
    standard error of it, and takes that of the heaviest noise, and among these of the
    smallest C.
class_weight : dict, "balanced" or None, default=None
    As in :class:`DropoutSVC`. Each training set is balanced by itself.
tol : float, default=1e-3
    Tolerance of the refit, as in :class:`DropoutSVC`. The search of large data stops at
    twice that.
max_iter : int, default=1000
    Most iterations of each fit.
verbose : int, default=0
    Above 0, print a line per fit.
multi_class_ : str
    `multi_class` of the chosen model. The scores and the table are those of its search.
multi_class_scores_ : dict
    The best mean score for each value of `multi_class` that was tried.
"""

#: All attributes of a search.
FOUND = """\
C_ : float
    C of the chosen cell.
noise_ : float or noise model
    Noise of the chosen cell.
best_score_ : float
    Mean score of the chosen cell.
scores_ : array of shape (n_folds, n_Cs, n_noises)
    The score of every held-out fold in every cell. NaN where a fit has no finite solution.
Cs_ : array of shape (n_Cs,)
    The values of C, in ascending order.
noises_ : list of length n_noises
    The noises.
cv_results_ : dict
    The scores as columns of a table, one row per cell, as in GridSearchCV.
best_index_ : int
    The row of the chosen cell in that table.
best_params_ : dict
    `C` and `noise` of the chosen cell.
best_estimator_ : estimator
    The model refitted to all data. Its `coef_`, `intercept_`, `n_iter_`, `objective_`,
    `optimality_gap_` and `objective_history_` are attributes of the search, too.
n_splits_ : int
    Number of folds."""

SVM = """
expectation : {"gaussian", "bound"}, default="gaussian"
    The expected loss of a normal score, or the paper's bound on the expected loss.
"""

CORRUPTED = """
noise : float, noise model or None, default=0.5
    A dropout rate (the probability that a feature is deleted), or a model from
    :mod:`marginout.noise`. None is no noise.
"""

COPIES = """
n_copies : int, default=16
    The number M of corrupted copies. The first of them are the same for every M.
blocks : bool, default=True
    Whether an estimator with a `partial_fit` is given one copy after the other, so that memory does
    not grow with M. It sees each copy once: what its `fit` does until it converges, such as the
    epochs of an SGDClassifier or an MLPClassifier, is left out. With False, and always without a
    `partial_fit` and with ``missing="conditional"``, its `fit` gets all copies at once, M times the
    memory of X.
random_state : int, RandomState, Generator or None, default=None
    Seeds the corruption. Unless it is None, it also seeds every part of the estimator that has a
    `random_state` of None.
"""


def _paragraphs(text: str) -> dict[str, str]:
    """The paragraphs of a text by their names; each begins at the margin."""
    parts = re.findall(r"^(\w+)( : .*(?:\n .*)*)", text, flags=re.MULTILINE)
    return {name: name + rest for name, rest in parts}


PARAGRAPHS = {
    "": _paragraphs(MODEL),
    "linear": _paragraphs(LINEAR),
    "classifier": _paragraphs(CLASSIFIER),
    "regressor": _paragraphs(REGRESSOR),
    "latent": _paragraphs(LATENT),
    "search": {**_paragraphs(SEARCH), "attributes": FOUND},
    "svm": _paragraphs(SVM),
    "corrupted": _paragraphs(CORRUPTED),
    "copies": _paragraphs(COPIES),
}
PLACE = re.compile(r"^( *)\{(?:(\w+)\.)?(\w+)\}$", re.MULTILINE)


def documented(kind: Class) -> Class:
    """A class whose docstring has the shared paragraphs in place of their names."""
    if kind.__doc__ is not None:  # python -OO has no docstrings
        kind.__doc__ = PLACE.sub(_put, kind.__doc__)
    return kind


def _put(place: re.Match[str]) -> str:
    margin, group, name = place.groups("")
    return indent(PARAGRAPHS[group][name], margin)
