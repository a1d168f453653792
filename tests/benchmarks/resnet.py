"""The 2017 book's ResNet-20 on 32 x 32 images, batch 64: a training step in pd_v2 and PyTorch."""

import numpy as np
import side_by_side as sbs
import torch
from torch.nn import functional as f

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build

BATCH, DEPTH, CLASSES = 64, 20, 10
RATE, MOMENTUM = 0.01, 0.9
EPSILON = 1e-5
A, L, T = paddle.activation, paddle.layer, paddle.data_type
STAGES = [(16, 1), (32, 2), (64, 2)]  # filters, stride of the first block
BLOCKS = (DEPTH - 2) // 6


def conv_bn(x, filters, size, stride, act, channels=None):
    """Convolution without bias, and batch normalisation."""
    x = L.img_conv(
        input=x,
        filter_size=size,
        num_channels=channels,
        num_filters=filters,
        stride=stride,
        padding=size // 2,
        act=A.Linear(),
        bias_attr=False,
    )
    return L.batch_norm(input=x, act=act)


def ours():
    image = L.data(name="image", type=T.dense_vector(3 * 32 * 32), height=32, width=32)
    label = L.data(name="label", type=T.integer_value(CLASSES))
    x = conv_bn(image, 16, 3, 1, A.Relu(), channels=3)
    for filters, first_stride in STAGES:
        for block in range(BLOCKS):
            stride = first_stride if block == 0 else 1
            y = conv_bn(x, filters, 3, stride, A.Relu())
            y = conv_bn(y, filters, 3, 1, A.Linear())
            if stride > 1:
                x = conv_bn(x, filters, 1, stride, A.Linear())
            x = L.addto(input=[y, x], act=A.Relu())
    x = L.img_pool(input=x, pool_size=8, stride=1, pool_type=paddle.pooling.Avg())
    scores = L.fc(input=x, size=CLASSES, act=A.Softmax())
    layer = L.cross_entropy_cost(input=scores, label=label)
    cost = pd.reduce_mean(layer)
    update = pd.MomentumOptimizer(RATE, MOMENTUM).minimize(cost)
    update = update.including(pd.effects([layer]))

    def step(batch):
        feeds = {image: batch[0].reshape(BATCH, -1), label: batch[1]}
        return float(pd.eval([update, cost], feeds)[1])

    return step, [update, cost], pd.trainable_variables()


class Net:
    """The same network in PyTorch, of these parameters."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.statistics = {}

    def __call__(self, image):
        values = iter(self.parameters)
        x = torch.relu(self.conv_bn(image, values, 16, 3, 1))
        for filters, first_stride in STAGES:
            for block in range(BLOCKS):
                stride = first_stride if block == 0 else 1
                y = torch.relu(self.conv_bn(x, values, filters, 3, stride))
                y = self.conv_bn(y, values, filters, 3, 1)
                if stride > 1:
                    x = self.conv_bn(x, values, filters, 1, stride)
                x = torch.relu(y + x)
        weight, bias = values
        return f.avg_pool2d(x, 8).flatten(1) @ weight + bias

    def conv_bn(self, x, values, filters, size, stride):
        weight, scale, shift = next(values), next(values), next(values)
        x = f.conv2d(x, weight.reshape(filters, x.shape[1], size, size), None, stride, size // 2)
        running = self.statistics.setdefault(
            id(weight), [torch.zeros(filters), torch.zeros(filters)]
        )
        scale, shift = scale.reshape(-1), shift.reshape(-1)
        return f.batch_norm(x, *running, scale, shift, True, 0.1, EPSILON)


def loss_of(parameters):
    """Return the loss of a batch in PyTorch as a function (images, labels)."""
    net = Net(parameters)
    return lambda images, labels: f.cross_entropy(net(images), labels)


def theirs(parameters):
    parameters = [sbs.parameter(v) for v in parameters]
    optimizer = torch.optim.SGD(parameters, RATE, momentum=MOMENTUM, fused=True)
    return sbs.torch_step(loss_of(parameters), optimizer)


def pictures():
    rng = np.random.default_rng(0)
    shape = (BATCH, 3, 32, 32)
    return [
        (rng.normal(size=shape).astype(np.float32), rng.integers(0, CLASSES, BATCH))
        for _ in range(4)
    ]


if __name__ == "__main__":
    with build.fresh():
        title = f"ResNet-{DEPTH} of the 2017 book, 32 x 32, batch {BATCH}, momentum"
        sbs.compare(title, ours, theirs, pictures(), steps=4, blocks=6, rtol=5e-2)
