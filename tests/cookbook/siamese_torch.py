"""demos/cookbook/siamese.py in PyTorch."""

import torch
import torch.nn.functional as F
from initial import weights
from siamese import MARGIN, RATE, WIDTH, batches

SHAPES = {"0.W": (16, 1, 3, 3), "0.B": (16,), "2.W": (32, 16, 3, 3), "2.B": (32,)}
SHAPES |= {"5.W": (512, WIDTH)}


def tower(x, w):
    x = F.max_pool2d(torch.relu(F.conv2d(x, w["0.W"], w["0.B"], padding=1)), 2)
    x = F.max_pool2d(torch.relu(F.conv2d(x, w["2.W"], w["2.B"], padding=1)), 2)
    return x.flatten(1) @ w["5.W"]


def losses(steps):
    w = {n: torch.nn.Parameter(torch.from_numpy(v)) for n, v in weights(SHAPES).items()}
    optimizer = torch.optim.Adam(w.values(), lr=RATE)
    history = []
    for batch in batches(steps):
        anchor, positive, negative = (tower(torch.from_numpy(x), w) for x in batch)
        near, far = ((anchor - v).square().sum(1) for v in (positive, negative))
        cost = torch.relu(near - far + MARGIN).mean()
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        history.append(cost.item())
    return history
