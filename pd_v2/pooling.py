"""Types of pooling, of windows of an image or of the steps of a sequence."""

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
    """A type of pooling, with its name in the configuration of a layer."""

    def __init__(self, name):
        self.name = name


class Max(BasePool):
    """The largest value; of a sequence, its index if `output_max_index` is set."""

    def __init__(self, output_max_index=None):
        super().__init__("max")
        self.output_max_index = output_max_index


class MaxWithMask(BasePool):
    """`Max` of an image window; 2017 kept the index of the maximum too."""

    def __init__(self):
        super().__init__("max-pool-with-mask")


class CudnnMax(BasePool):
    """`Max` of an image window; in 2017 the name chose cuDNN."""

    def __init__(self):
        super().__init__("cudnn-max-pool")


class CudnnAvg(BasePool):
    """`Avg` of an image window over the pixels inside the image."""

    def __init__(self):
        super().__init__("cudnn-avg-pool")


class CudnnAvgInclPad(BasePool):
    """The mean of an image window, padding included. In 2017 no layer took it."""

    def __init__(self):
        super().__init__("cudnn-avg-incl-pad-pool")


class Avg(BasePool):
    """The mean, the sum, or the sum divided by the square root of the number of values."""

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
    """The sum of the steps of a sequence divided by the square root of their number."""

    def __init__(self):
        super().__init__(Avg.STRATEGY_SQROOTN)
