"""demos/cookbook/transformer.py in PyTorch."""

import numpy as np
import torch
import torch.nn.functional as F
from initial import weights
from transformer import CONTEXT, HEADS, LAYERS, RATE, WARMUP, WIDTH, batches, characters

VOCABULARY = len(characters()[0])
SHAPES = {"characters.W": (VOCABULARY, WIDTH), "places.W": (CONTEXT, WIDTH)}
for _k in range(LAYERS):
    for _part in ("query", "key", "value", "output"):
        _name = f"layers.{_k}.self_attention.{_part}"
        SHAPES |= {f"{_name}.W": (WIDTH, WIDTH), f"{_name}.B": (WIDTH,)}
    for _norm in ("norm1", "norm2"):
        SHAPES |= {f"layers.{_k}.{_norm}.{v}": (WIDTH,) for v in ("scale", "bias")}
    SHAPES |= {f"layers.{_k}.hidden.W": (WIDTH, 4 * WIDTH), f"layers.{_k}.hidden.B": (4 * WIDTH,)}
    SHAPES |= {f"layers.{_k}.output.W": (4 * WIDTH, WIDTH), f"layers.{_k}.output.B": (WIDTH,)}
SHAPES |= {"norm.scale": (WIDTH,), "norm.bias": (WIDTH,)}
SHAPES |= {"logits.W": (WIDTH, VOCABULARY), "logits.B": (VOCABULARY,)}


def network(x, w):
    def linear(name, x):
        return x @ w[f"{name}.W"] + w[f"{name}.B"]

    def norm(name, x):
        return F.layer_norm(x, [WIDTH], w[f"{name}.scale"], w[f"{name}.bias"])

    def heads(x):
        return x.reshape(len(x), CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)

    h = w["characters.W"][x] + w["places.W"]
    for k in range(LAYERS):
        own = f"layers.{k}"
        n = norm(f"{own}.norm1", h)
        q, key, v = (
            heads(linear(f"{own}.self_attention.{p}", n)) for p in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(q, key, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(len(x), CONTEXT, WIDTH)
        h = h + linear(f"{own}.self_attention.output", mixed)
        n = F.gelu(linear(f"{own}.hidden", norm(f"{own}.norm2", h)))
        h = h + linear(f"{own}.output", n)
    return linear("logits", norm("norm", h))


def losses(steps):
    values = weights(SHAPES)
    values |= {n: np.ones(SHAPES[n], "float32") for n in SHAPES if n.endswith("scale")}
    w = {n: torch.nn.Parameter(torch.from_numpy(v)) for n, v in values.items()}
    optimizer = torch.optim.Adam(w.values(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(t / WARMUP, 1.0))
    history = []
    for x, y in batches(steps):
        logits = network(torch.from_numpy(x), w)
        cost = F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(y).flatten())
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        schedule.step()
        history.append(cost.item())
    return history
