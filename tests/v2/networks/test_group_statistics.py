"""Batch normalization in the step of a recurrent group."""

import numpy as np

import pd_v2 as paddle


def test_batch_norm_in_a_recurrent_group():
    """Each step moves the statistics once, and gradients are finite with any number of steps."""
    paddle.init()
    layer, linear = paddle.layer, paddle.activation.Linear()
    x = layer.data(name="x", type=paddle.data_type.dense_vector_sequence(3))
    y = layer.data(name="y", type=paddle.data_type.dense_vector(3))

    def step(row):
        state = layer.memory(name="s", size=3)
        norm = layer.batch_norm(input=row, name="bn", act=linear)
        tanh = paddle.activation.Tanh()
        return layer.addto(input=[norm, state], name="s", act=tanh, bias_attr=False)

    group = layer.recurrent_group(step=step, input=[x])
    cost = layer.square_error_cost(input=layer.last_seq(input=group), label=y)
    parameters = paddle.parameters.create(cost)
    names = [name for name in parameters.keys() if ".w" in name]  # noqa: SIM118
    update = paddle.optimizer.Momentum(learning_rate=0.01, momentum=0.0)
    trainer = paddle.trainer.SGD(cost=cost, parameters=parameters, update_equation=update)
    draws = np.random.default_rng(0).normal(size=(5, 5, 3))
    data = [(row[:4].tolist(), row[4].tolist()) for row in draws]
    trainer.train(reader=paddle.batch(lambda: iter(data), 5), num_passes=1)
    mean, variance = np.zeros(3), np.zeros(3)
    for k in range(4):
        mean = 0.9 * mean + 0.1 * draws[:, k].mean(0)
        variance = 0.9 * variance + 0.1 * draws[:, k].var(0)
    found = {name.rpartition(".")[2]: parameters.get(name).ravel() for name in names}
    np.testing.assert_allclose(found["w1"], mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["w2"], variance, rtol=1e-4)
    assert np.isfinite(found["w0"]).all() and (found["w0"] != 1.0).all()
