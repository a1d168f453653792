"""Keywords of releases before the last one of 2017: accepted, and not in the signatures."""

import inspect

import pytest

import pd_v2 as paddle
from pd_v2.earlier_keywords import earlier_keywords
from pd_v2.trainer_config_helpers.layers import nce_layer

A, L, T = paddle.activation, paddle.layer, paddle.data_type


@earlier_keywords(old="new", pair=lambda pair: dict(zip(("new", "more"), pair, strict=True)))
def function(new, more=0):
    """What it does."""
    return new, more


def test_earlier_names_of_keywords():
    assert function(old=1) == (1, 0)
    assert function(more=2, old=1) == (1, 2)
    assert function(pair=(3, 4)) == function(3, more=4) == (3, 4)


def test_the_signature_and_the_documentation_are_todays():
    assert str(inspect.signature(function)) == "(new, more=0)"
    assert inspect.getdoc(function) == "What it does."


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"old": 1, "new": 2}, r"function\(\): 'old' and 'new' are the same"),
        ({"other": 1}, "unexpected keyword argument 'other'"),
        ({}, "missing 1 required positional argument: 'new'"),
    ],
)
def test_wrong_keywords(keywords, message):
    with pytest.raises(TypeError, match=message):
        function(**keywords)


def choices():
    """A layer of rows and a label."""
    return L.data("x", type=T.dense_vector(4)), L.data("y", type=T.integer_value(9))


@pytest.mark.parametrize("act", [A.Sigmoid(), None])
@pytest.mark.parametrize("nce", [L.nce, nce_layer])
def test_nce_with_the_activation_that_it_has(nce, act):
    x, y = choices()
    cost = nce(input=x, label=y, num_classes=9, act=act, num_neg_samples=3)
    assert cost.config.active_type == "sigmoid"
    assert "act" not in inspect.signature(nce).parameters


@pytest.mark.parametrize("act", [A.Softmax, A.Linear])
def test_nce_with_another_activation(act):
    x, y = choices()
    with pytest.warns(UserWarning, match=f"nce: act={act.__name__} has no effect") as record:
        cost = L.nce(input=x, label=y, act=act())
    assert [warning.filename for warning in record] == [__file__]
    assert cost.config.active_type == "sigmoid"
