"""Datasets of the paddle.v2 book, downloaded on first use into common.DATA_HOME."""

# isort: skip_file
# fmt: off
from pd_v2.dataset import (
    cifar, common, conll05, flowers, imdb, imikolov, mnist, movielens, mq2007, sentiment,
    uci_housing, voc2012, wmt14, wmt16,
)

__all__ = [
    *("cifar", "common", "conll05", "flowers", "imdb", "imikolov", "mnist", "movielens", "mq2007"),
    *("sentiment", "uci_housing", "voc2012", "wmt14", "wmt16"),
]
