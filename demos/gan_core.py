"""A generative adversarial network (Goodfellow et al. 2014) that learns to draw digits.

The discriminator is built twice, on real digits and on generated ones, with one set of parameters.
Two optimizers work on one graph, each with the parameters of its own player. With --dynamic each
step calls the players on arrays instead; the numbers are the same.
"""

import argparse
import logging
import os
import time
from pathlib import Path

os.environ.setdefault("PD_DATASET_HOME", str(Path(__file__).resolve().parent / "data"))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import numpy as np

import pd_core as pd
from pd_v2.dataset import mnist
from picture import require

BATCH = 128
STEPS, QUICK_STEPS, PICTURES = 12_000, 1_000, 8
NOISE = 100
REAL = 0.9  # one-sided label smoothing: 1 makes the discriminator overconfident
BOUND = 0.22  # largest distance of a trained generator, see `distance`


def generator(z):
    """Return images with pixels in [0, 1], generated from noise."""
    with pd.namespace("generator"):
        hidden = pd.relu(pd.fc(z, 128, W="W1", B="b1"))
        return pd.sigmoid(pd.fc(hidden, 784, W="W2", B="b2"))


def discriminator(x):
    """Return the probability that images are real digits, and its logit."""
    with pd.namespace("discriminator"):
        logit = pd.fc(pd.relu(pd.fc(x, 128, W="W1", B="b1")), 1, W="W2", B="b2")
        return pd.sigmoid(logit), logit


def bce(p, t):
    """Mean binary cross-entropy."""
    return pd.reduce_mean(pd.binary_cross_entropy(p, t))


def static():
    """Return functions of arrays: a step of D, one of G, and the generator, all of one graph."""
    Z, X = pd.Variable([None, NOISE]), pd.Variable([None, 784])
    one, zero = pd.Variable([None, 1]), pd.Variable([None, 1])
    fake = generator(Z)
    p_real, _ = discriminator(X)
    p_fake, _ = discriminator(fake)
    D_loss = bce(p_real, one) + bce(p_fake, zero)
    G_loss = bce(p_fake, one)
    theta_D = pd.trainable_variables("discriminator/")
    theta_G = pd.trainable_variables("generator/")
    D_step = pd.AdamOptimizer(beta1=0.5).minimize(D_loss, var_list=theta_D)
    G_step = pd.AdamOptimizer(beta1=0.5).minimize(G_loss, var_list=theta_G)
    pd.eval(pd.variable_initializers(vars=theta_D + theta_G))

    def train_D(x, z, ones, zeros):
        return pd.eval([D_step, D_loss], feeds={X: x, Z: z, one: ones, zero: zeros})[1]

    def train_G(z, ones):
        return pd.eval([G_step, G_loss], feeds={Z: z, one: ones})[1]

    return train_D, train_G, lambda z: pd.eval(fake, feeds={Z: z})


def dynamic():
    """Return the same functions, which record only what their step needs, in each call."""
    D_adam, G_adam = pd.AdamOptimizer(beta1=0.5), pd.AdamOptimizer(beta1=0.5)

    def train_D(x, z, ones, zeros):
        with pd.guard():
            p_real, _ = discriminator(x)
            p_fake, _ = discriminator(generator(z).detach())
            loss = bce(p_real, ones) + bce(p_fake, zeros)
            D_adam.minimize(loss)
            return loss.numpy()

    def train_G(z, ones):
        with pd.guard():
            loss = bce(discriminator(generator(z))[0], ones)
            G_adam.minimize(loss, var_list=pd.trainable_variables("generator/"))
            return loss.numpy()

    def generated(z):
        with pd.guard(), pd.no_grad():
            return generator(z).numpy()

    return train_D, train_G, generated


def draw(digits, path):
    """Save digits [36, 784] as a picture of 6 rows."""
    from PIL import Image

    pixels = digits.reshape(6, 6, 28, 28).swapaxes(1, 2).reshape(6 * 28, 6 * 28)
    picture = Image.fromarray((pixels * 255).astype(np.uint8))
    picture.resize((6 * 28 * 3, 6 * 28 * 3), Image.Resampling.NEAREST).save(path)


def distance(images, others):
    """Return the mean difference of the pixels' means and standard deviations in two sets.

    It is 0.01 between two halves of the real digits, 0.3 for blank images or a single digit.
    """
    means = np.abs(images.mean(0) - others.mean(0))
    deviations = np.abs(images.std(0) - others.std(0))
    return float((means + deviations).mean())


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps, not {STEPS}")
    parser.add_argument("--dynamic", action="store_true", help="train inside pd.guard()")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    require("PIL")
    args.out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    images = (np.stack([pixels for pixels, _ in mnist.train()]) + 1) / 2
    rng = np.random.default_rng(0)

    train_D, train_G, generated = dynamic() if args.dynamic else static()

    def noise(rows):
        return rng.uniform(-1, 1, (rows, NOISE)).astype(np.float32)

    steps = QUICK_STEPS if args.quick else STEPS
    fixed_noise, start = noise(36), time.perf_counter()
    ones, zeros = np.ones((BATCH, 1), np.float32), np.zeros((BATCH, 1), np.float32)
    untrained = distance(generated(noise(500)), images)
    for step in range(1, steps + 1):
        real = images[rng.integers(len(images), size=BATCH)]
        d = train_D(real, noise(BATCH), REAL * ones, zeros)
        g = train_G(noise(BATCH), ones)
        if step % (steps // PICTURES) == 0:
            draw(generated(fixed_noise), args.out / f"gan_{step:05}.png")
            seconds = time.perf_counter() - start
            print(f"step {step:6}  loss of D {d:.3f}  of G {g:.3f}  {seconds:4.0f} s")

    draw(generated(fixed_noise), args.out / "gan.png")
    trained = distance(generated(noise(500)), images)
    print(f"distance from real digits: {trained:.2f}, before training {untrained:.2f}")
    print(f"36 generated digits: {args.out / 'gan.png'}")
    if trained > BOUND:
        raise SystemExit(f"did not learn: the distance from real digits is above {BOUND}")


if __name__ == "__main__":
    main()
