"""The check of samples against the data layers of a network, before they are queued."""

from itertools import chain

import numpy as np

from .messages import MessageError


class SampleCheck:
    """Check that a minibatch with a sample can be trained, whatever else is in it.

    A sample has as many fields as `feeding` names (one for each data layer, if it is None), and
    `feeder`, a DataFeeder, converts it. Numbers are finite and no bools, and vectors flat and of
    their whole length: images of several axes would have to agree with those of other clients, and
    one number for all columns, which a feeder takes, is a mistake of a client. `check`, a function
    of the sample or None, raises for those that it refuses.
    """

    def __init__(self, feeder, feeding=None, check=None):
        self._feeder, self._check = feeder, check
        self._fields = _field_count(feeder, feeding)

    def __call__(self, sample):
        """Raise MessageError, with the reason, for a sample that cannot be trained."""
        if not isinstance(sample, list):
            raise MessageError(f"a sample is a list of its fields, not a {type(sample).__name__}")
        if len(sample) != self._fields:
            raise MessageError(f"a sample has {self._fields} fields, this one has {len(sample)}")
        try:
            text = _first_text(self._feeder.fields_of(sample))
            if text is not None:  # an array of text is as wide as its longest, in every element
                raise MessageError(f"a layer is fed numbers, not the text {text[:20]!r}")
            # numbers that are too large for float32 become infinite, which is refused below
            with np.errstate(all="ignore"):
                slots = self._feeder([sample])
            if self._check is not None:
                self._check(sample)
        except Exception as error:  # whatever it is, it would end the training later
            raise MessageError(str(error) or type(error).__name__) from None
        for name, slot in slots.items():
            if slot.image_size is not None:
                raise MessageError(f"data layer {name!r}: a vector is a flat list of numbers")
            values = slot.value if slot.counts is None else slot.numbers
            if values is not None and not np.isfinite(values).all():
                raise MessageError(f"data layer {name!r}: a number is not finite in float32")
        for name, number, levels, width in self._feeder.places():
            problem = _problem(sample[number], levels, width)
            if problem is not None:
                raise MessageError(f"data layer {name!r}: {problem}")


def _problem(field, levels, width):
    """The mistake in a field that a feeder would take: a bool, or a vector of another length."""
    rows, leaves = [field], [field]
    for _ in range(levels):
        rows = list(chain.from_iterable(rows))
    while leaves:
        if any(isinstance(x, bool) for x in leaves):
            return "true and false are no numbers"
        leaves = list(chain.from_iterable(x for x in leaves if isinstance(x, list)))
    for row in rows if width is not None else ():
        length = len(row) if isinstance(row, list) else 1
        if length != width:
            return f"expected {width} numbers, got {length}"
    return None


def _first_text(fields):
    """Return a text in nested lists, or None."""
    pending = [fields]
    while pending:
        for item in pending.pop():
            if isinstance(item, str):
                return item
            if isinstance(item, list):
                pending.append(item)
    return None


def _field_count(feeder, feeding):
    if feeding is None:
        return len(feeder)
    if isinstance(feeding, dict):
        return max(n + 1 if n >= 0 else -n for n in feeding.values())
    return len(feeding)
