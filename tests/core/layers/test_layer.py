"""Layer: names, lazily built parameters, values, modes, hooks, copies."""

import copy
import gc

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


class Policy(pd.nn.Layer):
    def __init__(self, name=None):
        super().__init__(name)
        self.hidden = pd.nn.FC(3)
        self.action = pd.nn.FC(2)
        self.seen = None

    def forward(self, x):
        x = pd.relu(pd.dropout(self.hidden(x), 0.6))
        self.seen = x
        return pd.softmax(self.action(x))


class Scale(pd.nn.Layer):
    """A parameter and a buffer, in all their forms."""

    def __init__(self, spec=None, name=None):
        super().__init__(name)
        self.spec = spec

    def forward(self, x):
        offset = self.buffer("offset", [2], "ones")
        return pd.constant(x) * self.parameter("scale", [2], self.spec) + offset


def names_of(layer):
    return [v.name for v in layer.parameters()]


# ---- names, and when parameters are there


def test_the_first_call_builds_parameters_under_paths():
    p = Policy("policy")
    assert p.parameters() == []
    p(ones(1, 4))
    assert names_of(p) == [f"policy/{k}" for k in ("hidden/W", "hidden/B", "action/W", "action/B")]
    assert [k for k, _ in p.named_parameters()] == ["hidden.W", "hidden.B", "action.W", "action.B"]
    assert p.hidden.W is p.parameters()[0]
    p(ones(5, 4))
    assert len(pd.persistent_variables()) == 4
    assert p.seen.name.startswith("policy/")
    assert pd.current_namespace() == ""


def test_automatic_names_and_given_ones():
    first, second = Policy(), Policy()
    second.hidden = pd.nn.FC(3, name="inner")
    assert second.full_name() == "policy_0"  # numbered as they are needed
    assert first.hidden.full_name() == "policy_1/hidden"
    assert second.hidden.full_name() == "policy_0/inner"
    with pd.namespace("g"):
        inside = pd.nn.FC(1), pd.nn.FC(1, name="d")
    assert [layer.full_name() for layer in inside] == ["g/fc_0", "g/d"]
    pd.Variable("fc_0/W", shape=[2])
    pd.fc(ones(1, 2), 1)
    assert pd.get_variable("fc_1.W", [2, 1]).shape == (2, 1)
    assert pd.nn.FC(1).full_name() == "fc_2"


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("BatchNorm1d", "batch_norm1d"), ("RMSNorm", "rms_norm"), ("FC", "fc"), ("A", "a")],
)
def test_automatic_names_are_in_snake_case(name, prefix):
    assert type(name, (pd.nn.Layer,), {})().full_name() == f"{prefix}_0"


def test_a_shared_layer_has_the_name_of_its_first_parent():
    a, b = pd.nn.Layer("a"), pd.nn.Layer("b")
    a.fc = b.other = pd.nn.FC(2)
    b.more = a.fc
    b.other(ones(1, 2))
    assert names_of(a) == names_of(b) == ["a/fc/W", "a/fc/B"]
    assert list(b.state_dict()) == ["other.W", "other.B"]
    assert b.sublayers() == b.children() == [a.fc]
    moved = a.rest = pd.nn.FC(1)
    del a.rest
    b.rest = moved
    assert moved.full_name() == "b/rest"


def test_names_do_not_change_once_they_are_needed():
    fc = pd.nn.FC(1)
    fc(ones(1, 2))
    net = pd.nn.Sequential(fc, name="net")
    net(ones(1, 2))
    assert names_of(net) == ["fc_0/W", "fc_0/B"]
    orphan = pd.nn.Sequential(pd.nn.FC(1), name="gone")[0]
    gc.collect()
    assert orphan.full_name() == "fc_1"  # the weak reference does not keep the parent


def test_a_name_that_is_taken():
    first = pd.nn.FC(1, name="d")
    first(ones(1, 2))
    with pytest.raises(pd.NameConflict, match="'d/W' exists already"):
        pd.nn.FC(1, name="d")(ones(1, 2))
    assert first.W.name == "d/W"
    with pytest.raises(pd.NameConflict, match="fc_0/W cannot be built: 'W' is another attribute"):
        fc = pd.nn.FC(1)
        fc.W = ones(2, 1)
        fc(ones(1, 2))
    with pytest.raises(pd.NameConflict, match="s/scale"):
        taken = pd.Variable("s/scale", shape=[2])
        Scale({"trainable": False}, taken.name.partition("/")[0])(ones(2))


