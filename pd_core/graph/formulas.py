"""Operators that are written in others, by name.

A formula is a function (attributes, *inputs) -> output, or outputs, of op functions. The
operator is differentiated by it, and computed by it where a runtime has no kernel.
"""

from collections.abc import Callable

formulas: dict[str, Callable] = {}
