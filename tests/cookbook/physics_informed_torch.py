"""demos/cookbook/physics_informed.py in PyTorch."""

import math

import torch
from physics_informed import ENDS, RATE, batches, weights


def network(x, w):
    h = torch.tanh(x @ w[0] + w[1])
    return torch.tanh(h @ w[2] + w[3]) @ w[4] + w[5]


def losses(steps):
    w = [torch.nn.Parameter(torch.from_numpy(v)) for v in weights()]
    optimizer = torch.optim.Adam(w, lr=RATE)
    history = []
    for (points,) in batches(steps):
        x = torch.from_numpy(points).requires_grad_()
        u = network(x, w)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        inside = ((curvature + math.pi**2 * torch.sin(math.pi * x)) ** 2).mean()
        cost = inside + 100.0 * (network(torch.from_numpy(ENDS), w) ** 2).mean()
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        history.append(cost.item())
    return history