def test_mistakes_in_assignments():
    class Early(pd.nn.Layer):
        def __init__(self):
            self.fc = pd.nn.FC(1)

    with pytest.raises(AttributeError, match=r"Early: call super\(\).__init__\(\) before 'fc'"):
        Early()
    with pytest.raises(TypeError, match="FC: name is text, or None, not 3"):
        pd.nn.FC(1, name=3)
    with pytest.raises(ValueError, match=r"neither dots nor slashes, not 'a\.b'"):
        setattr(pd.nn.Layer(), "a.b", pd.nn.FC(1))
    with pytest.raises(NotImplementedError, match=r"Layer does not define forward\(\)"):
        pd.nn.Layer()(1.0)


def test_attributes_by_what_is_assigned():
    net = pd.nn.Layer("net")
    net.w, net.count = pd.Variable("w", shape=[2]), pd.Variable(data=np.arange(3))
    net.frozen = pd.Variable("f", shape=[2], trainable=False)
    net.result, net.fc = net.w * 2.0, pd.nn.FC(1)
    assert net.named_parameters() == [("w", net.w), ("frozen", net.frozen)]
    assert net.named_buffers() == [("count", net.count)]
    assert net.named_sublayers() == [("fc", net.fc)]
    net.tied = net.w
    assert len(net.parameters()) == 2  # reached twice, listed once
    net.w = net.fc = net.count = None
    assert [k for k, _ in net.named_parameters()] == ["frozen", "tied"]
    assert net.buffers() == net.children() == []
    del net.tied
    assert not hasattr(net, "tied") and net.parameters() == [net.frozen]


# ---- parameters


def test_the_forms_of_a_spec():
    def value(spec):
        layer = Scale(spec)
        return pd.eval(layer(ones(2)))

    given = pd.Variable("given", data=3 * ones(2))
    assert (value("zeros") == 1.0).all()
    assert (value(pd.constant_initializer(2.0)) == 3.0).all()
    assert (value({"initializer": "ones", "trainable": False}) == 2.0).all()
    assert (value(given) == 4.0).all()
    assert (value(given * 2.0) == 7.0).all()
    assert (value("given") == 4.0).all()
    assert (value({"name": "given"}) == 4.0).all()
    with pytest.raises(TypeError, match="'scale' is a name, Variable, initializer, array or dict"):
        value(0.5)


def test_shared_names_are_those_around_the_layer():
    with pd.namespace("g"):
        a, b = Scale("shared"), Scale("shared")
        a(ones(2)), b(ones(2))
    assert names_of(a) == names_of(b) == ["g/shared"]


def test_a_layer_is_built_for_one_size():
    fc = pd.nn.FC(3, name="d")
    fc(ones(1, 4))
    with pytest.raises(pd.ShapeError, match=r"fc: parameter 'd/W' is \[4, 3\], not \[5, 3\]"):
        fc(ones(1, 5))
    with pytest.raises(pd.ShapeError, match=r"buffer 's/offset' is \[2\], not \[3\]"):
        layer = Scale(name="s")
        layer(ones(2))
        layer.buffer("offset", [3])


def test_buffers_are_values_but_no_parameters():
    layer = Scale("ones", "s")
    assert (pd.eval(layer(ones(2))) == 2.0).all()
    assert layer.named_buffers() == [("offset", layer.offset)]
    assert names_of(layer) == ["s/scale"]
    assert not layer.offset.trainable
    layer.offset = pd.Variable(data=ones(2), trainable=False)
    assert layer.buffers() == [layer.offset]
    assert {k: v.tolist() for k, v in layer.state_dict().items()} == {
        "offset": [1.0, 1.0],
        "scale": [1.0, 1.0],
    }


def test_freezing():
    p = Policy()
    p.hidden(ones(1, 4))
    assert p.freeze() is p
    p(ones(1, 4))
    assert not any(v.trainable for v in p.parameters()) and len(p.parameters()) == 4
    p.unfreeze()
    assert all(v.trainable for v in p.parameters())
    p.hidden.freeze()
    assert [v.trainable for v in p.parameters()] == [False, False, True, True]


