"""Graphs as ONNX models: files that onnx's own checker and evaluator take."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import pd_core as pd
from pd_core.backend.lowering import lower
from pd_core.backend.program import build
from pd_core.graph.node import apply
from pd_core.graph.rewrite import substitute

f32 = np.float32


def written(targets, feeds, updates=(), **options):
    graph = build(targets, updates, feeds, False, {})
    return lower(graph, **options)


def values(lowered, arrays):
    """The outputs of a model, by onnx's evaluator without any operator of ours."""
    model = onnx.load_from_string(lowered.model.SerializeToString())
    onnx.checker.check_model(model, full_check=True)
    inputs = [v.name for v in model.graph.input]
    assert [v.name for v in model.graph.output] == lowered.outputs
    assert len({*inputs, *lowered.outputs}) == len(inputs) + len(lowered.outputs)
    return ReferenceEvaluator(model).run(None, dict(zip(inputs, arrays, strict=True)))


def names(graph):
    """All names that a graph and its bodies give, in order."""
    given = [t.name for t in graph.initializer] + [v.name for v in graph.input]
    for node in graph.node:
        given += [name for name in node.output if name]
        for attribute in node.attribute:
            given += names(attribute.g) if attribute.HasField("g") else []
    return given


def test_results_that_are_inputs_constants_or_one_another():
    """Each has an output of its own: runtimes refuse two of one name, or one of an input's."""
    x, w = pd.Variable("x", shape=[2]), pd.Variable("w", data=np.full(2, 3, f32))
    y = x * w
    lowered = written([y, x, y, w, pd.constant(f32([7, 8])), x], [x])
    found = values(lowered, [f32([1, 2]), f32([3, 3])])
    expected = [[3, 6], [1, 2], [3, 6], [3, 3], [7, 8], [1, 2]]
    assert [a.tolist() for a in found] == expected


def test_names_that_meet():
    """A name in use is numbered, be it of an input, an operator or an output."""
    first, second = (pd.Variable.of((2,), np.dtype(f32), "x") for _ in range(2))
    named = pd.Variable.of((2,), np.dtype(f32), "Add_out")
    y = first + second
    z = y * named + y
    lowered = written([y, z], [first, second, named], outputs=["x", "Add"])
    found = values(lowered, [f32([1, 2]), f32([10, 20]), f32([2, 0.5])])
    assert [a.tolist() for a in found] == [[11, 22], [33, 33]]
    given = names(lowered.model.graph)
    assert len(given) == len(set(given))
    assert len({node.name for node in lowered.model.graph.node}) == len(lowered.model.graph.node)


