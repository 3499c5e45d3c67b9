"""
Text on few documents
=====================

Two hundred documents and two thousand words: the case that dropout training is made for. Every word
carries little information, and a plain SVM relies on the words that happen to separate the training
documents.

The documents are real and come with the libraries: the descriptions of the functions and classes of
NumPy, SciPy and scikit-learn, from their docstrings. The task is to tell which library a description
belongs to, with the names of the libraries removed.
"""

# %%
# The documents
# -------------
import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import StratifiedShuffleSplit

from marginout import DropoutSVC, path

LIBRARIES = {
    "numpy": "numpy numpy.linalg numpy.fft numpy.ma numpy.polynomial numpy.random",
    "scipy": "scipy.cluster scipy.fft scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage "
    "scipy.optimize scipy.signal scipy.sparse scipy.spatial scipy.special scipy.stats",
    "sklearn": "sklearn.cluster sklearn.covariance sklearn.datasets sklearn.decomposition sklearn.ensemble "
    "sklearn.feature_extraction sklearn.feature_selection sklearn.linear_model sklearn.manifold "
    "sklearn.metrics sklearn.model_selection sklearn.neighbors sklearn.preprocessing sklearn.svm "
    "sklearn.tree",
}


def descriptions():
    """The text above "Parameters" of each docstring, and the library of each."""
    found = {}
    for library, modules in LIBRARIES.items():
        for module in map(importlib.import_module, modules.split()):
            for name in sorted(module.__all__):  # in an order that does not change
                thing = vars(module).get(name)
                head, parameters, _ = (inspect.getdoc(thing) or "").partition("\nParameters\n")
                own = getattr(thing, "__module__", "").startswith(library)
                if callable(thing) and own and parameters:
                    found[head] = library
    return np.array(list(found), dtype=object), np.array(list(found.values()))


texts, labels = descriptions()
print({library: int(np.sum(labels == library)) for library in LIBRARIES})
print(texts[1])

# %%
# Errors over C and the rate
# --------------------------
# Two hundred documents for training, all others for testing; six draws. :func:`marginout.path` solves the
# whole grid, and rate 0 is a plain SVM. Words are 0 or 1, or have tf-idf weights.
Cs, rates = np.logspace(-3, 1, 7), [0.0, 0.1, 0.3, 0.5, 0.7, 0.9]
tokens = {"token_pattern": "[a-z]{2,}", "stop_words": ["numpy", "scipy", "sklearn", "scikit"]}
words = {
    "0 and 1": CountVectorizer(binary=True, dtype=np.float64, **tokens),
    "tf-idf": TfidfVectorizer(sublinear_tf=True, **tokens),
}


def errors(vectorizer, seed):
    """Test errors for one draw of training documents, by C and rate."""
    split = StratifiedShuffleSplit(1, train_size=200, random_state=seed)
    train, test = next(split.split(texts, labels))
    X, X_test = vectorizer.fit_transform(texts[train]), vectorizer.transform(texts[test])
    grid = path(DropoutSVC(loss="hinge", expectation="bound"), X, labels[train], Cs=Cs, noises=rates)
    wrong = np.empty((len(Cs), len(rates)))
    for cell in np.ndindex(wrong.shape):
        scores = X_test @ grid.coefs[cell].T + grid.intercepts[cell]
        wrong[cell] = np.mean(grid.classes[scores.argmax(axis=1)] != labels[test])
    return wrong


results = {name: np.array([errors(each, seed) for seed in range(6)]) for name, each in words.items()}
for name, result in results.items():
    best = result.mean(axis=0).min(axis=0)
    print(f"words as {name:8s}", "  ".join(f"rate {r:g}: {e:.3f}" for r, e in zip(rates, best, strict=True)))

# %%
# These are the errors at the best C of each rate, means of six draws. The figure shows all values of C.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
colours = plt.colormaps["viridis"](np.linspace(0, 0.9, len(rates)))
for ax, (name, result) in zip(axes, results.items(), strict=True):
    for column, (rate, colour) in enumerate(zip(rates, colours, strict=True)):
        mean = 100 * result[..., column].mean(axis=0)
        ax.semilogx(Cs, mean, "--" if rate == 0 else "-", color=colour, marker=".", label=f"rate {rate:g}")
    ax.set(xlabel="C", title=f"words as {name}")
axes[0].set(ylabel="test error (%)", ylim=(0, None))
axes[0].legend(fontsize="small")
plt.show()

# %%
# With words as 0 and 1 a little dropout removes a part of the error that no C of the plain SVM removes:
# noise penalises the weight of a word by how often the word occurs, which a ridge cannot do. With tf-idf,
# which makes frequent words small beforehand, there is little left to gain. Heavy noise costs accuracy in
# both cases: these descriptions are short, a few dozen words, and training without nine words in ten
# gives no good model. Longer texts tolerate more noise; on the product reviews of the README rates of 0.3
# to 0.7 are chosen for counts.
#
# Here both models were evaluated on the test documents at every C and rate, to show what is possible.
# :class:`~marginout.DropoutSVCCV` chooses from training documents alone
# (:ref:`sphx_glr_gallery_plot_choose_rate.py`).
