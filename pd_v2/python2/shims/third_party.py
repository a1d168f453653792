"""Names that numpy and Pillow had in 2017."""

import functools
import types

from pd_v2.python2.shims.files import File, raw_stream
from pd_v2.python2.shims.text import as_binary, as_bytes
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
    """Return the number types of each kind, the smallest first."""
    codes = {"int": "bhiq", "uint": "BHIQ", "float": "efdg", "complex": "FDG"}
    return {kind: [numpy.dtype(code).type for code in each] for kind, each in codes.items()}


def _numpy_files(numpy):
    """Return numpy functions that take files or strings of translated programs."""

    def fromstring(string, dtype=float, count=-1, sep=""):
        if sep:
            return numpy.fromstring(string, dtype, count, sep)
        return numpy.frombuffer(as_bytes(string), dtype, count).copy()

    def frombuffer(buffer, *args, **keywords):
        return numpy.frombuffer(as_bytes(buffer), *args, **keywords)

    def fromfile(file, *args, **keywords):
        return numpy.fromfile(raw_stream(file), *args, **keywords)

    def load(file, mmap_mode=None):
        return numpy.load(raw_stream(file), mmap_mode, allow_pickle=True, encoding="latin1")

    def savetxt(fname, *args, **keywords):
        numpy.savetxt(fname, *args, **keywords)
        if isinstance(fname, File):  # numpy keeps it for the garbage collector
            fname.flush()

    def asscalar(array):
        return array.item()

    def array(values, dtype=None, **keywords):
        """`numpy.array(...)`, which made an array of lists from rows of different lengths."""
        try:
            return numpy.array(values, dtype, **keywords)
        except ValueError as error:
            if dtype is not None or "inhomogeneous" not in str(error):
                raise
        return numpy.array(values, object, **keywords)

    functions = (array, fromstring, frombuffer, fromfile, load, savetxt, asscalar)
    return {function.__name__: function for function in functions}


def _numpy_sum(numpy):
    @functools.wraps(numpy.sum)
    def sum_of(a, *args, **keywords):
        """`numpy.sum(...)`, which summed a generator like Python's sum."""
        return sum(a) if isinstance(a, types.GeneratorType) else numpy.sum(a, *args, **keywords)

    return sum_of


@overrides("PIL")
def _pil(_):
    return {}  # so that its submodule Image is viewed


@overrides("PIL.Image")
def _image(image):
    @functools.wraps(image.open)
    def open_image(file, mode="r"):
        return image.open(raw_stream(file), mode)

    return {
        "ANTIALIAS": image.Resampling.LANCZOS,
        "CUBIC": image.Resampling.BICUBIC,
        "LINEAR": image.Resampling.BILINEAR,
        "fromstring": image.frombytes,
        "open": open_image,
    }


@overrides("recordio", "pd_v2.recordio.package")
def _recordio(recordio):
    class reader(recordio.reader):
        """Reader of records that are strings of Python 2."""

        def read(self):
            return as_binary(super().read())

        def __iter__(self):
            return iter(self.read, None)

    return {"reader": reader}
