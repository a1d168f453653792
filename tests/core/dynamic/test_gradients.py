"""Which gradients recorded graphs have, and where they end."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def scalar(name, value):
    return pd.Variable(name, data=f32(value))


def test_gradients_of_scalars_accumulate():
    w = scalar("w", 3)
    with pd.guard():
        for _ in range(3):
            loss = w * w
            loss.backward()
        assert w.gradient() == 18 and w.gradient().shape == ()
        pd.SGDOptimizer(0.1).minimize(loss)
        assert np.isclose(float(w), 1.2)


@pytest.mark.parametrize("trainable", [True, False])
def test_a_parameter_is_trainable_or_not_by_line(trainable):
    w, z = scalar("w", 3), scalar("z", 1)
    with pd.guard():
        w.trainable = trainable
        product = w * z
        w.trainable = not trainable
        other = w * z * 2.0  # reads w anew
        w.trainable = trainable
        (product + other).backward()
        assert w.gradient() == (1 if trainable else 2)
        assert z.gradient() == 9


@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_parameter_is_frozen_while_a_backward_pass_waits(trainable, rank, rng):
    """The pass is computed as soon as the parameter is read anew, with what it was before."""
    value = rng.random([3] * rank).astype(f32)
    w, z = pd.Variable("w", data=value), pd.Variable("z", data=value)
    w.trainable = trainable
    with pd.guard():
        pd.reduce_sum(w * w * z).backward()
        w.trainable = not trainable
        np.testing.assert_array_equal((w * f32(3)).numpy(), value * f32(3))
        np.testing.assert_allclose(z.gradient(), value * value, rtol=1e-6)
        if trainable:
            np.testing.assert_allclose(w.gradient(), 2 * value * value, rtol=1e-6)
        else:
            assert w.gradient() is None


def test_reads_before_and_after_an_update_have_gradients():
    for fused in (False, True):
        pd.reset()
        w, rule = scalar("w", 3), pd.SGDOptimizer(0.1)
        with pd.guard():
            y = w * 2.0
            pd.eval(pd.assign(w, f32(5)))
            loss = y * w  # 6 w, and 2 · 5 w of the line before
            if not fused:
                loss.backward()
                assert w.gradient() == 16
            rule.minimize(loss)
            assert np.isclose(float(w), 3.4)
            y = w * 2.0
            pd.eval(pd.assign(w, f32(5)))
            rule.minimize(y)
            assert np.isclose(float(w), 4.8)


def test_rows_read_before_and_after_an_update():
    table = pd.Variable("t", data=np.ones((4, 2), f32), row_sparse=True)
    with pd.guard():
        early = pd.gather(table, np.array([1, 2]))
        pd.eval(pd.assign(table, np.full((4, 2), 2, f32)))
        late = pd.gather(table, np.array([2, 3]))
        pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(early * late))
        # d/d early = late = 2 of rows 1 and 2; d/d late = early = 1 of rows 2 and 3
        assert table.numpy()[:, 0].tolist() == [2, 0, -1, 1]


# ---- where the graph ended with an earlier backward


def test_a_graph_that_ended_has_no_gradients_silently():
    w = scalar("w", 3)
    with pd.guard():
        h = pd.to_variable(f32(1)) * w
        (h * 2.0).backward()
        for use in (lambda: h * w, lambda: pd.tanh(h) * w):
            with pytest.raises(pd.GraphError, match="retain_graph"):
                use().backward()
        z = pd.tanh(h)
        z.numpy()  # a value of its own now, whose history ended all the same
        with pytest.raises(pd.GraphError, match="retain_graph"):
            (z * w).backward()
        with pytest.raises(pd.GraphError, match="retain_graph"):
            pd.SGDOptimizer(0.1).minimize(z * w)


def test_values_of_a_graph_that_ended_are_constants():
    w = scalar("w", 3)
    with pd.guard():
        loss = w * w
        loss.backward()
        w.clear_gradient()
        with pd.no_grad():
            half = loss * 0.5
        stopped = pd.stop_gradient(loss * 2.0)
        for constant, gradient in [
            (half, 4.5),
            (loss.detach(), 9),
            (stopped, 18),
            (pd.cast(loss > 0.0, "float32"), 1),
        ]:
            (w * constant).backward()
            assert w.gradient() == gradient
            w.clear_gradient()


def test_what_is_stopped_has_no_gradient():
    w = scalar("w", 3)
    with pd.guard():
        y = pd.stop_gradient(w * 2.0)
        assert y.stop_gradient
        with pytest.raises(pd.GraphError, match="nothing that has a gradient"):
            y.backward()


# ---- higher orders


def pair(torch, array):
    return pd.Variable(data=array), torch.tensor(array, dtype=torch.float64, requires_grad=True)


def test_gradients_through_inner_steps(rng):
    torch = pytest.importorskip("torch")
    x, y = rng.standard_normal((5, 3)).astype(f32), rng.standard_normal((5, 1)).astype(f32)
    tx, ty = torch.tensor(x).double(), torch.tensor(y).double()
    w, tw = pair(torch, rng.standard_normal((3, 1)).astype(f32))
    with pd.guard():
        for outer in range(3):
            fast, tfast = w * 1.0, tw * 1.0
            for _ in range(3):
                loss = pd.reduce_mean(pd.square(pd.tanh(pd.matmul(x, fast)) - y))
                if outer == 1:
                    loss.numpy()
                (g,) = pd.gradients(loss, [fast])
                cost = ((torch.tanh(tx @ tfast) - ty) ** 2).mean()
                (tg,) = torch.autograd.grad(cost, [tfast], create_graph=True)
                fast, tfast = fast - g * 0.1, tfast - tg * 0.1
            loss = pd.reduce_mean(pd.square(pd.matmul(x, fast) - y))
            loss.backward()
            ((tx @ tfast - ty) ** 2).mean().backward()
            assert np.allclose(w.gradient(), tw.grad, rtol=1e-4, atol=1e-5)
            pd.SGDOptimizer(0.1).minimize(loss)
            tw.data -= 0.1 * tw.grad
            w.clear_gradient()
            tw.grad = None
            assert np.allclose(w.numpy(), tw.detach(), atol=1e-5)


def test_gradient_penalty(rng):
    torch = pytest.importorskip("torch")
    w, tw = pair(torch, rng.standard_normal((3, 4)).astype(f32))
    v, tv = pair(torch, rng.standard_normal((4, 1)).astype(f32))
    with pd.guard():
        for n in (4, 6, 3):
            x = pd.to_variable(rng.standard_normal((n, 3)).astype(f32))
            x.stop_gradient = False
            tx = torch.tensor(x.numpy(), dtype=torch.float64, requires_grad=True)
            score = pd.matmul(pd.tanh(pd.matmul(x, w)), v)
            tscore = torch.tanh(tx @ tw) @ tv
            (g,) = pd.gradients(pd.reduce_sum(score), [x])
            (tg,) = torch.autograd.grad(tscore.sum(), [tx], create_graph=True)
            if n == 6:
                g.numpy()
            norm = pd.sqrt(pd.reduce_sum(pd.square(g), 1))
            (pd.reduce_mean(pd.square(norm - 1.0)) * 10.0 - pd.reduce_mean(score)).backward()
            ((((tg**2).sum(1)).sqrt() - 1) ** 2).mean().mul(10).sub(tscore.mean()).backward()
            for a, b in ((w, tw), (v, tv)):
                assert np.allclose(a.gradient(), b.grad, atol=1e-4)


def test_hessian_vector_product(rng):
    torch = pytest.importorskip("torch")
    w, tw = pair(torch, rng.standard_normal(5).astype(f32))
    direction = rng.standard_normal(5).astype(f32)
    with pd.guard():
        loss = pd.reduce_sum(pd.exp(w) * pd.square(w) * pd.reduce_sum(w))
        (g,) = pd.gradients(loss, [w])
        (h,) = pd.gradients(pd.reduce_sum(g * direction), [w])
        cost = (tw.exp() * tw**2 * tw.sum()).sum()
        (tg,) = torch.autograd.grad(cost, [tw], create_graph=True)
        (th,) = torch.autograd.grad((tg * torch.tensor(direction)).sum(), [tw])
        assert np.allclose(h.numpy(), th, rtol=1e-4, atol=1e-4)
