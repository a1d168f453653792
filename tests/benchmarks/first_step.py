"""The startup time of 2017 programs: import, description, SGD and the first three steps.

Processor seconds, user and system together, in a new process for each network; wall time in
brackets. Networks have the sizes of 2017's programs; batches of pictures are small, so that the
time of a step does not dominate. Arguments are names of networks, all by default. To compare with
another checkout, run it with that checkout in PYTHONPATH.
"""

import math
import subprocess
import sys
import time
from pathlib import Path

PHASES = ("import", "describe", "SGD", "step 1", "step 2", "step 3")
ROOT = Path(__file__).resolve().parents[2]


class Clock:
    """Processor and wall time by phase, each since the mark before."""

    def __init__(self):
        self.spent, self.last = {}, self.now()

    @staticmethod
    def now():
        return time.process_time(), time.perf_counter()

    def mark(self, phase):
        now = self.now()
        self.spent[phase] = tuple(b - a for a, b in zip(self.last, now, strict=True))
        self.last = now


clock = Clock()
if __name__ == "__main__" and "--one" in sys.argv:
    sys.path[:0] = [] if any(Path(p, "pd_v2").is_dir() for p in sys.path[1:]) else [str(ROOT)]
    import numpy as np

    import pd_v2 as paddle
    from pd_v2 import activation, attr, data_type, layer, networks, optimizer

    clock.mark("import")
    rng = np.random.default_rng(0)


def ids(range_, shortest, longest=None):
    return rng.integers(0, range_, rng.integers(shortest, (longest or shortest) + 1)).tolist()


def pictures(pixels, classes, count):
    return [(rng.normal(size=pixels).astype("float32"), k % classes) for k in range(count)]


def classifier(size, classes, network):
    image = layer.data("image", data_type.dense_vector(3 * size * size), height=size, width=size)
    label = layer.data("label", data_type.integer_value(classes))
    scores = layer.fc(network(image), classes, act=activation.Softmax())
    return layer.classification_cost(scores, label)


def momentum():
    return optimizer.Momentum(0.9, learning_rate=1e-4)


def adam():
    return optimizer.Adam(learning_rate=1e-3)


def convolution(x, filters, size, stride=1, act=None, channels=None):
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


def residual(x, filters, stride, bottleneck, widens):
    """Add a residual block; a bottleneck block has four times as many output channels."""
    out = 4 * filters if bottleneck else filters
    if bottleneck:
        y = convolution(convolution(x, filters, 1, stride), filters, 3)
        y = convolution(y, out, 1, act=activation.Linear())
    else:
        y = convolution(convolution(x, filters, 3, stride), out, 3, act=activation.Linear())
    if widens or stride > 1:
        x = convolution(x, out, 1, stride, act=activation.Linear())
    return layer.addto([x, y], act=activation.Relu())


def stages(x, blocks, filters, bottleneck):
    for k, (count, width) in enumerate(zip(blocks, filters, strict=True)):
        for block in range(count):
            widens = block == 0 and (k > 0 or bottleneck)
            x = residual(x, width, 2 if k and not block else 1, bottleneck, widens)
    return x


def resnet_50(image):
    x = convolution(image, 64, 7, 2, channels=3)
    x = layer.img_pool(x, pool_size=3, stride=2)
    x = stages(x, (3, 4, 6, 3), (64, 128, 256, 512), True)
    return layer.img_pool(x, pool_size=7, stride=1, pool_type=paddle.pooling.Avg())


def resnet_110(image):
    x = stages(convolution(image, 16, 3, channels=3), (18, 18, 18), (16, 32, 64), False)
    return layer.img_pool(x, pool_size=8, stride=1, pool_type=paddle.pooling.Avg())


def vgg_16(image):
    x = image
    for k, (count, filters) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)]):
        x = networks.img_conv_group(
            x,
            conv_num_filter=[filters] * count,
            conv_filter_size=3,
            conv_act=activation.Relu(),
            num_channels=None if k else 3,
            pool_size=2,
            pool_stride=2,
            pool_type=paddle.pooling.Max(),
        )
    for _ in range(2):
        x = layer.fc(x, 4096, act=activation.Relu(), layer_attr=attr.Extra(drop_rate=0.5))
    return x


