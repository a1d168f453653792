"""Parameters: the values of a network by name, and the tar files that store them."""

import math
import os
from contextlib import ExitStack

import numpy as np

import pd_core as pd
from pd_core.distributed.alone import add_participant, call
from pd_core.training import read_checkpoint

from . import build
from .files.unpacking import open_plain
from .formats.parameter_file import FileValue, read_tar, read_value, write_tar, write_value
from .formats.proto import ParameterConfig
from .job.table_files import tables_in
from .job.tables import LARGEST, OwnRows, SpreadValue, drawn, own_rows
from .not_finite import names_not_finite
from .topology import Topology
from .warning import warn

__all__ = ["Parameters", "create"]

_CUT_HINT = "  hint: a tar that was cut between two members looks like a smaller one"


def create(layers, *more):
    """Create the Parameters of the network behind some cost or output layers.

    Layers are passed in a list or one by one. The pool shares its values with a trainer that is
    given it: updates show here, and what is set here is trained on. Another pool for the same
    network has values of its own.
    """
    pool = Parameters()
    pool.bind(Topology([layers, *more] if more else layers).parameters)
    return pool


class Parameters:
    """Parameter values by name, in the order of creation.

    A pool from `create`, or bound by a trainer, is a view of the network's variables; one that was
    read from a file holds its own values until a trainer or an inference takes them over.
    """

    def __init__(self):
        self.__param_conf__ = {}
        self._own = {}  # values of names that no network holds
        self._assigned = set()  # names whose value is from a file, an initializer or `set`
        self._is_read = self._is_strict = False  # whether a file was read, and has to be complete
        self._bound = {}  # layer parameters by name
        self._session = None  # which holds the values of the bound variables
        self._flat = False  # as in 2017, get() is one-dimensional once a trainer exists
        self._gradient_of = None  # name -> gradient of the current batch, while there is one
        self._key = None  # by which the other ranks find theirs, if there are tables in it

    @property
    def session(self):
        """The session with the values of the networks that this pool is bound to."""
        return self._session

    def bind(self, parameters, session=None):
        """Make this pool a view of the parameters of a network; its own values move there.

        They move to the session of the networks that it is bound to already, else to the given
        one, else to one in which no other pool holds values of these parameters.
        """
        if self._session is None:
            variables = [p.variable for p in parameters]
            self._session = session or build.current().session_for(variables)
        values = [self._value_to_move(p) for p in parameters]
        for p, value in zip(parameters, values, strict=True):
            self._check_size(p, value)
        for p, value in zip(parameters, values, strict=True):
            name = p.config.name
            self._own.pop(name, None)
            self.__param_conf__[name] = p.config
            self._bound[name] = p
            if value is not None:
                self._store(name, value)
            elif p.initializer is not None and not self._session.has(p.variable):
                self.set(name, p.initializer(name))
        tables = [p.config.name for p in parameters if p.table is not None]
        if tables:
            self._key = add_participant(self, f"parameters {', '.join(tables)}")

    def _value_to_move(self, parameter):
        """Return the value to store in a newly bound variable, or None to keep its own.

        A network that was built again may have another variable of the same name.
        """
        name = parameter.config.name
        if name in self._own:
            return self._own[name]
        bound = self._bound.get(name, parameter)
        if bound.variable is parameter.variable or not self._session.has(bound.variable):
            return None
        if bound.table is None:
            return self._session.get(bound.variable)
        if parameter.table is None or parameter.shape != bound.shape:
            return SpreadValue(bound.table, self._session).array()
        return OwnRows(self._session.get(bound.variable), math.prod(bound.shape))

    def check_read(self, who, parameters):
        """Warn, once, of parameters of a network that the file of this pool lacks.

        Their values are random. ValueError if the file was read with `strict`.
        """
        by_name = {p.config.name: p for p in parameters}
        missing = [
            name
            for name, p in by_name.items()
            if name not in self._assigned and p.initializer is None
        ]
        if not self._is_read or not missing:
            return
        message = f"{who}: the file lacks parameters of the network: {_comma_separated(missing)}"
        if self._is_strict:
            raise ValueError(message)
        self._assigned.update(missing)
        warn(f"{message}; their values are random\n{_CUT_HINT}")

    def draw(self, parameters=None):
        """Draw initial values, from 2017's random stream, for variables that have none yet.

        Every parameter advances the stream, also one whose value is set already.
        """
        session = self._session
        for p in self._bound.values() if parameters is None else parameters:
            config, stream = p.config, build.current().random
            if p.table is None:
                fill = stream.uniform if config.initial_strategy == 1 else stream.normal
                values = fill(config.initial_mean, config.initial_std, int(config.size))
            else:
                values = drawn(p.table, stream, config)
            if not session.has(p.variable):
                session.set(p.variable, values.reshape(p.variable.dims), copy=False)

    def use_flat_values(self):
        """Let `get` return one-dimensional arrays from now on: a trainer holds all values."""
        self._flat = True
        self._assigned.update(self.__param_conf__)

    # ---- names

    def keys(self):
        """Return the names, in the order of creation."""
        return list(self.__param_conf__)

    names = keys

    def has_key(self, key):
        """Return whether there is a parameter of that name."""
        return key in self.__param_conf__

    __contains__ = has_key

    def __iter__(self):
        return iter(self.keys())

    def __len__(self):
        return len(self.__param_conf__)

    # ---- values

    def get_shape(self, key):
        """Return the recorded dims; (1, size) for a parameter without dims, such as filters."""
        config = self._config(key)
        return tuple(int(d) for d in config.dims) or (1, int(config.size))

    def get(self, parameter_name):
        """Return a float32 copy, of `get_shape` until a trainer exists, then one-dimensional."""
        self._config(parameter_name)
        if self._is_spread(parameter_name):
            value = self._call("get", parameter_name, lambda: self._value(parameter_name))
        else:
            value = self._value(parameter_name)
        return value.reshape(-1 if self._flat else self.get_shape(parameter_name))

    def __getitem__(self, key):
        return self.get(key)

    def set(self, parameter_name, value):
        """Store an array of `get_shape`, or a one-dimensional one of that size."""
        self._check_shape(parameter_name, value)
        self._store(parameter_name, value.astype(np.float32))

    def __setitem__(self, key, value):
        self.set(key, value)

    def get_grad(self, key):
        """Return the gradient summed over the current batch; zeros outside EndForwardBackward."""
        if key not in self.__param_conf__:
            raise KeyError(f"No such parameter {key}")
        if self._gradient_of is None:
            return np.zeros(int(self.__param_conf__[key].size), np.float32)
        return self._gradient_of(key)

    def gradients_from(self, gradient_of):
        """Return a context in which `get_grad` returns gradient_of(name)."""
        return _GradientsFrom(self, gradient_of)

    def values_of(self, parameters):
        """Return {variable: copy of its value} for some parameters of a network."""
        missing = [p.config.name for p in parameters if p.config.name not in self.__param_conf__]
        if missing:
            raise ValueError(f"there is no value for the parameters {missing}")
        self.check_read("infer", parameters)
        values = {}
        for p in parameters:
            value = self._value_for(p)
            self._check_size(p, value)
            values[p.variable] = _stored(p, value)
        return values

    def update_param_conf(self, model_config):
        """Take over the configurations of a ModelConfig."""
        for config in model_config.parameters:
            self.__param_conf__[config.name] = config

    def append_gradient_machine(self, gradient_machine):
        """Become a view of the network of a GradientMachine, such as an event's `gm`."""
        self.bind(gradient_machine.parameters, gradient_machine.session)
        self.use_flat_values()

    def __append_config__(self, param_conf):
        if not isinstance(param_conf, ParameterConfig):
            raise ValueError(f"param_conf is a ParameterConfig, not {param_conf!r}")
        if param_conf.name in self.__param_conf__:
            raise ValueError(f"duplicated parameter {param_conf.name!r}")
        self.__param_conf__[param_conf.name] = param_conf

    def _config(self, key):
        if not isinstance(key, str):
            raise ValueError(f"a parameter name is a str, not {key!r}")
        if key not in self.__param_conf__:
            raise ValueError(f"No such parameter {key}")
        return self.__param_conf__[key]

    def _check_shape(self, name, value):
        shape = self.get_shape(name)
        if not isinstance(value, np.ndarray):
            raise ValueError(f"Must return ndarray, not {type(value).__name__}")
        if np.ma.is_masked(value):
            raise ValueError(f"parameter {name!r}: the value has masked elements")
        if value.shape not in (shape, (math.prod(shape),)):
            raise ValueError(f"parameter {name!r} is {shape}, the value {value.shape}")

    @staticmethod
    def _check_size(parameter, value):
        config = parameter.config
        if value is not None and value.size != config.size:
            raise ValueError(
                f"parameter {config.name!r} has {value.size} elements, {config.size} in the network"
            )

    def _value(self, name):
        if name in self._own:
            own = self._own[name]
            return own.array().reshape(-1) if isinstance(own, FileValue) else own.copy()
        if name not in self._bound:  # only configured; 2017 returned uninitialized memory
            return np.zeros(int(self._config(name).size), np.float32)
        session, variable = self._session, self._bound[name].variable
        if not session.has(variable):
            self._draw_without_advancing()
        if self._bound[name].table is not None:
            return SpreadValue(self._bound[name].table, session).array().reshape(-1)
        return session.get(variable).reshape(-1)

    def _value_for(self, parameter):
        """A copy of a value; of a table whose rows are spread over ranks those of this one."""
        name = parameter.config.name
        if parameter.table is not None and name in self._own:
            return self._own[name]
        bound = self._bound.get(name)
        if parameter.table is None or bound is None or bound.table is None:
            return self._value(name)
        if bound.shape != parameter.shape:
            return self._value(name)
        if not self._session.has(bound.variable):
            self._draw_without_advancing()
        return OwnRows(self._session.get(bound.variable), math.prod(bound.shape))

    def _draw_without_advancing(self):
        """Draw the values that a trainer would draw now, and put the stream back for it."""
        stream = build.current().random
        state = stream.state
        self.draw()
        stream.state = state

    def _store(self, name, value):
        self._assigned.add(name)
        if name in self._bound:
            parameter = self._bound[name]
            self._session.set(parameter.variable, _stored(parameter, value))
        else:
            self._own[name] = value if isinstance(value, FileValue) else value.reshape(-1)

    # ---- files

    def serialize(self, name, f):
        """Write one value: a 16-byte header, then float32."""
        self._config(name)
        if self._is_spread(name):
            self._call("serialize", name, lambda: self._serialize(name, f))
        else:
            write_value(f, self._value_to_write(name))

    def _serialize(self, name, f):
        value = self._value_to_write(name)
        with value.shared():
            write_value(f, value)

    def deserialize(self, name, f):
        """Read one value that `serialize` wrote."""
        self.set(name, read_value(f))

    def to_tar(self, f):
        """Write all values and configurations as a tar; warn of values that are not finite.

        `f` is a binary file, or a path, which is written atomically: an existing file stays until
        the new one is complete, even if the process is killed.
        """
        if any(map(self._is_spread, self.keys())):
            self._call("to_tar", "", lambda: self._to_tar(f))
        else:
            self._to_tar(f)

    def _to_tar(self, f):
        items = [(self._config(name), self._value_to_write(name)) for name in self.keys()]
        bad = [config.name for config, value in items if not _is_finite(config.name, value)]
        with ExitStack() as stack:
            for _, value in reversed(items):
                if isinstance(value, SpreadValue):
                    stack.enter_context(value.shared())
            if bad:
                names = _comma_separated(bad)
                warn(f"to_tar: there are values that are not finite in the parameters {names}")
            if isinstance(f, (str, os.PathLike)):
                with pd.atomic_write(f) as file:
                    write_tar(file, items)
            else:
                write_tar(f, items)

    # ---- tables whose rows are spread over ranks

    def take_part(self, what, name):
        """Send the rows of this rank for what another one calls alone: `what`, of one or all."""
        names = [n for n in self.keys() if self._is_spread(n)] if what == "to_tar" else [name]
        values = [self._value_to_write(n) for n in names]
        if what == "to_tar":
            for value in values:
                value.is_finite()
        for value in values:
            value.drain()

    def _call(self, what, name, function):
        """Call what reads all rows, in which ranks that do not call it take part."""
        return call(self._key, what, name, function)

    def _is_spread(self, name):
        is_bound = name in self._bound and self._bound[name].table is not None
        return is_bound and not isinstance(self._own.get(name), FileValue)

    def values_to_write(self, parameters):
        """Return what `write_value` takes for some parameters of a network."""
        names = [p.config.name for p in parameters]
        missing = [name for name in names if name not in self.__param_conf__]
        if missing:
            raise ValueError(f"there is no value for the parameters {missing}")
        self.check_read("infer", parameters)
        values = [self._value_to_write(name) for name in names]
        for p, value in zip(parameters, values, strict=True):
            self._check_size(p, value)
        return values

    def _value_to_write(self, name):
        """A value that `write_tar` takes; of a large one a part at a time."""
        if isinstance(self._own.get(name), FileValue):
            return self._own[name]
        if name in self._bound and self._bound[name].table is not None:
            if not self._session.has(self._bound[name].variable):
                self._draw_without_advancing()
            return SpreadValue(self._bound[name].table, self._session)
        return self.get(name)

    @staticmethod
    def from_tar(f, strict=False):
        """Read the Parameters of a tar.

        `f` is a binary file, or the path of a tar, which may be gzipped. A trainer draws parameters
        of its network that the file lacks, with a warning; with `strict` that is a ValueError.
        """
        pool = Parameters()
        for config, value in _items_of_tar(f):
            pool.__append_config__(config)
            pool._store(config.name, value)
        pool._is_read, pool._is_strict = True, strict
        return pool

    @staticmethod
    def from_checkpoint(path):
        """Read the Parameters of a checkpoint, such as `saved/batch-00500`.

        Of a program with several trainers all parameters are read; of one name the first counts.
        DamagedFile if it is no whole checkpoint, ValueError if it is none of a trainer.
        """
        pool, prefix = Parameters(), "parameters/"
        for values in _values_in(read_checkpoint(path).parts):
            for name, value in values.items():
                short = name.removeprefix(prefix)
                if name.startswith(prefix) and short not in pool:
                    config = ParameterConfig(name=short, size=value.size, dims=value.shape)
                    pool.__append_config__(config)
                    pool._store(short, value)
        for name, value in tables_in(path):
            if name not in pool:
                config = ParameterConfig(name=name, size=value.size, dims=value.shape)
                pool.__append_config__(config)
                pool._store(name, value)
        if not len(pool):
            raise ValueError(f"from_checkpoint: {path} is no checkpoint of a trainer")
        pool._is_read = True
        return pool

    def init_from_tar(self, f, exclude_params=(), strict=False):
        """Set the values of the names that a tar has in common with this pool.

        ValueError, and nothing is set, if one of them has another shape; with `strict` also if the
        tar lacks a name that is not excluded. Without `strict`, a trainer or an inference warns of
        these.
        """
        values = {config.name: value for config, value in _items_of_tar(f)}
        common = [name for name in values if name in self and name not in exclude_params]
        missing = [name for name in self if name not in values and name not in exclude_params]
        if strict and missing:
            raise ValueError(f"init_from_tar: the file lacks {_comma_separated(missing)}")
        for name in common:
            shape = self.get_shape(name)
            if values[name].shape != shape:
                raise ValueError(f"parameter {name!r} is {shape}, the value {values[name].shape}")
        for name in common:
            self._store(name, values[name])
        self._assigned.update(exclude_params)
        self._is_read = True
        if missing and self._flat:
            names = _comma_separated(missing)
            warn(f"init_from_tar: the file lacks {names}; they keep their values\n{_CUT_HINT}")


