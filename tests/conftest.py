"""Set before NumPy, SciPy and the kernels are loaded."""

import os

# scikit-learn's array-API checks run only with it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# One thread for each of pytest's workers, and for the commands and clusters that tests start: two workers of
# two threads each on two cores take 3 times the CPU time. Tests of threads set their number themselves.
os.environ.setdefault("OMP_NUM_THREADS", "1")
