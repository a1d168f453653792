"""Module: compile, calls in both modes, and what is recorded again."""

import copy

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


class Classifier(pd.nn.Module):
    """Dropout only where it is asked for, so that steps can be compared."""

    def __init__(self, rate=0.0, name=None):
        super().__init__(name)
        self.hidden, self.out = pd.nn.FC(8, act="tanh"), pd.nn.FC(3)
        self.rate = rate
        self.loss = pd.nn.SoftmaxCrossEntropy()
        self.optimizer = pd.SGDOptimizer(0.5)

    def forward(self, x):
        return self.out(pd.dropout(self.hidden(x), self.rate))

    def train_one_batch(self, x, labels):
        scores = self(x)
        loss = self.loss(scores, labels)
        self.optimizer.backward_and_update(loss)
        return scores, loss


def batch(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 4)).astype(f32), rng.integers(0, 3, n)


@pytest.mark.parametrize("use_graph", [True, False])
def test_training_is_the_same_as_in_pytorch(use_graph):
    torch = pytest.importorskip("torch")
    m = Classifier()
    m.compile([(None, 4)], use_graph=use_graph)
    hidden, out = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)
    twins = [hidden.weight, hidden.bias, out.weight, out.bias]
    for v, w in zip(m.get_params().values(), twins, strict=True):
        w.data = torch.tensor(v.numpy().T)
    optimizer = torch.optim.SGD(twins, lr=0.5)
    for seed, n in enumerate((6, 6, 5)):
        x, labels = batch(n, seed)
        scores, loss = m(x, labels)
        twin = out(torch.tanh(hidden(torch.tensor(x))))
        wanted = torch.nn.functional.cross_entropy(twin, torch.tensor(labels))
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
        np.testing.assert_allclose(scores.numpy(), twin.detach(), rtol=1e-4, atol=1e-5)
        assert np.isclose(float(loss), wanted.item(), rtol=1e-5)
    for v, w in zip(m.get_params().values(), twins, strict=True):
        np.testing.assert_allclose(v.numpy().T, w.detach(), rtol=1e-4, atol=1e-5)


def test_a_step_is_one_program_for_any_batch(no_programs):
    m = Classifier(rate=0.5)
    m.compile([(None, 4)])
    assert pd.stats()["evaluations"] == pd.stats()["compiled"] == 0
    for n in (6, 6, 5, 9):
        m(*batch(n))
    assert (pd.stats()["compiled"], pd.stats()["evaluations"]) == (1, 4)
    m.eval()
    for n in (6, 3):
        m(batch(n)[0])
    assert (pd.stats()["compiled"], pd.stats()["evaluations"]) == (2, 6)


def test_results_have_values_that_stay():
    m = Classifier(rate=0.5)
    results = [m(*batch(4)) for _ in range(3)]
    losses = [float(loss) for _, loss in results]
    assert len(set(losses)) == 3 == len({scores.numpy().tobytes() for scores, _ in results})
    m.eval()
    y, x = m(batch(4)[0]), batch(4)[0]
    before = y.numpy()
    m.get_params()["out.B"].uniform(5, 6)
    evaluations = pd.stats()["evaluations"]
    assert (y.numpy() == before).all() and y.stop_gradient
    assert pd.stats()["evaluations"] == evaluations  # computed in the call
    assert (m(x).numpy() > before).all()


def test_inside_a_guard_gradients_are_at_hand():
    m = Classifier()
    m.compile([(None, 4)], is_train=False)
    x = pd.Placeholder((None, 4))
    x.copy_from(batch(2)[0])
    x.stop_gradient = False
    with pd.guard():
        pd.reduce_sum(m(x)).backward()
        assert x.gradient().shape == (2, 4) and m.hidden.W.gradient().any()
        with pd.no_grad():
            assert m(x).stop_gradient
    m.compile([(None, 4)], is_train=False, use_graph=False)
    with pd.guard(), pd.no_grad():
        assert m(x).stop_gradient


def test_without_a_graph_an_error_is_raised_at_its_line():
    lines = []

    class Wrong(pd.nn.Module):
        def forward(self, x):
            lines.append("before")
            y = pd.gather(x, np.array([7]))
            lines.append("after")
            return y

    for use_graph in (True, False):
        m = Wrong()
        m.compile([(None, 4)], use_graph=use_graph)
        lines.clear()
        with pytest.raises(pd.BackendError, match=r"Gather.*test_module\.py"):
            m(np.ones((2, 4)))
        assert lines == (["before", "after"] if use_graph else ["before"])


def test_branches_and_ranks_are_recorded_again():
    class Branches(pd.nn.Module):
        deep = False

        def forward(self, x):
            x = x * 2.0 if x.rank == 2 else x * 3.0
            if float(pd.reduce_sum(x)) > 100:
                return x - 100.0
            return pd.square(x) if self.deep else x

    m = Branches()
    ones = np.ones((1, 4))
    assert m(ones).numpy().tolist() == [[2] * 4]
    assert m(ones[0]).numpy().tolist() == [3] * 4
    m.deep = True
    assert m(ones).numpy().tolist() == [[4] * 4]
    assert m(ones * 20).numpy().tolist() == [[-60] * 4]


# ---- what compile does


