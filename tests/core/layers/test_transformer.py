"""Layers of transformers against PyTorch's, from the same weights."""

import numpy as np
import pytest

import pd_core as pd

from .test_attention import attention_weights, parameters_of, slopes_of

B, T, S, WIDTH, HEADS, HIDDEN = 2, 4, 3, 6, 2, 5
VARIANTS = pytest.mark.parametrize(
    ("act", "norm_first", "epsilon"),
    [("relu", False, 1e-5), ("gelu", False, 0.3), ("relu", True, 1e-5)],
)


def by_our_names(theirs, attentions, norms):
    values = {}
    for ours, name in attentions.items():
        part = {
            k.removeprefix(f"{name}."): v for k, v in theirs.items() if k.startswith(f"{name}.")
        }
        values |= attention_weights(part, f"{ours}.")
    for ours, name in (("hidden", "linear1"), ("output", "linear2")):
        values[f"{ours}.W"] = theirs[f"{name}.weight"].T
        values[f"{ours}.B"] = theirs[f"{name}.bias"]
    for name in norms:
        values |= {
            f"{name}.scale": theirs[f"{name}.weight"],
            f"{name}.bias": theirs[f"{name}.bias"],
        }
    return values


ENCODER = {"self_attention": "self_attn"}, ("norm1", "norm2")
DECODER = ENCODER[0] | {"cross_attention": "multihead_attn"}, (*ENCODER[1], "norm3")


def compared(ours, theirs, names, arrays, call, rng):
    """Compare call(layer, *inputs) and its gradients; names are arguments of `by_our_names`."""
    torch = pytest.importorskip("torch")
    for p in theirs.parameters():
        torch.nn.init.normal_(p, std=0.5)
    ours.load_dict(by_our_names(parameters_of(theirs), *names))
    slots = [pd.Variable([None, None, WIDTH]) for _ in arrays]
    y = call(ours, *slots)
    weight = rng.standard_normal((B, T, WIDTH)).astype("float32")
    keys, parameters = zip(*ours.named_parameters(), strict=True)
    gradients = pd.gradients(pd.reduce_sum(y * weight), [*slots, *parameters])
    got = pd.eval([y, *gradients], feeds=dict(zip(slots, arrays, strict=True)))
    inputs = [torch.tensor(array, requires_grad=True) for array in arrays]
    out = call(theirs, *inputs)
    (out * torch.tensor(weight)).sum().backward()
    rest = by_our_names(slopes_of(theirs), *names)
    wanted = [out.detach(), *(x.grad for x in inputs), *(rest[key] for key in keys)]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@VARIANTS
def test_encoder_layer_is_that_of_pytorch(act, norm_first, epsilon, rng):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, act, epsilon, batch_first=True, norm_first=norm_first
    )
    ours = pd.nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, act, norm_first, epsilon=epsilon
    )
    visible = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], bool)

    def call(layer, x):
        if layer is ours:
            return ours(x, visible[:, None, :])
        return theirs(x, src_key_padding_mask=torch.tensor(~visible))

    x = rng.standard_normal((B, T, WIDTH)).astype("float32")
    compared(ours, theirs, ENCODER, [x], call, rng)


@VARIANTS
def test_decoder_layer_is_that_of_pytorch(act, norm_first, epsilon, rng):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.TransformerDecoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, act, epsilon, batch_first=True, norm_first=norm_first
    )
    ours = pd.nn.TransformerDecoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, act, norm_first, epsilon=epsilon
    )
    visible = np.array([[1, 1, 0], [0, 1, 1]], bool)

    def call(layer, x, memory):
        if layer is ours:
            return ours(x, memory, memory_mask=visible[:, None, :])
        above = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
        return theirs(x, memory, tgt_mask=above, memory_key_padding_mask=torch.tensor(~visible))

    arrays = [rng.standard_normal((B, n, WIDTH)).astype("float32") for n in (T, S)]
    compared(ours, theirs, DECODER, arrays, call, rng)


def test_decoding_with_a_cache_is_decoding_at_once(rng):
    layer = pd.nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, norm_first=True)
    x, memory = (rng.standard_normal((B, n, WIDTH)).astype("float32") for n in (T, S))
    whole = layer(x, memory)
    cache, outputs = layer.self_attention.empty_cache(B), []
    for step in range(T):
        y, cache = layer(x[:, step : step + 1], memory, cache=cache)
        outputs.append(y)
    np.testing.assert_allclose(*pd.eval([pd.concat(outputs, 1), whole]), rtol=1e-4, atol=1e-5)


def test_a_causal_encoder_layer_has_a_cache_too(rng):
    layer = pd.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, causal=True)
    x = rng.standard_normal((B, T, WIDTH)).astype("float32")
    first, cache = layer(x[:, :3], cache=layer.self_attention.empty_cache(B))
    last, _ = layer(x[:, 3:], cache=cache)
    np.testing.assert_allclose(
        *pd.eval([pd.concat([first, last], 1), layer(x)]), rtol=1e-4, atol=1e-5
    )


def test_dropout_is_in_training_alone(rng):
    x = pd.constant(rng.standard_normal((B, T, WIDTH)))
    layer = pd.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.5)
    y = layer(x)
    assert np.array_equal(pd.eval(y), pd.eval(y))
    assert not np.allclose(pd.eval(y, training=True), pd.eval(y))
