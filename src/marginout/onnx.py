r"""Convert fitted models to ONNX graphs, through skl2onnx (``pip install 'marginout[onnx]'``).

After :func:`register`, ``skl2onnx.to_onnx`` converts every classifier and regressor of this library
whose scores are a formula of its own weights, and :class:`~marginout.NaiveBayesScaler`, alone or in a
pipeline. The graph of a model is

.. math:: s = G\,W^\top + b, \qquad G = X \;\text{ or }\; \sigma(X \alpha^\top + a),

computed in the type of the input, float32 or float64. The output of a regressor is s. A classifier has two
outputs: the label, which is the class of the largest score, and a matrix with one column per class. The
matrix holds probabilities, or scores where the model has no probabilities; the scores of two classes are
−s and s.

Examples
--------
>>> import numpy as np
>>> import marginout.onnx
>>> from marginout import DropoutSVC
>>> from onnxruntime import InferenceSession
>>> from skl2onnx import to_onnx
>>> from sklearn.datasets import load_iris
>>> X, y = load_iris(return_X_y=True)
>>> X = X.astype(np.float32)
>>> model = DropoutSVC(noise=0.1).fit(X, y)
>>> marginout.onnx.register()
>>> graph = to_onnx(model, X[:1], options={"zipmap": False})
>>> labels, scores = InferenceSession(graph.SerializeToString()).run(None, {"X": X})
>>> bool((labels == model.predict(X)).all()), scores.shape
(True, (150, 3))
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import marginout

try:
    from skl2onnx import update_registered_converter
    from skl2onnx.algebra import onnx_ops as ops
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )
    from skl2onnx.common.utils_classifier import get_label_classes
    from skl2onnx.proto import onnx_proto
except ImportError:
    raise ImportError("marginout.onnx needs skl2onnx: pip install 'marginout[onnx]'.") from None

__all__ = ["register"]

CLASSIFIERS: tuple[type, ...] = (
    marginout.DropoutSVC,
    marginout.DropoutSVCCV,
    marginout.DropoutLogisticRegression,
    marginout.DropoutLogisticRegressionCV,
    marginout.MCFClassifier,
    marginout.FeatureDeletionSVC,
    marginout.LatentDropoutSVC,
    marginout.LatentDropoutLogisticRegression,
)
REGRESSORS: tuple[type, ...] = (
    marginout.DropoutSVR,
    marginout.DropoutSVRCV,
    marginout.DropoutQuantileRegressor,
    marginout.DropoutQuantileRegressorCV,
    marginout.MCFRegressor,
    marginout.LatentDropoutSVR,
)
#: Models whose G is the hidden layer.
HIDDEN: tuple[type, ...] = (
    marginout.LatentDropoutSVC,
    marginout.LatentDropoutLogisticRegression,
    marginout.LatentDropoutSVR,
)
#: Classifiers whose probabilities of several classes are the softmax of the scores, besides those whose
#: `multi_class` joins the classes. In all others each class has a logistic model of its own, whose
#: probabilities are divided by their sum.
JOINT: tuple[type, ...] = (marginout.MCFClassifier,)

#: Options of scikit-learn's own linear classifiers, with the same meaning.
OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}
ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "identity": "Identity"}


def register() -> None:
    """Register the converters of this library's models with skl2onnx.

    Classifiers have the options of scikit-learn's: ``zipmap`` (by default the second output is a list of
    dicts; False leaves it a matrix), ``raw_scores`` (scores also where there are probabilities), ``nocl``
    (labels are numbers) and ``output_class_labels``. A second call changes nothing. Of an
    :class:`~marginout.ExplicitCorruptionClassifier`, convert its `estimator_`.
    """
    for model in CLASSIFIERS:
        update_registered_converter(
            model,
            f"Marginout{model.__name__}",
            calculate_linear_classifier_output_shapes,
            _classifier_converter(hidden=model in HIDDEN, joint=model in JOINT),
            options=OPTIONS,
        )
    for model in REGRESSORS:
        update_registered_converter(
            model,
            f"Marginout{model.__name__}",
            calculate_linear_regressor_output_shapes,
            _regressor_converter(hidden=model in HIDDEN),
        )
    scaler = marginout.NaiveBayesScaler
    update_registered_converter(scaler, "MarginoutNaiveBayesScaler", _scaler_shapes, _scaler_converter)


class Graph:
    """Operators of one version of ONNX."""

    def __init__(self, container: Any) -> None:
        self._version = container.target_opset

    def __call__(self, name: str, *inputs: Any, **options: Any) -> Any:
        """Add an operator, and return its output."""
        return getattr(ops, f"Onnx{name}")(*inputs, op_version=self._version, **options)

    def affine(self, X: Any, coef: NDArray[Any], intercept: NDArray[Any], dtype: type) -> Any:
        """X·coefᵀ + intercept."""
        product = self("MatMul", X, np.ascontiguousarray(coef.T, dtype=dtype))
        return self("Add", product, intercept.astype(dtype))

    def log_sigmoid(self, s: Any) -> Any:
        """log σ(s) = u − log(eᵘ + eᵛ), u = min(s, 0), v = min(−s, 0); onnxruntime's Softplus is float32."""
        u, v = (self("Neg", self("Relu", part)) for part in (self("Neg", s), s))
        return self("Sub", u, self("Log", self("Add", self("Exp", u), self("Exp", v))))


