"""The command `marginout`: fit, predict, score, stress, compare, info, demo; and its models in Python.

Each command is a module with a function `run`. From the shell to a saved model:

    arguments      what can be asked
    run            call the command; turn an error into one line and an exit code
    data           read a file: its format, its compression; tables and matrices by their own readers
    columns        decide what each column is: a number, a category, a text, a date, the target
    reading        make X and y of the data
    convert        the steps of the pipeline before the model; they read cells by the rules of `cells`
    models         the estimator that the arguments ask for
    modelfile      save the pipeline, and load it again
    output         print facts, tables, progress; write files whole or not at all

Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

__all__ = ["load", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    try:
        from marginout.cli import run

        return run.main(argv)
    except KeyboardInterrupt:  # before `run` could handle it
        return 130


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
        A fitted pipeline with `predict` and `score`, and with `classes_`, `decision_function` and
        `predict_proba` where the model, ``pipeline[-1]``, has them. It predicts what ``marginout predict``
        does. A model of a table takes data frames (pandas, polars, pyarrow) as they were read: columns are
        found by their names, other columns are ignored, and cells are converted as the command does. A
        model of svmlight or npz data takes arrays and CSR matrices.

    Raises
    ------
    ValueError
        If the file is broken, is of another version, or holds types that are not trusted.
    ImportError
        If skops is not installed (``pip install 'marginout[cli]'``).

    Notes
    -----
    A code with leading zeros, such as the postcode 01234, must be read as a string
    (``pandas.read_csv(..., dtype={"postcode": str})``): pandas reads it as the number 1234, which is
    another category.

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
        if isinstance(error.__cause__, OSError):  # no such file, no permission: Python has types for these
            raise error.__cause__ from None
        raise
