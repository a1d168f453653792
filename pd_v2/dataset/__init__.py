"""Datasets of the paddle.v2 book, downloaded on first use into common.DATA_HOME."""

from pd_v2.dataset import cifar, common, mnist, uci_housing

__all__ = ["cifar", "common", "mnist", "uci_housing"]
