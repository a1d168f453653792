"""Two generators learn to translate between two sets of points without pairs (Zhu et al. 2017).

Points of a ring become points of a square and the other way round: each discriminator tells real
points from translated ones, and a point that is translated there and back should be itself. Two
optimizers alternate, one for both generators and one for both discriminators. The same functions
build dynamic graphs or, with --static, two static graphs; the numbers are equal.
"""

import argparse
from pathlib import Path

import numpy as np

import pd_core as pd
from picture import points

BATCH = 256
STEPS, QUICK_STEPS = 4000, 600
RATE_G, RATE_D = 1e-3, 4e-3
BOUND, QUICK_BOUND = 0.1, 0.2  # of the distance of translated points from real ones; 2 at first


def ring(n, rng):
    """Return points around a circle with center (0, 0) and radius 1, [n, 2]."""
    angle = rng.uniform(0, 2 * np.pi, n)
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    return (circle + rng.normal(0, 0.05, (n, 2))).astype(np.float32)


def square(n, rng):
    """Return points around a square with center (3, 1) and sides of 2, [n, 2]."""
    direction = ring(n, rng)
    outline = direction / np.abs(direction).max(1, keepdims=True) + np.float32([3, 1])
    return (outline + rng.normal(0, 0.05, (n, 2))).astype(np.float32)


def network(size, name):
    """Return a perceptron with two hidden layers."""
    hidden = pd.nn.FC(64, act="relu"), pd.nn.FC(64, act="relu")
    return pd.nn.Sequential(*hidden, pd.nn.FC(size), name=name)


class CycleGAN:
    """Generators G: A to B and F: B to A, and discriminators of A and of B."""

    def __init__(self):
        self.G, self.F = network(2, "G"), network(2, "F")
        self.D_A, self.D_B = network(1, "D_A"), network(1, "D_B")

    def generator_cost(self, a, b):
        """Cost of both generators: translations look real, and lead back to where they began."""
        fake_a, fake_b = self.F(b), self.G(a)
        looks = squared(self.D_A(fake_a), 1.0) + squared(self.D_B(fake_b), 1.0)
        back = pd.reduce_mean(pd.abs(self.F(fake_b) - a) + pd.abs(self.G(fake_a) - b))
        return looks + back

    def discriminator_cost(self, a, b):
        """Cost of both discriminators: 1 for real points, 0 for translated ones."""
        fake_a, fake_b = self.F(b).detach(), self.G(a).detach()
        real = squared(self.D_A(a), 1.0) + squared(self.D_B(b), 1.0)
        return real + squared(self.D_A(fake_a), 0.0) + squared(self.D_B(fake_b), 0.0)

    def generators(self):
        """Parameters of both generators."""
        return self.G.parameters() + self.F.parameters()

    def discriminators(self):
        """Parameters of both discriminators."""
        return self.D_A.parameters() + self.D_B.parameters()


def squared(score, target):
    """Mean squared distance of scores from a target (Mao et al. 2017)."""
    return pd.reduce_mean(pd.square(score - target))


def dynamic_step(gan):
    """Return a function that trains with a batch of each set: (cost of G and F, of D_A and D_B)."""
    update_g, update_d = pd.AdamOptimizer(RATE_G, beta1=0.5), pd.AdamOptimizer(RATE_D, beta1=0.5)

    def step(a, b):
        with pd.guard():
            cost_g = gan.generator_cost(a, b)
            update_g.minimize(cost_g, var_list=gan.generators())
            cost_d = gan.discriminator_cost(a, b)
            update_d.minimize(cost_d, var_list=gan.discriminators())
            return float(cost_g), float(cost_d)

    return step


def static_step(gan):
    """Return the same function with two static graphs."""
    a, b = pd.Variable([None, 2]), pd.Variable([None, 2])
    cost_g, cost_d = gan.generator_cost(a, b), gan.discriminator_cost(a, b)
    update_g = pd.AdamOptimizer(RATE_G, beta1=0.5).minimize(cost_g, var_list=gan.generators())
    update_d = pd.AdamOptimizer(RATE_D, beta1=0.5).minimize(cost_d, var_list=gan.discriminators())

    def step(batch_a, batch_b):
        feeds = {a: batch_a, b: batch_b}
        _, g = pd.eval([update_g, cost_g], feeds)
        _, d = pd.eval([update_d, cost_d], feeds)
        return g, d

    return step


def train(gan, make_step, steps):
    """Train for some steps; return the costs, [steps, 2]."""
    rng, costs, step = np.random.default_rng(0), [], make_step(gan)
    for k in range(1, steps + 1):
        costs.append(step(ring(BATCH, rng), square(BATCH, rng)))
        if k % (STEPS // 8) == 0:
            g, d = costs[-1]
            print(f"step {k:5}  cost of the generators {g:.3f}, of the discriminators {d:.3f}")
    return np.array(costs)


def distance(x, y):
    """Return the mean distance of points from the nearest one of the other set, both ways."""
    distances = np.linalg.norm(x[:, None] - y[None], axis=2)
    return (distances.min(0).mean() + distances.min(1).mean()) / 2


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps, not {STEPS}")
    parser.add_argument("--static", action="store_true", help="static graphs, and a comparison")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    steps, bound = (QUICK_STEPS, QUICK_BOUND) if args.quick else (STEPS, BOUND)

    gan = CycleGAN()
    costs = train(gan, static_step if args.static else dynamic_step, steps)
    rng = np.random.default_rng(1)
    a, b = ring(500, rng), square(500, rng)
    with pd.guard(), pd.no_grad():
        fake_a, fake_b = gan.F(b).numpy(), gan.G(a).numpy()
        back = gan.F(fake_b).numpy()
    left = {"ring": a, "from the square": fake_a, "there and back": back}
    panels = {"A: the ring": left, "B: the square": {"square": b, "from the ring": fake_b}}
    points(args.out / "cycle_gan.png", panels, "x", "y", equal=True)
    worst = max(distance(fake_a, a), distance(fake_b, b))
    print(f"translated points are {worst:.3f} from real ones")
    print(f"coordinates change by {np.abs(back - a).mean():.3f} there and back")
    if args.static:
        with pd.fresh():
            dynamic = train(CycleGAN(), dynamic_step, 50)
        difference = np.abs(dynamic - costs[:50]).max()
        print(f"costs of 50 dynamic steps differ by {difference:.1g}")
        assert difference < 1e-4
    if worst > bound:
        raise SystemExit(f"did not learn: {worst:.3f}, more than {bound}")


if __name__ == "__main__":
    main()
