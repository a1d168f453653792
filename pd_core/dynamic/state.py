"""What a session holds for `pd.guard()`: reads of variables, pending assignments, plans."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from itertools import repeat
from sys import getrefcount
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from ..graph.attached import Attached
from ..graph.errors import BackendError
from ..graph.node import Node
from ..graph.roles import History, Storage
from ..graph.variable import Variable
from ..run.session import Session, default_session
from .pattern import Patterns
from .plan import Plan
from .plans import Plans
from .recorded_call import RecordedCall
from .trace import Trace

_MOST_PENDING = 4096
_FORCE = ("force",)  # the name of plans without gradients


class Pending(NamedTuple):
    """A new value of a persistent variable, which it takes once `node` is computed."""

    node: Node
    value: Variable


class Assigned(NamedTuple):
    """A pending value, and the one that it has replaced."""

    variable: Variable
    pending: Pending
    before: Pending | None


# A persistent variable, the value that it has taken, and whether none waits that is later.
Taken = tuple[Variable, Variable, bool]


class State:
    """The recorded part of a session.

    A read of a persistent variable is a leaf that stands for its value at that line. As long as
    nothing changes the variable, programs bind the stored value itself; when something does, the
    value before is kept for the reads that are still in use.
    """

    def __init__(self, session: Session):
        self._session = ref(session)
        self.storage = Storage(state=ref(self))  # what its reads know it by
        # by variable; a read in use has more references than this one
        self.reads: Attached[Variable] = Attached()
        self._read = self.reads.key
        self.pending: dict[Variable, Pending] = {}
        self.fetched_gradients: WeakKeyDictionary[Variable, Any] = WeakKeyDictionary()
        # references to groups with gradients that are not computed
        self.unread: dict[Any, None] = {}
        # by variable: the groups that it is in, or what is `Unread` where it is a result
        self.groups: Attached[Any] = Attached()
        self.waiting: Any = None  # a backward pass that is computed with the next minimize()
        self.optimizers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.plans, self.patterns = Plans(session), Patterns()
        self.calls: dict[str, int] = {}  # of layers, by name: the number of calls
        self.numbered: dict[tuple[str, str], tuple[int, int]] = {}  # (call, number) of last draws

    @property
    def session(self) -> Session:
        """The session."""
        session = self._session()
        if session is None:
            raise RuntimeError("the session of these values was dropped")
        return session

    # ---- persistent variables

    def read(self, v: Variable) -> Variable:
        """Return the value of a persistent variable at this line."""
        if self.pending and v in self.pending:
            if self.waiting is None or not self.waiting.assigns(v):
                return self.pending[v].value
            self.settle()  # the backward pass that waits gives it the value
        values = v.__dict__.get("attached")
        read = None if values is None else values.get(self._read)
        if read is None:
            return self.reads.setdefault(v, self._new_read(v))
        attributes = read.__dict__
        if attributes["tracked"] is not v.trainable:
            if getrefcount(read) == 3:  # the table, the local name and the argument
                attributes["tracked"] = v.trainable
            else:
                self.keep(read)  # lines before have gradients or none, as it was
                read = self.reads[v] = self._new_read(v)
        return read

    def inputs(self, wiring: Sequence[Variable | None], x: Variable) -> tuple[Variable, ...]:
        """Return `read` of each of several persistent variables, and x in the place of a None."""
        if self.pending:
            return tuple([x if v is None else self.read(v) for v in wiring])
        key, found = self._read, []
        for v in wiring:
            read: Any = x
            if v is not None:
                values = v.__dict__.get("attached")
                read = None if values is None else values.get(key)
                if read is None or read.__dict__["tracked"] is not v.trainable:
                    read = None  # a reference more would be a use of it
                    read = self.read(v)
            found.append(read)
        return tuple(found)

    def _new_read(self, v: Variable) -> Variable:
        attributes = {"source": v, "options": v.options, "site": v.site}
        attributes |= {"tracked": v.trainable, "storage": self.storage}
        return Variable.of(v.dims, v.dtype, v.name, **attributes)

    def keep(self, read: Variable) -> None:
        """Make a read a value of its own, which is no more the current one."""
        self.settle()  # a backward pass that waits has traced it as state
        with self.session.lock:
            v: Any = read.source
            if read.eager_value is None:
                self.session.store.initialize([v])
                read.__dict__["eager_value"] = self.session.store.current(v)
            if self.reads.get(v) is read:
                self.reads.pop(v)

    def assign(self, node: Any, effects: Sequence[tuple[Variable, Variable]]) -> list[Assigned]:
        """Note the values that persistent variables take once a node is computed."""
        assigned = []
        for v, value in effects:
            value.__dict__["tracked"] = False  # a read of v has it in its own attributes
            new, before = Pending(node, value), self.pending.get(v)
            self.pending[v] = new
            assigned.append(Assigned(v, new, before))
        if len(self.pending) > _MOST_PENDING:
            self.flush()
        return assigned

    def take_back(self, assigned: Sequence[Assigned]) -> bool:
        """Take back what was noted last; False if something of it is computed or replaced."""
        latest = {a.variable: a.pending for a in assigned}
        if any(self.pending.get(v) is not p for v, p in latest.items()):
            return False
        for a in reversed(assigned):
            if a.before is None:
                del self.pending[a.variable]
            else:
                self.pending[a.variable] = a.before
        return True

    def settle(self) -> None:
        """Compute the backward pass that waits for a minimize(), if there is one."""
        if self.waiting is not None:
            with self.session.lock:
                step, self.waiting = self.waiting, None
                if step is not None:
                    step.run()

    # ---- gradients

    @property
    def gradients(self) -> WeakKeyDictionary[Variable, Any]:
        """The gradients by Variable."""
        if self.unread:
            self.compute_unread()
        return self.fetched_gradients

    @gradients.setter
    def gradients(self, gradients: WeakKeyDictionary[Variable, Any]) -> None:
        self.fetched_gradients = gradients

    def has_gradients(self, variables: Iterable[Variable]) -> bool:
        """Return whether some Variable has a gradient."""
        if self.unread:
            references = list(map(ref, variables))
            for _, unread in self._each_unread():
                if not unread.owners.keys().isdisjoint(references):
                    return True
        gradients = self.fetched_gradients
        return bool(gradients) and any(v in gradients for v in variables)

    def compute_unread(self, changing: Iterable[Any] | None = None) -> None:
        """Compute the gradients of steps that nobody has read.

        With `changing` only those that depend on these variables, given as references.
        """
        with self.session.lock:
            for reference, unread in self._each_unread():
                if changing is None or not unread.pattern.sources.isdisjoint(changing):
                    wanted = not unread.is_only_of_cost(self.fetched_gradients)
                    self._end_unread(reference)
                    if wanted:
                        unread.compute(self, unread)
                    unread.end()

    def forget_unread(self, references: Sequence[Any]) -> None:
        """Leave out the gradients of Variables, given as references, that nobody has read."""
        with self.session.lock:
            for reference, unread in self._each_unread():
                owners = unread.owners
                for each in references:
                    owners.pop(each, None)
                if unread.is_only_of_cost(self.fetched_gradients):
                    self._end_unread(reference)
                    unread.end()

    def _each_unread(self) -> Iterator[tuple[Any, Any]]:
        """Yield groups with gradients that are not computed, as references, and these."""
        for reference in list(self.unread):
            group = reference()
            if group is None:
                self.unread.pop(reference, None)
            else:
                yield reference, group.unread

    def _end_unread(self, reference: Any) -> None:
        reference().unread = None
        del self.unread[reference]

    def flush(self) -> None:
        """Store all pending values."""
        self.settle()
        if self.pending:
            self.force([p.value for p in list(self.pending.values())])

    def before_store(self, v: Variable) -> None:
        """Keep the value of a variable for the reads in use, before it is replaced."""
        self.settle()
        if self.unread:
            self.compute_unread([ref(v)])
        self.pending.pop(v, None)
        read = self._in_use(v)
        if read is not None:
            self.session.store.initialize([v])
            read.__dict__["eager_value"] = self.session.store.current(v)

    def forget(self, v: Variable) -> None:
        """Leave out what would be stored in a variable that is taken back."""
        self.pending.pop(v, None)

    def _in_use(self, v: Variable) -> Variable | None:
        """The read of a variable that is about to change, if it is in use; current no more."""
        if self.reads.get(v) is None:
            return None
        # references: the table's and the argument of the function
        if getrefcount(self.reads[v]) == 2:
            return None
        return self.reads.pop(v)

    def before_update(
        self,
        variables: Sequence[Callable[[], Variable | None]],
        written: Set[Callable[[], Variable | None]] = frozenset(),
    ) -> None:
        """Keep the values that a step writes in place, for the reads in use.

        Those are the ones `written`, and tables whose rows it writes.
        """
        self.settle()
        if self.unread:
            self.compute_unread(variables)
        for reference in variables:
            v = reference()
            if v is not None and (v.options.row_sparse or reference in written):
                self.before_store(v)

    def before_plan(self, plan: Plan, elsewhere: Sequence[Any]) -> None:
        """The same before a step of a recorded graph; it writes `elsewhere` in place."""
        if self.unread:
            self.compute_unread(plan.updated)
        if elsewhere or self.waiting is not None:
            self.before_update(elsewhere)

    def after_update(self, variables: Sequence[Callable[[], Variable | None]]) -> dict[Any, Any]:
        """Keep the values before a step, for the reads in use; return these by reference."""
        key, kept = self._read, {}
        for reference in variables:
            v = reference()
            if v is None:
                continue
            table = v.__dict__.get("attached")  # some have no reads
            # references: the table's and the argument of the function
            if table is not None and key in table and getrefcount(table[key]) != 2:
                read, value = table.pop(key), self.session.store.release(v)
                read.__dict__["eager_value"] = kept[reference] = value
        return kept

    # ---- computing

    def force(self, targets: Sequence[Variable]) -> None:
        """Compute targets, and what else of their graph somebody holds."""
        session = self._session() or self.session  # an error where it was dropped
        with session.lock:
            if self.waiting is not None:
                self.settle()
            if len(targets) == 1 and self._forced_again(session, targets[0]):
                return
            targets = [v for v in targets if v.eager_value is None]
            if not targets:
                return
            trace = self.patterns.traced(targets, self, through=False)
            plan, values = self.evaluate(_FORCE, trace)
            self.finish(trace, plan, values)

    def _forced_again(self, session: Session, v: Variable) -> bool:
        """Compute a target if it is like the last one of its pattern; return whether it is."""
        node = v.__dict__.get("node")
        if type(node) is not RecordedCall or v.eager_value is not None:
            return False
        key = False, node.template.kind
        for pattern in self.patterns.ending.get(key, ()):
            plan = pattern.last_plan(_FORCE, session)
            trace = None if plan is None else pattern.match(v, self)
            if trace is None or not plan.covers(trace):
                continue
            self.patterns.met(key)
            if self.unread and plan.updated:
                self.compute_unread(plan.updated)
            try:
                values = plan.run(session, trace)
            except BackendError as error:
                raise self.failed(error, session, plan, trace) from error.__cause__
            self.finish_again(trace, plan, values, repeat(False))
            return True
        return False

    def evaluate(self, name: tuple, trace: Trace, *make: Any, **before: Any) -> tuple[Plan, list]:
        """Return a plan for a trace and its values, see `Plans.evaluate`.

        If an operator fails, the assignments that need it are dropped.
        """
        if self.unread and trace.assigned:
            self.compute_unread([ref(v) for v, _ in trace.assigned])
        try:
            return self.plans.evaluate(name, trace, *make, **before)
        except BackendError:
            self._settle_all(trace.assigned)
            raise

    def failed(
        self, error: BackendError, session: Session, plan: Plan, trace: Trace, *make: Any
    ) -> BackendError:
        """Return what `evaluate` raises if the plan of a pattern did not run."""
        explained, assigned = (
            self.plans.explained(error, session, plan, trace, *make),
            trace.assigned,
        )
        self._settle_all(assigned)
        return explained

    def _settle_all(self, assigned: Sequence[tuple[Variable, Pending]]) -> None:
        for v, pending in assigned:
            self._settle(v, pending)

    def _settle(self, v: Variable, pending: Pending) -> None:
        """Store a pending value if it can be computed, drop it otherwise."""
        if v in self.pending and self.pending[v] is pending:
            trace = Trace([pending.value], self, through=False)
            try:
                plan, values = self.plans.evaluate(_FORCE, trace)
            except BackendError:
                del self.pending[v]
            else:
                self.finish(trace, plan, values)

    def finish(
        self, trace: Trace, plan: Plan, values: Sequence[Any], ended: Container[Variable] = ()
    ) -> dict[Any, Any]:
        """Give the Variables of a trace their values, and end the graph where they suffice.

        It ends at those of `ended` too: their history was used. Returns the values before the step
        that reads in use have got, by references to the variables.
        """
        stale = trace.stale()
        for v, value in zip(trace.fetches, values, strict=False):
            attributes = v.__dict__
            attributes["eager_value"] = value
            if stale and v in stale:
                attributes["history"] = History(True, v.history.parameters)
            if not v.tracked:
                attributes["node"] = None
            elif v in ended:
                attributes["node"], attributes["tracked"] = None, False
                attributes["history"] = History(True, v.history.parameters)
        taken = self._taken(trace.assigned)
        trace.release()
        kept = self.after_update(plan.updated)
        self._be_reads(taken)
        return kept

    def _taken(self, assigned: Sequence[tuple[Variable, Pending]]) -> list[Taken]:
        """Let go of the graph behind values that variables have taken, and of its reads."""
        taken = []
        for v, pending in assigned:
            pending.value.__dict__["node"] = None
            is_last = self.pending.get(v) is pending
            if is_last:
                del self.pending[v]
            taken.append((v, pending.value, is_last))
        return taken

    def _be_reads(self, taken: Sequence[Taken]) -> None:
        """Let values that variables have taken be reads of these."""
        for v, value, is_last in taken:
            attributes = value.__dict__
            if "eager_value" in attributes:
                continue  # somebody looks at it
            if is_last:
                attributes["source"], attributes["storage"] = v, self.storage
                self.reads[v] = value
            else:  # the variable is about to take a later one
                attributes["eager_value"] = self.session.store.current(v)

    def finish_again(
        self, trace: Any, plan: Plan, values: Sequence[Any], is_ended: Iterable[bool]
    ) -> dict[Any, Any]:
        """`finish` for a `Matched`, of which no graph has ended before."""
        for v, value, ends in zip(trace.fetches, values, is_ended, strict=False):
            attributes = v.__dict__
            attributes["eager_value"] = value
            if ends:
                attributes["node"], attributes["tracked"] = None, False
                attributes["history"] = History(True, v.history.parameters)
            elif not v.tracked:
                attributes["node"] = None
        taken = self._taken(trace.assigned) if trace.assigned else ()
        trace.release_again()
        del v, value
        kept = self.after_update(plan.updated) if plan.updated else {}
        if taken:
            self._be_reads(taken)
        return kept


def state_of(session: Session) -> State:
    """Return the recorded part of a session."""
    store = session.store
    if not isinstance(store.recorded, State):
        with store.lock:  # one for threads that begin at the same time
            if not isinstance(store.recorded, State):
                store.recorded = State(session)
    return store.recorded


def current_state() -> State:
    """Return the recorded part of the session in force."""
    return state_of(default_session())
