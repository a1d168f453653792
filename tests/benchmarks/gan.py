"""The GAN of demos/gan_core.py, batch 128: a step of D and one of G, in pd and PyTorch.

PyTorch's step does no unneeded work: the generated digits are detached in D's step, and G's step
computes no gradients of D's parameters.
"""

import numpy as np
import side_by_side as sbs
import torch
from torch.nn import functional as f

import pd_core as pd

BATCH, NOISE = 128, 100
ADAM = {"beta1": 0.5, "beta2": 0.999}


def generator(z):
    with pd.namespace("generator"):
        hidden = pd.relu(pd.fc(z, 128, W="W1", B="b1"))
        return pd.sigmoid(pd.fc(hidden, 784, W="W2", B="b2"))


def discriminator(x):
    with pd.namespace("discriminator"):
        return pd.sigmoid(pd.fc(pd.relu(pd.fc(x, 128, W="W1", B="b1")), 1, W="W2", B="b2"))


def bce(p, t):
    return pd.reduce_mean(pd.binary_cross_entropy(p, t))


def ours():
    z, x = pd.Variable([None, NOISE]), pd.Variable([None, 784])
    one, zero = pd.Variable([None, 1]), pd.Variable([None, 1])
    fake = generator(z)
    p_real, p_fake = discriminator(x), discriminator(fake)
    d_loss, g_loss = bce(p_real, one) + bce(p_fake, zero), bce(p_fake, one)
    theta_d, theta_g = (pd.trainable_variables(f"{n}/") for n in ("discriminator", "generator"))
    d_step = pd.AdamOptimizer(**ADAM).minimize(d_loss, var_list=theta_d)
    g_step = pd.AdamOptimizer(**ADAM).minimize(g_loss, var_list=theta_g)
    ones, zeros = np.ones((BATCH, 1), np.float32), np.zeros((BATCH, 1), np.float32)

    def step(batch):
        real, z_d, z_g = batch
        _, d = pd.eval([d_step, d_loss], feeds={x: real, z: z_d, one: ones, zero: zeros})
        _, g = pd.eval([g_step, g_loss], feeds={z: z_g, one: ones})
        return float(d) + float(g)

    return step, [d_step, d_loss, g_step, g_loss], theta_d + theta_g


def theirs(parameters):
    parameters = [sbs.parameter(v) for v in parameters]
    theta_d, theta_g = parameters[:4], parameters[4:]
    betas = tuple(ADAM.values())
    d_adam, g_adam = (torch.optim.Adam(p, 1e-3, betas, fused=True) for p in (theta_d, theta_g))
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

    def two_layers(x, w1, b1, w2, b2):
        return torch.addmm(b2, f.relu(torch.addmm(b1, x, w1)), w2)

    def update(adam, loss, inputs):
        adam.zero_grad()
        loss.backward(inputs=inputs)
        adam.step()
        return loss.item()

    def step(batch):
        real, z_d, z_g = (torch.from_numpy(a) for a in batch)
        with torch.no_grad():
            fake = torch.sigmoid(two_layers(z_d, *theta_g))
        real_loss = f.binary_cross_entropy_with_logits(two_layers(real, *theta_d), ones)
        fake_loss = f.binary_cross_entropy_with_logits(two_layers(fake, *theta_d), zeros)
        d = update(d_adam, real_loss + fake_loss, theta_d)
        logits = two_layers(torch.sigmoid(two_layers(z_g, *theta_g)), *theta_d)
        return d + update(g_adam, f.binary_cross_entropy_with_logits(logits, ones), theta_g)

    return step


def batches():
    """Return batches of (real digits, noise for D's step, noise for G's step)."""
    rng = np.random.default_rng(0)
    noise = [rng.uniform(-1, 1, (BATCH, NOISE)).astype(np.float32) for _ in range(64)]
    real = [(images + 1) / 2 for images, _ in sbs.digits(BATCH)]
    return list(zip(real, noise[: len(real)], noise[-len(real) :], strict=True))


if __name__ == "__main__":
    title = "GAN, batch 128, a step of D and a step of G, Adam"
    sbs.compare(title, ours, theirs, batches(), steps=60)
