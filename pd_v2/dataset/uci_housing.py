"""UCI Boston housing: 506 districts, 13 features and the median price of a home.

A sample is (features, price): float64[13], each feature minus its mean, divided by its range, and
float64[1] in 1,000 dollars.
"""

import os

import numpy as np

from pd_core import DamagedFile
from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples

__all__ = ["test", "train"]

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
URL_MODEL = "https://github.com/PaddlePaddle/book/raw/develop/01.fit_a_line/fit_a_line.tar"
MD5_MODEL = "52fc3da8ef3937822fcdd87ee05c0c9b"

# fmt: off
feature_names = [
    "CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT",
    "convert",  # not a feature, but in 2017's list
]
# fmt: on

_LARGEST = 1e100

UCI_TRAIN_DATA = None
UCI_TEST_DATA = None


def load_data(filename, feature_num=14, ratio=0.8):
    """Set UCI_TRAIN_DATA and UCI_TEST_DATA from a table of feature_num columns, the last the price.

    The first fraction `ratio` of the rows is the training set. As in 2017, features are normalized
    over all rows.
    """
    global UCI_TRAIN_DATA, UCI_TEST_DATA
    table = _table(filename, feature_num)
    features = table[:, :-1]
    extent = features.max(axis=0) - features.min(axis=0)
    if not extent.all():
        column = int(np.flatnonzero(extent == 0)[0])
        raise DamagedFile(
            f"uci_housing: {filename}: column {column} has the same value in all rows"
        )
    table[:, :-1] = (features - features.mean(axis=0)) / extent
    train_rows = int(len(table) * ratio)
    UCI_TRAIN_DATA, UCI_TEST_DATA = table[:train_rows], table[train_rows:]


def train():
    """Return the training samples: the first 404 rows of the original."""
    load_data(_file())
    return _samples(UCI_TRAIN_DATA)


def test():
    """Return the test samples: the last 102 rows of the original."""
    load_data(_file())
    return _samples(UCI_TEST_DATA)


def model():
    """Return the Parameters of a trained regression."""
    from pd_v2.parameters import Parameters

    with open(common.download(URL_MODEL, "fit_a_line.tar", MD5_MODEL), "rb") as file:
        return Parameters.from_tar(file)


def fetch():
    """Download the table into the cache."""
    _file()


def convert(path):
    """Write both sets as RecordIO files; "houseing" is 2017's spelling."""
    common.convert(path, train(), 1000, "uci_housing_train")
    common.convert(path, test(), 1000, "uci_houseing_test")


def feature_range(maximums, minimums):
    """Plot the range of each feature as a bar to image/ranges.png; needs matplotlib."""
    from matplotlib.figure import Figure

    common.must_mkdirs("image")
    figure = Figure()
    axes = figure.subplots()
    axes.bar(range(len(maximums)), np.subtract(maximums, minimums), bottom=minimums)
    axes.set_xticks(range(len(maximums)), feature_names[: len(maximums)], rotation=90)
    axes.set_title("feature scale")
    figure.savefig(os.path.join("image", "ranges.png"), bbox_inches="tight")


def _file():
    return common.download(URL, "uci_housing", MD5)


def _samples(table):
    return Samples(lambda: ((row[:-1], row[-1:]) for row in table))


def _table(filename, columns):
    with open(filename, encoding="latin-1") as file:
        numbers = file.read().split()
    if not numbers or len(numbers) % columns:
        raise DamagedFile(
            f"uci_housing: {filename}: {len(numbers)} numbers are no whole rows of {columns}"
        )
    try:
        table = np.array(numbers, np.float64).reshape(-1, columns)
    except ValueError as error:
        raise DamagedFile(f"uci_housing: {filename}: {error}") from error
    usable = (np.abs(table) < _LARGEST).all(axis=0)
    if not usable.all():
        column = int(np.flatnonzero(~usable)[0])
        raise DamagedFile(f"uci_housing: {filename}: column {column} has NaN or over {_LARGEST}")
    return table
