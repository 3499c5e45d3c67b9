"""List the types of this library that a model stored with skops may hold.

skops loads only types that it is told to trust. The attributes of the classes listed here are numbers,
arrays, strings, and objects of these classes: none of them runs code of its own when it is loaded.
"""

from __future__ import annotations

import inspect

from sklearn.base import BaseEstimator

import marginout
from marginout import noise
from marginout._core.gaussian import ClassLaws, Law
from marginout._models.online.stream import Stream
from marginout.noise._auto import Extent

__all__ = ["trusted_types"]


def trusted_types() -> list[str]:
    """Names of every estimator and noise model of the library, and of a stream's state, as skops writes them.

    Returns
    -------
    names : list of str
        What `trusted` of :func:`skops.io.load` needs.

    Examples
    --------
    >>> import skops.io
    >>> from sklearn.datasets import load_iris
    >>> from marginout import DropoutSVC
    >>> from marginout.skops import trusted_types
    >>> X, y = load_iris(return_X_y=True)
    >>> stored = skops.io.dumps(DropoutSVC(noise=0.1).fit(X, y))
    >>> skops.io.loads(stored, trusted=trusted_types())
    DropoutSVC(noise=0.1)
    """
    public = (
        kind
        for module, base in ((marginout, BaseEstimator), (noise, noise.Noise))
        for kind in (getattr(module, name) for name in module.__all__)
        if inspect.isclass(kind) and issubclass(kind, base) and not inspect.isabstract(kind)
    )
    kinds = *public, Stream, Extent, Law, ClassLaws, noise.Moments
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]
    return sorted([*names, "marginout.solvers.online.Stream"])  # its name in files of before
