"""Modules of the standard library whose names or functions have changed."""

import functools
import math
import numbers
import os
import random
import sys

from pd_v2.python2.shims.arithmetic import divide, hash_fixed
from pd_v2.python2.shims.files import File
from pd_v2.python2.shims.text import join, like, printed, shown, undecoded
from pd_v2.python2.shims.types import is_numpy_int
from pd_v2.python2.shims.views import overrides
from pd_v2.reader import shuffling


@overrides("sys")
def _sys(sys):
    # setdefaultencoding: strings are always UTF-8
    return {
        "exc_clear": lambda: None,
        "maxint": sys.maxsize,
        "setdefaultencoding": lambda name: None,
    }


@overrides("math")
def _math(math):
    """ceil and floor, which returned floats."""

    def of_float(function):
        return lambda x: math.copysign(function(x), x) if math.isfinite(x) else float(x)

    return {"ceil": of_float(math.ceil), "floor": of_float(math.floor)}


@overrides("time")
def _time(time):
    return {"clock": time.process_time}


@overrides("itertools")
def _itertools(itertools):
    def imap(function, *sequences):
        function = printed if function is str else function
        rows = zip(*sequences, strict=False)
        return rows if function is None else itertools.starmap(function, rows)

    return {
        "ifilter": filter,
        "ifilterfalse": itertools.filterfalse,
        "imap": imap,
        "izip": zip,
        "izip_longest": itertools.zip_longest,
    }


@overrides("configparser")
def _configparser(configparser):
    return {"SafeConfigParser": configparser.ConfigParser}


@overrides("collections")
def _collections(collections):
    import collections.abc

    return {name: getattr(collections.abc, name) for name in collections.abc.__all__}


@overrides("UserDict")
def _userdict(collections):
    from collections.abc import MutableMapping

    class DictMixin(MutableMapping):
        """The methods of a dict by `keys` and `__getitem__`, and others that a class has."""

        def __iter__(self):
            return iter(self.keys())

        def __len__(self):
            return len(list(self.keys()))

    DictMixin.__abstractmethods__ = frozenset()
    return {"DictMixin": DictMixin, "IterableUserDict": collections.UserDict}


@overrides("sets")
def _sets(_):
    return {"Set": set, "ImmutableSet": frozenset, "BaseSet": (set, frozenset)}


@overrides("operator")
def _operator(operator):
    return {
        "div": divide,
        "isCallable": callable,
        "isMappingType": lambda x: hasattr(x, "__getitem__") and not isinstance(x, str | bytes),
        "isNumberType": lambda x: isinstance(x, numbers.Number),
        "isSequenceType": lambda x: hasattr(x, "__getitem__") and not isinstance(x, dict),
        "sequenceIncludes": operator.contains,
    }


@overrides("contextlib")
def _contextlib(contextlib):
    @contextlib.contextmanager
    def nested(*managers):
        with contextlib.ExitStack() as stack:
            yield tuple(map(stack.enter_context, managers))

    return {"nested": nested}


@overrides("os.path", "posixpath", "ntpath")
def _path(path):
    def walk(top, function, argument):
        """Call function(argument, folder, names) for each folder; names may be changed."""
        names = os.listdir(top)
        function(argument, top, names)
        for name in names:
            folder = path.join(top, name)
            if path.isdir(folder) and not path.islink(folder):
                walk(folder, function, argument)

    return {"walk": walk}


@overrides("types")
def _types(types):
    return {
        "BooleanType": bool,
        "ClassType": type,
        "DictType": dict,
        "FileType": File,
        "FloatType": float,
        "InstanceType": object,
        "IntType": int,
        "ListType": list,
        "LongType": int,
        "NoneType": type(None),
        "ObjectType": object,
        "StringType": str,
        "StringTypes": (str, bytes),
        "TupleType": tuple,
        "TypeType": type,
        "UnicodeType": str,
        "XRangeType": range,
    }


@overrides("inspect")
def _inspect(inspect):
    import collections

    ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")

    def getargspec(function):
        return ArgSpec(*inspect.getfullargspec(function)[:4])

    return {"getargspec": getargspec, "ArgSpec": ArgSpec}


@overrides("string")
def _string(string):
    def method(name):
        return lambda text, *args: getattr(text, name)(*args)

    # fmt: off
    names = (
        "capitalize", "center", "count", "expandtabs", "find", "index", "ljust", "lower", "lstrip",
        "replace", "rfind", "rindex", "rjust", "rstrip", "split", "strip", "swapcase", "upper",
    )
    # fmt: on
    return {name: method(name) for name in names} | {
        "letters": string.ascii_letters,
        "lowercase": string.ascii_lowercase,
        "uppercase": string.ascii_uppercase,
        "maketrans": str.maketrans,
        "atof": float,
        "atoi": int,
        "atol": int,
        "join": lambda words, separator=" ": join(separator, words),
        "joinfields": lambda words, separator=" ": join(separator, words),
        "splitfields": method("split"),
        "zfill": lambda x, width: (x if isinstance(x, str | bytes) else shown(x)).zfill(width),
        "translate": lambda text, table, deleted="": like(
            "".join(c for c in text if c not in deleted).translate(table or {}), text
        ),
    }


