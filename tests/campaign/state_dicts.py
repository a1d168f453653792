"""Random modules of PyTorch, nested three deep, and the same layers here, by their state dicts.

A trial loads one, stores it again and loads that in PyTorch: names and outputs are the same. Three
steps of SGD or Adam in training mode follow: losses, parameters, buffers and outputs stay the same.
All of it is in float64, so that what differs is no rounding.

    python -m tests.campaign.state_dicts 17

makes the trial of seed 17 in this process.
"""

import sys
from typing import Any

import numpy as np

import pd_core as pd
from pd_core import nn
from pd_core.interchange import from_pytorch, to_pytorch

from .plan import Plan, Row

KINDS = "rows", "sequences", "images"
ACTIVATIONS = "Tanh", "Sigmoid", "GELU", "SiLU", "ELU", "Softplus", "Mish", "PReLU"
QUICK, FULL = 2, 300


def run(plan: Plan) -> list[Row]:
    """Try random modules of each kind of input; a row for each."""
    try:
        import torch
    except ImportError:
        return []
    torch.set_num_threads(1)
    rows = []
    for kind in KINDS:
        row = Row("state_dicts", kind)
        for k in range(plan.count(QUICK, FULL)):
            seed = 3 * (plan.seed * FULL + k) + KINDS.index(kind)
            with pd.fresh():
                text = difference(seed)
            row.add("silent difference" if text else "same", f"seed {seed}: {text}")
        rows.append(row)
    return rows


