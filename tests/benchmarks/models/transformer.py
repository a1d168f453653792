"""A causal transformer over characters, with norms before its branches, in each framework.

Parameters are those of pd's layers, in their order. PyTorch and JAX have the weights of query, key
and value as one matrix.
"""

import numpy as np

from tests.benchmarks import inference

LAYERS, WIDTH, HEADS, HIDDEN, CONTEXT, LETTERS = 4, 128, 4, 512, 128, 65
EPSILON = 1e-5
LAYER_PARAMETERS = 16
_MATRICES = LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * HIDDEN) + WIDTH * LETTERS


def flops(batch, length):
    """Return the operations of the products of a forward pass; masked scores count."""
    return 2 * batch * length * (_MATRICES + LAYERS * 2 * length * WIDTH)


def letters(batch, length, count):
    """Return ids of characters [n, length], as often as letters of a text (Zipf), several times."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, LETTERS + 1)
    return rng.choice(LETTERS, (count, batch, length), p=frequency / frequency.sum())


def network():
    """Return the layer of pd: ids [n, T] to logits [n, T, letters]."""
    import pd_core as pd

    class CharTransformer(pd.nn.Layer):
        def __init__(self):
            super().__init__("transformer")
            self.letters = pd.nn.Embedding(LETTERS, WIDTH)
            self.positions = pd.nn.Embedding(CONTEXT, WIDTH)
            self.layers = pd.nn.LayerList(
                pd.nn.TransformerEncoderLayer(
                    WIDTH, HEADS, HIDDEN, 0.0, "gelu", norm_first=True, causal=True
                )
                for _ in range(LAYERS)
            )
            self.norm, self.scores = pd.nn.LayerNorm(), pd.nn.FC(LETTERS)

        def forward(self, ids):
            h = self.letters(ids) + self.positions(pd.arange(pd.size_of(ids, 1)))
            for layer in self.layers:
                h = layer(h)
            return self.scores(self.norm(h))

    return CharTransformer()


def fused(parameters):
    """Return (table, positions, layers, norm, scores) of pd's parameters.

    A layer is (scale, bias, W and b of query, key and value, W, b, scale, bias, W, b, W, b).
    """
    table, positions, *rest = parameters
    layers = []
    for k in range(LAYERS):
        part = rest[k * LAYER_PARAMETERS : (k + 1) * LAYER_PARAMETERS]
        projections, (wo, bo, s1, b1, s2, b2, *fed_forward) = part[:6], part[6:]
        w, b = np.concatenate(projections[::2], 1), np.concatenate(projections[1::2])
        layers.append([s1, b1, w, b, wo, bo, s2, b2, *fed_forward])
    scale, bias, w, b = rest[LAYERS * LAYER_PARAMETERS :]
    return [table, positions, layers, [scale, bias], [w, b]]


def torch_forward(values, ids):
    """Return logits [n, T, letters] in PyTorch."""
    from torch.nn import functional as f

    table, positions, layers, norm, (w, b) = values
    batch, length = ids.shape
    x = (f.embedding(ids, table) + positions[:length]).reshape(-1, WIDTH)
    for s1, b1, wqkv, bqkv, wo, bo, s2, b2, w1, c1, w2, c2 in layers:
        h = f.layer_norm(x, (WIDTH,), s1, b1, EPSILON)
        heads = (bqkv.addmm(h, wqkv)).reshape(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = f.scaled_dot_product_attention(*heads.unbind(), is_causal=True)
        x = x + bo.addmm(y.transpose(1, 2).reshape(-1, WIDTH), wo)
        h = f.gelu(c1.addmm(f.layer_norm(x, (WIDTH,), s2, b2, EPSILON), w1))
        x = x + c2.addmm(h, w2)
    return b.addmm(f.layer_norm(x, (WIDTH,), *norm, EPSILON), w).reshape(batch, length, -1)


def jax_norm(x, scale, bias):
    """Layer normalisation in JAX."""
    from jax import lax

    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * scale + bias


def jax_layer(values, x, attend):
    """A layer in JAX; `attend(q, k, v)` takes and returns [n, T, heads, d]."""
    import jax

    s1, b1, wqkv, bqkv, wo, bo, s2, b2, w1, c1, w2, c2 = values
    heads = (jax_norm(x, s1, b1) @ wqkv + bqkv).reshape(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
    y = attend(heads[:, :, 0], heads[:, :, 1], heads[:, :, 2])
    x = x + y.reshape(x.shape) @ wo + bo
    return x + jax.nn.gelu(jax_norm(x, s2, b2) @ w1 + c1, approximate=False) @ w2 + c2


def jax_forward(values, ids):
    """Return logits [n, T, letters] in JAX."""
    import jax
    from jax import numpy as jnp

    table, positions, layers, norm, (w, b) = values
    length = ids.shape[1]
    mask = jnp.where(jnp.tril(jnp.ones((length, length), bool)), 0.0, -jnp.inf)

    def attend(q, k, v):
        scores = jnp.einsum("nthd,nshd->nhts", q * (WIDTH // HEADS) ** -0.5, k) + mask
        return jnp.einsum("nhts,nshd->nthd", jax.nn.softmax(scores), v)

    x = table[ids] + positions[:length]
    for layer in layers:
        x = jax_layer(layer, x, attend)
    return jax_norm(x, *norm) @ w + b


def ours():
    """Return the loop of inference by `pd.eval`, and the parameters."""
    import pd_core as pd

    net, ids = network(), pd.Variable([None, CONTEXT], dtype="int64")
    logits = net(ids)
    return inference.eval_loop(logits, [ids]), [v.val() for v in net.parameters()]


def pytorch(parameters, compiled):
    """Return the loop of inference of PyTorch."""
    import torch

    def tensors(value):
        return list(map(tensors, value)) if isinstance(value, list) else torch.from_numpy(value)

    values = tensors(fused(parameters))
    return inference.torch_loop(lambda ids: torch_forward(values, ids), compiled)


def jax(parameters):
    """Return the loop of inference of JAX."""
    return inference.jax_loop(jax_forward, fused(parameters))
