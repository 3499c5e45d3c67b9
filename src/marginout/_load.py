"""Models that the command has saved, in Python."""

from __future__ import annotations

import os
from typing import Any


def load(path: str | os.PathLike[str]) -> Any:
    """Load the pipeline that ``marginout fit`` has saved.

    Nothing in the file runs when it is loaded: only types on a fixed list are rebuilt, and a pickle is
    refused.

    Parameters
    ----------
    path : str or path
        A file written by ``marginout fit --out``.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Fitted, with `predict` and `score`, and with `classes_`, `decision_function` and `predict_proba` where
        the model, ``pipeline[-1]``, has them. It predicts what ``marginout predict`` does. A model of a table
        takes data frames (pandas, polars, pyarrow) as they were read: columns are found by their names,
        others are ignored, and cells are converted as the command does. A model of svmlight or npz data
        takes arrays and CSR matrices.

    Raises
    ------
    ValueError
        If the file is broken, is of another version, or holds types that are not trusted.
    ImportError
        If skops is not installed (``pip install 'marginout[cli]'``).

    Notes
    -----
    A code with leading zeros, such as the postcode 01234, must be read as a string
    (``pandas.read_csv(..., dtype={"postcode": str})``): pandas makes the number 1234 of it, which is another
    category.

    Examples
    --------
    >>> import os, tempfile
    >>> import marginout
    >>> from marginout.cli import main
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True).frame
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data, model = os.path.join(folder, "iris.csv"), os.path.join(folder, "iris.model")
    ...     iris.to_csv(data, index=False)
    ...     code = main(["fit", data, "--target", "target", "--out", model, "--quiet", "--json"])
    ...     pipeline = marginout.load(model)  # doctest: +ELLIPSIS
    {...}
    >>> pipeline.predict(iris.iloc[:3]).tolist()
    [0, 0, 0]
    """
    from marginout.cli import modelfile
    from marginout.cli.errors import ModelError

    try:
        return modelfile.load(os.fspath(path)).pipeline
    except ModelError as error:
        if isinstance(error.__cause__, OSError):  # there is no such file: Python has a type for it
            raise error.__cause__ from None
        raise
