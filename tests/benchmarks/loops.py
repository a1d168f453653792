"""Training loops of each framework, from a loss and an optimizer; PyTorch and JAX when called."""

import numpy as np

import pd_core as pd
import pd_v2 as paddle


def rows(batch):
    """Return the samples of a batch of arrays, as tuples of rows."""
    return list(zip(*batch, strict=True))


def trainer_loop(cost, optimizer, samples=rows):
    """Return (the loop of `paddle.trainer.SGD.train`, the parameters at the start).

    The reader yields `samples(batch)`, lists of tuples that are in memory before anything is timed;
    what the trainer makes of them is part of the time, as is the event handler.
    """
    parameters = paddle.parameters.create(cost)
    initial = [np.array(parameters.get(name)) for name in parameters.names()]
    trainer = paddle.trainer.SGD(cost, parameters, optimizer)
    prepared = {}  # by the identity of a batch, which is kept with its samples

    def samples_of(batch):
        if id(batch) not in prepared:
            prepared[id(batch)] = batch, samples(batch)
        return prepared[id(batch)][1]

    def loop(batches):
        losses = []

        def on_event(event):
            if isinstance(event, paddle.event.EndIteration):
                losses.append(event.cost)

        trainer.train(lambda: map(samples_of, batches), event_handler=on_event)
        return losses

    return loop, initial


def step_loop(step):
    """Return the loop over a function (arrays of a batch) that returns the loss."""
    return lambda batches: [float(step(*batch)) for batch in batches]


def eval_loop(loss, update, inputs, parameters):
    """Return (the loop of `pd.eval`, the parameters at the start), for a graph of pd_core."""

    def step(*batch):
        return pd.eval([loss, update], dict(zip(inputs, batch, strict=True)))[0]

    return step_loop(step), [v.val() for v in parameters]


def torch_parameters(parameters):
    """Return tensors with these values that are trained."""
    import torch

    return [torch.nn.Parameter(torch.from_numpy(value)) for value in parameters]


def torch_loop(loss_of, optimizer):
    """Return the loop of a loss in PyTorch, a function (tensors of a batch)."""
    import torch

    def step(*batch):
        loss = loss_of(*map(torch.from_numpy, batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step_loop(step)


def jax_loop(loss_of, parameters, optimizer, state=None):
    """Return the loop of a loss in JAX, a function (parameters, *arrays of a batch).

    The whole step is one program that updates parameters and slots in place. `optimizer` is a pair
    of functions, as `jax_momentum` and `jax_adam` return. With a `state`, such as moving averages,
    the loss is a function (parameters, state, *arrays) that returns (loss, new state).
    """
    import jax

    initialize, update = optimizer

    def stateless(parameters, state, *batch):
        return loss_of(parameters, *batch), None

    differentiated = jax.value_and_grad(stateless if state is None else loss_of, has_aux=True)

    def step(values, *batch):
        parameters, slots, state = values
        (loss, state), gradients = differentiated(parameters, state, *batch)
        parameters, slots = update(parameters, slots, gradients)
        return (parameters, slots, state), loss

    parameters, state = jax.tree.map(jax.numpy.array, (parameters, state))
    return jax_state_loop(step, (parameters, initialize(parameters), state))


def jax_state_loop(step, state):
    """Return the loop of a step in JAX, a function (state, *arrays) that returns (state, loss).

    The step is compiled, and updates the state in place. Losses are read after the last step, so
    that a step is dispatched while the one before runs.
    """
    import jax

    compiled = jax.jit(step, donate_argnums=0)

    def loop(batches):
        nonlocal state
        losses = []
        for batch in batches:
            state, loss = compiled(state, *batch)
            losses.append(loss)
        return list(map(float, losses))

    return loop


def jax_momentum(rate, momentum, decay=0.0):
    """Return (slots of parameters, update) of gradient descent with momentum and L2."""
    import jax

    def update(parameters, slots, gradients):
        slots = jax.tree.map(
            lambda v, p, g: momentum * v + g + decay * p, slots, parameters, gradients
        )
        return jax.tree.map(lambda p, v: p - rate * v, parameters, slots), slots

    return lambda parameters: jax.tree.map(jax.numpy.zeros_like, parameters), update


def jax_adam(rate, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """Return (slots of parameters, update) of Adam (Kingma and Ba, 2015)."""
    import jax
    from jax import numpy as jnp

    def initialize(parameters):
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return jnp.zeros(()), zeros, jax.tree.map(jnp.zeros_like, parameters)

    def update(parameters, slots, gradients):
        count, means, squares = slots
        count = count + 1
        means = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, means, gradients)
        squares = jax.tree.map(lambda s, g: beta2 * s + (1 - beta2) * g * g, squares, gradients)
        root = jnp.sqrt(1 - beta2**count)
        step = rate * root / (1 - beta1**count)

        def moved(p, m, s):
            return p - step * m / (jnp.sqrt(s) + root * epsilon)

        return jax.tree.map(moved, parameters, means, squares), (count, means, squares)

    return initialize, update
