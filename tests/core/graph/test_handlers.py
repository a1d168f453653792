"""Functions that are attached and cannot be called: an error where they are attached."""

import functools
import inspect

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.graph.handlers import check_takes
from pd_core.training import RunnerItem, TestEvery


def one(a):
    pass


class Called:
    def __call__(self, a, b=None):
        pass


@pytest.mark.parametrize(
    "function",
    [one, lambda a, b=1: a, lambda *a: a, Called(), functools.partial(max, 1), print, int, np.exp],
)
def test_what_takes_one_argument(function):
    check_takes("the function", function, "a")


@pytest.mark.parametrize(
    "function", [lambda: 0, lambda a, b: 0, lambda a, *, b: 0, Called, functools.partial(one, 1)]
)
def test_what_takes_fewer_or_more(function):
    with pytest.raises(
        TypeError, match=r"^the function is called with \(a\); .* does not take them"
    ):
        check_takes("the function", function, "a")


SHAPES = [
    *(lambda: 0, lambda a: 0, lambda a, b: 0, lambda a, b=1: 0, lambda a=1, b=2: 0, lambda *a: 0),
    *(lambda a, *b: 0, lambda *, a: 0, lambda *, a=1: 0, lambda a, *, b: 0, lambda a, *, b=1: 0),
    *(lambda a, /: 0, lambda a, /, b=1: 0, lambda **a: 0, lambda a, **b: 0, one),
    functools.wraps(one)(lambda *a: one(*a)),  # the signature of another one
]


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("function", SHAPES)
def test_functions_are_taken_by_their_signatures(function, count):
    names = "abcd"[:count]
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        with pytest.raises(TypeError, match="does not take them"):
            check_takes("the function", function, *names)
    else:
        check_takes("the function", function, *names)


def test_a_plain_function_is_not_inspected(monkeypatch):
    """A program that trains on one batch at a time attaches its handler for each."""
    monkeypatch.setattr(inspect, "signature", lambda function: pytest.fail("inspected"))
    check_takes("the function", one, "a")
    check_takes("the function", lambda a, b=1: a, "a")


def attach_hook():
    pd.nn.FC(2).register_forward_hook(one)


def attach_pre_hook():
    pd.nn.FC(2).register_forward_pre_hook(one)


def apply_to_layers():
    pd.nn.FC(2).apply(lambda: 0)


def attach_exchange():
    with pd.default_session().exchanging(lambda: None):
        pass


def attach_result():
    TestEvery(batches=1, reader=list, on_result=one)


def define_item():
    class Item(RunnerItem):
        def on_batch_end(self):
            pass


def attach_event_handler():
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    cost = paddle.layer.sum_cost(paddle.layer.fc(x, 1))
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), paddle.optimizer.Adam())
    trainer.train(paddle.batch(lambda: iter([([1.0],)]), 1), event_handler=lambda: 0)


@pytest.mark.parametrize(
    "attach, what",
    [
        (
            attach_hook,
            r"a hook after forward\(\) is called with \(layer, inputs, output\); one\(a\)",
        ),
        (attach_pre_hook, r"a hook before forward\(\) is called with \(layer, inputs\); one\(a\)"),
        (apply_to_layers, r"the function of apply\(\) is called with \(layer\)"),
        (attach_exchange, r"exchanging: the function is called with \(gradients\)"),
        (attach_result, r"TestEvery: on_result is called with \(context, result\)"),
        (define_item, r"Item.on_batch_end is called with \(self, following\)"),
        (attach_event_handler, r"the event handler is called with \(event\)"),
    ],
)
def test_what_users_attach_is_checked_at_once(attach, what):
    with pytest.raises(TypeError, match=rf"^{what}.*\n  defined at .*test_handlers.py:\d+$"):
        attach()
