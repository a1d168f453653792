"""demos/cookbook/vae.py in PyTorch."""

import torch
import torch.nn.functional as F
from initial import weights
from vae import LATENT, RATE, batches

SHAPES = {"encoder.0.W": (16, 1, 4, 4), "encoder.0.B": (16,)}
SHAPES |= {"encoder.1.W": (32, 16, 4, 4), "encoder.1.B": (32,)}
SHAPES |= {"encoder.3.W": (512, 2 * LATENT), "encoder.3.B": (2 * LATENT,)}
SHAPES |= {"wide.W": (LATENT, 512), "wide.B": (512,)}
SHAPES |= {"decoder.0.W": (32, 16, 4, 4), "decoder.0.B": (16,)}
SHAPES |= {"decoder.1.W": (16, 1, 4, 4), "decoder.1.B": (1,)}


def network(x, noise, w):
    def layer(function, name, x, **options):
        return function(x, w[f"{name}.W"], w[f"{name}.B"], stride=2, padding=1, **options)

    h = torch.relu(layer(F.conv2d, "encoder.0", x))
    h = torch.relu(layer(F.conv2d, "encoder.1", h))
    code = h.flatten(1) @ w["encoder.3.W"] + w["encoder.3.B"]
    mean, log_variance = code[:, :LATENT], code[:, LATENT:]
    z = mean + torch.exp(log_variance * 0.5) * noise
    h = torch.relu(z @ w["wide.W"] + w["wide.B"]).reshape(-1, 32, 4, 4)
    h = torch.relu(layer(F.conv_transpose2d, "decoder.0", h))
    return layer(F.conv_transpose2d, "decoder.1", h), mean, log_variance


def losses(steps):
    w = {n: torch.nn.Parameter(torch.from_numpy(v)) for n, v in weights(SHAPES).items()}
    optimizer = torch.optim.Adam(w.values(), lr=RATE)
    history = []
    for pictures, noise in batches(steps):
        x = torch.from_numpy(pictures)
        logits, mean, log_variance = network(x, torch.from_numpy(noise), w)
        pixels = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum((1, 2, 3))
        divergence = (mean.square() + log_variance.exp() - log_variance - 1.0).sum(1)
        cost = (pixels + divergence * 0.5).mean()
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        history.append(cost.item())
    return history
