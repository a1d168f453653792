"""Pickles that downloaded archives hold, loaded without letting them run anything."""

import io
import pickle

import numpy as np

from pd_v2.dataset.archive import damaged


def load_data(where, content):
    """The object in a pickle of numbers, text, containers and arrays; another is refused.

    Strings of Python 2 become str, a character for each byte.
    """
    try:
        return _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # bytes that are no pickle make it raise nearly anything
        raise damaged(where, f"{type(error).__name__}: {error}") from error


def _encoded(text, encoding):
    """The bytes that Python 3 pickles for Python 2 as text; no codec but latin1 occurs."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are encoded as {encoding!r}, expected 'latin1'")
    return text.encode("latin1")


def _array_names():
    """What a pickled array may name: (module, name) in any version of numpy, and the object."""
    reconstruct = np.empty(0).__reduce__()[0]
    scalar = np.int64(0).__reduce__()[0]
    names = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        names |= {(module, "_reconstruct"): reconstruct, (module, "scalar"): scalar}
    return names | {("_codecs", "encode"): _encoded}


class _ArrayUnpickler(pickle.Unpickler):
    """Whatever else than arrays a pickle names, it could run."""

    allowed = _array_names()

    def find_class(self, module, name):
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed, only arrays are")
        return self.allowed[module, name]
