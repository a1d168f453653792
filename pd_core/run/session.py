"""Sessions: evaluation of targets, with values, a compiler and observers of their own."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from threading import Lock
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from ..backend.base import Backend
from ..backend.named import named_backend
from ..graph.errors import BackendError, PlaceError, concise
from ..graph.handlers import check_takes
from ..graph.names import clear_names, fresh_names
from ..graph.recording import recorder
from ..graph.update import Update
from ..graph.variable import Variable
from .calls import Outgrown
from .compiler import Compiler
from .entered import Entered, default, entered, set_entered
from .exchange import Gradients
from .failures import failure
from .feeds import Feeds
from .freeing import add_session
from .fusion import Compilers, asked
from .moved import MovedNames, Part
from .observers import Observers
from .request import Request, request_of
from .restoring import NotCopied
from .steps import run_steps
from .targets import Targets, evaluation_method, flatten, restructure
from .undo import Undo
from .values import Values


class Session(NotCopied, MovedNames):
    """The values of persistent variables on one device, and evaluation with them.

    `device` is one of `pd.devices()`, such as `cpu` or `cuda:0`, or `auto` (CUDA if there is any,
    else the CPU and a warning) or `reference` (ONNX's own evaluator, slow). The same graph in two
    sessions has two sets of values. `seed` determines initial values and random draws.
    `check_numerics` checks every evaluation, as the context `pd.check_numerics()` does.
    `exact_convolutions` keeps a CPU from computing convolutions by Winograd's filtering, which is
    faster and rounds more: about 1e-5 of the largest result; by default PD_EXACT_CONVOLUTIONS=1 in
    the environment does. `fused` compiles kernels for its programs, which a CPU runs instead of
    chains of operators, see `pd.fused`; by default that context and PD_FUSE=1 in the environment
    do. Threads may share a session: it evaluates for one at a time.

    The attributes `seed` and `draws`, the number of draws from each stream of random numbers, may
    be set. What a session consists of is in `store`, `compilers` and `observers`.

    Args:
        device: one of `pd.devices()`, `auto` or `reference`.
        seed: an integer, for initial values and draws.
        check_numerics: whether every evaluation is checked.
        exact_convolutions: False allows Winograd's filtering; None asks the environment.
        fused: whether kernels are fused; None asks `pd.fused` and the environment.

    Raises:
        CompilerError: kernels are to be fused, and there is no C compiler.
        PlaceError: there is no such device, or kernels are to be fused on one that is no CPU.
    """

    seed = Part[int]("store")
    draws = Part[Counter[int]]("store")
    check_numerics = Part[bool]("observers")

    def __init__(
        self,
        device: str = "cpu",
        seed: int = 0,
        check_numerics: bool = False,
        exact_convolutions: bool | None = None,
        fused: bool | None = None,
    ):
        plain: Backend = named_backend(device, exact_convolutions)
        self.store = Values(plain, seed)
        self.lock = self.store.lock  # while it is held, no other thread evaluates
        make = partial(named_backend, plain.device, exact_convolutions)
        self.compilers = Compilers(plain, make, fused, self.lock)
        self.observers = Observers(check_numerics)
        # the state of optimizers that step inside `pd.guard()`
        self.optimizers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.numbers_of_optimizers: Any = None  # that wait for their first steps
        add_session(self)

    def __repr__(self) -> str:
        return f"Session(device={self.device!r}, seed={self.seed})"

    @property
    def device(self) -> str:
        """The name of the device, such as `cpu` or `cuda:0`."""
        return self.backend.device

    @property
    def fused(self) -> bool:
        """Whether the evaluations of this thread run fused kernels now, see `pd.fused`."""
        return self.compilers.fused

    @property
    def compiler(self) -> Compiler:
        """The compiler of the programs of this thread."""
        return self.compilers.current

    @property
    def backend(self) -> Backend:
        """The runtime of these programs."""
        return self.compilers.current.backend

    @evaluation_method
    @concise
    def eval(
        self, targets: Targets, feeds: Feeds | None = None, training: bool | None = None
    ) -> Any:
        """Compute targets: Variables and Updates, alone or in lists, tuples and dicts.

        `feeds` maps Variables, or their names, to arrays; any variable may be fed, which cuts the
        graph there. Only what the targets need runs, once; all reads see the values from before
        the call, and all updates are stored together at its end. `training` selects the side of
        mode switches; by default it is whether a target is a training step.

        Args:
            targets: a Variable, an update, or nested lists, tuples and dicts of them.
            feeds: {Variable or its name: array}.
            training: whether modes such as dropout's are those of training; True by default with an
                update.

        Returns:
            Arrays, nested as the targets are; None for an update.

        Raises:
            FeedError: a name that is fed is no variable of the targets, or a value has another kind
                of dtype.
            MissingFeed: a slot that the targets depend on has no array.
            OutOfRange: an index is outside.
            RuntimeError: the session is closed.
            ShapeError: an array does not have the shape of its variable.
            TypeError: a target is no Variable and no update.
        """
        flat: list[Variable | Update] = []
        flatten(targets, flat)
        with self.lock:
            compilers = self.compilers
            compiler = compilers.usual if asked.get() is None else compilers.current
            call = compiler.call(flat, feeds, training)
            if call is not None and not self.observers.is_active(self):
                run = call.run if self.store.recorded is None else call.run_beside
                try:
                    return restructure(targets, iter(run(self.store, feeds or {})))
                except (BackendError, Outgrown):
                    pass  # below, lines of operators are known, and other programs made
            request = request_of(flat, feeds, training)
            arrays: dict[Any, Any] = self.evaluate(request)
            self.store.show(arrays, flat)
            if not request.is_observed:
                compiler.learn(flat, feeds, training, request)
            return restructure(targets, (arrays.get(t) for t in flat))

    def evaluate(self, request: Request) -> dict[Variable, Any]:
        """Compute what is asked for, with all that takes part; return {fetch: array}.

        Every evaluation of a graph that is not known from an equal call goes through here.
        """
        with self.lock, ExitStack() as stack:
            if self.store.is_closed:
                self.store.check_open()
            request.is_observed = self.observers.is_active(self)
            some = request.is_observed or self.store.recorded is not None
            observers = self.observers.start(self, request, stack) if some else []
            compilers = self.compilers
            compiler = compilers.usual if asked.get() is None else compilers.current
            program = request.program = (request.compiler or compiler).program(request)
            if observers:
                self.store.start(program)
            for observer in observers:
                observer.before(program, request.fed)
            try:
                arrays = program.inputs.arrays(request.fed)
                results = program.run(self.store, arrays, exchange=request.exchange)
            except BackendError as error:
                raise failure(error, self, request) from error.__cause__
            request.results = results
            return dict(zip(request.fetches, results, strict=True))

    @evaluation_method
    @concise
    def run_steps(self, targets: Targets, feeds: Feeds, training: bool | None = None) -> Any:
        """Run several steps in one call, and return the targets of all of them.

        `feeds` maps variables to arrays with a first axis of steps, as long in all of them; each
        Variable among the targets gives such an array. Values, random draws, schedules and state of
        optimizers are those of so many calls of `eval`, to rounding; but one program goes from step
        to step, and if it fails nothing is stored. Shapes are the same in all steps. What belongs
        between steps, as inside `check_numerics` or `exchanging`, makes them run one by one.

        Args:
            targets: a Variable, an update, or nested lists, tuples and dicts of them.
            feeds: {Variable or its name: array [steps, ...]}.
            training: whether modes such as dropout's are those of training; True by default with an
                update.

        Returns:
            Arrays [steps, ...], nested as the targets are; None for an update.

        Raises:
            FeedError: nothing is fed, or a name that is no variable of the targets.
            ShapeError: the feeds are of different numbers of steps, or of none.
        """
        with self.lock:
            return run_steps(self, targets, feeds, training)

    @contextmanager
    def exchanging(self, exchange: Callable[[Gradients], Gradients]) -> Iterator[None]:
        """Call a function between the gradients and the update of every training step in a `with`.

        `exchange(gradients)` gets {parameter: gradient} of the trainable parameters of the step, as
        arrays, and returns the same with the gradients to update with; that of a `row_sparse`
        parameter is a pair (rows [K], values [K, ...]), whose number of rows may change. Clipping
        and regularizers are applied after it. A step without gradients is not affected.

        Args:
            exchange: a function of {parameter: gradient} that returns the same.

        Returns:
            A context for `with`.

        Raises:
            TypeError: it is no function, or takes other arguments.
        """
        check_takes("exchanging: the function", exchange, "gradients")
        outer, self.observers.exchange = self.observers.exchange, exchange
        try:
            yield
        finally:
            self.observers.exchange = outer

    def replay(self, draws: Mapping[int, int]) -> AbstractContextManager[None]:
        """Repeat the random numbers from `draws` on in a `with`; they do not count as drawn.

        `draws` is an earlier copy of the attribute `draws`; other threads wait.

        Args:
            draws: {stream: number of draws}.

        Returns:
            A context for `with`.

        Raises:
            TypeError: `draws` is no such dict.
        """
        if not isinstance(draws, Mapping):
            raise TypeError(f"replay: draws is a dict as the attribute is, not {draws!r}")
        return self.store.replay(draws)

    def has(self, variable: Variable) -> bool:
        """Return whether a persistent variable has a value already.

        Args:
            variable: a Variable.

        Returns:
            A bool.
        """
        return self.store.has(variable)

    def get(self, variable: Variable) -> np.ndarray:
        """Return the value of a persistent variable, initialised if it has none yet.

        Args:
            variable: a Variable with an initial value.

        Returns:
            The value, an array.

        Raises:
            NotInitialized: there is neither a value nor an initializer.
            RuntimeError: the session is closed.
        """
        return self.store.get(variable)

    def set(self, variable: Variable, array: ArrayLike, copy: bool = True) -> None:
        """Store a value for a persistent variable.

        With `copy=False` the caller must not use the array again: it may become the value itself.

        Args:
            variable: a persistent Variable.
            array: a value of its shape.
            copy: whether the value is copied.

        Raises:
            FeedError: the value has another kind of dtype, such as text for floats.
            ShapeError: the value has another shape, or the variable keeps none.
        """
        self.store.set(variable, array, copy)

    def val(self, variable: Variable) -> np.ndarray:
        """Return a copy of the value of persistent state, or of what the last evaluation fetched.

        Nothing is evaluated here.

        Args:
            variable: a Variable.

        Returns:
            A copy of the value, an array.

        Raises:
            NotComputed: the Variable is no state, and was not fetched.
        """
        return self.store.val(variable)

    def values(self) -> dict[Variable, np.ndarray]:
        """Return all stored values, {Variable: array}.

        Returns:
            {Variable: array}.
        """
        return self.store.all()

    def load_values(self, values: Mapping[Variable, ArrayLike]) -> None:
        """Store the values {Variable: array}, such as `values()` of another session, or none.

        Args:
            values: {persistent Variable: array}.

        Raises:
            ShapeError: a value has another shape, or its variable keeps none; nothing is stored
                then.
        """
        with Undo(self):
            for v, array in values.items():
                self.set(v, array)

    def state(self) -> dict[str, Any]:
        """Return seed, draws and all stored values by name, for `restore`.

        Rows of sharded tables are not among them, only the names of the tables; nor is what objects
        have: numbers that were set in optimizers, which `optimizer.state()` has, `trainable` of
        parameters, and modes of layers.

        Returns:
            A dict of numbers, texts and arrays.

        Raises:
            RuntimeError: the session is closed.
        """
        return self.store.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state`, perhaps of another process that built the same graph.

        Values belong to the variables of their names; one that does not exist yet takes its value
        when it is first used. After an error nothing is changed.

        Args:
            state: what `state` returned.

        Raises:
            GraphError: there is a sharded table whose rows were not loaded before.
            ShapeError: a variable has another shape or dtype.
            ValueError: it is no such state.
        """
        found = self.store.restorable(state)
        with Undo(self):
            self.store.restore(*found)

    def stats(self) -> dict[str, int]:
        """Return counts of the work so far.

        They are `evaluations`, `compiled` programs, `operators` run, and arrays copied between
        host and device: `fed`, `fetched`, and persistent values `stored` and `read`. Training does
        not change the last two: parameters and slots stay on the device between steps.

        Returns:
            {name: count}.
        """
        return self.store.stats()

    def close(self) -> None:
        """Release values and programs; the session cannot be used any more."""
        with self.lock:
            self.compilers.clear()
            self.store.close()

    def __enter__(self) -> Self:
        enter_session(self)
        return self

    def __exit__(self, *exc: object) -> None:
        blocks = entered.get()  # blocks of generators may end in any order
        last = max(k for k, each in enumerate(blocks) if each.session is self)
        recording = blocks[last].recording
        if recording is not None:
            recording.end()
        set_entered(blocks[:last] + blocks[last + 1 :])


# ---- the default session

_reset_functions: list[Callable[[], None]] = []
_default_lock = Lock()


def enter_session(session: Session, follows: bool = False) -> None:
    """Begin a `with`; one that `follows` goes on in the session by which `reset` replaces it.

    It ends with `__exit__` of the session that it has then.
    """
    recording = recorder()
    if recording is not None:  # values at hand are those of this session
        recording = recording.within(session)
    set_entered((*entered.get(), Entered(session, recording, follows)))


def plain_session() -> Session:
    """Return the session that is in force where no `with` has entered another one."""
    if not default:
        with _default_lock:
            if not default:
                default.append(Session())
    return default[0]


def follows_reset() -> bool:
    """Return whether `reset` replaces the session in force: no `with session:` has chosen it."""
    blocks = entered.get()
    return not blocks or blocks[-1].follows


def replace_session(old: Session, new: Session) -> None:
    """Let what is open in this thread, and follows `reset`, go on in another session."""
    blocks = list(entered.get())
    for k, (session, recording, follows) in enumerate(blocks):
        if follows and session is old:
            blocks[k] = Entered(new, recording, follows)
    set_entered(tuple(blocks))
    current = recorder()
    while current is not None:
        current.go_on(old, new)
        current = current.outer


def default_session() -> Session:
    """Return the session of the innermost `with session:`, else one created on first use."""
    blocks = entered.get()
    if blocks:
        return blocks[-1].session
    return plain_session()


def use_device(device: str) -> None:
    """Move the default session, which must not hold values yet, to a device; see `Session`.

    Args:
        device: one of `pd.devices()`, `auto` or `reference`.

    Raises:
        PlaceError: there is no such device, or the session has values on another.
    """
    session = Session(device)
    with _default_lock:
        old = default[0] if default else None
        if old is not None and old.device == session.device:
            return
        if old is not None and not old.store.is_empty:
            raise PlaceError(
                f"the default session keeps values on {old.device}, it cannot move to {device}\n"
                "  hint: call use_device() first of all, or reset() before it"
            )
        if old is not None:
            session.seed, session.check_numerics = old.seed, old.check_numerics
        default[:] = [session]


def reset(seed: int | None = None) -> None:
    """Replace the default session by a new one on the same device, and clear all names.

    `with pd.guard():` and `no_grad()` that are open in this thread go on in the new one; what was
    recorded before and not computed is gone. A `with` of a session keeps it, with its seed and
    draws, and so do guards inside.

    Args:
        seed: an integer, 0 by default.
    """
    clear_names()
    with _default_lock:
        old = default[0] if default else None
        new = Session("cpu" if old is None else old.device, 0 if seed is None else seed)
        default[:] = [new]
    if old is not None:
        replace_session(old, new)
    for function in _reset_functions:
        function()


def on_reset(function: Callable[[], None]) -> None:
    """Call a function after every `reset`, for what a library above keeps of the graph by name.

    Args:
        function: a function without arguments.
    """
    _reset_functions.append(function)


@contextmanager
def fresh(seed: int = 0, device: str = "cpu") -> Iterator[Session]:
    """Use a new session and an empty set of names for the length of a `with`.

    Args:
        seed: an integer, for initial values and draws.
        device: one of `pd.devices()`, `auto` or `reference`.

    Returns:
        A context for `with`, which gives the Session.

    Raises:
        PlaceError: there is no such device.
    """
    with fresh_names(), Session(device, seed) as session:
        yield session
