"""The startup time of 2017 programs: import, description, SGD and the first three steps.

Processor seconds, user and system together, in a new process for each network, those of a C
compiler among them; wall time in brackets. Networks have the sizes of 2017's programs; batches of
pictures are small, so that the time of a step does not dominate. Arguments are names of networks,
all by default. To compare with another checkout, run it with that checkout in PYTHONPATH. With
PD_FUSE=1 programs are fused, with the kernels in PD_FUSED_HOME, if they are there.

`--fused` compares the startup of networks without fused kernels, and with them in a folder that is
empty and in one that is not; by default those of the chapters of PaddlePaddle's book.
"""

import math
import os
import re
import resource
import subprocess
import sys
import tempfile
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
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = time.process_time() + children.ru_utime + children.ru_stime
        return processor, time.perf_counter()

    def mark(self, phase):
        now = self.now()
        self.spent[phase] = tuple(b - a for a, b in zip(self.last, now, strict=True))
        self.last = now


clock = Clock()
if __name__ == "__main__" and "--one" in sys.argv:
    sys.path[:0] = [] if any(Path(p, "pd_v2").is_dir() for p in sys.path[1:]) else [str(ROOT)]
    import numpy as np
    from chapters import CHAPTERS  # beside this file, whichever checkout is measured

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


def line():
    x = layer.data("x", data_type.dense_vector(13))
    y = layer.data("y", data_type.dense_vector(1))
    predicted = layer.fc(x, 1, act=activation.Linear())
    return layer.square_error_cost(predicted, y), momentum, [(rng.normal(size=13), [0.5])] * 20


def le_net(image):
    x = image
    for filters in (20, 50):
        x = networks.simple_img_conv_pool(
            x, filter_size=5, num_filters=filters, pool_size=2, pool_stride=2, act=activation.Relu()
        )
    return x


def digits():
    image = layer.data("pixel", data_type.dense_vector(784), height=28, width=28)
    label = layer.data("label", data_type.integer_value(10))
    scores = layer.fc(le_net(image), 10, act=activation.Softmax())
    return layer.classification_cost(scores, label), momentum, pictures(784, 10, 64)


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


def convolutions(x, widths, sizes, strides=None, frozen=False):
    """Add convolutions with ReLU as SSD's; frozen ones are not trained."""
    weight, bias = detector_attributes() if not frozen else [attr.Param(is_static=True)] * 2
    for width, size, stride in zip(widths, sizes, strides or [1] * len(sizes), strict=True):
        x = layer.img_conv(
            x,
            filter_size=size,
            num_filters=width,
            num_channels=x.num_filters or 3,
            stride=stride,
            padding=size // 2,
            bias_attr=bias,
            param_attr=weight,
            act=activation.Relu(),
        )
    return x


def detector_attributes():
    return attr.Param(l2_rate=0.002), attr.Param(l2_rate=0.0, learning_rate=2.0)


def pooled(x, size=2, stride=2, padding=0):
    kind = paddle.pooling.CudnnMax()
    return layer.img_pool(x, pool_size=size, stride=stride, padding=padding, pool_type=kind)


def detector_maps(image):
    """Return the six feature maps that predict boxes; the first is not normalised yet."""
    x = pooled(convolutions(image, [64] * 2, [3] * 2, frozen=True))
    x = pooled(convolutions(x, [128] * 2, [3] * 2, frozen=True))
    x = pooled(convolutions(x, [256] * 3, [3] * 3))
    conv4 = convolutions(x, [512] * 3, [3] * 3)
    x = pooled(convolutions(pooled(conv4), [512] * 3, [3] * 3), 3, 1, 1)
    maps = [conv4, convolutions(x, [1024] * 2, [3, 1])]
    for widths in ([256, 512], [128, 256], [128, 256]):
        maps.append(convolutions(maps[-1], widths, [1, 3], [1, 2]))
    last = layer.img_pool(maps[-1], pool_size=3, stride=1, pool_type=paddle.pooling.Avg())
    return [*maps, last]