def word_vectors(words=2073):
    context = [layer.data(f"word{k}", data_type.integer_value(words)) for k in range(5)]
    shared = attr.Param(name="table", initial_std=0.001)
    tables = [layer.embedding(x, 32, param_attr=shared) for x in context[:4]]
    hidden = layer.fc(layer.concat(tables), 256, act=activation.Sigmoid())
    scores = layer.fc(hidden, words, act=activation.Softmax())
    samples = [tuple(rng.integers(0, words, 5).tolist()) for _ in range(32)]
    return layer.classification_cost(scores, context[4]), adam, samples


def stacked_lstm(words=5147, depth=3):
    text = layer.data("text", data_type.integer_value_sequence(words))
    label = layer.data("label", data_type.integer_value(2))
    inputs = [layer.embedding(text, 128)]
    for k in range(depth):
        gates = layer.fc(inputs, 512, act=activation.Linear())
        inputs = [gates, layer.lstmemory(gates, reverse=k % 2 == 1, act=activation.Relu())]
    pooled = [layer.pooling(x, pooling_type=paddle.pooling.Max()) for x in inputs]
    scores = layer.fc(pooled, 2, act=activation.Softmax())
    samples = [(ids(words, 20, 60), k % 2) for k in range(10)]
    return layer.classification_cost(scores, label), adam, samples


def translation(words=30000, width=512):
    source, target, next_word = (
        layer.data(name, data_type.integer_value_sequence(words))
        for name in ("source", "target", "next_word")
    )
    embedded = layer.embedding(source, width)
    forward = networks.simple_gru(embedded, width)
    backward = networks.simple_gru(embedded, width, reverse=True)
    encoded = layer.concat([forward, backward])
    projected = layer.fc(encoded, width, act=activation.Linear(), bias_attr=False)
    boot = layer.fc(layer.first_seq(backward), width, act=activation.Tanh(), bias_attr=False)

    def step(encoded, projected, word):
        state = layer.memory("state", width, boot_layer=boot)
        context = networks.simple_attention(encoded, projected, state)
        inputs = layer.fc([context, word], 3 * width, act=activation.Linear(), bias_attr=False)
        state = layer.gru_step(inputs, state, width, name="state")
        return layer.fc(state, words, act=activation.Softmax())

    static = [layer.StaticInput(encoded), layer.StaticInput(projected)]
    scores = layer.recurrent_group(step, [*static, layer.embedding(target, width)])
    texts = [(ids(words, 5, 35), ids(words, 5, 35)) for _ in range(4)]
    samples = [(a, [0, *b], [*b, 1]) for a, b in texts]
    return layer.classification_cost(scores, next_word), adam, samples


def image_network(size, classes, network, count):
    return lambda: (
        classifier(size, classes, network),
        momentum,
        pictures(3 * size * size, classes, count),
    )


NETWORKS = {
    "word vectors": word_vectors,
    "stacked LSTM": stacked_lstm,
    "translation, 30,000 words": translation,
    "VGG-16, 1 picture of 224 x 224": image_network(224, 102, vgg_16, 1),
    "ResNet-50, 1 picture of 224 x 224": image_network(224, 102, resnet_50, 1),
    "ResNet-110, 16 pictures of 32 x 32": image_network(32, 10, resnet_110, 16),
}


def measure(name):
    """Print the row of one network; this runs in a new process."""
    paddle.init(use_gpu=False, trainer_count=1, seed=1)
    clock.mark("init")
    cost, method, samples = NETWORKS[name]()
    parameters = paddle.parameters.create(cost)
    clock.mark("describe")
    trainer = paddle.trainer.SGD(cost, parameters, method())
    clock.mark("SGD")

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            assert math.isfinite(event.cost), event.cost
            clock.mark(f"step {event.batch_id + 1}")

    trainer.train(lambda: iter([samples] * 3), 1, handler)
    cells = [f"{cpu:.2f} ({wall:.2f})" for cpu, wall in map(clock.spent.get, PHASES)]
    before = sum(clock.spent[phase][0] for phase in ("describe", "SGD", "step 1"))
    print(f"| {name} | {' | '.join(cells)} | {before - clock.spent['step 3'][0]:.2f} |", flush=True)


def main(names):
    print(f"| network | {' | '.join(PHASES)} | startup, less one step |")
    print("| --- " * (len(PHASES) + 2) + "|", flush=True)
    for name in names or NETWORKS:
        subprocess.run([sys.executable, __file__, "--one", name], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2])
    else:
        main(sys.argv[1:])
