"""Fused loops of one group, small branches, products of few rows, and places of the largest."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import pd_core as pd
from pd_core.backend.fused.build import available
from pd_core.backend.fused.groups import DOMAIN
from tests.core.backend.fused.alone import fused, kinds_of, model_of, opened, run

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

N = helper.make_node
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def _left(model):
    return [node.op_type for node in model.graph.node if node.domain != DOMAIN]


# ---- products of few rows ----

# (sizes of a, sizes of b, whether b is transposed, alpha)
PRODUCTS = [
    ([1, 128], [128, 512], 0, 1.0),
    ([1, 512], [512, 65], 0, 0.5),
    ([3, 130], [130, 515], 0, 1.0),
    ([8, 77], [77, 1100], 0, -2.0),
    ([1, 600], [600, 700], 0, 1.0),  # its columns are divided between threads
    ([2, 600], [600, 700], 0, 1.0),
    ([1, 300], [700, 300], 1, 0.25),
    ([1, 1, 300], [700, 300], 1, 1.0),
    ([2, 1, 4, 200], [200, 300], 0, 1.0),
    ([4, 1, 200], [1, 200, 300], 0, 1.0),
    ([1, 20], [9, 20], 1, 1.0),
    ([2, 4, 1, 20], [2, 4, 9, 20], 1, 0.5),
    ([2, 4, 1, 9], [2, 4, 9, 21], 0, 1.0),
]


@pytest.fixture(scope="module")
def products():
    """(fused model, library, values of inputs) with a product of each row."""
    nodes, inputs, outputs, feeds = [], {}, [], {}
    rng = np.random.default_rng(0)
    for k, (a, b, turned, alpha) in enumerate(PRODUCTS):
        own = {"transB": turned, "alpha": alpha}
        plain = not turned and alpha == 1
        op = ("MatMul", {}) if plain else ("FusedMatMul", {"domain": "com.microsoft", **own})
        nodes += [
            N(op[0], [f"a{k}", f"b{k}"], [f"p{k}"], **op[1]),
            N("Tanh", [f"p{k}"], [f"t{k}"]),
        ]
        for name, dims in ((f"a{k}", a), (f"b{k}", b)):
            inputs[name] = FLOAT, dims
            feeds[name] = rng.normal(0, 1, dims).astype(np.float32)
        outputs += [f"p{k}", f"t{k}"]
    model = model_of(nodes, inputs, outputs)
    kinds = kinds_of(model)
    for k, (a, b, turned, _) in enumerate(PRODUCTS):
        last = b[-2] if turned else b[-1]
        kinds[f"p{k}"] = kinds[f"t{k}"] = FLOAT, (*a[:-1], last)
    return *fused(model, kinds), feeds


def test_products_of_few_rows_are_in_groups(products):
    assert _left(products[0]) == []


def test_products_of_few_rows(products):
    model, library, feeds = products
    found = run(model, feeds, library)
    for k, (*_, turned, alpha) in enumerate(PRODUCTS):
        a, b = (feeds[f"{name}{k}"].astype(np.float64) for name in "ab")
        expected = alpha * (a @ (np.swapaxes(b, -1, -2) if turned else b))
        scale = 1e-6 * np.sqrt(a.shape[-1])
        np.testing.assert_allclose(found[f"p{k}"], expected, rtol=1e-5, atol=scale, err_msg=k)
        np.testing.assert_allclose(found[f"t{k}"], np.tanh(expected), atol=scale, err_msg=k)


def test_products_of_few_rows_have_the_same_bits_with_one_thread(products):
    model, library, feeds = products
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    alone = session.run(None, feeds)
    for value, other in zip(alone, run(model, feeds, library).values(), strict=True):
        np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize(
    ("a", "b"),
    [([9, 128], [128, 512]), (["n", 128], [128, 512]), ([1, 128], [2, 128, 512])],
    ids=["9 rows", "n rows", "several matrices"],
)
def test_larger_products_are_the_runtimes(a, b):
    nodes = [N("MatMul", ["a", "b"], ["p"]), N("Tanh", ["p"], ["t"]), N("Neg", ["t"], ["y"])]
    model = model_of(nodes, {"a": (FLOAT, a), "b": (FLOAT, b)}, ["y"])
    assert _left(fused(model, kinds_of(model))[0]) == ["MatMul"]


# ---- the place of the largest element ----

PLACES = [
    (op, axis, keep, last)
    for op in ("ArgMax", "ArgMin")
    for axis, keep, last in ((0, 0, 0), (1, 1, 0), (-1, 0, 1), (2, 1, 0))
]


def test_place_of_the_largest():
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (3, 4, 5)).astype(np.float32)  # with many equal ones
    x[0, 0, 0], x[1, 2, 3] = np.inf, -np.inf
    nodes, names = [N("Mul", ["x", "one"], ["y"])], []
    for k, (op, axis, keep, last) in enumerate(PLACES):
        given = {"axis": axis, "keepdims": keep, "select_last_index": last}
        nodes.append(N(op, ["y"], [f"p{k}"], **given))
        names.append(f"p{k}")
    model = model_of(nodes, {"x": (FLOAT, [3, 4, 5])}, names, {"one": np.float32(1)})
    changed, library = fused(model, kinds_of(model))
    assert _left(changed) == []
    expected, found = run(model, {"x": x}), run(changed, {"x": x}, library)
    for name in names:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name, strict=True)
    x[:, 1, 2] = np.nan
    found = run(changed, {"x": x}, library)
    for name, (op, axis, keep, last) in zip(names, PLACES, strict=True):
        if not last:
            best = np.argmax if op == "ArgMax" else np.argmin  # where a NaN is both
            np.testing.assert_array_equal(found[name], best(x, axis, keepdims=bool(keep)))


# ---- branches ----


def _branch(nodes, name, dims):
    value = helper.make_tensor_value_info(name, FLOAT, dims)
    return helper.make_graph(nodes, name, [], [value])


@pytest.mark.parametrize("size", [8, 5000])
def test_small_branches_are_in_the_group_around(size):
    dims = [size]
    then = _branch([N("Exp", ["a"], ["e"]), N("Add", ["e", "x"], ["yes"])], "yes", dims)
    other = _branch([N("Neg", ["a"], ["no"])], "no", dims)
    nodes = [
        N("Tanh", ["x"], ["a"]),
        N("If", ["is"], ["b"], then_branch=then, else_branch=other),
        N("Mul", ["b", "a"], ["y"]),
    ]
    model = model_of(nodes, {"x": (FLOAT, dims), "is": (BOOL, [])}, ["y"])
    kinds = kinds_of(model) | dict.fromkeys(("e", "yes", "no", "b"), (FLOAT, tuple(dims)))
    changed, library = fused(model, kinds)
    assert ("If" in _left(changed)) == (size > 1000)
    x = np.linspace(-2, 2, size, dtype=np.float32)
    for choice in (True, False):
        feeds = {"x": x, "is": np.array(choice)}
        expected, found = run(model, feeds)["y"], run(changed, feeds, library)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_a_branch_of_unknown_sizes_stays():
    """A maximum of no elements is the runtime's error, which such an If may be there to avoid."""
    then = _branch([N("ReduceMax", ["x"], ["yes"], keepdims=0)], "yes", [])
    other = _branch([N("Neg", ["zero"], ["no"])], "no", [])
    nodes = [N("If", ["is"], ["y"], then_branch=then, else_branch=other)]
    inputs = {"x": (FLOAT, ["n"]), "is": (BOOL, [])}
    model = model_of(nodes, inputs, ["y"], {"zero": np.float32(0)})
    kinds = kinds_of(model) | dict.fromkeys(("yes", "no", "y"), (FLOAT, ()))
    assert _left(fused(model, kinds)[0]) == ["If"]