class _Rows:
    """The rows of a csv.reader, with undecoded fields."""

    def __init__(self, reader):
        self._reader = reader

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def __iter__(self):
        return self

    def __next__(self):
        return [undecoded(f) if isinstance(f, str) else f for f in next(self._reader)]


@overrides("csv")
def _csv(csv):
    def reader(*args, **keywords):
        return _Rows(csv.reader(*args, **keywords))

    class DictReader(csv.DictReader):
        def __init__(self, *args, **keywords):
            super().__init__(*args, **keywords)
            self.reader = _Rows(self.reader)

    return {"reader": reader, "DictReader": DictReader}


@overrides("urllib.request")
def _urllib(request):
    return {"urlopen": lambda *args, **keywords: File.wrap(request.urlopen(*args, **keywords))}


@overrides("json")
def _json(json):
    """Functions with the argument `encoding`, and with numpy's integers, which were int."""

    def reading(function):
        @functools.wraps(function)
        def of_text(*args, encoding=None, **keywords):
            return function(*args, **keywords)

        return of_text

    def writing(function):
        @functools.wraps(function)
        def to_text(*args, encoding=None, **keywords):
            if keywords.get("indent") is not None and keywords.get("separators") is None:
                keywords["separators"] = ", ", ": "
            if keywords.get("cls") is None:
                keywords["default"] = _with_numpy_ints(keywords.get("default") or _no_json)
            return function(*args, **keywords)

        return to_text

    return {
        **{name: reading(getattr(json, name)) for name in ("load", "loads")},
        **{name: writing(getattr(json, name)) for name in ("dump", "dumps")},
    }


def _with_numpy_ints(default):
    return lambda value: int(value) if is_numpy_int(value) else default(value)


def _no_json(value):
    raise TypeError(f"{value!r} is not JSON serializable")


class _Random(random.Random):
    """random.Random with Python 2's algorithms."""

    def __init__(self, x=None):
        super().__init__(_seed(x))

    def seed(self, a=None):
        super().seed(_seed(a))

    def shuffle(self, x, random=None):
        shuffling.shuffle(x, random or self.random)

    def sample(self, population, k):
        return super().sample(population if hasattr(population, "index") else list(population), k)

    def choice(self, sequence):
        return sequence[int(self.random() * len(sequence))]

    def gammavariate(self, alpha, beta):
        if alpha != 1:
            return super().gammavariate(alpha, beta)
        drawn = self.random()
        while drawn <= 1e-7:
            drawn = self.random()
        return -math.log(drawn) * beta

    def _randbelow(self, count):
        if count < 1 << 53:
            return int(self.random() * count)
        bits = int(1.00001 + math.log(count - 1, 2))
        while (drawn := self.getrandbits(bits)) >= count:
            pass
        return drawn


class _SharedRandom(_Random):
    """Python 2's algorithms over the generator that all modules share."""

    _randbelow = _Random._randbelow  # random.Random replaces it in a class with getrandbits

    def __init__(self):
        self.gauss_next = None  # the inherited __init__ would seed the shared generator

    def random(self):
        return random.random()  # noqa: S311  it is the program's

    def getrandbits(self, count):
        return random.getrandbits(count)

    def seed(self, a=None):
        random.seed(_seed(a))

    def getstate(self):
        return random.getstate()

    def setstate(self, state):
        random.setstate(state)


def _seed(a):
    return a if a is None or isinstance(a, int) else hash_fixed(a) % 2**64


@overrides("random")
def _random(_):
    """Functions with the same sequences for a seed as in Python 2."""
    generator = _SharedRandom()
    # fmt: off
    names = (
        "betavariate", "choice", "gammavariate", "randint", "random", "randrange", "sample", "seed",
        "shuffle", "uniform",
    )
    # fmt: on
    return {name: getattr(generator, name) for name in names} | {"Random": _Random}


@overrides("logging")
def _logging(logging):
    """basicConfig, which has an effect before paddle is imported: that configured the root too."""
    ours = [*logging.root.handlers]

    def basic_config(**options):
        if "paddle" not in sys.modules and logging.root.handlers == ours:
            logging.root.handlers.clear()
        logging.basicConfig(**options)

    return {"basicConfig": basic_config}


@overrides("traceback")
def _traceback(traceback):
    from pd_v2.python2.tracebacks import strip_error

    def of_program(function):
        @functools.wraps(function)
        def stripped(*args, **keywords):
            strip_error(sys.exc_info()[1])
            return function(*args, **keywords)

        return stripped

    return {name: of_program(getattr(traceback, name)) for name in ("format_exc", "print_exc")}
