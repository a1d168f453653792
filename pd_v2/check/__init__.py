"""`python -m pd_v2 check`: static analysis of programs for names of paddle that pd_v2 lacks.

A program is parsed as Python 3 or Python 2 (`sources`); the bindings of its names (`scopes`) give
the uses of paddle (`uses`), which are looked up in pd_v2 (`lookup`) and reported as text or JSON
(`report`).
"""

from .main import main
from .report import Report, check

__all__ = ["Report", "check", "main"]
