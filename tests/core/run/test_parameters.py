"""pd.save and pd.load: parameters of a network in one file."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pd_core as pd
from pd_core import nn


def network():
    """(feed, result, layer) of a layer with moving statistics."""
    net = nn.Sequential(nn.FC(4), nn.BatchNorm1d(), nn.FC(2), name="net")
    x = pd.Variable([None, 3], name="x")
    return x, net(x), net


def test_parameters_and_statistics_are_restored(tmp_path, rng):
    path = tmp_path / "m.safetensors"
    image = rng.normal(size=(5, 3)).astype("float32")
    x, y, net = network()
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(y)))
    pd.eval(step, {x: image})
    before = pd.eval(y, {x: image})
    names = pd.save(path, y)
    variables = [*net.parameters(), *net.buffers()]
    assert sorted(names) == sorted(v.name for v in variables)
    arrays = load_file(path)
    assert sorted(arrays) == sorted(names)
    for v in variables:
        np.testing.assert_array_equal(arrays[v.name], v.val())
    pd.reset(seed=5)
    x, y, _ = network()
    assert not np.allclose(pd.eval(y, {x: image}), before)
    loaded = pd.load(path, y)
    assert sorted(loaded.names) == sorted(names) and not any(loaded[1:])
    np.testing.assert_array_equal(pd.eval(y, {x: image}), before)


def test_variables_and_sessions(tmp_path):
    """Variables themselves are targets; another session has other values."""
    path = tmp_path / "v.safetensors"
    v = pd.get_variable("v", data=np.arange(3.0, dtype="float32"))
    other = pd.Session()
    other.set(v, [5, 6, 7])
    assert pd.save(path, [v], other) == ["v"]
    assert pd.load(path, v).names == ["v"]
    np.testing.assert_array_equal(v.val(), [5, 6, 7])


def test_values_at_hand_are_targets(tmp_path):
    path = tmp_path / "d.safetensors"
    v = pd.get_variable("v", data=np.ones(3, "float32"))
    with pd.guard():
        assert pd.save(path, v * 2.0) == ["v"]
        v.uniform(5, 6)
        pd.load(path, v * 2.0)
        np.testing.assert_array_equal((v * 1.0).numpy(), np.ones(3))


def test_a_misspelt_name_gets_a_hint(tmp_path):
    save_file({"fc.weight": np.ones(2, "f")}, tmp_path / "w")
    v = pd.Variable("fc.W", data=np.zeros(2))
    with pytest.raises(pd.GraphError, match=r"fc.weight is only in the file, perhaps as fc.W"):
        pd.load(tmp_path / "w", v)


@pytest.fixture
def misfit(tmp_path):
    """A file that lacks `a`, has `d` besides, and other shapes of `b` and a `c` in float16."""
    path = tmp_path / "misfit.safetensors"
    arrays = {"b": np.ones(3, "f"), "c": np.full(2, 7, np.float16), "d": np.ones(1, "f")}
    save_file(arrays, path)
    return path, [pd.get_variable(name, data=np.zeros(2, "float32")) for name in "abc"]


def test_one_error_lists_all_that_does_not_fit(misfit):
    path, variables = misfit
    with pytest.raises(pd.GraphError) as error:
        pd.load(path, variables)
    assert str(error.value).splitlines()[1:] == [
        "a is not in the file",
        "b is float32[2], in the file float32[3]",
        "d is only in the file",
    ]
    np.testing.assert_array_equal(variables[2].val(), np.zeros(2))


def test_what_fits_is_loaded_if_it_need_not_be_all(misfit):
    path, variables = misfit
    loaded = pd.load(path, variables, strict=False)
    assert loaded == (["c"], ["a"], ["d"], ["b"])
    np.testing.assert_array_equal(variables[2].val(), [7, 7])


def test_names_of_other_frameworks_are_mapped(tmp_path):
    path = tmp_path / "torch.safetensors"
    save_file({"0.weight": np.full(2, 4, "f"), "b": np.ones(2, "f")}, path)
    a, b = (pd.get_variable(name, data=np.zeros(2, "float32")) for name in "ab")
    assert pd.load(path, [a, b], mapping={"0.weight": a}).names == ["b", "0.weight"]
    np.testing.assert_array_equal(a.val(), [4, 4])
    with pytest.raises(TypeError, match=r"mapping has stored variables as values, not 'a': 'b'"):
        pd.load(path, [a, b], mapping={"a": "b"})


def test_what_has_no_parameters_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    x = pd.Variable([None], name="x")
    with pytest.raises(pd.GraphError, match=r"save: .* depend on no stored variable"):
        pd.save(path, pd.tanh(x))
    with pytest.raises(TypeError, match="load: takes Variables, not 'w'"):
        pd.load(path, "w")
    path.write_bytes(b"no tensors")
    with pytest.raises(pd.DamagedFile, match=r"m\.safetensors is no file of tensors"):
        pd.load(path, pd.get_variable("w", data=np.zeros(2, "float32")))
