"""Runner: the order of its callbacks, how passes end, what is finalized after errors."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import Counter, Runner, RunnerContext, RunnerItem, runner_of


class Log(RunnerItem):
    """Writes down its calls; raises an error in those that are named by `fails`."""

    def __init__(self, log, name="A", fails=None, batches=2):
        self.log, self.name, self.left = log, name, batches
        self.fails = fails or {}

    def at(self, where):
        self.log.append(f"{self.name} {where}")
        if where in self.fails:
            raise self.fails[where]

    def initialize(self, context, following):
        self.at("before initialize")
        super().initialize(context, following)
        self.at("initialize")

    def finalize(self, following):
        self.at("finalize")
        following()
        self.at("after finalize")

    def on_pass_begin(self, following):
        self.at("pass begin")
        following()

    def on_batch_begin(self, following):
        if not self.left:
            return True
        self.left -= 1
        self.at("batch begin")
        return following()

    def on_batch_end(self, following):
        self.at("batch end")
        return following()

    def on_pass_end(self, following):
        self.at("pass end")
        following()


@pytest.fixture
def log():
    return []


def finalized(log):
    return [text[0] for text in log if text.endswith(" finalize") and "after" not in text]


# ---- what is wrong with a runner


def test_items_are_items(log):
    with pytest.raises(
        TypeError, match="add_item: a RunnerItem or a function of the context, not 'Counter'"
    ):
        Runner().add_item("Counter")
    with pytest.raises(TypeError, match=r"not <class .*Counter'>\n  hint: Counter\(\.\.\.\)"):
        Runner().add_item(Counter)


def test_an_item_is_added_once(log):
    item = Log(log)
    with pytest.raises(ValueError, match="add_item: this Log was added before"):
        Runner().add_item(item).add_item(item)


def test_a_runner_without_items():
    with pytest.raises(ValueError, match="a Runner without items does nothing"), Runner():
        pass


def test_a_runner_runs_inside_of_with(log, tmp_path):
    runner = runner_of([Log(log)])
    for run in (runner.run_one_pass, runner.run, lambda: runner.save(tmp_path / "c")):
        with pytest.raises(pd.GraphError, match="a runner runs inside of `with runner:`"):
            run()
    with runner:
        with pytest.raises(pd.GraphError, match="this runner is running already"), runner:
            pass
        with pytest.raises(pd.GraphError, match="add_item: the runner is running already"):
            runner.add_item(Log(log))
    assert finalized(log) == ["A"]


def test_a_run_needs_a_counter(log):
    with runner_of([Log(log)]) as runner, pytest.raises(pd.GraphError, match=r"add a Counter\(\)"):
        runner.run(2)


# ---- order and ends


def test_a_runner_runs_again(log):
    item = Log(log)
    runner = runner_of([Counter(), item])
    for _ in range(2):
        item.left = 1
        with runner:
            assert runner.run(1).batches == 1
    assert finalized(log) == ["A", "A"]


def test_runners_are_nested(log):
    inner = runner_of([Counter(), Log(log, "B", batches=1)])

    class Nested(Log):
        def on_batch_begin(self, following):
            ended = super().on_batch_begin(following)
            if not ended:
                with inner:
                    assert inner.run(1).batches == 1
                    assert inner.context is not self.context
            return ended

    outer = runner_of([Counter(), Nested(log, batches=1)])
    with outer:
        assert outer.run(1).batches == 1
    assert log.index("A batch begin") < log.index("B finalize") < log.index("A batch end")


def test_rings_without_a_method_are_left_out(log):
    class Only(RunnerItem):
        def on_batch_end(self, following):
            log.append("only")
            return following()

    with runner_of([Only(), Log(log, batches=1)]) as runner:
        runner.run_one_pass()
    assert log[-5:] == ["only", "A batch end", "A pass end", "A finalize", "A after finalize"]


@pytest.mark.parametrize("ended", [True, 1, "yes", np.True_])
def test_a_true_batch_end_ends_the_pass(ended, log):
    class End(RunnerItem):
        def on_batch_end(self, following):
            following()
            return ended

    with runner_of([Counter(), End(), Log(log, batches=5)]) as runner:
        context = runner.run(2)
    assert context.batches == 2 and context.pass_id == 1
    assert log.count("A pass end") == 2
    assert not context.is_pass_over and not context.is_in_pass


@pytest.mark.parametrize("where", ["on_pass_begin", "on_batch_begin", "on_batch_end"])
def test_stop_ends_the_training(where, log):
    class Stop(RunnerItem):
        pass

    def stop(self, following):
        if self.context.pass_id == 0:
            self.context.stop()
        return following()

    setattr(Stop, where, stop)
    with runner_of([Counter(), Stop(), Log(log, batches=5)]) as runner:
        context = runner.run(3)
        assert context.is_stopped
        assert context.batches == (0 if where == "on_pass_begin" else 1)
        assert context.pass_batches is None  # this pass was not a whole one
        assert runner.run(5) is context and context.pass_id == 0
    assert log.count("A pass end") == 1


def test_stop_when_a_pass_ends(log):
    class Stop(RunnerItem):
        def on_pass_end(self, following):
            following()
            self.context.after(self.context.stop)

    with runner_of([Counter(), Stop(), Log(log)]) as runner:
        context = runner.run(3)
    assert context.batches == context.pass_batches == 2 and context.pass_id == 0


def test_what_is_called_after_all_rings(log):
    class After(RunnerItem):
        def on_batch_end(self, following):
            self.context.after(lambda: log.append("last"), last=True)
            self.context.after(lambda: log.append("first"))
            return following()

    with runner_of([After(), Log(log, batches=1)]) as runner:
        runner.run_one_pass()
    end = log.index("A batch end")
    assert log[end + 1 : end + 3] == ["first", "last"]


# ---- errors


class Boom(Exception):
    pass


WHERE = ["pass begin", "batch begin", "batch end", "pass end"]


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("where", WHERE)
def test_all_are_finalized_after_an_error(where, error, log):
    callbacks = [Log(log, "A"), Log(log, "B", fails={where: error("x")}), Log(log, "C")]
    with pytest.raises(error, match="x"), runner_of([Counter(), *callbacks]) as runner:
        runner.run(1)
    assert finalized(log) == ["A", "B", "C"]
    with runner_of([Log(log)]) as runner:  # nothing is left behind
        pass


def test_what_was_initialized_is_finalized(log):
    failing = Log(log, "B", fails={"before initialize": Boom("x")})
    runner = runner_of([Log(log, "A"), failing, Log(log, "C")])
    with pytest.raises(Boom, match="x"), runner:
        pass
    assert finalized(log) == ["A"]
    failing.fails = {"initialize": Boom("y")}  # when the callbacks inside are initialized
    with pytest.raises(Boom, match="y"), runner:
        pass
    assert finalized(log) == ["A", "A", "B", "C"]
    failing.fails = {}
    with runner:
        runner.run_one_pass()


def test_errors_of_finalizers_are_notes_of_the_first_one(log):
    callbacks = [
        Log(log, "A", fails={"finalize": Boom("a")}),
        Log(log, "B", fails={"after finalize": Boom("b")}),
        Log(log, "C", fails={"batch end": ValueError("first")}),
    ]
    with pytest.raises(ValueError, match="first") as caught, runner_of(callbacks) as runner:
        runner.run_one_pass()
    assert finalized(log) == ["A", "B", "C"]
    assert caught.value.__notes__ == [f"  then, in finalize: Boom({x!r})" for x in "ab"]


def test_an_error_of_a_finalizer_is_raised(log):
    callbacks = [Log(log, x, fails={"finalize": Boom(x)}) for x in "ABC"]
    with pytest.raises(Boom, match="A") as caught, runner_of(callbacks):
        pass
    assert finalized(log) == ["A", "B", "C"]
    assert caught.value.__notes__ == [f"  then, in finalize: Boom({x!r})" for x in "BC"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_a_finalizer_comes_first(interrupt, log):
    callbacks = [Log(log, "A", fails={"finalize": Boom("a")})]
    callbacks.append(Log(log, "B", fails={"finalize": interrupt()}))
    with pytest.raises(interrupt) as caught, runner_of(callbacks):
        pass
    assert caught.value.__notes__ == ["  then, in finalize: Boom('a')"]


def test_an_item_that_does_not_go_on_is_passed_by(log):
    class Silent(RunnerItem):
        def finalize(self, following):
            log.append("S finalize")

    with runner_of([Log(log, "A"), Silent(), Log(log, "B")]):
        pass
    assert finalized(log) == ["A", "S", "B"]


# ---- the context

FIELDS = {
    **dict.fromkeys(("pass_id", "batch_id", "batches", "samples", "batch_size"), 3),
    **dict.fromkeys(("num_passes", "pass_batches"), 4),
    **dict.fromkeys(("cost", "rate_factor"), 0.5),
    **dict.fromkeys(("wants_gradients", "is_in_pass", "is_pass_over", "is_stopped"), True),
    **{name: {"error": 0.5} for name in ("metrics", "pass_metrics", "test_metrics")},
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_have_types(name):
    context, right = RunnerContext(), FIELDS[name]
    setattr(context, name, right)
    assert getattr(context, name) == right
    for value in (3, 0.5, True, {"error": 0.5}, "3", None, [1], np.array([1, 2]), 3 + 1j):
        fits = type(value) is type(right)
        fits |= value is None and name in ("num_passes", "pass_batches", "rate_factor")
        fits |= isinstance(right, float) and type(value) is int
        if not fits:
            with pytest.raises(TypeError, match=f"context.{name} is"):
                setattr(context, name, value)
    assert getattr(context, name) == right


def test_numbers_of_numpy_are_converted():
    context = RunnerContext()
    context.pass_id, context.cost, context.is_stopped = np.int32(3), np.float32(0.5), np.True_
    context.metrics = {"error": np.float64(0.25)}
    context.metrics["other"] = np.int64(1)
    context.metrics.update({"third": np.float32(2.0)}, fourth=np.int8(3))
    kinds = [type(x) for x in (context.pass_id, context.cost, context.is_stopped)]
    assert kinds == [int, float, bool]
    assert context.metrics == {"error": 0.25, "other": 1.0, "third": 2.0, "fourth": 3.0}
    assert {type(x) for x in context.metrics.values()} == {float}


def test_metrics_are_numbers_by_name():
    metrics = RunnerContext().pass_metrics
    for set_wrong in (
        lambda: metrics.update(a="0.5"),
        lambda: metrics.update({1: 0.5}),
        lambda: metrics.__setitem__("a", None),
        lambda: metrics.__setitem__(1, 0.5),
        lambda: metrics.__setitem__("a", True),
    ):
        with pytest.raises(TypeError, match=r"context\.pass_metrics"):
            set_wrong()
    assert metrics == {}


def test_metrics_may_be_computed_when_they_are_read():
    calls, context = [], RunnerContext()
    context.metrics = lambda: calls.append(1) or {"error": 0.5}
    assert not calls and context.metrics["error"] == 0.5 and context.metrics["error"] == 0.5
    assert calls == [1]


def test_a_misspelt_field_is_an_error():
    with pytest.raises(AttributeError):
        RunnerContext().pas_id = 1