def detector(size=300, classes=21):
    """SSD on VGG-16 with the precision of its detections."""
    image = layer.data("image", data_type.dense_vector(3 * size * size), height=size, width=size)
    boxes = layer.data("boxes", data_type.dense_vector_sequence(6))
    weight, bias = detector_attributes()
    places, scores, priors = [], [], []
    for x, least in zip(detector_maps(image), (30, 60, 114, 168, 222, 276), strict=True):
        ratios, largest = ([2.0], []) if least == 30 else ([2.0, 3.0], [least + 54])
        priors.append(layer.priorbox(x, image, ratios, [0.1, 0.1, 0.2, 0.2], [least], largest))
        if least == 30:
            scale = attr.Param(initial_mean=20, initial_std=0)
            x = layer.cross_channel_norm(x, param_attr=scale)
        for heads, values in ((places, 4), (scores, classes)):
            head = layer.img_conv(
                x,
                filter_size=3,
                num_filters=values * (2 * len(ratios) + 1 + len(largest)),
                padding=1,
                bias_attr=bias,
                param_attr=weight,
                act=activation.Identity(),
            )
            heads.append(head)
    prior = layer.concat(priors)
    found = layer.detection_output(places, scores, prior, classes)
    cost = layer.multibox_loss(places, scores, prior, boxes, classes)
    paddle.evaluator.detection_map(found, boxes, name="precision")
    objects = [[[k % classes, 0.1, 0.2, 0.5, 0.7, 0], [3, 0.4, 0.1, 0.9, 0.6, 0]] for k in (1, 2)]
    samples = [(rng.normal(size=3 * size * size).astype("float32"), each) for each in objects]
    return cost, momentum, samples[:1], found


def halved(x):
    """Halve the variance of a sum of two."""
    return layer.slope_intercept(x, slope=math.sqrt(0.5))


def linear(x, width, rate=1.0, bias=True):
    weight = attr.Param(initial_std=x.size**-0.5, learning_rate=rate)
    act = activation.Linear()
    return layer.fc(x, width, act=act, param_attr=weight, bias_attr=bias)


def mixed(width, parts, act=None):
    return layer.mixed(width, parts, act=act or activation.Linear())


def gated(x, width, start=None, rate=1.0, dropped=0.2):
    """Convolve three words at a time; half of the results are gates of the others."""
    words = layer.context_projection(layer.dropout(x, dropped), context_len=3, context_start=start)
    both = linear(mixed(3 * x.size, words), 2 * width, rate, False)
    values = mixed(width, layer.identity_projection(both, size=width, offset=0))
    gates = layer.identity_projection(both, size=width, offset=width)
    gates = mixed(width, gates, activation.Sigmoid())
    return mixed(width, layer.dotmul_operator(values, gates))


def attend(state, word, encoded, summed):
    parts = [layer.full_matrix_projection(state), layer.identity_projection(word)]
    summary = halved(layer.mixed(word.size, parts, bias_attr=True))
    products = layer.dot_prod(layer.expand(summary, encoded), encoded)
    weights = layer.fc(products, 1, act=activation.SequenceSoftmax(), bias_attr=False)
    scaled = layer.scaling(weight=weights, input=summed)
    read = layer.pooling(scaled, pooling_type=paddle.pooling.Sum())
    return halved(layer.addto([linear(read, state.size), state]))


def convolutional_translation(words=30000, positions=200, width=256, encoders=5, decoders=3):
    """conv_seq2seq as its page trains it: words and positions, gated blocks, attention."""

    def embedded(name, words, dropped=0.2):
        kinds = (name, words), (f"{name}_position", positions + 1)
        read = [layer.data(n, data_type.integer_value_sequence(size)) for n, size in kinds]
        table = attr.Param(initial_std=0.1)
        tables = [layer.embedding(each, width, param_attr=table) for each in read]
        return layer.addto(tables, layer_attr=attr.Extra(drop_rate=dropped))

    rate = 1 / (2 * decoders)
    source = embedded("source", words)
    x = linear(source, width, rate)
    for _ in range(encoders):
        sides = layer.identity_projection(x), layer.identity_projection(gated(x, width, rate=rate))
        x = halved(mixed(width, [*sides]))
    encoded = linear(x, width, rate)
    summed = halved(layer.addto([encoded, source]))
    target = embedded("target", words + 1)
    x = linear(target, width)
    static = [layer.StaticInput(encoded), layer.StaticInput(summed)]
    for _ in range(decoders):
        state = gated(x, width, 0)
        read = layer.recurrent_group(attend, [state, target, *static])
        x = halved(layer.addto([read, x]))
    x = layer.fc(x, width, act=activation.Linear(), layer_attr=attr.Extra(drop_rate=0.2))
    weight = attr.Param(initial_std=(0.8 / width) ** 0.5)
    scores = layer.fc(x, words, act=activation.Softmax(), param_attr=weight)
    next_word = layer.data("next_word", data_type.integer_value_sequence(words))
    padding, samples = 2 * decoders, []
    for _ in range(4):
        a, b = ids(words, 5, 35), ids(words, 5, 35)
        before = [words] * padding + [0, *b]
        places = [positions] * padding + [*range(len(b) + 1)]
        samples.append((a, [*range(len(a))], before, places, [*b, 1] + [1] * padding))
    return layer.classification_cost(scores, next_word), adam, samples


