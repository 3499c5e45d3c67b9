"""
From a file of texts to a model
===============================

Sentences of film reviews and whether the writer liked the film, in a CSV file. Here they become a model
whose C and dropout rate are tuned, whose words are looked at, and which is saved and loaded again. The
command `marginout fit examples/data/reviews.csv --target label --text text --cv --out reviews.model` does
the same.
"""

# %%
# The texts
# ---------
import csv
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import skops.io
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from marginout import DropoutSVCCV, ValidationMapDisplay
from marginout.robustness import deletion_curve
from marginout.skops import trusted_types

FOLDER = Path("data") if Path("data").is_dir() else Path("examples/data")


def read(name):
    """Texts and labels of a CSV file."""
    with open(FOLDER / name, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], np.array([row["label"] for row in rows])


texts, labels = read("reviews.csv")
print(len(texts), "texts, such as", repr(texts[0]))

# %%
# The model
# ---------
# Words, marks of punctuation and pairs of them, with tf-idf weights. The search chooses C and the rate by
# five folds.
words = TfidfVectorizer(
    sublinear_tf=True, ngram_range=(1, 2), min_df=2, token_pattern=r"\w+(?:['’]\w+)*|[^\w\s]"
)
model = make_pipeline(words, DropoutSVCCV()).fit(texts, labels)
search = model[-1]
print(f"C = {search.C_:.3g}, rate {search.noise_}: {100 * search.best_score_:.1f} % right in the folds")
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ValidationMapDisplay.from_estimator(search, ax=ax)
plt.show()

# %%
# New texts
# ---------
# The standard error of an accuracy p on n texts is :math:`\sqrt{p(1-p)/n}`: these are too few to tell models
# apart that differ by a point.
new_texts, new_labels = read("new_reviews.csv")
right = model.score(new_texts, new_labels)
error = np.sqrt(right * (1 - right) / len(new_texts))
print(f"{100 * right:.1f} ± {100 * error:.1f} % of the new texts are right")
for text, label in zip(new_texts[:2], model.predict(new_texts[:2]), strict=True):
    print(f"{label}: {text}")

# %%
# The words
# ---------
# A weight says what a word adds to the score, times its tf-idf weight. The model is linear: that is all that
# there is to explain.
names, weights = words.get_feature_names_out(), search.coef_[0]
order = np.argsort(weights)
top = np.concatenate([order[:10], order[-10:]])
fig, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
ax.barh(names[top], weights[top], color=np.where(weights[top] > 0, "C0", "C3"))
ax.set(xlabel=f"weight for “{search.classes_[1]}”")
plt.show()

# %%
# Writers use other words than those of the training texts. The score as words of the new texts are deleted:
print(deletion_curve(model, new_texts, new_labels, rates=[0.0, 0.2, 0.4, 0.6], n_repeats=3, random_state=0))

# %%
# Saved and loaded
# ----------------
# skops stores the pipeline so that loading runs no code. `marginout.load` reads what the command saved.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "reviews.skops"
    skops.io.dump(model, path)
    loaded = skops.io.load(path, trusted=trusted_types())
print((loaded.predict(new_texts) == model.predict(new_texts)).all())
