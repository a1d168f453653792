"""The commands of `python -m pd_core`: what they take, print and write."""

from .main import main
from .pipes import ends_with_reader

__all__ = ["ends_with_reader", "main"]