def test_a_branch_that_may_fail_stays():
    then = _branch([N("Gather", ["x", "k"], ["yes"])], "yes", [])
    other = _branch([N("Gather", ["x", "zero"], ["no"])], "no", [])
    nodes = [N("If", ["is"], ["y"], then_branch=then, else_branch=other)]
    inputs = {"x": (FLOAT, [4]), "k": (INT64, []), "is": (BOOL, [])}
    model = model_of(nodes, inputs, ["y"], {"zero": np.array(0)})
    kinds = kinds_of(model) | dict.fromkeys(("yes", "no", "y"), (FLOAT, ()))
    copy, library = fused(model, kinds)
    assert _left(copy) == ["If"]
    feeds = {"x": np.arange(4, dtype=np.float32), "k": np.array(99), "is": np.array(False)}
    assert run(copy, feeds, library)["y"] == 0


# ---- loops ----


def _info(name, dims, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def _loop(more=(), state="next", **directions):
    """A model of a Scan: two states, two sequences, and three results of all steps."""
    nodes = [
        N("Mul", ["h", "w"], ["hw"]),
        N("Add", ["hw", "x"], ["sum"]),
        N("Tanh", ["sum"], ["next"]),
        N("Exp", ["next"], ["p"]),
        N("ReduceMax", ["p", "last"], ["top"], keepdims=0),
        N("Gather", ["table", "k"], ["row"]),
        N("Add", ["c", "row"], ["count"]),
        N("Reshape", ["count", "flat"], ["wide"]),
        N("Identity", ["next"], ["out"]),
        *more,
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [_info("h", ["n", 6]), _info("c", [4]), _info("x", ["n", 6]), _info("k", [], INT64)],
        [
            _info(state, ["n", 6]),
            _info("count", [4]),
            _info("out", ["n", 6]),
            _info("top", ["n"]),
            _info("wide", [2, 2]),
        ],
    )
    scan = N(
        "Scan",
        ["h0", "c0", "xs", "ks"],
        ["h1", "c1", "hs", "tops", "wides"],
        name="loop",
        body=body,
        num_scan_inputs=2,
        **directions,
    )
    inputs = {
        "h0": (FLOAT, ["n", 6]),
        "c0": (FLOAT, [4]),
        "xs": (FLOAT, ["t", "n", 6]),
        "ks": (INT64, ["t"]),
        "w": (FLOAT, [6]),
        "table": (FLOAT, [5, 4]),
    }
    constants = {"last": np.array([1]), "flat": np.array([2, 2])}
    model = model_of([scan], inputs, list(scan.output), constants)
    kinds = kinds_of(model)
    kinds |= dict.fromkeys(
        ("hw", "sum", "next", "h", "x", "z", "other", "p", "out"), (FLOAT, ("n", 6))
    )
    kinds |= {"top": (FLOAT, ("n",)), "row": (FLOAT, (4,))}
    kinds |= {"c": (FLOAT, (4,)), "count": (FLOAT, (4,)), "wide": (FLOAT, (2, 2))}
    kinds |= {"k": (INT64, ())}
    kinds |= {"hs": (FLOAT, ("t", "n", 6)), "tops": (FLOAT, ("t", "n"))}
    kinds |= {"wides": (FLOAT, ("t", 2, 2)), "h1": (FLOAT, ("n", 6)), "c1": (FLOAT, (4,))}
    return model, kinds


def _feeds(steps, rows, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {"h0": (rows, 6), "c0": (4,), "xs": (steps, rows, 6), "w": (6,)}
    sizes |= {"table": (5, 4)}
    feeds = {name: rng.normal(0, 1, dims).astype(np.float32) for name, dims in sizes.items()}
    return feeds | {"ks": rng.integers(-5, 5, steps)}


WAYS = [
    {},
    {"scan_input_directions": [1, 1]},
    {"scan_input_directions": [0, 1], "scan_output_directions": [1, 0, 1]},
]


@pytest.fixture(scope="module", params=WAYS, ids=["forward", "backward", "both"])
def loop(request):
    """(unfused model, fused one, library)."""
    model, kinds = _loop(**request.param)
    return model, *fused(model, kinds)


def test_a_loop_of_one_group_is_one_operator(loop):
    (node,) = loop[1].graph.node
    assert node.domain == DOMAIN and "loop" in node.name


@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (2, 3), (7, 2), (8, 70)])
def test_loops(steps, rows, loop):
    model, changed, library = loop
    feeds = _feeds(steps, rows)
    expected, found = run(model, feeds), run(changed, feeds, library)
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=1e-5, atol=1e-6, err_msg=name, strict=True
        )


