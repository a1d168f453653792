"""Loops of inference, which return the norm of the outputs of each batch."""

import numpy as np


def loop_of(outputs_of):
    """Return the loop over a function (arrays of a batch) that returns an array."""
    return lambda batches: [float(np.linalg.norm(outputs_of(*batch))) for batch in batches]


def eval_loop(outputs, inputs):
    """Return the loop of `pd.eval`."""
    import pd_core as pd

    return loop_of(lambda *batch: pd.eval(outputs, dict(zip(inputs, batch, strict=True))))


def torch_loop(outputs_of, compiled):
    """Return the loop of PyTorch, of a function (tensors of a batch)."""
    import torch

    program = compiled(outputs_of)

    def run(*batch):
        with torch.inference_mode():
            return program(*map(torch.from_numpy, batch)).numpy()

    return loop_of(run)


def jax_loop(outputs_of, parameters):
    """Return the loop of JAX, of a function (parameters, *arrays of a batch)."""
    import jax

    program, parameters = jax.jit(outputs_of), jax.tree.map(jax.numpy.array, parameters)
    return loop_of(lambda *batch: np.asarray(program(parameters, *batch)))
