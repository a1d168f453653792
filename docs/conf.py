"""Sphinx's settings of the documentation as a site: `sphinx-build docs site`."""

from pd_core import __version__

project, author, release = "pd", "The pd authors", __version__
copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"pd {release}"
exclude_patterns = ["package.md"]
autodoc_typehints = "none"  # shapes are in the docstrings; types of arrays are long
autodoc_member_order = "bysource"
# Pages link to demos and tests, which a reader of the repository has beside them.
suppress_warnings = ["myst.xref_missing"]
