"""Curves of costs and metrics, drawn while training runs."""

from pd_v2.plot.plot import Ploter

__all__ = ["Ploter"]
