"""Whether evaluations run kernels that are compiled for them: `pd.fused()` and the environment."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from weakref import WeakSet

from ..backend.base import Backend
from ..backend.fused.compilers import compiler as c_compiler
from ..backend.switches import is_on
from ..graph.errors import PlaceError
from ..graph.variable import Variable
from .compiler import Compiler
from .programs import program_cache

# what the innermost `with pd.fused()` of this thread says, None outside of all
asked: ContextVar[bool | None] = ContextVar("pd_core.fused", default=None)


@contextmanager
def fused(on: bool = True) -> Iterator[None]:
    """Run fused kernels in the evaluations of this thread inside a `with`, or none.

    Chains of operators of a program become one kernel each: C that is generated for the program,
    compiled when it is used for the first time, and kept in a folder for the next process. Results
    are the same to rounding. Values are those of the session, whichever kernels have computed them.
    It is for sessions on a CPU that are not told otherwise by `Session(fused=...)`; others run as
    ever. `PD_FUSE=1` in the environment is the default of all.

    Args:
        on: False for no fused kernels, whatever the environment says.

    Returns:
        A context for `with`.

    Raises:
        CompilerError: there is no C compiler; it says what to install.
    """
    if on:
        c_compiler()
    token = asked.set(on)
    try:
        yield
    finally:
        asked.reset(token)


def fused_by_default() -> bool:
    """Return whether the environment asks for fused kernels."""
    return is_on("PD_FUSE")


class Compilers:
    """The compilers of a session: of programs with fused kernels, and of those without.

    `plain` is the runtime without them, `make(fused=True)` returns that with them, and `fused` is
    what the session was told, None to ask the block and the environment. Each compiler keeps the
    programs that it has made. `usual` is the one outside of all blocks: who evaluates takes it
    where `asked` is None, which spares the call of `current`.
    """

    def __init__(
        self,
        plain: Backend,
        make: Callable[..., Backend],
        fused: bool | None,
        lock: AbstractContextManager,
    ):
        self._make, self._lock = make, lock
        self._can = getattr(plain, "can_fuse", False)
        if fused and not self._can:
            raise PlaceError(f"kernels are fused for CPUs, not for {plain.device!r}")
        self._told = fused
        self._default = fused_by_default() if fused is None else fused
        if self._default and self._can:
            c_compiler()  # an error where the session is made
        self._kept: WeakSet[Variable] = WeakSet()
        self._of: dict[bool, Compiler] = {False: self._new(plain)}
        self.usual = self._with(self._can and self._default)

    def _new(self, backend: Backend) -> Compiler:
        return Compiler(backend, program_cache(backend), lock=self._lock, kept=self._kept)

    @property
    def fused(self) -> bool:
        """Whether the evaluations of this thread run fused kernels now."""
        return self.current is not self._of[False]

    @property
    def current(self) -> Compiler:
        """The one for the evaluations of this thread now."""
        block = asked.get() if self._can and self._told is None else None
        return self.usual if block is None else self._with(block)

    def _with(self, fused: bool) -> Compiler:
        found = self._of.get(fused)
        if found is None:  # two threads may make it at the same time: one of them is kept
            found = self._of.setdefault(True, self._new(self._make(fused=True)))
        return found

    def keep_before(self, variables: Iterable[Variable]) -> None:
        """Let steps keep the values of variables before them, which `Values.before` returns.

        Fused ones write the others over these.
        """
        fresh = set(variables).difference(self._kept)
        self._kept.update(fresh)
        if fresh:
            for compiler in list(self._of.values()):
                compiler.drop_writers(fresh)

    def clear(self) -> None:
        """Drop all programs; what is evaluated again is compiled again."""
        for compiler in list(self._of.values()):
            compiler.clear()