class Draw:
    """Pairs (module of PyTorch, layer of ours, features of the output)."""

    def __init__(self, seed: int) -> None:
        import torch
        from torch.nn.utils import parametrizations

        self.rng, self.torch, self.tn = np.random.default_rng(seed), torch, torch.nn
        self.norms = {
            nn.WeightNorm: parametrizations.weight_norm,
            nn.SpectralNorm: parametrizations.spectral_norm,
        }

    def one(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def divisor(self, n: int) -> int:
        return self.one(*[k for k in (1, 2, 3) if n % k == 0])

    def around(self, theirs, ours, **options):
        """A parametrization around some of them."""
        kind = self.one(None, None, None, nn.WeightNorm, nn.SpectralNorm)
        if kind is None:
            return theirs, ours
        return self.norms[kind](theirs, **options if kind is nn.WeightNorm else {}), kind(ours)

    def dense(self, f, size=None):
        size, bias = size or self.number(2, 7), self.one(True, False)
        return *self.around(self.tn.Linear(f, size, bias), nn.FC(size, bias=bias)), size

    def activation(self, f):
        name = self.one(*ACTIVATIONS)
        return getattr(self.tn, name)(), getattr(nn, name)(), f

    def norm(self, f):
        affine = self.one(True, False)
        layer = self.tn.LayerNorm(f, elementwise_affine=affine), nn.LayerNorm(affine=affine)
        rms = self.tn.RMSNorm(f, 1e-5, affine), nn.RMSNorm(epsilon=1e-5, affine=affine)
        return *self.one(layer, rms), f

    def recurrent(self, f):
        kind, hidden = self.one("LSTM", "GRU", "RNN"), self.number(2, 6)
        options = {
            "num_layers": self.number(1, 4),
            "bidirectional": self.one(True, False),
            "bias": self.one(True, False),
        }
        theirs = getattr(self.tn, kind)(f, hidden, batch_first=True, **options)
        for name, v in theirs.named_parameters():
            if name.startswith("bias_hh"):  # which is a part of ours, but for candidates of a GRU
                kept = self.torch.zeros(len(v))
                kept[2 * hidden :] = float(kind == "GRU")
                v.register_hook(lambda slope, kept=kept: slope * kept)
        ours = getattr(nn, kind)(hidden, **options)
        both = first_of(self.tn.Module, theirs), first_of(nn.Layer, ours)
        return *both, hidden * (1 + options["bidirectional"])

    def transformer(self, f):
        hidden, bias, first = self.number(2, 8), self.one(True, False), self.one(True, False)
        heads, options = self.divisor(f), {"dropout": 0.0, "norm_first": first, "bias": bias}
        theirs = self.tn.TransformerEncoderLayer(f, heads, hidden, batch_first=True, **options)
        return theirs, nn.TransformerEncoderLayer(f, heads, hidden, **options), f

    def convolution(self, c, n):
        is_transposed, groups = self.one(True, False), self.divisor(c)
        kind = f"Conv{'Transpose' if is_transposed else ''}{n}d"
        options = {"groups": groups, "bias": self.one(True, False), "padding": 1}
        filters = groups * self.number(1, 4)
        theirs = getattr(self.tn, kind)(c, filters, 3, **options)
        ours = getattr(nn, kind)(filters, 3, **options)
        return *self.around(theirs, ours, dim=int(is_transposed)), filters

    def channel_norm(self, c, n):
        affine, groups = self.one(True, False), self.divisor(c)
        kind = f"{self.one('Batch', 'Instance')}Norm{n}d"
        group = self.tn.GroupNorm(groups, c, affine=affine), nn.GroupNorm(groups, affine=affine)
        other = getattr(self.tn, kind)(c, affine=affine), getattr(nn, kind)(affine=affine)
        return *self.one(group, other), c

    def leaf(self, kind, f, n):
        parts = [self.activation]
        if kind == "images":
            parts += [lambda c: self.convolution(c, n), lambda c: self.channel_norm(c, n)]
        else:
            parts += [self.dense, self.norm]
        if kind == "sequences":
            parts += [self.recurrent, self.transformer]
        return self.one(*parts)(f)

    def tree(self, kind, f, n, depth):
        """Parts one after another in a container, or one that is called twice."""
        if depth == 0:
            return self.leaf(kind, f, n)
        theirs, ours, size = [], [], f
        for _ in range(self.number(1, 3)):
            a, b, size = self.tree(kind, size, n, depth - 1)
            theirs.append(a)
            ours.append(b)
        both = self.tn.Sequential(*theirs), nn.Sequential(*ours)
        if size == f and self.one(True, False):
            return twice(self.tn.Module, both[0]), twice(nn.Layer, both[1]), f
        return *both, size


def first_of(base, layer):
    """A layer of which the first output is taken."""

    class First(base):
        def __init__(self):
            super().__init__()
            self.inner = layer

        def forward(self, x):
            return self.inner(x)[0]

    return First()


def twice(base, layer):
    """A layer at two places."""

    class Shared(base):
        def __init__(self):
            super().__init__()
            self.first = layer
            self.again = layer

        def forward(self, x):
            return self.again(self.first(x))

    return Shared()


def difference(seed: int) -> str:
    """Make one trial; return what differs, or nothing."""
    draw = Draw(seed)
    torch, rng, kind = draw.torch, draw.rng, KINDS[seed % len(KINDS)]
    torch.manual_seed(seed)
    f, n = draw.number(2, 7), draw.number(1, 4)
    shape = {"rows": (4, f), "sequences": (2, 4, f), "images": (3, f, *[4] * n)}[kind]
    theirs, ours, _ = draw.tree(kind, f, n, 3)
    theirs.double()
    x = rng.normal(size=shape)
    if draw.one(True, False):
        ours.infer_shape(pd.Variable([None, *shape[1:]], dtype="float64"))
    given = {k: v.clone() for k, v in theirs.state_dict().items()}
    misfits = from_pytorch(ours, given)
    if any(misfits):
        return f"{misfits}"
    want = values(theirs.eval(), x)
    if far(own_values(ours.eval(), x), want):
        return "other outputs"
    stored = to_pytorch(ours)
    if stored.keys() != given.keys():
        return f"other names, {stored.keys() ^ given.keys()}"
    theirs.load_state_dict({k: torch.from_numpy(v) for k, v in stored.items()})
    if far(values(theirs, x), want):
        return "other outputs of what is stored"
    return trained(draw, theirs, ours, x, rng.normal(size=want.shape))


def trained(draw: Draw, theirs: Any, ours: nn.Layer, x: np.ndarray, y: np.ndarray) -> str:
    """Make three steps in both; return what differs, or nothing."""
    torch, parameters = draw.torch, list(theirs.parameters())
    if not parameters:
        return ""
    is_adam = draw.one(True, False)
    optimizer = pd.AdamOptimizer(0.01, epsilon=1e-3) if is_adam else pd.SGDOptimizer(0.05)
    moments = [(torch.zeros_like(v), torch.zeros_like(v)) for v in parameters]
    theirs.train()
    ours.train()
    with pd.guard():
        for step in range(3):
            theirs.zero_grad()
            cost = (theirs(torch.tensor(x)) - torch.tensor(y)).square().mean()
            cost.backward()
            with torch.no_grad():  # torch.optim takes seconds to import
                for v, (m, u) in zip(parameters, moments, strict=True):
                    m.mul_(0.9).add_(0.1 * v.grad)
                    u.mul_(0.999).add_(0.001 * v.grad.square())
                    a, b = 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)
                    v -= 0.01 * m / a / ((u / b).sqrt() + 1e-3) if is_adam else 0.05 * v.grad
            outputs = ours(pd.to_variable(x, "float64"))
            got = pd.reduce_mean(pd.square(outputs - pd.to_variable(y, "float64")))
            optimizer.minimize(got)
            if far(np.array(float(got)), np.array(cost.item()), 1e-8):
                return f"another loss in step {step}, {float(got)} and {cost.item()}"
    got, want = to_pytorch(ours), theirs.state_dict()
    for name, value in want.items():
        # PyTorch multiplies moving variances by n / (n - 1), and counts batches
        is_others = name.endswith(("running_var", "num_batches_tracked"))
        if is_others:
            want[name].copy_(torch.from_numpy(got[name]))
        elif far(got[name], value.numpy(), 1e-7):
            return f"another {name} after the steps"
    is_far = far(own_values(ours.eval(), x), values(theirs.eval(), x), 1e-7)
    return "other outputs after the steps" if is_far else ""


def values(module: Any, x: np.ndarray) -> np.ndarray:
    import torch

    return module(torch.tensor(x)).detach().numpy()


def own_values(layer: nn.Layer, x: np.ndarray) -> np.ndarray:
    slot = pd.Variable([None, *x.shape[1:]], dtype="float64")
    return layer(slot).eval({slot: x})


def far(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-9) -> bool:
    return a.shape != b.shape or bool((abs(a - b) > tolerance * (1 + abs(b))).any())


if __name__ == "__main__":
    print(difference(int(sys.argv[1])) or "same")