def _numbers(graph: Graph, X: Any) -> tuple[Any, type]:
    """X in float64 or float32, and which of them."""
    if not isinstance(X.type, (DoubleTensorType, FloatTensorType)):
        return graph("Cast", X, to=onnx_proto.TensorProto.FLOAT), np.float32
    return X, np.float64 if isinstance(X.type, DoubleTensorType) else np.float32


def _scores(graph: Graph, operator: Any, hidden: bool) -> Any:
    """Scores, one column per output of the model."""
    from marginout._core.fit import weights_of

    model, X = operator.raw_operator, operator.inputs[0]
    if model.missing != "error":
        if model.missing == "conditional":
            raise ValueError(
                "missing='conditional' cannot be converted: ONNX solves no linear systems. Set "
                "missing='error' on a copy, convert that, and give it rows that model.to_sklearn()[0] has "
                "filled in."
            )
        raise ValueError(
            f"missing={model.missing!r} cannot be converted: ONNX would not delete missing entries. Fit with "
            "missing='error', and fill missing entries before."
        )
    X, dtype = _numbers(graph, X)
    if hidden:
        inputs = graph.affine(X, model.hidden_coef_, model.hidden_intercept_, dtype)
        X = graph(ACTIVATIONS[model.activation], inputs)
    return graph.affine(X, weights_of(model), np.atleast_1d(model.intercept_), dtype)


def _scaler_shapes(operator: Any) -> None:
    X = operator.inputs[0]
    kind = DoubleTensorType if isinstance(X.type, DoubleTensorType) else FloatTensorType
    operator.outputs[0].type = kind([X.get_first_dimension(), len(operator.raw_operator.scale_)])


def _scaler_converter(scope: Any, operator: Any, container: Any) -> None:
    graph = Graph(container)
    X, dtype = _numbers(graph, operator.inputs[0])
    scale = operator.raw_operator.scale_.astype(dtype)[None, :]
    graph("Mul", X, scale, output_names=operator.outputs[:1]).add_to(scope, container)


def _regressor_converter(hidden: bool) -> Any:
    def convert(scope: Any, operator: Any, container: Any) -> None:
        graph = Graph(container)
        scores = _scores(graph, operator, hidden)
        graph("Identity", scores, output_names=operator.outputs[:1]).add_to(scope, container)

    return convert


def _classifier_converter(hidden: bool, joint: bool) -> Any:
    def convert(scope: Any, operator: Any, container: Any) -> None:
        graph, model = Graph(container), operator.raw_operator
        if model._indicator:
            raise ValueError(
                "A model of several labels has no converter here: convert model.to_sklearn() instead."
            )
        classes = _labels(get_label_classes(scope, model))
        scores = _scores(graph, operator, hidden)
        if len(classes) == 2:
            scores = graph("Concat", graph("Neg", scores), scores, axis=1)
        best = graph("ArgMax", scores, axis=1, keepdims=0)
        label = graph("Gather", classes, best, output_names=operator.outputs[:1])
        raw = container.get_options(model, {"raw_scores": False})["raw_scores"]
        # scikit-learn's rule for a method that depends on parameters: a model without it has no attribute.
        if not raw and hasattr(model, "predict_proba"):
            # σ(s_k)/Σσ(s_l) = softmax(log σ(s)), which is never 0/0.
            together = joint or model._has_softmax()
            logits = scores if together and len(classes) > 2 else graph.log_sigmoid(scores)
            scores = graph("Softmax", logits, axis=1)
        second = graph("Identity", scores, output_names=operator.outputs[1:2])
        label.add_to(scope, container)
        second.add_to(scope, container)

    return convert


def _labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Classes as ONNX stores them: 64-bit integers or strings."""
    if classes.dtype.kind in "biu" or (
        classes.dtype.kind == "f" and np.array_equal(classes, classes.astype(np.int64))
    ):
        return classes.astype(np.int64)
    if all(isinstance(label, str) for label in classes):
        return classes.astype(str)
    raise ValueError(f"classes_={classes!r}: labels in ONNX must be whole numbers or strings.")