@pytest.mark.parametrize("shape", ["attributes", "a list", "shared"])
def test_clearing_gradients_reaches_every_parameter(shape):
    p = Policy()
    if shape == "a list":
        p.more = [pd.nn.FC(2)]
    elif shape == "shared":
        p.again, p.norm = p.hidden, pd.nn.BatchNorm1d()
    outside = pd.Variable(data=[1.0])
    with pd.guard():
        for _ in range(2):
            out = p(ones(1, 4))
            for layer in (p.more[0] if shape == "a list" else None, getattr(p, "norm", None)):
                out = out if layer is None else layer(out)
            pd.reduce_sum(out * outside).backward()
            assert all(v.gradient() is not None for v in [*p.parameters(), outside])
            p.clear_gradients()
            assert all(v.gradient() is None for v in p.parameters())
            assert outside.gradient() is not None


# ---- values


def test_values_move_to_a_layer_that_is_built(rng):
    x = rng.normal(size=(2, 4)).astype(f32)
    p, q = Policy().eval(), Policy().eval()
    want, other = pd.eval([p(x), q(x)])
    assert (want != other).any()
    q.load_dict(p.state_dict())
    assert (pd.eval(q(x)) == want).all()


def test_values_wait_for_what_is_not_built(rng):
    x = rng.normal(size=(2, 4)).astype(f32)
    p, q = Policy().eval(), Policy().eval()
    want = pd.eval(p(x))
    values = p.state_dict()
    misfits = q.load_dict({**values, "missing.W": ones(1), "top": ones(1)}, strict=False)
    assert misfits == ([], [])  # nothing is built yet
    values["hidden.W"][:] = 0  # the layer has a copy
    assert len(q.unused_values()) == 6
    got = q(x)
    assert (pd.eval(got) == want).all()
    with pd.Session("reference"):  # the values are initial ones, in every session
        assert np.allclose(pd.eval(got), want, atol=1e-6)
    assert sorted(q.unused_values()) == ["missing.W", "top"]
    q.missing = pd.nn.FC(1, bias=False)
    with pytest.raises(pd.ShapeError, match=r"policy_1/missing/W: a value of \[1\] is loaded"):
        q.missing(x)
    q.top = pd.Variable(data=[2.0])
    assert q.top.val() == 1.0
    assert list(q.unused_values()) == ["missing.W"]


@pytest.mark.parametrize("spec", ["given", {"name": "given"}, {"data": ones(2)}, "zeros"])
def test_loaded_values_go_before_initial_ones(spec):
    pd.Variable("given", data=ones(2))
    layer = Scale(spec)
    layer.load_dict({"scale": [5.0, 6.0], "offset": [0, 0]})
    assert pd.eval(layer(ones(2))).tolist() == [5.0, 6.0]
    assert layer.unused_values() == {}


def test_values_of_another_shape_change_nothing():
    p = Policy("p")
    p(ones(1, 4))
    before = p.state_dict()
    with pytest.raises(pd.ShapeError, match=r"p/hidden/W: a value of \[4, 5\] is loaded, it is"):
        p.load_dict({"hidden.B": ones(3) * 9, "hidden.W": ones(4, 5), "action.B": ones(2) * 9})
    after = p.state_dict()
    assert all((before[k] == after[k]).all() for k in before)


# ---- modes


def test_the_mode_is_that_of_each_layer():
    x = pd.Variable([None, 4])
    a, b = Policy(), Policy()
    assert a.eval() is a and not a.hidden.training and b.training
    ya, yb = a(x), b(x)
    operators = {n.op_type for n in pd.subgraph(ya, feeds=[x], training=True)}
    assert "Uniform" not in operators
    assert {n.op_type for n in pd.subgraph(yb, feeds=[x])} == operators
    feeds = {x: ones(3, 4)}
    first, second = (pd.eval([ya, yb], feeds, training=True) for _ in range(2))
    assert (first[0] == second[0]).all() and (first[1] != second[1]).any()
    a.train()
    assert a.hidden.training
    a.hidden.training = False
    assert a.training and not a.hidden.training


# ---- the layers below


def test_walking_the_tree():
    block = pd.nn.Sequential(pd.nn.FC(1), pd.nn.Sequential(pd.nn.FC(2)))
    net = pd.nn.Layer("net")
    net.block, net.head = block, pd.nn.FC(3)
    names = ["block", "block.0", "block.1", "block.1.0", "head"]
    assert [name for name, _ in net.named_sublayers()] == names
    assert net.sublayers() == [block, block[0], block[1], block[1][0], net.head]
    assert net.children() == [block, net.head]
    visited = []
    net.again = block[0]
    assert net.apply(visited.append) is net
    assert visited == [block[0], block[1][0], block[1], block, net.head, net]


