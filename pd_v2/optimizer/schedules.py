"""2017's learning rate schedules, by the number of samples seen or by passes."""

import math

import numpy as np


def _real(x):
    """Round to float32, as 2017 did after every operation except powers, which were float64."""
    return float(np.float32(x))


_BY_SAMPLES = {
    "constant": lambda rate, a, b, n: rate,
    "poly": lambda rate, a, b, n: rate * math.pow(1.0 + _real(a * _real(n)), -b),
    "caffe_poly": lambda rate, a, b, n: (
        0.0 if _real(n) > a else rate * math.pow(1.0 - _real(_real(n) / a), b)
    ),
    "exp": lambda rate, a, b, n: rate * math.pow(a, n / b),
    "discexp": lambda rate, a, b, n: rate * math.pow(a, math.floor(_real(_real(n) / b))),
    "linear": lambda rate, a, b, n: max(_real(rate - _real(a * _real(n))), b),
}
_DIVIDING_BY_B = ("exp", "discexp")
_BY_SEGMENTS = ("manual", "pass_manual")


class Schedule:
    """The schedule `kind` of a learning rate, with its numbers a and b, or its text `segments`."""

    def __init__(self, kind, rate, a, b, segments):
        if kind not in (*_BY_SAMPLES, *_BY_SEGMENTS):
            kinds = ", ".join((*_BY_SAMPLES, *_BY_SEGMENTS))
            raise ValueError(f"there is no learning_rate_schedule {kind!r}, there is {kinds}")
        if kind in _DIVIDING_BY_B and not b:
            raise ValueError(
                f"learning_rate_schedule {kind!r} divides by learning_rate_decay_b, which is 0"
            )
        self.kind, self.rate, self.a, self.b = kind, rate, a, b
        self._text = segments
        self._numbers = _real(rate), _real(a), _real(b)
        # the default is "poly" with a = b = 0
        self._is_constant = kind == "constant" or (kind == "poly" and not (a and b))
        self.segments = _segments(segments) if kind in _BY_SEGMENTS else []

    def of(self, rate):
        """Return the same schedule of another rate."""
        return Schedule(self.kind, rate, self.a, self.b, self._text)

    def rate_at(self, samples, pass_id):
        """Return the rate after `samples` samples, in pass `pass_id`, rounded to float32."""
        rate, a, b = self._numbers
        if self._is_constant:
            return rate
        if self.segments:
            position = pass_id if self.kind == "pass_manual" else samples
            last = self.segments[-1][1]
            return _real(rate * next((r for end, r in self.segments if position <= end), last))
        try:
            return _real(_BY_SAMPLES[self.kind](rate, a, b, samples))
        except (ValueError, ArithmeticError) as error:
            raise ValueError(
                f"learning_rate_schedule {self.kind!r} with decay_a {self.a} and decay_b {self.b} "
                f"gives no number after {samples} samples: {error}"
            ) from error


def _segments(text):
    """Parse `end:factor,end:factor,…` to [(end, factor)]."""
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return [(float(end), _real(factor)) for end, factor in pairs]
    except ValueError:
        raise ValueError(f"learning_rate_args are 'end:factor,end:factor', not {text!r}") from None
