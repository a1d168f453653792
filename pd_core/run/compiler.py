"""The compiler of a session: from what is asked for to the program that runs it."""

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from weakref import ref

import numpy as np

from ..backend.base import Backend
from ..graph.update import Update
from ..graph.variable import Variable
from .cache import Cache
from .calls import Call
from .changes import changes_of, computed_changes, recorded_values
from .feeds import Feeds
from .inputs import Inputs
from .program import Program
from .programs import Compiled, ProgramCache, Source, compiled
from .request import Request
from .structure import Structure

NO_LOCK = nullcontext()


class Compiler:
    """Programs for requests: those of a cache, or new ones.

    `programs` has the compiled graphs that all sessions of a device share, by structure; without it
    each is compiled, by the function `make`. Whoever evaluates holds the `lock`. The values
    of variables `kept` before a step are not written over.
    """

    def __init__(
        self,
        backend: Backend,
        programs: ProgramCache | None,
        make: Callable[[Backend, Source], Compiled] = compiled,
        lock: AbstractContextManager = NO_LOCK,
        kept: Container[Variable] = (),
    ):
        self.backend, self.programs, self.make = backend, programs, make
        self.lock, self.kept = lock, kept
        self.cache = Cache()

    def call(
        self,
        flat: Sequence[Variable | Update],
        feeds: Feeds | None,
        training: bool | None,
        kind: type[Call] = Call,
    ) -> Call | None:
        """Return the same call as it was made before, of `eval` or of another kind.

        None if there is none that fits.
        """
        for v in feeds or ():
            if not isinstance(v, Variable):
                return None
        key = kind, tuple(map(ref, flat)), tuple(map(ref, feeds or ())), training
        entry = self.cache.entries.get(key)
        if entry is None or entry[0].program.is_outdated:
            return None
        self.cache.entries.move_to_end(key)
        call = entry[0]
        # whether the same parameters are trained
        return call if call.frozen == [w().trainable for w in call.owners] else None

    def remember(
        self,
        call: Call,
        flat: Sequence[Variable | Update],
        feeds: Feeds | None,
        training: bool | None,
        request: Request,
    ) -> None:
        """Keep a call, for the next one with the same arguments."""
        key = type(call), tuple(map(ref, flat)), tuple(map(ref, feeds or ())), training
        self.cache.add(key, call, request.owners())

    def learn(
        self,
        flat: Sequence[Variable | Update],
        feeds: Feeds | None,
        training: bool | None,
        request: Request,
    ) -> None:
        """Keep a call of `eval` that was made, if the same arguments are the same evaluation."""
        program = request.program
        # a name may be that of another variable later
        if program.repeats and all(isinstance(v, Variable) for v in feeds or ()):
            self.remember(Call(program, flat, request), flat, feeds, training, request)

    def program(self, request: Request) -> Program:
        """Return the program of a request."""
        key = request.key("program")
        entry = self.cache.entries.get(key)
        program = None if entry is None else entry[0]
        if program is None or program.is_outdated or not program.takes(request.fed):
            program = self.prepare(key, request)
        self.cache.entries.move_to_end(key)
        return program

    def prepare(self, key: tuple, request: Request) -> Program:
        """Return a new program of a request, which the cache keeps."""
        recorded = recorded_values(request.fetches, request.updates, request.fed)
        program = self.new(request, recorded)
        self.cache.add(key, program, request.owners())
        return program

    def new(
        self, request: Request, recorded: Mapping[Variable, np.ndarray] = MappingProxyType({})
    ) -> Program:
        """Return a program of a request, without a look into the cache.

        `recorded` are the values of what was recorded inside `pd.guard()`.
        """
        fetches, updates, fed = request.fetches, request.updates, request.fed
        changes = changes_of(updates)
        computed = computed_changes(changes)
        given = {*fed, *recorded}
        structure = Structure(fetches, computed, request.seam, given, request.training)
        at_hand = [v for v in structure.leaves if v.eager_value is not None]
        held = {v: v.eager_value for v in at_hand if v not in fed}
        held.update(recorded)
        every = {**fed, **held} if held else fed
        source = Source(
            structure, fetches, computed, request.seam, every, request.training, updates
        )
        found, is_new = self.find(source)
        leaves, sizes = structure.leaves, structure.sizes
        pairs = ([d if k is None else sizes[k] for d, k in pair] for pair in found.equal)
        equal = [(a, b) for a, b in pairs]
        inputs = Inputs([leaves[k] for k in found.fed], held, equal, fed)
        return Program(found, structure, changes, is_new, inputs, self.kept)

    def find(self, source: Source) -> tuple[Compiled, bool]:
        """Return the compiled graph of a structure, and whether it is new."""
        programs, structure = self.programs, source.structure
        if programs is None:
            return self.make(self.backend, source), True
        found = programs.get(structure, source.fed)
        if found is not None:
            return found, False
        source = replace(source, least=programs.least(structure))
        found = programs.templates.compiled(self.backend, source, self.make)
        programs.add(structure, found)
        return found, True

    def drop_writers(self, variables: Container[Variable]) -> None:
        """Drop the programs that write new values of variables over those before."""
        with self.lock:
            for key, (entry, _) in list(self.cache.entries.items()):
                program = getattr(entry, "program", entry)
                if isinstance(program, Program) and any(v() in variables for v in program.written):
                    self.cache.entries.pop(key, None)

    def clear(self) -> None:
        """Drop all programs; what is evaluated again is compiled again."""
        with self.lock:
            self.cache.clear()