def test_parameters_need_compile_or_a_call():
    m = Classifier()
    for ask in (m.get_params, m.get_states, m.summary, lambda: m.save("x"), lambda: m.load("x")):
        with pytest.raises(pd.NotInitialized, match="Classifier"):
            ask()
    with pytest.raises(pd.ShapeError):
        m.compile([(2, 3, None)])  # no size for W
    with pytest.raises(pd.NotInitialized):
        m.get_params()
    m.compile([pd.Placeholder((None, 4))], is_train=False)
    assert list(m.get_params()) == ["hidden.W", "hidden.B", "out.W", "out.B"]
    assert not m.training and not m.hidden.training
    m.compile([(None, 4)])  # again: the parameters stay
    assert m.training and len(m.get_params()) == 4
    with pytest.raises(pd.ShapeError):
        m.compile([(None, 5)])


def test_the_first_call_compiles():
    for start in (
        lambda m: m(*batch(2)),
        lambda m: m.eval()(batch(2)[0]),
        lambda m: m(pd.Variable([None, 4])),
        lambda m: m.infer_shape((None, 4)),
    ):
        m = Classifier()
        start(m)
        assert len(m.get_params()) == 4 and "(?, 3)" in m.summary()


def test_forward_of_an_instance_may_be_replaced():
    m = Classifier()
    m.forward = lambda x: m.hidden(x)
    assert m(*batch(2))[0].shape == (2, 8)
    assert m(*batch(2))[0].shape == (2, 8)


def test_inputs_of_integers():
    class Words(pd.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = pd.nn.Embedding(10, 2)

        def forward(self, ids):
            return pd.reduce_sum(self.table(ids), [1])

    m = Words()
    m.compile([pd.Placeholder((None, None), "int64")])
    assert m.get_params()["table.W"].shape == (10, 2)
    assert m(np.array([[1, 2, 3]])).shape == (1, 2)


def test_parameters_may_be_drawn_again():
    m = Classifier()
    m.compile([(None, 4)])
    w = m.get_params()["hidden.W"]
    w.uniform(2, 3)
    first = w.numpy()
    assert (first >= 2).all() and (first < 3).all()
    w.normal(-5, 0.1)
    assert abs(w.numpy() + 5).max() < 1 and w.numpy().std() > 0
    w.uniform(2, 3)
    assert (w.numpy() == first).all()  # of the seed and the name
    with pytest.raises(pd.ShapeError, match="keeps no value"):
        pd.Variable([None, 2]).uniform()
    with pytest.raises(pd.DTypeError, match="int64"):
        pd.Variable(data=np.arange(3)).normal()


# ---- as a layer among others


def test_a_module_inside_another_is_a_layer():
    class Outer(pd.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Classifier()

        def forward(self, x):
            return pd.reduce_sum(self.inner(x))

    m = Outer()
    m.compile([(None, 4)])
    assert m(batch(2)[0]).shape == ()
    assert pd.nn.Sequential(Classifier(), pd.nn.FC(2)).infer_shape((None, 4)) == (None, 2)
    assert next(iter(m.get_params())) == "inner.hidden.W"
    assert list(m.inner.get_params())[:1] == ["hidden.W"]


def test_a_call_with_variables_builds_a_static_graph():
    m = Classifier(rate=0.5)
    x = pd.Variable([None, 4])
    y = m(x)
    m.eval()
    a = batch(3)[0]
    np.testing.assert_allclose(y.eval({x: a}), m(a).numpy(), rtol=1e-6)


def test_the_training_step_of_a_trained_module_exports():
    ort = pytest.importorskip("onnxruntime")
    m = Classifier()
    for seed in range(3):
        m(*batch(4, seed))
    x, labels = pd.Variable("x", shape=[None, 4]), pd.Variable("y", shape=[None], dtype="int64")
    loss = m.loss(m.forward(x), labels)
    step = pd.SGDOptimizer(0.5).minimize(loss)
    model = pd.export_step(None, step, loss, [x, labels])
    exported = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    a, b = batch(4, 7)
    names = [o.name for o in exported.get_outputs()]
    outputs = dict(zip(names, exported.run(None, {"x": a, "y": b}), strict=True))
    assert np.isclose(float(m(a, b)[1]), outputs[loss.name])
    for v in m.parameters():
        np.testing.assert_allclose(outputs[f"{v.name}_next"], v.numpy(), rtol=1e-5, atol=1e-6)


def test_hooks_see_forward_and_not_the_training_step():
    m, seen = Classifier(), []
    m.register_forward_hook(lambda layer, inputs, output: seen.append((len(inputs), output.shape)))
    m(*batch(2))
    m.eval()
    m(batch(5)[0])
    assert seen == [(1, (2, 3)), (1, (5, 3))]


def test_a_copy_has_values_of_its_own():
    m = Classifier()
    m(*batch(4))
    twin = copy.deepcopy(m)
    a, b = float(m(*batch(4, 1))[1]), float(twin(*batch(4, 1))[1])
    assert a == b and twin.get_params()["out.W"] is not m.get_params()["out.W"]
    m(*batch(4, 2))
    assert float(m(*batch(4, 1))[1]) != float(twin(*batch(4, 1))[1])
