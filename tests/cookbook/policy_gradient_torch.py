"""demos/cookbook/policy_gradient.py in PyTorch."""

import numpy as np
import torch
from initial import weights
from policy_gradient import CELLS, RATE, SHAPES, play


def losses(steps):
    rng = np.random.default_rng(1)
    w = {n: torch.nn.Parameter(torch.from_numpy(v)) for n, v in weights(SHAPES).items()}
    optimizer = torch.optim.Adam(w.values(), lr=RATE)

    def logits(x):
        h = torch.tanh(torch.from_numpy(x) @ w["hidden.W"] + w["hidden.B"])
        return h @ w["action.W"] + w["action.B"]

    history = []
    for _ in range(steps):
        with torch.no_grad():
            cells, actions, returns = play(lambda x: logits(x).softmax(1)[0, 1].item(), rng)
        log_p = logits(np.eye(CELLS, dtype="float32")[cells]).log_softmax(1)
        cost = -(log_p[np.arange(len(actions)), actions] * torch.from_numpy(returns)).sum()
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        history.append(cost.item())
    return history