def test_a_loop_without_steps_keeps_its_states(loop):
    _, changed, library = loop
    feeds = _feeds(0, 3)
    found = run(changed, feeds, library)
    np.testing.assert_array_equal(found["h1"], feeds["h0"])
    np.testing.assert_array_equal(found["c1"], feeds["c0"])
    assert found["hs"].shape == (0, 3, 6) and found["wides"].shape == (0, 2, 2)


def test_a_loop_repeats_to_the_bit_and_leaves_what_it_is_given(loop):
    _, changed, library = loop
    session = opened(changed, library)
    feeds = _feeds(6, 3)
    kept = {name: value.copy() for name, value in feeds.items()}
    first, second = (session.run(None, feeds) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    for name, value in kept.items():
        np.testing.assert_array_equal(feeds[name], value)


@pytest.mark.parametrize("step", [0, 3])
def test_an_index_out_of_range_in_a_step_is_an_error(step, loop):
    feeds = _feeds(4, 2)
    feeds["ks"][step] = 5
    with pytest.raises(Exception, match="out of data bounds, idx="):
        run(loop[1], feeds, loop[2])


@pytest.mark.parametrize(("name", "dims"), [("ks", (3,)), ("xs", (4, 3, 6)), ("h0", (3, 6))])
def test_other_sizes_in_a_loop_are_an_error(name, dims, loop):
    session = opened(loop[1], loop[2])
    feeds = _feeds(4, 2)
    feeds[name] = np.zeros(dims, feeds[name].dtype)
    with pytest.raises(Exception, match="sizes that it was compiled for"):
        session.run(None, feeds)


def test_a_loop_with_other_operators_stays():
    """Sin fits in no group; a state that the body hands on is made by none."""
    model, kinds = _loop([N("Sin", ["next"], ["z"]), N("Add", ["z", "hw"], ["other"])], "other")
    changed, library = fused(model, kinds)
    assert _left(changed) == ["Scan"]
    feeds = _feeds(3, 2)
    expected, found = run(model, feeds), run(changed, feeds, library)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


# ---- generation with a cache ----


def _generation(steps=5, width=8, letters=11):
    """(scores and letters of all steps, {name: variable}) of attention with a cache."""
    rng = np.random.default_rng(1)
    w = {
        name: pd.Variable(rng.normal(0, 1, dims).astype(np.float32), name=f"generation/{name}")
        for name, dims in {
            "table": (letters, width),
            "q": (width, width),
            "k": (width, width),
            "v": (width, width),
            "out": (width, letters),
        }.items()
    }
    first, past = pd.Variable([1], dtype="int64"), pd.arange(steps)

    def step(state, position):
        ids, keys, values = state
        x = pd.gather(w["table"], ids)
        q, k, v = (pd.matmul(x, w[name]) for name in "qkv")
        at = pd.reshape(pd.equal(past, position), [steps, 1])
        keys, values = pd.where(at, k, keys), pd.where(at, v, values)
        y = pd.attention(
            *(pd.reshape(z, [1, 2, -1, width // 2]) for z in (q, keys, values)),
            mask=past <= position,
        )
        logits = pd.reshape(pd.matmul(pd.reshape(y, [1, width]) + x, w["out"]), [letters])
        chosen = pd.reshape(pd.arg_max(logits, 0), [1])
        return [chosen, keys, values], [logits, chosen]

    caches = [pd.zeros([steps, width]) for _ in range(2)]
    _, results = pd.scan(step, [first, *caches], past)
    return first, results, w


def _by_torch(w, first, steps=5):
    torch = pytest.importorskip("torch")
    w = {name: torch.from_numpy(value.val()) for name, value in w.items()}
    ids, keys, values = torch.from_numpy(first), [], []
    scores, chosen = [], []
    for _ in range(steps):
        x = w["table"][ids]
        q, k, v = (x @ w[name] for name in "qkv")
        keys, values = [*keys, k], [*values, v]
        # heads divide the cache as it lies in memory, zeros of the places to come among them
        rest = torch.zeros(steps - len(keys), x.shape[1])
        q, k, v = (
            z.reshape(1, 2, -1, x.shape[1] // 2)
            for z in (q, torch.cat([*keys, rest]), torch.cat([*values, rest]))
        )
        mask = (torch.arange(steps) < len(keys))[None]
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
        logits = ((y.reshape(1, -1) + x) @ w["out"])[0]
        ids = logits.argmax()[None]
        scores.append(logits)
        chosen.append(ids)
    return torch.stack(scores).numpy(), torch.stack(chosen).numpy()


def test_generation_with_a_cache():
    first, results, w = _generation()
    feeds = {first: np.array([3])}
    plain = pd.eval(results, feeds)
    with pd.fused():
        scores, chosen = pd.eval(results, feeds)
    np.testing.assert_allclose(scores, plain[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(chosen, plain[1])
    expected = _by_torch(w, feeds[first])
    np.testing.assert_allclose(scores, expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(chosen, expected[1])
