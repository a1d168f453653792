"""Networks of the chapters of PaddlePaddle's book, with its sizes and optimizers.

`CHAPTERS` has functions by name, which return (cost, function that makes the optimizer, samples of
one batch, extra layers). `first_step.py` measures what the first steps cost.
"""

import math

import numpy as np

import pd_v2 as paddle
from pd_v2 import activation, attr, data_type, evaluator, layer, networks, optimizer

rng = np.random.default_rng(0)


def ids(range_, count):
    return rng.integers(0, range_, count).tolist()


def sentences(count, shortest=20, longest=60):
    return rng.integers(shortest, longest + 1, count).tolist()


def words(name, range_):
    return layer.data(name, data_type.integer_value_sequence(range_))


def linear(x, size, **more):
    return layer.fc(x, size, act=activation.Linear(), **more)


# ---- 1. fit a line ----


def line():
    x = layer.data("x", data_type.dense_vector(13))
    y = layer.data("y", data_type.dense_vector(1))
    samples = [(rng.normal(size=13), [0.5]) for _ in range(2)]
    return layer.square_error_cost(linear(x, 1), y), lambda: optimizer.Momentum(0.0), samples


# ---- 2. recognize digits ----


def digits(network):
    image = layer.data("pixel", data_type.dense_vector(784))
    label = layer.data("label", data_type.integer_value(10))
    scores = layer.fc(network(image), 10, act=activation.Softmax())
    samples = [(rng.normal(size=784).astype("float32"), k % 10) for k in range(128)]
    return layer.classification_cost(scores, label), momentum, samples


def momentum():
    return optimizer.Momentum(
        0.9,
        learning_rate=0.1 / 128,
        regularization=optimizer.L2Regularization(rate=0.0005 * 128),
    )


def perceptron(x):
    for size in (128, 64):
        x = layer.fc(x, size, act=activation.Relu())
    return x


def le_net(x):
    for filters, channels in ((20, 1), (50, 20)):
        x = networks.simple_img_conv_pool(
            x, 5, filters, 2, num_channel=channels, pool_stride=2, act=activation.Relu()
        )
    return x


# ---- 3. image classification, 16 pictures instead of 128 ----


def pictures(network):
    image = layer.data("image", data_type.dense_vector(3 * 32 * 32))
    label = layer.data("label", data_type.integer_value(10))
    scores = layer.fc(network(image), 10, act=activation.Softmax())
    samples = [(rng.normal(size=3072).astype("float32"), k % 10) for k in range(16)]
    return layer.classification_cost(scores, label), decaying, samples


def decaying():
    return optimizer.Momentum(
        0.9,
        learning_rate=0.1 / 128,
        regularization=optimizer.L2Regularization(rate=0.0002 * 128),
        learning_rate_decay_a=0.1,
        learning_rate_decay_b=50000 * 100,
        learning_rate_schedule="discexp",
    )


def vgg(x):
    blocks = (64, [0.3, 0]), (128, [0.4, 0]), *[(n, [0.4, 0.4, 0]) for n in (256, 512, 512)]
    for k, (filters, rates) in enumerate(blocks):
        x = networks.img_conv_group(
            x,
            num_channels=None if k else 3,
            conv_num_filter=[filters] * len(rates),
            conv_filter_size=3,
            conv_act=activation.Relu(),
            conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=rates,
            pool_size=2,
            pool_stride=2,
            pool_type=paddle.pooling.Max(),
        )
    x = linear(layer.dropout(x, 0.5), 512)
    x = layer.batch_norm(x, act=activation.Relu(), layer_attr=attr.Extra(drop_rate=0.5))
    return linear(x, 512)


def convolved(x, filters, size=3, stride=1, act=None, channels=None):
    x = layer.img_conv(
        x,
        filter_size=size,
        num_filters=filters,
        num_channels=channels,
        stride=stride,
        padding=size // 2,
        act=activation.Linear(),
        bias_attr=False,
    )
    return layer.batch_norm(x, act=act or activation.Relu())


