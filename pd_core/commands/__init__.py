"""The commands of `python -m pd_core`: what they take, print and write."""

from .main import main

__all__ = ["main"]
