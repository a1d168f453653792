"""`python -m pd_v2 check`: what programs ask of paddle that pd_v2 lacks. None of them is run.

A program is parsed, as Python 3 or as Python 2 (`sources`); its names are followed to what they
are bound to (`scopes`), which tells each use of paddle (`uses`); these are looked up in pd_v2
(`lookup`), and what is found is told in words or as JSON (`report`).
"""

from .main import main
from .report import Report, check

__all__ = ["Report", "check", "main"]