class _GradientsFrom:
    """A `with` in which `get_grad` returns what a function gives; each batch enters it."""

    __slots__ = ("_function", "_parameters")

    def __init__(self, parameters, function):
        self._parameters, self._function = parameters, function

    def __enter__(self):
        self._parameters._gradient_of = self._function

    def __exit__(self, *exc):
        self._parameters._gradient_of = None


def _stored(parameter, value):
    """What a session stores of the whole value of a parameter."""
    if parameter.table is not None:
        return own_rows(parameter.table, value)
    whole = value.array() if isinstance(value, FileValue) else value
    return whole.reshape(parameter.variable.dims)


def _is_finite(name, value):
    """Return whether all elements of a value to write are finite."""
    if isinstance(value, SpreadValue):
        return value.is_finite()
    parts = value.parts() if isinstance(value, FileValue) else [value]
    return not any(names_not_finite((name, part) for part in parts))


def _comma_separated(names):
    return ", ".join(map(repr, names))


def _values_in(tree):
    """Yield the values of each network in the parts of a checkpoint."""
    if isinstance(tree, dict) and isinstance(tree.get("values"), dict):
        yield tree["values"]
    elif isinstance(tree, (dict, list)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _values_in(part)


def _items_of_tar(f):
    """Return the (config, value) pairs of a tar: an open file, or a path, gzipped or not."""
    largest = LARGEST if pd.distributed.world_size() > 1 else None
    if not isinstance(f, (str, os.PathLike)):
        return read_tar(f, largest)
    with open_plain(f) as file:
        return read_tar(file, largest)
