"""REINFORCE (Williams 1992): a walker learns to go uphill on a slippery path, from rewards alone.

The values are at hand inside `pd.guard()`: each action is drawn from the policy's probabilities in
Python, and after an episode of any length its steps are one batch.

    python demos/cookbook/policy_gradient.py
"""

import numpy as np
from initial import weights

import pd_core as pd

CELLS, LONGEST, SLIP, DISCOUNT, RATE = 9, 40, 0.1, 0.95, 0.02
SHAPES = {"hidden.W": (CELLS, 16), "hidden.B": (16,), "action.W": (16, 2), "action.B": (2,)}


def play(probability_of_right, rng):
    """Play an episode; return the cells [T] and actions [T], and the discounted returns [T]."""
    cell, cells, actions, rewards = CELLS // 2, [], [], []
    while 0 < cell < CELLS - 1 and len(cells) < LONGEST:
        right = rng.random() < probability_of_right(np.eye(CELLS, dtype="float32")[[cell]])
        cells.append(cell)
        actions.append(int(right))
        slips = rng.random() < SLIP
        cell += 1 if right != slips else -1
        rewards.append({0: -1.0, CELLS - 1: 1.0}.get(cell, -0.02))
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + DISCOUNT * total
        returns.append(total)
    return np.array(cells), np.array(actions), np.array(returns[::-1], "float32")


class Policy(pd.nn.Layer):
    """One-hot cells [T, 9] to the logits of left and right, [T, 2]."""

    def __init__(self, name="policy"):
        super().__init__(name)
        self.hidden, self.action = pd.nn.FC(16, act="tanh"), pd.nn.FC(2)

    def forward(self, x):
        return self.action(self.hidden(x))


def episodes(count):
    """Learn from so many episodes; yield the cost and the sum of rewards of each."""
    rng = np.random.default_rng(1)
    policy, optimizer = Policy(), pd.AdamOptimizer(RATE)
    policy.load_dict(weights(SHAPES))

    def probability_of_right(x):
        with pd.no_grad():
            return float(pd.softmax(policy(x))[0, 1])

    with pd.guard():
        for _ in range(count):
            cells, actions, returns = play(probability_of_right, rng)
            log_p = pd.log_softmax(policy(np.eye(CELLS, dtype="float32")[cells]))
            chosen = log_p[np.arange(len(actions)), actions]
            cost = -(chosen * returns).sum()
            cost.backward()
            optimizer.minimize(cost)
            policy.clear_gradients()
            yield float(cost), returns[0]


def losses(steps):
    """Learn, and return the cost of each episode."""
    return [cost for cost, _ in episodes(steps)]


def main():
    rewards = [reward for _, reward in episodes(400)]
    for k in range(0, 400, 80):
        print(f"episode {k:3}  mean return {np.mean(rewards[k : k + 80]):.2f}")
    if np.mean(rewards[-80:]) < 0.6:
        raise SystemExit("did not learn to go uphill")


if __name__ == "__main__":
    main()
