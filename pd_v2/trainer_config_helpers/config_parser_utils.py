"""Describing networks one after the other."""

from .config_parser import begin_parse

__all__ = ["reset_parser"]

reset_parser = begin_parse
