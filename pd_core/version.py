"""The version of pd, which is also that of its wheel."""

__version__ = "0.2.0"
