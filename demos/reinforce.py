"""A policy learns to balance a pole on a cart by REINFORCE (Williams 1992), with dynamic graphs.

How long an episode takes is decided by what the policy does, one observation at a time, so this is
a loop in Python over values. After each episode the policy learns from all of its steps at once;
the number of steps is the batch size, and episodes of any length run the same program.
"""

import argparse
from pathlib import Path

import numpy as np

import pd_core as pd
from picture import curves

EPISODES, LEARNING_RATE = 400, 0.01  # episodes at most
LONGEST = 500  # steps of an episode
GOAL, QUICK_GOAL = 400, 60  # mean length of the last 50 episodes; a random policy takes 22 steps


class CartPole:
    """The cart-pole of Barto, Sutton and Anderson (1983), in Euler steps of 0.02 s."""

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        """Begin an episode; return the state: position, velocity, angle, angular velocity."""
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        return self.state.astype(np.float32)

    def step(self, action):
        """Push to the left (0) or right (1); return the new state, and whether the pole fell."""
        _, velocity, angle, spin = self.state
        force = self.FORCE if action == 1 else -self.FORCE
        sin, cos = np.sin(angle), np.cos(angle)
        total = self.CART + self.POLE
        push = (force + self.POLE * self.HALF_LENGTH * spin**2 * sin) / total
        inertia = self.HALF_LENGTH * (4 / 3 - self.POLE * cos**2 / total)
        spin_rate = (self.GRAVITY * sin - cos * push) / inertia
        acceleration = push - self.POLE * self.HALF_LENGTH * spin_rate * cos / total
        rates = np.array([velocity, acceleration, spin, spin_rate])
        self.state = self.state + self.SECONDS * rates
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > np.radians(12)
        return self.state.astype(np.float32), bool(fell)


class Policy(pd.nn.Layer):
    """Probabilities of the two actions, [n, 2], in states [n, 4] or [4]."""

    def __init__(self, name=None):
        super().__init__(name)
        self.hidden = pd.nn.FC(128)
        self.action = pd.nn.FC(2)

    def forward(self, x):
        x = pd.reshape(x, [-1, 4])  # a single state, too
        x = pd.relu(pd.dropout(self.hidden(x), 0.6))
        return pd.softmax(self.action(x))


def play(act, cart, rng):
    """Play an episode; return the states [T, 4] and the actions [T]."""
    states, actions = [], []
    state, fell = cart.reset(), False
    while not fell and len(states) < LONGEST:
        states.append(state)
        actions.append(int(rng.random() < act(state)[0, 1]))
        state, fell = cart.step(actions[-1])
    return np.stack(states), np.array(actions)


def returns(steps, discount=0.99):
    """Return the discounted sums of the rewards from each step on, a reward of 1 a step, [T].

    They are normalized over the episode, which keeps the variance of the gradient small.
    """
    sums = (1 - discount ** np.arange(steps, 0, -1)) / (1 - discount)
    return ((sums - sums.mean()) / (sums.std() + 1e-6)).astype(np.float32)


def cost(probabilities, chosen, returns):
    """Return a cost that falls as actions with large returns become more probable.

    `probabilities` and `chosen` are [T, 2]; the latter has a 1 for each action that was taken.
    """
    taken = pd.reduce_sum(probabilities * chosen, 1)
    # An action may have a probability of 0 here, where dropout is another than when it was taken.
    return -pd.reduce_mean(pd.log(taken + 1e-8) * returns)


def dynamic(policy):
    """Return functions of arrays: probabilities of the actions, and a step of learning."""
    optimizer = pd.AdamOptimizer(LEARNING_RATE)

    def act(state):
        with pd.guard(), pd.no_grad():
            return policy(state).numpy()

    def learn(states, chosen, returns):
        with pd.guard():
            loss = cost(policy(states), chosen, returns)
            loss.backward()
            optimizer.minimize(loss)
            policy.clear_gradients()
            return loss.numpy()

    return act, learn


def static(policy):
    """Return the same functions, which evaluate one static graph."""
    x, chosen, returns = pd.Variable([None, 4]), pd.Variable([None, 2]), pd.Variable([None])
    probabilities = policy(x)
    loss = cost(probabilities, chosen, returns)
    step = pd.AdamOptimizer(LEARNING_RATE).minimize(loss)

    def act(state):  # with dropout, as in training
        return pd.eval(probabilities, feeds={x: state[None]}, training=True)

    def learn(*episode):
        feeds = dict(zip((x, chosen, returns), episode, strict=True))
        return pd.eval([step, loss], feeds)[1]

    return act, learn


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"stop at {QUICK_GOAL} steps")
    parser.add_argument("--static", action="store_true", help="the same with static graphs")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    goal = QUICK_GOAL if args.quick else GOAL
    rng = np.random.default_rng(0)
    cart, policy = CartPole(rng), Policy("policy")
    act, learn = static(policy) if args.static else dynamic(policy)

    lengths, means = [], []
    while len(lengths) < EPISODES and (not means or means[-1] < goal):
        states, actions = play(act, cart, rng)
        learn(states, np.eye(2, dtype=np.float32)[actions], returns(len(states)))
        lengths.append(len(states))
        means.append(np.mean(lengths[-50:]))
        if len(lengths) % 20 == 0:
            print(f"episode {len(lengths):4}  mean length of the last 50: {means[-1]:5.1f}")

    curves(
        args.out / "reinforce.png",
        "REINFORCE: how long the pole stays up",
        {"episode": lengths, "mean of the last 50": means},
        "episode",
        "steps",
    )
    work = f"{sum(lengths)} steps and {len(lengths)} updates"
    print(f"{work} ran {pd.stats()['compiled']} programs")
    print(f"the pole stays up for {means[-1]:.0f} of {LONGEST} steps, at first for {means[9]:.0f}")
    if means[-1] < goal:
        raise SystemExit(f"did not learn: {means[-1]:.0f} steps, less than {goal}")


if __name__ == "__main__":
    main()
