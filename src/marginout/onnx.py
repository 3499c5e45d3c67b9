r"""Convert fitted models to ONNX graphs, through skl2onnx (``pip install 'marginout[onnx]'``).

After :func:`register`, ``skl2onnx.to_onnx`` converts every classifier and regressor of this library
whose scores are a formula of its own weights, alone or in a pipeline. The graph is

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

from marginout import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    DropoutSVRCV,
    FeatureDeletionSVC,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    LatentDropoutSVR,
    MCFClassifier,
    MCFRegressor,
)

try:
    from skl2onnx import update_registered_converter
    from skl2onnx.algebra.onnx_ops import (
        OnnxAdd,
        OnnxArgMax,
        OnnxCast,
        OnnxConcat,
        OnnxExp,
        OnnxGather,
        OnnxIdentity,
        OnnxLog,
        OnnxMatMul,
        OnnxNeg,
        OnnxRelu,
        OnnxSigmoid,
        OnnxSoftmax,
        OnnxSub,
        OnnxTanh,
    )
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
    DropoutSVC,
    DropoutSVCCV,
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    MCFClassifier,
    FeatureDeletionSVC,
    LatentDropoutSVC,
    LatentDropoutLogisticRegression,
)
REGRESSORS: tuple[type, ...] = (DropoutSVR, DropoutSVRCV, MCFRegressor, LatentDropoutSVR)
#: Models whose G is the hidden layer.
HIDDEN: tuple[type, ...] = (LatentDropoutSVC, LatentDropoutLogisticRegression, LatentDropoutSVR)
#: Classifiers whose probabilities of several classes are the softmax of the scores. In all others each class
#: has a logistic model of its own, whose probabilities are divided by their sum.
JOINT: tuple[type, ...] = (MCFClassifier,)

#: Options of scikit-learn's own linear classifiers, with the same meaning.
OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}
ACTIVATIONS = {"sigmoid": OnnxSigmoid, "tanh": OnnxTanh, "relu": OnnxRelu, "identity": OnnxIdentity}


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


def _scores(operator: Any, hidden: bool, version: int) -> Any:
    """Graph of the scores, one column per output of the model."""
    model, X = operator.raw_operator, operator.inputs[0]
    if model.missing != "error":
        raise ValueError(
            f"missing={model.missing!r} cannot be converted: ONNX would not delete missing entries. Fit with "
            "missing='error', and fill missing entries before."
        )
    dtype = np.float64 if isinstance(X.type, DoubleTensorType) else np.float32
    if not isinstance(X.type, (DoubleTensorType, FloatTensorType)):
        X = OnnxCast(X, to=onnx_proto.TensorProto.FLOAT, op_version=version)
    if hidden:
        inputs = _affine(X, model.hidden_coef_, model.hidden_intercept_, dtype, version)
        X = ACTIVATIONS[model.activation](inputs, op_version=version)
    return _affine(X, np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_), dtype, version)


def _affine(X: Any, coef: NDArray[Any], intercept: NDArray[Any], dtype: type, version: int) -> Any:
    product = OnnxMatMul(X, np.ascontiguousarray(coef.T, dtype=dtype), op_version=version)
    return OnnxAdd(product, intercept.astype(dtype), op_version=version)


def _regressor_converter(hidden: bool) -> Any:
    def convert(scope: Any, operator: Any, container: Any) -> None:
        version = container.target_opset
        scores = _scores(operator, hidden, version)
        OnnxIdentity(scores, op_version=version, output_names=operator.outputs[:1]).add_to(scope, container)

    return convert


def _classifier_converter(hidden: bool, joint: bool) -> Any:
    def convert(scope: Any, operator: Any, container: Any) -> None:
        model, version = operator.raw_operator, container.target_opset
        classes = _labels(get_label_classes(scope, model))
        scores = _scores(operator, hidden, version)
        if len(classes) == 2:
            scores = OnnxConcat(OnnxNeg(scores, op_version=version), scores, axis=1, op_version=version)
        best = OnnxArgMax(scores, axis=1, keepdims=0, op_version=version)
        label = OnnxGather(classes, best, op_version=version, output_names=operator.outputs[:1])
        raw = container.get_options(model, {"raw_scores": False})["raw_scores"]
        # scikit-learn's rule for a method that depends on parameters: a model without it has no attribute.
        if not raw and hasattr(model, "predict_proba"):
            scores = _probabilities(scores, joint and len(classes) > 2, version)
        second = OnnxIdentity(scores, op_version=version, output_names=operator.outputs[1:2])
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


def _probabilities(scores: Any, joint: bool, version: int) -> Any:
    """Graph of `predict_proba`: softmax(s), or σ(s_k)/Σσ(s_l) = softmax(log σ(s)), which is never 0/0."""
    logits = scores if joint else _log_sigmoid(scores, version)
    return OnnxSoftmax(logits, axis=1, op_version=version)


def _log_sigmoid(scores: Any, version: int) -> Any:
    """log σ(s) = u − log(eᵘ + eᵛ), u = min(s, 0), v = min(−s, 0); onnxruntime's Softplus is float32 only."""
    negative = OnnxNeg(scores, op_version=version)
    u, v = (OnnxNeg(OnnxRelu(part, op_version=version), op_version=version) for part in (negative, scores))
    powers = (OnnxExp(part, op_version=version) for part in (u, v))
    return OnnxSub(u, OnnxLog(OnnxAdd(*powers, op_version=version), op_version=version), op_version=version)
