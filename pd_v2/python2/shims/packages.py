"""Names that numpy and Pillow had in 2017."""

import functools
import types

from pd_v2.python2.shims.files import bytes_below
from pd_v2.python2.shims.text import as_bytes
from pd_v2.python2.shims.views import overrides


@overrides("numpy")
def _numpy(numpy):
    renamed = {
        "alltrue": "all",
        "complex_": "complex128",
        "cumproduct": "cumprod",
        "float_": "float64",
        "Inf": "inf",
        "infty": "inf",
        "NaN": "nan",
        "product": "prod",
        "row_stack": "vstack",
        "sometrue": "any",
        "string_": "bytes_",
        "unicode_": "str_",
    }
    scalars = {"bool": bool, "complex": complex, "float": float, "int": int, "long": int}
    names = scalars | {"object": object, "str": str, "unicode": str}
    names |= {old: getattr(numpy, new) for old, new in renamed.items()}
    names["sctypes"] = _sctypes(numpy)
    return names | _numpy_files(numpy) | {"sum": _numpy_sum(numpy)}


def _sctypes(numpy):
    """Types of numbers by kind, the smallest first."""
    codes = {"int": "bhiq", "uint": "BHIQ", "float": "efdg", "complex": "FDG"}
    return {kind: [numpy.dtype(code).type for code in each] for kind, each in codes.items()}


def _numpy_files(numpy):
    """Functions that read files or strings of bytes."""

    def fromstring(string, dtype=float, count=-1, sep=""):
        if sep:
            return numpy.fromstring(string, dtype, count, sep)
        return numpy.frombuffer(as_bytes(string), dtype, count).copy()

    def frombuffer(buffer, *args, **keywords):
        return numpy.frombuffer(as_bytes(buffer), *args, **keywords)

    def fromfile(file, *args, **keywords):
        return numpy.fromfile(bytes_below(file), *args, **keywords)

    def load(file, mmap_mode=None):
        return numpy.load(bytes_below(file), mmap_mode, allow_pickle=True, encoding="latin1")

    def asscalar(array):
        return array.item()

    def array(values, dtype=None, **keywords):
        """Rows of different lengths were an array of lists."""
        try:
            return numpy.array(values, dtype, **keywords)
        except ValueError as error:
            if dtype is not None or "inhomogeneous" not in str(error):
                raise
        return numpy.array(values, object, **keywords)

    functions = (array, fromstring, frombuffer, fromfile, load, asscalar)
    return {function.__name__: function for function in functions}


def _numpy_sum(numpy):
    @functools.wraps(numpy.sum)
    def sum_of(a, *args, **keywords):
        """A generator was summed as Python sums it."""
        return sum(a) if isinstance(a, types.GeneratorType) else numpy.sum(a, *args, **keywords)

    return sum_of


@overrides("PIL")
def _pil(_):
    return {}  # so that its module Image is found through its view


@overrides("PIL.Image")
def _image(image):
    def renamed(name):
        return getattr(image.Resampling, name)

    @functools.wraps(image.open)
    def open_image(file, mode="r"):
        return image.open(bytes_below(file), mode)

    return {
        "ANTIALIAS": renamed("LANCZOS"),
        "CUBIC": renamed("BICUBIC"),
        "LINEAR": renamed("BILINEAR"),
        "fromstring": image.frombytes,
        "open": open_image,
    }