def test_a_body_of_two_nodes_has_names_of_its_own():
    """Loops in loops, one of them built twice, that read values from outside."""
    xs, w = pd.Variable("xs", shape=[3, 2]), pd.Variable("w", shape=[2])

    def outer(s, x):
        inner, _ = pd.scan(lambda t, v: (t * 0.5 + v * w, None), s, xs)
        return inner + x, inner

    last, all_inner = pd.scan(outer, pd.constant(np.zeros(2, f32)), xs)
    again, _ = pd.scan(outer, last, xs)
    a, b = np.arange(6, dtype=f32).reshape(3, 2), f32([1, -1])

    def by_numpy(s):
        inner = []
        for x in a:
            t = s
            for v in a:
                t = t * 0.5 + v * b
            inner.append(t)
            s = t + x
        return s, inner

    want, want_inner = by_numpy(np.zeros(2, f32))
    lowered = written([last, all_inner, again], [xs, w])
    found = values(lowered, [a, b])
    for one, other in zip(found, [want, want_inner, by_numpy(want)[0]], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    given = names(lowered.model.graph)
    assert len(given) == len(set(given))


def test_a_loop_with_another_value_from_outside():
    """The second loop has the body of the first."""
    xs, w = pd.Variable("xs", shape=[3]), pd.Variable("w", shape=[])
    last, _ = pd.scan(lambda s, x: (s * w + x, None), pd.constant(f32(0)), xs)
    (other,) = substitute([last], {w: w * 2.0})
    found = values(written([last, other], [xs, w]), [f32([1, 2, 3]), f32(0.5)])
    assert [float(a) for a in found] == [1 * 0.25 + 2 * 0.5 + 3, 1 + 2 + 3]


def test_stored_values_become_initializers():
    x = pd.Variable("x", shape=[None, 2])
    w, b = pd.Variable("w", data=np.ones((2, 2), f32)), pd.Variable("b", data=np.ones(2, f32))
    held = np.array([[1, 2], [3, 4]], f32)
    lowered = written([x @ w + b], [x], initializers={w: held})
    assert {t.name for t in lowered.model.graph.initializer} == {"w"}
    assert [v.name for v in lowered.model.graph.input] == ["x", "b"]
    a = np.ones((3, 2), f32)
    (found,) = values(lowered, [a, f32([5, 6])])
    assert found.tolist() == (a @ held + [5, 6]).tolist()


def test_sizes_have_the_names_that_are_asked_for():
    x = pd.Variable("x", shape=["rows", None])
    lowered = written([x + x], [x], dims={"rows": "N"})
    (typed,) = lowered.model.graph.input
    first, second = (d.dim_param for d in typed.type.tensor_type.shape.dim)
    assert first == "N" and second and second != "N"
    assert lowered.model.graph.output[0].type == typed.type


def test_a_program_is_the_same_file_each_time():
    def built():
        x = pd.Variable("x", shape=[None, 4])
        h = pd.tanh(pd.fc(x, 3))
        with pd.namespace("head"):
            y = pd.fc(h, 2) + pd.constant(f32([1, 2]))
        return written([y, h], [x]).model.SerializeToString(deterministic=True)

    one = built()
    pd.reset(seed=0)
    assert one == built()


def test_equal_constants_are_stored_once():
    """By their bits: -0.0 is another number than 0.0, and NaN is like itself."""
    x, numbers = pd.Variable("x", shape=[3]), (0.0, -0.0, np.nan, np.inf)
    arrays = [np.full(3, n, f32) for n in numbers]
    lowered = written([pd.atan(x / pd.constant(a)) for a in arrays for _ in range(2)], [x])
    assert len(lowered.model.graph.initializer) == len(numbers)
    a = f32([1, -2, 3])
    with np.errstate(divide="ignore"):
        found = values(lowered, [a])
        expected = [np.arctan(a / other) for other in arrays for _ in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_inputs_that_are_left_out():
    """The last ones are not written, those between stay empty."""
    x = pd.Variable("x", shape=[4])
    low = apply("Clip", x, None, np.array(1, f32))
    both = apply("Clip", x, None, None)
    lowered = written([low, both], [x])
    assert sorted(list(node.input) for node in lowered.model.graph.node)[0] == ["x"]
    a = f32([-5, 0, 2, 9])
    found = values(lowered, [a])
    assert found[0].tolist() == [-5, 0, 1, 1] and found[1].tolist() == a.tolist()


def test_the_opset_is_that_of_the_newest_operator():
    x = pd.Variable("x", shape=[4])
    usual = written([x + x], [x]).model
    asked = written([x + x], [x], opset=25).model
    assert [i.version for i in usual.opset_import] < [i.version for i in asked.opset_import] == [25]
    assert usual.ir_version <= asked.ir_version
    assert asked.ir_version == onnx.helper.find_min_ir_version_for(list(asked.opset_import))


def test_each_operator_has_the_line_that_built_it():
    x = pd.Variable("x", shape=[4])
    y = pd.exp(x)
    z = pd.tanh(y) + pd.reduce_sum(pd.exp(y))
    lowered = written([z], [x])
    kinds = {node.name: node.op_type for node in lowered.model.graph.node}
    assert list(lowered.sites) == list(kinds)
    lines = {}
    for name, (path, line) in lowered.sites.items():
        assert path == __file__
        lines.setdefault(kinds[name], []).append(line)
    (first, other), (tanh,) = sorted(lines["Exp"]), lines["Tanh"]
    assert (first + 1, first + 1) == (other, tanh)
