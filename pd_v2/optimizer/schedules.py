"""Learning rates as 2017 changed them: by samples seen so far, or by passes."""

import math

_BY_SAMPLES = {
    "constant": lambda rate, a, b, n: rate,
    "poly": lambda rate, a, b, n: rate * (1.0 + a * n) ** -b,
    "caffe_poly": lambda rate, a, b, n: 0.0 if n > a else rate * (1.0 - n / a) ** b,
    "exp": lambda rate, a, b, n: rate * a ** (n / b),
    "discexp": lambda rate, a, b, n: rate * a ** math.floor(n / b),
    "linear": lambda rate, a, b, n: max(rate - a * n, b),
}
_DIVIDING_BY_B = ("exp", "discexp")
_BY_SEGMENTS = ("manual", "pass_manual")


class Schedule:
    """`rate` changed by the schedule `kind` with its numbers a and b, or its text `segments`."""

    def __init__(self, kind, rate, a, b, segments):
        if kind not in (*_BY_SAMPLES, *_BY_SEGMENTS):
            known = ", ".join((*_BY_SAMPLES, *_BY_SEGMENTS))
            raise ValueError(f"there is no learning_rate_schedule {kind!r}, there is {known}")
        if kind in _DIVIDING_BY_B and not b:
            raise ValueError(
                f"learning_rate_schedule {kind!r} divides by learning_rate_decay_b, which is 0"
            )
        self.kind, self.rate, self.a, self.b = kind, rate, a, b
        self.segments = _segments(segments) if kind in _BY_SEGMENTS else []

    def rate_at(self, samples, pass_id):
        """The rate after `samples` samples, in pass `pass_id`."""
        if not self.segments:
            return _BY_SAMPLES[self.kind](self.rate, self.a, self.b, samples)
        reached = pass_id if self.kind == "pass_manual" else samples
        last = self.segments[-1][1]
        return self.rate * next((r for end, r in self.segments if reached <= end), last)


def _segments(text):
    """[(end, factor)] of `end:factor,end:factor,…`."""
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return [(float(end), float(factor)) for end, factor in pairs]
    except ValueError:
        raise ValueError(f"learning_rate_args are 'end:factor,end:factor', not {text!r}") from None
