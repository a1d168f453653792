"""Sphinx's settings of the documentation as a site: `sphinx-build docs site`."""

import sys
from pathlib import Path

from pd_core import __version__

sys.path.insert(0, str(Path(__file__).parent))

project, author, release = "pd", "The pd authors", __version__
copyright = author
extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"),
    "reference",
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"pd {release}"
exclude_patterns = ["package.md"]
highlight_language = "none"  # indented lines of docstrings are formulas
autodoc_member_order = "bysource"
autodoc_use_type_comments = False
maximum_signature_line_length = 80
# Pages link to demos and tests, which a reader of the repository has beside them.
suppress_warnings = ["myst.xref_missing"]