def test_printing_shows_the_tree():
    net = pd.nn.Sequential(pd.nn.FC(1), pd.nn.Sequential(pd.nn.FC(2)), pd.nn.Layer())
    lines = ["Sequential(", "  (0): FC(1)", "  (1): Sequential(", "    (0): FC(2)", "  )"]
    assert repr(net).splitlines() == [*lines, "  (2): Layer()", ")"]


# ---- hooks and shapes


def test_hooks_see_and_replace():
    fc, calls = pd.nn.FC(2, kernel_init="ones"), []
    fc.register_forward_pre_hook(lambda layer, inputs: calls.append((layer, len(inputs))))
    pre = fc.register_forward_pre_hook(lambda layer, inputs: inputs[0] * 2.0)
    fc.register_forward_hook(lambda layer, inputs, y: calls.append((layer, y.shape)))
    post = fc.register_forward_hook(lambda layer, inputs, y: y + 1.0)
    x = ones(1, 3)
    assert (pd.eval(fc(x)) == 7.0).all()
    assert calls == [(fc, 1), (fc, (1, 2))]
    pre.remove(), pre.remove()
    assert (pd.eval(fc(x)) == 4.0).all()
    post.remove()
    assert (pd.eval(fc(x)) == 3.0).all()


def test_a_hook_that_removes_itself():
    fc, seen = pd.nn.FC(1), []

    def once(layer, inputs, output):
        seen.append(output)
        handle.remove()

    handle = fc.register_forward_hook(once)
    fc(ones(1, 2)), fc(ones(1, 2))
    assert len(seen) == 1


def test_shapes_are_inferred_and_nothing_runs():
    p = Policy()
    assert p.infer_shape((None, 4)) == (None, 2)
    assert len(p.parameters()) == 4
    assert pd.stats()["operators"] == pd.stats()["stored"] == 0

    class Both(pd.nn.Layer):
        def forward(self, x, ids):
            return {"x": [x, (pd.cast(ids, "float32"),)], "n": 3}

    both = Both().infer_shape((2, None), pd.Variable([None, 7], dtype="int64"))
    assert both == {"x": [(2, None), ((None, 7),)], "n": 3}
    with pytest.raises(pd.ShapeError, match="a size is a non-negative int or None, not -1"):
        p.infer_shape((-1, 4))


# ---- copies


def test_a_deep_copy_has_variables_of_its_own():
    p = Policy("p").eval()
    p.shared = p.hidden
    p.register_forward_hook(lambda layer, inputs, y: y * 2.0)
    x = pd.Variable([None, 4])
    y = p(x)
    q = copy.deepcopy(p)
    feeds = {x: ones(2, 4)}
    assert (pd.eval(y, feeds) == pd.eval(q(x), feeds)).all()
    assert names_of(q) == ["policy_0/" + v.name.removeprefix("p/") for v in p.parameters()]
    assert q.shared is q.hidden and not q.training and not q.hidden.training
    pd.eval(pd.assign(q.hidden.W, ones(4, 3)))
    assert (p.hidden.W.val() != 1.0).any()


def test_a_copy_that_is_not_built_takes_its_place():
    first = pd.nn.Sequential(pd.nn.FC(2), pd.nn.FC(2, name="last"), name="block")
    layers = pd.nn.LayerList([copy.deepcopy(first) for _ in range(2)], name="blocks")
    for layer in layers:
        layer(ones(1, 2))
    names = [f"blocks/{k}/{name}" for k in (0, 1) for name in ("0/W", "0/B", "last/W", "last/B")]
    assert names_of(layers) == names


def test_a_copy_keeps_the_attributes_of_variables():
    layer = pd.nn.Layer()
    layer.w = pd.Variable("w", shape=[2], learning_rate=0.5, regularizer=pd.L2(0.1))
    layer.frozen = pd.Variable("f", shape=[2], trainable=False)
    layer.count = pd.Variable(data=np.arange(3))
    layer.result = layer.w * 2.0
    twin = copy.deepcopy(layer)
    assert twin.w is not layer.w and (twin.w.val() == layer.w.val()).all()
    assert (twin.w.learning_rate, twin.w.regularizer) == (0.5, layer.w.regularizer)
    assert not twin.frozen.trainable and twin.w.trainable
    assert twin.buffers() == [twin.count] and twin.count.val().tolist() == [0, 1, 2]
    assert twin.result is layer.result
