"""Start over with another network, in one process."""

from .config_parser import begin_parse

__all__ = ["reset_parser"]

reset_parser = begin_parse
