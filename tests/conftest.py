"""Set before SciPy is imported: scikit-learn's array-API checks run only with it."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")
