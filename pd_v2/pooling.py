"""How a window of an image or the steps of a sequence become one value."""

__all__ = [
    "Avg",
    "BasePool",
    "CudnnAvg",
    "CudnnAvgInclPad",
    "CudnnMax",
    "Max",
    "MaxWithMask",
    "SquareRootN",
    "Sum",
]


class BasePool:
    """A pooling by its name in the configuration of a layer."""

    def __init__(self, name):
        self.name = name


class Max(BasePool):
    """The largest value; of a sequence, where it stands if `output_max_index` is set."""

    def __init__(self, output_max_index=None):
        super().__init__("max")
        self.output_max_index = output_max_index


class MaxWithMask(BasePool):
    """The largest value of an image window, and where it stood."""

    def __init__(self):
        super().__init__("max-pool-with-mask")


class CudnnMax(BasePool):
    """`Max` of an image window; the name asks for a library that is no longer chosen by hand."""

    def __init__(self):
        super().__init__("cudnn-max-pool")


class CudnnAvg(BasePool):
    """`Avg` of an image window over the values inside the image."""

    def __init__(self):
        super().__init__("cudnn-avg-pool")


class CudnnAvgInclPad(BasePool):
    """The mean of an image window with its padding. 2017 had the name, no layer took it."""

    def __init__(self):
        super().__init__("cudnn-avg-incl-pad-pool")


class Avg(BasePool):
    """The mean, the sum, or the sum over the square root of the number of values."""

    STRATEGY_AVG = "average"
    STRATEGY_SUM = "sum"
    STRATEGY_SQROOTN = "squarerootn"

    def __init__(self, strategy=STRATEGY_AVG):
        strategies = (self.STRATEGY_AVG, self.STRATEGY_SUM, self.STRATEGY_SQROOTN)
        if strategy not in strategies:
            raise ValueError(f"Avg: no strategy {strategy!r}, there are {', '.join(strategies)}")
        super().__init__("average")
        self.strategy = strategy


class Sum(Avg):
    """The sum of the steps of a sequence."""

    def __init__(self):
        super().__init__(Avg.STRATEGY_SUM)


class SquareRootN(Avg):
    """The sum of the steps of a sequence over the square root of their number."""

    def __init__(self):
        super().__init__(Avg.STRATEGY_SQROOTN)
