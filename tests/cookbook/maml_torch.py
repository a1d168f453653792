"""demos/cookbook/maml.py in PyTorch."""

import torch
from maml import INNER_RATE, OUTER_RATE, TASKS, batches, weights


def network(x, w):
    h = torch.relu(x @ w[0] + w[1])
    return torch.relu(h @ w[2] + w[3]) @ w[4] + w[5]


def losses(steps):
    w = [torch.nn.Parameter(torch.from_numpy(v)) for v in weights()]
    optimizer = torch.optim.Adam(w, lr=OUTER_RATE)
    history = []
    for batch in batches(steps):
        x, y, x_test, y_test = map(torch.from_numpy, batch)
        costs = []
        for k in range(TASKS):
            inner = ((network(x[k], w) - y[k]) ** 2).mean()
            slopes = torch.autograd.grad(inner, w, create_graph=True)
            fast = [v - INNER_RATE * s for v, s in zip(w, slopes, strict=True)]
            costs.append(((network(x_test[k], fast) - y_test[k]) ** 2).mean())
        cost = torch.stack(costs).mean()
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        history.append(cost.item())
    return history