def res_net(x, blocks=5):
    x = convolved(x, 16, channels=3)
    for stage, filters in enumerate((16, 32, 64)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = convolved(convolved(x, filters, stride=stride), filters, act=activation.Linear())
            if stride > 1:
                x = convolved(x, filters, 1, stride, activation.Linear())
            x = layer.addto([x, y], act=activation.Relu())
    return layer.img_pool(x, pool_size=8, stride=1, pool_type=paddle.pooling.Avg())


# ---- 4. word vectors ----


def word_vectors(count=2073):
    read = [layer.data(f"word{k}", data_type.integer_value(count)) for k in range(5)]
    table = attr.Param(name="table", initial_std=0.001, learning_rate=1, l2_rate=0)
    parts = [
        layer.mixed(32, layer.table_projection(x, 32, param_attr=table), act=activation.Linear())
        for x in read[:4]
    ]
    hidden = layer.fc(
        layer.concat(parts),
        256,
        act=activation.Sigmoid(),
        layer_attr=attr.Extra(drop_rate=0.5),
        bias_attr=attr.Param(learning_rate=2),
        param_attr=attr.Param(initial_std=1 / math.sqrt(256), learning_rate=1),
    )
    scores = layer.fc(
        hidden, count, act=activation.Softmax(), bias_attr=attr.Param(learning_rate=2)
    )
    samples = [tuple(ids(count, 5)) for _ in range(32)]
    return layer.classification_cost(scores, read[4]), ada_grad, samples


def ada_grad():
    return optimizer.AdaGrad(
        learning_rate=3e-3, regularization=optimizer.L2Regularization(rate=8e-4)
    )


# ---- 5. recommender ----


def recommender():
    def embedded(name, range_, size):
        x = layer.data(name, data_type.integer_value(range_))
        return layer.fc(layer.embedding(x, size), size)

    user = [embedded("user", 6041, 32), embedded("gender", 2, 16)]
    user += [embedded("age", 7, 16), embedded("job", 21, 16)]
    user = layer.fc(user, 200, act=activation.Tanh())
    film = [embedded("film", 3953, 32)]
    film.append(layer.fc(layer.data("kinds", data_type.sparse_binary_vector(18)), 32))
    title = layer.embedding(words("title", 5175), 32)
    film.append(networks.sequence_conv_pool(title, hidden_size=32, context_len=3))
    film = layer.fc(film, 200, act=activation.Tanh())
    score = layer.data("score", data_type.dense_vector(1))
    cost = layer.square_error_cost(layer.cos_sim(user, film, size=1, scale=5), score)
    samples = []
    for n in sentences(256, 1, 12):
        ranges = (6041, 2, 7, 21, 3953)
        given = [int(rng.integers(r)) for r in ranges]
        kinds = sorted({*ids(18, 3)})
        samples.append((*given, kinds, ids(5175, n), [float(rng.integers(1, 6))]))
    return cost, lambda: optimizer.Adam(learning_rate=1e-4), samples


# ---- 6. sentiment ----


def sentiment(network, count, vocabulary=5147):
    text = words("text", vocabulary)
    label = layer.data("label", data_type.integer_value(2))
    scores = layer.fc(network(layer.embedding(text, 128)), 2, act=activation.Softmax())
    samples = [(ids(vocabulary, n), k % 2) for k, n in enumerate(sentences(count))]
    return layer.classification_cost(scores, label), averaged, samples


def averaged():
    return optimizer.Adam(
        learning_rate=2e-3,
        regularization=optimizer.L2Regularization(rate=8e-4),
        model_average=optimizer.ModelAverage(average_window=0.5),
    )


def convolutions(x):
    return [networks.sequence_conv_pool(x, context_len=n, hidden_size=128) for n in (3, 4)]


def stacked_lstm(x, depth=3):
    inputs = x
    for k in range(depth):
        gates = linear(inputs, 512)
        inputs = [gates, layer.lstmemory(gates, reverse=k % 2 == 1, act=activation.Relu())]
    return [layer.pooling(each, pooling_type=paddle.pooling.Max()) for each in inputs]


# ---- 7. semantic roles ----


def semantic_roles(vocabulary=44068, verbs=3162, roles=59, depth=8):
    deviation = 1 / math.sqrt(512) / 3
    usual, slow = (attr.Param(initial_std=deviation, **m) for m in ({}, {"learning_rate": 1e-3}))
    zeros, recurrent = attr.Param(initial_std=0.0), attr.Param(initial_std=0.0, learning_rate=1.0)
    table = attr.Param(name="table", initial_std=0.0, is_static=True)
    names = ["word", *(f"context{k}" for k in range(5))]
    embedded = [layer.embedding(words(n, vocabulary), 32, param_attr=table) for n in names]
    verb = attr.Param(name="verbs", initial_std=deviation)
    embedded.append(layer.embedding(words("verb", verbs), 32, param_attr=verb))
    embedded.append(layer.embedding(words("mark", 2), 5, param_attr=zeros))

    def mixed(size, inputs, attributes):
        parts = [
            layer.full_matrix_projection(x, param_attr=a)
            for x, a in zip(inputs, attributes, strict=True)
        ]
        return layer.mixed(size, parts, bias_attr=usual, act=activation.Linear())

    inputs, attributes = embedded, [usual] * 8
    for k in range(depth):
        gates = mixed(512, inputs, attributes)
        memory = layer.lstmemory(
            gates,
            act=activation.Relu(),
            gate_act=activation.Sigmoid(),
            state_act=activation.Sigmoid(),
            reverse=k % 2 == 1,
            bias_attr=zeros,
            param_attr=recurrent,
        )
        inputs, attributes = [gates, memory], [slow, recurrent]
    scores = mixed(roles, inputs, attributes)
    target = words("target", roles)
    weights = attr.Param(name="transitions", initial_std=deviation, learning_rate=1e-3)
    cost = layer.crf(scores, target, size=roles, param_attr=weights)
    found = layer.crf_decoding(
        scores, roles, label=target, param_attr=attr.Param(name="transitions")
    )
    evaluator.sum(found)
    samples = []
    for n in sentences(10, 10, 40):
        ranges = [*[vocabulary] * 6, verbs, 2, roles]
        samples.append(tuple(ids(r, n) for r in ranges))
    return cost, averaged_momentum, samples, found


def averaged_momentum():
    return optimizer.Momentum(
        momentum=0,
        learning_rate=2e-2,
        regularization=optimizer.L2Regularization(rate=8e-4),
        model_average=optimizer.ModelAverage(average_window=0.5, max_average_window=10000),
    )


# ---- 8. machine translation ----


def translation(vocabulary=30000, width=512):
    source, target, following = (words(n, vocabulary) for n in ("source", "target", "following"))
    embedded = layer.embedding(source, width)
    forward = networks.simple_gru(embedded, width)
    backward = networks.simple_gru(embedded, width, reverse=True)
    encoded = layer.concat([forward, backward])
    projected = linear(encoded, width, bias_attr=False)
    boot = layer.fc(layer.first_seq(backward), width, act=activation.Tanh(), bias_attr=False)

    def step(encoded, projected, word):
        state = layer.memory("state", width, boot_layer=boot)
        context = networks.simple_attention(encoded, projected, state)
        inputs = linear([context, word], 3 * width, bias_attr=False)
        state = layer.gru_step(inputs, state, width, name="state")
        return layer.fc(state, vocabulary, act=activation.Softmax())

    static = [layer.StaticInput(encoded), layer.StaticInput(projected)]
    scores = layer.recurrent_group(step, [*static, layer.embedding(target, width)])
    samples = []
    for n, m in zip(sentences(4, 5, 35), sentences(4, 5, 35), strict=True):
        text = ids(vocabulary, m)
        samples.append((ids(vocabulary, n), [0, *text], [*text, 1]))
    return layer.classification_cost(scores, following), regular, samples


def regular():
    return optimizer.Adam(learning_rate=5e-5, regularization=optimizer.L2Regularization(rate=8e-4))


CHAPTERS = {
    "1 fit a line": line,
    "2 digits, softmax": lambda: digits(lambda x: x),
    "2 digits, perceptron": lambda: digits(perceptron),
    "2 digits, LeNet": lambda: digits(le_net),
    "3 pictures, VGG": lambda: pictures(vgg),
    "3 pictures, ResNet-32": lambda: pictures(res_net),
    "4 word vectors": word_vectors,
    "5 recommender": recommender,
    "6 sentiment, convolutions": lambda: sentiment(convolutions, 100),
    "6 sentiment, stacked LSTM": lambda: sentiment(stacked_lstm, 10),
    "7 semantic roles": semantic_roles,
    "8 translation": translation,
}
