"""Configure the build of the documentation (``make docs``).

With a network, names of other projects are links to their pages; without one they are plain text.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import marginout
from marginout.cli.errors import EXIT_CODES
from marginout.skops import trusted_types

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "marginout"
copyright = "the marginout developers, BSD-3-Clause"
version = release = marginout.__version__

extensions = [
    "inherited",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.intersphinx",
    "matplotlib.sphinxext.plot_directive",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_math_renderer = "mathml"
default_role = "code"
myst_enable_extensions = ["colon_fence", "dollarmath", "substitution"]
myst_heading_anchors = 3
myst_substitutions = {
    "exit_codes": f"```text\n{EXIT_CODES}\n```",
    "trusted_types": "\n".join(f"- `{name}`" for name in trusted_types()),
}

# --------------------------------------------------------------------------- API pages
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

# --------------------------------------------------------------------------- links
nitpicky = True
# Other projects' pages cannot be looked up without a network.
nitpick_ignore_regex = [("py:.*", r"(?!marginout).*")]
# Where an inventory cannot be fetched, Sphinx takes the next one, which is empty: no warning, and no link.
NO_NAMES = Path(__file__).parent / "_build" / "no-names.inv"
NO_NAMES.parent.mkdir(exist_ok=True)
NO_NAMES.write_bytes(
    b"# Sphinx inventory version 2\n# Project: none\n# Version: 0\n"
    b"# The remainder of this file is compressed using zlib.\n" + zlib.compress(b"")
)
intersphinx_mapping = {
    name: (url, (None, str(NO_NAMES)))
    for name, url in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "scipy": "https://docs.scipy.org/doc/scipy/",
        "sklearn": "https://scikit-learn.org/stable/",
        "pandas": "https://pandas.pydata.org/docs/",
        "matplotlib": "https://matplotlib.org/stable/",
        "dask": "https://docs.dask.org/en/stable/",
    }.items()
}
intersphinx_timeout = 5

# --------------------------------------------------------------------------- figures
plot_html_show_formats = False
plot_html_show_source_link = False
plot_formats = [("png", 160)]

# --------------------------------------------------------------------------- doctests
doctest_test_doctest_blocks = "default"

# --------------------------------------------------------------------------- gallery
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    # Scripts that draw the figures of README and docs/offset.md; one of them needs MNIST.
    "ignore_pattern": r"(plot_deletion|plot_offset)\.py",
    "within_subsection_order": "gallery_order.Order",
    "abort_on_example_error": True,
    "backreferences_dir": "api/generated/examples",
    "doc_module": ("marginout",),
    "image_srcset": ["2x"],
    "min_reported_time": 10,
    "write_computation_times": False,
}

# --------------------------------------------------------------------------- look
html_theme = "pydata_sphinx_theme"
html_title = "marginout"
html_static_path = ["_static"]
html_css_files = ["marginout.css"]
html_js_files = ["marginout.js"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "changelog": [], "contributing": []}
