"""The GAN of demos/gan_core.py: a step of the discriminator and one of the generator.

PyTorch's and JAX's steps do no unneeded work: the generated digits are constants in the
discriminator's step, and the generator's step computes no gradients of the discriminator.
"""

import numpy as np

from tests.benchmarks import loops
from tests.benchmarks.digits import digits

BATCH, NOISE, HIDDEN, PIXELS = 128, 100, 128, 784
RATE, BETA1, BETA2 = 1e-3, 0.5, 0.999

TITLE = f"GAN, batch {BATCH}, a step of D and a step of G, Adam"
KIND = "train"
RTOL = 1e-3
_D, _G = PIXELS * HIDDEN + HIDDEN, NOISE * HIDDEN + HIDDEN * PIXELS
# D's step: G forward, D forward and the gradients of its parameters on two batches. G's: both
# forward, the gradients of all hidden values, of the digits and of G's parameters.
FLOPS = 2 * BATCH * (_G + 2 * (2 * _D + HIDDEN) + 2 * _D + 2 * _G + HIDDEN * PIXELS)


def batches():
    """Return batches of digits in [0, 1], noise for D's step, noise for G's step."""
    rng = np.random.default_rng(0)
    drawn = []
    for pixels, _ in digits(BATCH):
        noise = rng.uniform(-1, 1, (2, BATCH, NOISE)).astype(np.float32)
        drawn.append(((pixels + 1) / 2, *noise))
    return drawn


def ours():
    """Return the loop of `pd.eval`, two evaluations a batch, and the parameters of D and G."""
    import pd_core as pd

    def generator(z):
        with pd.namespace("generator"):
            hidden = pd.relu(pd.fc(z, HIDDEN, W="W1", B="b1"))
            return pd.sigmoid(pd.fc(hidden, PIXELS, W="W2", B="b2"))

    def discriminator(x):
        with pd.namespace("discriminator"):
            hidden = pd.relu(pd.fc(x, HIDDEN, W="W1", B="b1"))
            return pd.sigmoid(pd.fc(hidden, 1, W="W2", B="b2"))

    def cost(p, target):
        return pd.reduce_mean(pd.binary_cross_entropy(p, target))

    z, x = pd.Variable([None, NOISE]), pd.Variable([None, PIXELS])
    one, zero = pd.Variable([None, 1]), pd.Variable([None, 1])
    fake = generator(z)
    p_real, p_fake = discriminator(x), discriminator(fake)
    d_loss, g_loss = cost(p_real, one) + cost(p_fake, zero), cost(p_fake, one)
    theta_d, theta_g = (pd.trainable_variables(f"{n}/") for n in ("discriminator", "generator"))
    adam = pd.AdamOptimizer(RATE, beta1=BETA1, beta2=BETA2)
    d_step = adam.minimize(d_loss, var_list=theta_d)
    adam = pd.AdamOptimizer(RATE, beta1=BETA1, beta2=BETA2)
    g_step = adam.minimize(g_loss, var_list=theta_g)
    ones, zeros = np.ones((BATCH, 1), np.float32), np.zeros((BATCH, 1), np.float32)

    def step(real, z_d, z_g):
        d, _ = pd.eval([d_loss, d_step], {x: real, z: z_d, one: ones, zero: zeros})
        g, _ = pd.eval([g_loss, g_step], {z: z_g, one: ones})
        return float(d) + float(g)

    return loops.step_loop(step), [v.val() for v in theta_d + theta_g]


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    trained = loops.torch_parameters(parameters)
    theta_d, theta_g = trained[:4], trained[4:]
    betas = BETA1, BETA2
    d_adam, g_adam = (torch.optim.Adam(p, RATE, betas, fused=True) for p in (theta_d, theta_g))
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

    def two_layers(x, w1, b1, w2, b2):
        return torch.addmm(b2, f.relu(torch.addmm(b1, x, w1)), w2)

    @compiled
    def d_loss(real, fake):
        real_loss = f.binary_cross_entropy_with_logits(two_layers(real, *theta_d), ones)
        return real_loss + f.binary_cross_entropy_with_logits(two_layers(fake, *theta_d), zeros)

    @compiled
    def g_loss(z):
        logits = two_layers(torch.sigmoid(two_layers(z, *theta_g)), *theta_d)
        return f.binary_cross_entropy_with_logits(logits, ones)

    @compiled
    def generate(z):
        return torch.sigmoid(two_layers(z, *theta_g))

    def update(adam, loss, inputs):
        adam.zero_grad()
        loss.backward(inputs=inputs)
        adam.step()
        return loss.item()

    def step(*batch):
        real, z_d, z_g = map(torch.from_numpy, batch)
        with torch.no_grad():
            fake = generate(z_d)
        return update(d_adam, d_loss(real, fake), theta_d) + update(g_adam, g_loss(z_g), theta_g)

    return loops.step_loop(step)


def jax(parameters):
    """Return the loop of JAX, both steps of which are one program."""
    import jax
    from jax import numpy as jnp

    def two_layers(x, w1, b1, w2, b2):
        return jax.nn.relu(x @ w1 + b1) @ w2 + b2

    def d_loss(theta_d, real, fake):
        real_loss = jax.nn.softplus(-two_layers(real, *theta_d)).mean()
        return real_loss + jax.nn.softplus(two_layers(fake, *theta_d)).mean()

    def g_loss(theta_g, theta_d, z):
        fake = jax.nn.sigmoid(two_layers(z, *theta_g))
        return jax.nn.softplus(-two_layers(fake, *theta_d)).mean()

    initialize, update = loops.jax_adam(RATE, BETA1, BETA2)

    def step(state, real, z_d, z_g):
        theta_d, theta_g, d_slots, g_slots = state
        fake = jax.nn.sigmoid(two_layers(z_d, *theta_g))
        d, gradients = jax.value_and_grad(d_loss)(theta_d, real, fake)
        theta_d, d_slots = update(theta_d, d_slots, gradients)
        g, gradients = jax.value_and_grad(g_loss)(theta_g, theta_d, z_g)
        theta_g, g_slots = update(theta_g, g_slots, gradients)
        return (theta_d, theta_g, d_slots, g_slots), d + g

    theta_d, theta_g = jax.tree.map(jnp.array, (parameters[:4], parameters[4:]))
    state = theta_d, theta_g, initialize(theta_d), initialize(theta_g)
    return loops.jax_state_loop(step, state)
