"""demos/cookbook/unet.py in PyTorch."""

import torch
import torch.nn.functional as F
from initial import weights
from unet import RATE, batches

SHAPES = {}
for _name, _inputs, _outputs in (
    ("first", 1, 8),
    ("second", 8, 16),
    ("bottom", 16, 32),
    ("up_second", 32, 16),
    ("up_first", 16, 8),
    ("join_second", 32, 16),
    ("join_first", 16, 8),
):
    if _name.startswith("up"):
        SHAPES |= {f"{_name}.W": (_inputs, _outputs, 2, 2), f"{_name}.B": (_outputs,)}
        continue
    SHAPES |= {f"{_name}.0.W": (_outputs, _inputs, 3, 3), f"{_name}.0.B": (_outputs,)}
    SHAPES |= {f"{_name}.1.W": (_outputs, _outputs, 3, 3), f"{_name}.1.B": (_outputs,)}
SHAPES |= {"out.W": (1, 8, 1, 1), "out.B": (1,)}


def network(x, w):
    def block(name, x):
        for k in (0, 1):
            x = torch.relu(F.conv2d(x, w[f"{name}.{k}.W"], w[f"{name}.{k}.B"], padding=1))
        return x

    def up(name, x):
        return F.conv_transpose2d(x, w[f"{name}.W"], w[f"{name}.B"], stride=2)

    first = block("first", x)
    second = block("second", F.max_pool2d(first, 2))
    bottom = block("bottom", F.max_pool2d(second, 2))
    joined = block("join_second", torch.cat([second, up("up_second", bottom)], 1))
    joined = block("join_first", torch.cat([first, up("up_first", joined)], 1))
    return F.conv2d(joined, w["out.W"], w["out.B"])


def losses(steps):
    w = {n: torch.nn.Parameter(torch.from_numpy(v)) for n, v in weights(SHAPES).items()}
    optimizer = torch.optim.Adam(w.values(), lr=RATE)
    history = []
    for pictures, masks in batches(steps):
        logits = network(torch.from_numpy(pictures), w)
        cost = F.binary_cross_entropy_with_logits(logits, torch.from_numpy(masks))
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        history.append(cost.item())
    return history