def image_network(size, classes, network, count):
    return lambda: (
        classifier(size, classes, network),
        momentum,
        pictures(3 * size * size, classes, count),
    )


NETWORKS = {
    "fit a line": line,
    "digits, LeNet": digits,
    "word vectors": word_vectors,
    "stacked LSTM": stacked_lstm,
    "translation, 30,000 words": translation,
    "VGG-16, 1 picture of 224 x 224": image_network(224, 102, vgg_16, 1),
    "ResNet-50, 1 picture of 224 x 224": image_network(224, 102, resnet_50, 1),
    "ResNet-110, 16 pictures of 32 x 32": image_network(32, 10, resnet_110, 16),
    "SSD, 1 picture of 300 x 300": detector,
    "conv_seq2seq, 30,000 words": convolutional_translation,
}


def measure(name):
    """Print the row of one network; this runs in a new process."""
    paddle.init(use_gpu=False, trainer_count=1, seed=1)
    clock.mark("init")
    cost, method, samples, *extra = (NETWORKS | CHAPTERS)[name]()
    parameters = paddle.parameters.create(cost)
    clock.mark("describe")
    trainer = paddle.trainer.SGD(cost, parameters, method(), extra_layers=extra or None)
    clock.mark("SGD")

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            assert math.isfinite(event.cost), event.cost
            clock.mark(f"step {event.batch_id + 1}")

    trainer.train(lambda: iter([samples] * 3), 1, handler)
    cells = [f"{cpu:.2f} ({wall:.2f})" for cpu, wall in map(clock.spent.get, PHASES)]
    before, wall = (startup(k) for k in (0, 1))
    print(f"| {name} | {' | '.join(cells)} | {before:.3f} ({wall:.3f}) |", flush=True)


def startup(k):
    """The time from the description to the end of the first step, less one step."""
    spent = clock.spent
    before = sum(spent[phase][k] for phase in ("describe", "SGD", "step 1"))
    return before - min(spent[phase][k] for phase in ("step 2", "step 3"))


def run(name, **environment):
    """The output of the process of a network."""
    command = [sys.executable, __file__, "--one", name]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    )
    return done.stdout


def compare(names, tries=1):
    """Print the startup of networks, not fused, and fused with nothing and everything compiled.

    The least of some tries in turns.
    """
    print("| network | not fused | fused, empty folder | fused, full folder |")
    print("| --- | --- | --- | --- |", flush=True)
    for name in names or chapter_names():
        rows = []
        for _ in range(tries):
            with tempfile.TemporaryDirectory() as home:
                sides = {"PD_FUSE": "0"}, *[{"PD_FUSE": "1", "PD_FUSED_HOME": home}] * 2
                rows.append([run(name, **side).split("|")[-2] for side in sides])
        pairs = [[re.findall(r"[-.0-9]+", cell) for cell in row] for row in rows]
        cells = [
            " ".join(
                form.format(min(float(pair[side][k]) for pair in pairs))
                for k, form in enumerate(("{:.3f}", "({:.3f})"))
            )
            for side in range(3)
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def chapter_names():
    text = (Path(__file__).parent / "chapters.py").read_text(encoding="utf-8")
    return re.findall(r'^    "(\d .*)": ', text, re.MULTILINE)


def main(names):
    print(f"| network | {' | '.join(PHASES)} | startup, less one step |")
    print("| --- " * (len(PHASES) + 2) + "|", flush=True)
    for name in names or NETWORKS:
        print(run(name), end="", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2])
    elif sys.argv[1:2] == ["--fused"]:
        compare(sys.argv[2:])
    else:
        main(sys.argv[1:])
