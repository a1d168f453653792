"""Generation with a cache of keys and values: each character is the likeliest one.

The caches have their final size from the start, so that one program computes every character.
"""

import numpy as np

from tests.benchmarks import inference
from tests.benchmarks.models import transformer as model

STEPS = 64

TITLE = f"char transformer, generation of {STEPS} characters, batch 1"
KIND = "infer"
RTOL = 1e-3
FLOPS = STEPS * model.flops(1, 1)  # without the attention, whose products are small
CACHE = model.HEADS, STEPS, model.WIDTH // model.HEADS


def batches():
    """Return first characters [1]."""
    return [(np.array([k]),) for k in range(8)]


def ours():
    """Return the loop of `pd.eval` over a `pd.scan`, and the parameters."""
    import pd_core as pd

    net = model.network()
    first = pd.Variable([1], dtype="int64")

    def step(state, position):
        ids, *caches = state
        x = net.letters(ids) + net.positions(pd.reshape(position, [1]))
        h, new = pd.unsqueeze(x, 0), []
        past = pd.arange(STEPS)
        for layer, keys, values in zip(net.layers, caches[::2], caches[1::2], strict=True):
            attention = layer.self_attention
            y = layer.norm1(h)
            q, k, v = (
                pd.reshape(p(y), [1, model.HEADS, 1, CACHE[2]])
                for p in (attention.query, attention.key, attention.value)
            )
            at = pd.reshape(pd.equal(past, position), [1, 1, STEPS, 1])
            keys, values = pd.where(at, k, keys), pd.where(at, v, values)
            y = pd.attention(q, keys, values, mask=past <= position)
            h = h + attention.output(pd.reshape(y, [1, 1, model.WIDTH]))
            h = h + layer.output(layer.hidden(layer.norm2(h)))
            new += [keys, values]
        logits = pd.reshape(net.scores(net.norm(h)), [model.LETTERS])
        likeliest = pd.reshape(pd.arg_max(logits, 0), [1])
        return [likeliest, *new], pd.reduce_max(logits)

    caches = [pd.zeros([1, *CACHE]) for _ in range(2 * model.LAYERS)]
    _, scores = pd.scan(step, [first, *caches], pd.arange(STEPS))
    net(pd.Variable([1, 1], dtype="int64"))  # builds the parameters, in the order of the layers
    return inference.eval_loop(scores, [first]), [v.val() for v in net.parameters()]


def pytorch(parameters, compiled):
    """Return the loop of PyTorch, which compiles the step of one character."""
    import torch
    from torch.nn import functional as f

    def tensors(value):
        return list(map(tensors, value)) if isinstance(value, list) else torch.from_numpy(value)

    table, positions, layers, norm, (w, b) = tensors(model.fused(parameters))
    caches = torch.zeros(model.LAYERS, 2, *CACHE)
    size, past = (model.WIDTH,), torch.arange(STEPS)

    def step(ids, position):
        x = f.embedding(ids, table) + positions[position]
        mask = (past <= position)[None, None]
        for cache, (s1, b1, wqkv, bqkv, wo, bo, s2, b2, w1, c1, w2, c2) in zip(
            caches, layers, strict=True
        ):
            h = f.layer_norm(x, size, s1, b1, model.EPSILON)
            q, *new = torch.addmm(bqkv, h, wqkv).reshape(3, model.HEADS, 1, -1)
            cache.index_copy_(2, position, torch.stack(new))
            y = f.scaled_dot_product_attention(q[None], cache[:1], cache[1:], mask)
            x = x + torch.addmm(bo, y.reshape(1, -1), wo)
            h = f.gelu(torch.addmm(c1, f.layer_norm(x, size, s2, b2, model.EPSILON), w1))
            x = x + torch.addmm(c2, h, w2)
        score, ids = torch.addmm(b, f.layer_norm(x, size, *norm, model.EPSILON), w).max(1)
        return ids, score

    step = compiled(step)

    def generate(ids):
        scores = []
        for position in past.split(1):
            ids, score = step(ids, position)
            scores.append(score)
        return torch.cat(scores)

    return inference.torch_loop(generate, lambda f: f)


def jax(parameters):
    """Return the loop of JAX, a scan over the characters."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def generate(values, ids):
        table, positions, layers, norm, (w, b) = values

        def step(state, position):
            ids, caches = state
            x, new = (table[ids] + positions[position])[None], []
            mask = jnp.where(jnp.arange(STEPS) <= position, 0.0, -jnp.inf)

            def attend(q, k, v, cache):
                rows = jnp.stack([k[0, 0], v[0, 0]])[:, :, None]
                cache = lax.dynamic_update_slice(cache, rows, (0, 0, position, 0))
                new.append(cache)
                scores = jnp.einsum("hd,hsd->hs", q[0, 0] * CACHE[2] ** -0.5, cache[0]) + mask
                return jnp.einsum("hs,hsd->hd", jax.nn.softmax(scores), cache[1])

            for cache, layer in zip(caches, layers, strict=True):
                x = model.jax_layer(layer, x, lambda q, k, v, c=cache: attend(q, k, v, c))
            logits = (model.jax_norm(x, *norm) @ w + b).reshape(-1)
            return (jnp.argmax(logits)[None], new), logits.max()

        caches = [jnp.zeros((2, *CACHE)) for _ in layers]
        return lax.scan(step, (ids.astype(jnp.int32), caches), jnp.arange(STEPS))[1]

    return inference.jax_loop(generate, model.fused(parameters))
