"""Multi-head attention against PyTorch's, from the same weights; step by step with a cache."""

import numpy as np
import pytest

import pd_core as pd

B, T, S, WIDTH, HEADS = 2, 3, 5, 6, 2


def attention_weights(theirs, prefix=""):
    """Return the parameters of a torch.nn.MultiheadAttention, or their gradients, by our names."""
    weights, biases = (np.split(theirs[f"in_proj_{key}"], 3) for key in ("weight", "bias"))
    weights.append(theirs["out_proj.weight"])
    biases.append(theirs["out_proj.bias"])
    values = {}
    for name, w, b in zip(("query", "key", "value", "output"), weights, biases, strict=True):
        values |= {f"{prefix}{name}.W": w.T, f"{prefix}{name}.B": b}
    return values


def parameters_of(module):
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def slopes_of(module):
    return {name: p.grad.numpy() for name, p in module.named_parameters()}


def both(**options):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    torch.nn.init.normal_(theirs.in_proj_bias)
    ours = pd.nn.MultiHeadAttention(WIDTH, HEADS, name="attention", **options)
    ours.load_dict(attention_weights(parameters_of(theirs)))
    return ours, theirs, torch


PAIRS = np.array([[1, 0, 0, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]], bool)
BATCH = np.stack([PAIRS, ~PAIRS | np.eye(T, S, dtype=bool)])
MASKS = {"none": None, "of pairs": PAIRS, "of each sample": BATCH, "of heads": BATCH[:, None]}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_same_as_pytorch(mask, rng):
    ours, theirs, torch = both()
    q, k = pd.Variable([None, None, WIDTH]), pd.Variable([None, None, WIDTH])
    y = ours(q, k, mask=mask)
    assert mask is not None or y.shape == (None, None, WIDTH)
    names, parameters = zip(*ours.named_parameters(), strict=True)
    weight = rng.standard_normal((B, T, WIDTH)).astype("float32")
    gradients = pd.gradients(pd.reduce_sum(y * weight), [q, k, *parameters])
    arrays = [rng.standard_normal((B, n, WIDTH)).astype("float32") for n in (T, S)]
    got = pd.eval([y, *gradients], feeds=dict(zip((q, k), arrays, strict=True)))

    a, b = (torch.tensor(array, requires_grad=True) for array in arrays)
    hidden = None
    if mask is not None:
        whole = np.broadcast_to(
            mask if mask.ndim == 4 else mask.reshape(-1, 1, T, S), (B, HEADS, T, S)
        )
        hidden = torch.tensor(~whole.reshape(-1, T, S))
    out, _ = theirs(a, b, b, attn_mask=hidden)
    (out * torch.tensor(weight)).sum().backward()
    rest = attention_weights(slopes_of(theirs))
    wanted = [out.detach(), a.grad, b.grad, *(rest[name] for name in names)]
    for ours_, theirs_ in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours_, theirs_, rtol=1e-4, atol=1e-5)


def test_weights_are_those_of_pytorch(rng):
    ours, theirs, torch = both()
    arrays = [rng.standard_normal((B, n, WIDTH)).astype("float32") for n in (T, S)]
    q, k = slots = [pd.Variable([None, None, WIDTH]) for _ in arrays]
    a, b = (torch.tensor(array, requires_grad=True) for array in arrays)
    targets, wanted = [], []
    for mask, average in ((None, True), (PAIRS, False), (BATCH, True)):
        hidden = None
        if mask is not None:
            hidden = torch.tensor(~np.broadcast_to(mask, (B, T, S))).repeat_interleave(HEADS, 0)
        y, weights = ours(q, k, mask=mask, need_weights=True, average_attn_weights=average)
        targets += [y, weights, *pd.gradients(pd.reduce_sum(weights * weights), [q, k])]
        out, other = theirs(a, b, b, attn_mask=hidden, average_attn_weights=average)
        slopes = torch.autograd.grad((other * other).sum(), [a, b])
        wanted += [out.detach(), other.detach(), *slopes]
    feeds = dict(zip(slots, arrays, strict=True))
    for found, other in zip(pd.eval(targets, feeds), wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-5)
    nothing = ours(q, k, mask=np.zeros((T, S), bool), need_weights=True)[1]
    assert (pd.eval(nothing, feeds) == 0.0).all()
    _, some, (keys, _) = ours(q, k, cache=ours.empty_cache(B), need_weights=True)
    some, keys = pd.eval([some, keys], feeds)
    np.testing.assert_allclose(some, pd.eval(targets[1], feeds), rtol=1e-5)
    assert keys.shape == (B, HEADS, S, WIDTH // HEADS)


def test_causal_is_pytorch_with_a_triangular_mask(rng):
    ours, theirs, torch = both(causal=True)
    x = rng.standard_normal((B, T, WIDTH)).astype("float32")
    above = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
    wanted, _ = theirs(*[torch.tensor(x)] * 3, attn_mask=above)
    np.testing.assert_allclose(pd.eval(ours(x)), wanted.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("steps", [[1] * 6, [3, 1, 2], [6]])
def test_steps_with_a_cache_are_the_whole_sequence(steps, rng):
    layer = pd.nn.MultiHeadAttention(WIDTH, HEADS, causal=True)
    x = rng.standard_normal((B, 6, WIDTH)).astype("float32")
    whole = pd.eval(layer(x))
    part, heads = pd.Variable([None, None, WIDTH]), [None, HEADS, None, WIDTH // HEADS]
    slots = pd.Variable(heads), pd.Variable(heads)
    y, new = layer(part, cache=slots)
    cache, outputs, start = layer.empty_cache(B), [], 0
    for count in steps:
        feeds = {part: x[:, start : start + count], **dict(zip(slots, cache, strict=True))}
        out, *cache = pd.eval([y, *new], feeds=feeds)
        outputs.append(out)
        start += count
        assert cache[0].shape == cache[1].shape == (B, HEADS, start, WIDTH // HEADS)
    np.testing.assert_allclose(np.concatenate(outputs, 1), whole, rtol=1e-5, atol=1e-6)


def test_an_empty_cache_is_taken_as_it_is(rng):
    layer = pd.nn.MultiHeadAttention(WIDTH, HEADS, causal=True)
    x = rng.standard_normal((B, T, WIDTH)).astype("float32")
    y, (k, v) = layer(x, cache=layer.empty_cache(B))
    assert k.shape == v.shape == (B, HEADS, T, WIDTH // HEADS)
    np.testing.assert_allclose(*pd.eval([y, layer(x)]), rtol=1e-6)


def test_dropout_is_of_weights_in_training(rng):
    x = pd.constant(rng.standard_normal((B, T, WIDTH)))
    layer = pd.nn.MultiHeadAttention(WIDTH, HEADS, bias=False, dropout=0.5)
    y = layer(x)
    assert [n for n, _ in layer.named_parameters()] == ["query.W", "key.W", "value.W", "output.W"]
    layer.load_dict(
        {"query.W": np.zeros((WIDTH, WIDTH), "float32")}, strict=False
    )  # all weights are 1 / T
    kept = {n: v for n, v in layer.state_dict().items() if n in ("value.W", "output.W")}
    values = x.val() @ kept["value.W"]
    np.testing.assert_allclose(pd.eval(y)[0], [values[0].mean(0) @ kept["output.W"]] * T, atol=1e-5)
    assert not np.allclose(pd.eval(y, training=True), pd.eval(y), atol=1e-3)


def test_width_is_a_multiple_of_heads():
    with pytest.raises(pd.GraphError, match="MultiHeadAttention: 6 does not split into 4 heads"):
        pd.nn.MultiHeadAttention(6, 4)
