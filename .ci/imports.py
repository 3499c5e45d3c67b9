"""Check the contracts on imports in pyproject.toml, on the files in src.

The loader of an editable install comes first on `sys.meta_path` and does not say where the files of a package
are: import-linter would see an empty package, and all contracts would hold.
"""

import sys
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
sys.meta_path = [
    finder for finder in sys.meta_path if type(finder).__module__ != "_marginout_editable_loader"
]
sys.path.insert(0, str(ROOT / "src"))
sys.exit(lint_imports(config_filename=str(ROOT / "pyproject.toml"), cache_dir=None, no_cache=True))
