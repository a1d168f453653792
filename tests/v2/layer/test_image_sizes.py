"""Images of another size than declared: each is computed as a network declared for it does."""

import re

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build
from pd_v2.layer import resized

A, L, T = paddle.activation, paddle.layer, paddle.data_type
LINEAR = A.Linear()


def conv(x, **options):
    given = {"filter_size": 3, "num_channels": 2, "num_filters": 4, "padding": (1, 0)}
    given["act"] = LINEAR
    return L.img_conv(input=x, **given | options)


def crop(x):
    return L.crop(input=[conv(x, padding=1), conv(x)], offset=[1, 0], axis=2)


def region(x):
    box = L.data(name="box", type=T.dense_vector(6))
    return L.scale_sub_region(input=conv(x), indices=box, value=0.5)


def rois(x):
    where = L.data(name="rois", type=T.dense_vector(5))
    return L.roi_pool(input=conv(x), rois=where, pooled_width=2, pooled_height=2, spatial_scale=1.0)


def scored(x):
    label = L.data(name="label", type=T.dense_vector(2 * 36))
    return L.square_error_cost(input=conv(x, num_filters=2, padding=1), label=label)


# layers whose size is that of their input, each behind a convolution
NETWORKS = {
    "convolution": conv,
    "transposed convolution": lambda x: conv(x, trans=True, stride=(2, 1)),
    "groups and dilation": lambda x: conv(x, groups=2, dilation=(1, 2), padding=2, act=A.Relu()),
    "two convolutions": lambda x: conv(conv(x), num_channels=4, stride=2, padding=1),
    "batch norm": lambda x: L.batch_norm(input=conv(x), act=A.BRelu()),
    "pooling": lambda x: L.img_pool(input=conv(x), pool_size=(3, 2), stride=2, padding=(1, 0)),
    "mean pooling": lambda x: L.img_pool(
        input=x, num_channels=2, pool_size=3, stride=2, pool_type=paddle.pooling.Avg()
    ),
    "maxout": lambda x: L.maxout(input=conv(x), groups=2),
    "interpolation": lambda x: L.bilinear_interp(input=conv(x), out_size_x=5, out_size_y=3),
    "local response": lambda x: L.img_cmrnorm(input=conv(x), size=3),
    "crop": crop,
    "block expand": lambda x: L.block_expand(
        input=conv(x), num_channels=4, block_x=2, block_y=3, stride_x=1, stride_y=2
    ),
    "pad": lambda x: L.pad(input=conv(x), pad_c=[0, 1], pad_h=[1, 0], pad_w=[2, 1]),
    "region": region,
    "regions of interest": rois,
    "resize": lambda x: L.resize(input=L.bilinear_interp(conv(x), 4, 4), size=8),
    "sums": lambda x: L.sum_cost(input=L.clip(input=conv(x), min=-0.5, max=0.5)),
    "channels last": lambda x: L.switch_order(input=conv(x), reshape_axis=3),
}
SIZES = ((5, 8), (4, 9), (9, 7))  # instead of 6 x 6


def samples(rng, height, width):
    """Three samples of an image and all that the networks read besides."""
    return [
        (rng.standard_normal((2, height, width)), [1, 3, 2, 4, 1, 3], [k, 0, 1, 3, 4])
        for k in range(3)
    ]


def described(network, size=None):
    """The output of a network for images of 6 x 6, or declared for those of a size."""
    height, width = size or (6, 6)
    declared = {} if size is None else {"height": height, "width": width}
    return network(L.data(name="x", type=T.dense_vector(2 * height * width), **declared))


FEEDING = {"x": 0, "box": 1, "rois": 2}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_one_of_that_size_does(name, rng):
    for size in SIZES:
        batch, found, values = samples(rng, *size), [], {}
        for declared in (None, size):
            with build.fresh():
                out = described(NETWORKS[name], declared)
                pool = paddle.parameters.create(out)
                for each in pool.names():
                    shape = pool.get_shape(each)
                    pool.set(each, values.setdefault(each, rng.uniform(-1, 1, shape)))
                found.append(paddle.infer(out, pool, batch, FEEDING))
        np.testing.assert_array_equal(*found)


def test_images_may_be_labels(rng):
    with build.fresh():
        out = described(scored)
        pool = paddle.parameters.create(out)
        image, label = rng.random((2, 5, 8)), rng.random((2, 5, 8))
        feeding = {"x": 0, "label": 1}
        found = paddle.infer(out, pool, [(image, label)], feeding)
        size = {"height": 5, "width": 8}
    with build.fresh():
        x = L.data(name="x", type=T.dense_vector(80), **size)
        prediction = conv(x, num_filters=2, padding=1)
        predicted = paddle.infer(prediction, pool, [(image,)])
    np.testing.assert_allclose(found, [[((predicted - label.ravel()) ** 2).sum()]], rtol=1e-5)


def test_bins_of_a_pyramid_stay_those_of_the_declared_size(rng):
    with build.fresh():
        x = L.data(name="x", type=T.dense_vector(36))
        out = L.spp(input=x, num_channels=1, pool_type=paddle.pooling.Max(), pyramid_height=2)
        pool = paddle.parameters.create(out)
        image = rng.random((5, 6)).astype(np.float32)
        found = paddle.infer(out, pool, [(image,)])
        # one bin of 6, and bins of 3: the fifth row is the second of the lower ones
        upper, lower = image[:3], image[3:]
        bins = [part[:, k : k + 3].max() for part in (upper, lower) for k in (0, 3)]
        np.testing.assert_array_equal(found, [[image.max(), *bins]])
        with pytest.raises(pd.ShapeError, match="2 bins of 6, and 1 are needed"):
            paddle.infer(out, pool, [(rng.random((8, 6)),)])


# ---- training


def speech(x):
    """A network of the kind of Deep Speech 2 with a small cost: what follows reads all steps."""
    c = conv(x, filter_size=(3, 5), stride=(2, 1), bias_attr=False)
    n = L.batch_norm(input=c, act=A.BRelu())
    steps = L.block_expand(n, 1, 4, 1, 4, num_channels=4)
    hidden = L.batch_norm(input=L.fc(input=steps, size=5, act=LINEAR, bias_attr=False), act=LINEAR)
    last = L.last_seq(input=L.recurrent(input=hidden))
    label = L.data(name="label", type=T.integer_value(4))
    return L.classification_cost(input=L.fc(input=last, size=4, act=A.Softmax()), label=label)


def labelled(x):
    """Classes of images, an evaluator, and one that reads gradients."""
    c = conv(x)
    L.printer(input=c)
    paddle.evaluator.value_printer(input=c)
    steps = L.block_expand(c, 1, 4, 1, 4, num_channels=4, name="steps")
    scores = L.fc(input=L.pooling(input=steps), size=4, act=A.Softmax(), name="scores")
    paddle.evaluator.sum(input=scores, name="total")
    paddle.evaluator.gradient_printer(input=scores)
    label = L.data(name="label", type=T.integer_value(4))
    return L.classification_cost(input=scores, label=label)


def batches(label, *sizes):
    rng = np.random.default_rng(3)
    return [[(rng.standard_normal((2, *size)), label) for _ in range(3)] for size in sizes]


def trained(network, size, label, method, seen=lambda event, pool: []):
    """What a pass over two batches of images of 5 x 9 leads to; `size` is declared, if any."""
    found = []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            found.append([event.cost, *event.metrics.values()])
        found.extend(seen(event, pool))

    with build.fresh(seed=1):
        paddle.init(seed=1)
        cost = described(network, size)
        pool = paddle.parameters.create(cost)
        trainer = paddle.trainer.SGD(cost, pool, method())
        trainer.train(lambda: iter(batches(label, (5, 9), (5, 9))), event_handler=handler)
        if network is labelled:
            found.append(trainer.test(lambda: iter(batches(label, (5, 9)))).cost)
        found += [pool.get(name) for name in sorted(pool.names())]
    return found


def method():
    return paddle.optimizer.Momentum(
        momentum=0.9,
        learning_rate=0.01,
        gradient_clipping_threshold=0.5,
        regularization=paddle.optimizer.L2Regularization(rate=0.01),
        model_average=paddle.optimizer.ModelAverage(average_window=0.5),
    )


def test_it_trains_as_one_of_that_size():
    found, expected = (trained(speech, size, 2, method) for size in (None, (5, 9)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_handlers_see_what_one_of_that_size_gives():
    def seen(event, pool):
        if isinstance(event, paddle.event.EndForwardBackward):
            steps = event.gm.getLayerOutputs("steps")["steps"]["value"]
            return [pool.get_grad("_scores.w0").copy(), steps]
        return []

    found = [
        trained(labelled, size, 2, lambda: paddle.optimizer.Adam(learning_rate=0.1), seen)
        for size in (None, (5, 9))
    ]
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_rows_of_one_axis_have_the_declared_size(rng):
    """As in 2017, which also took an image of as many pixels for what it is."""
    with build.fresh():
        out = described(conv)
        pool = paddle.parameters.create(out)
        image = rng.random((2, 6, 6))
        rows = paddle.infer(out, pool, [(image.reshape(-1),)])
        np.testing.assert_array_equal(paddle.infer(out, pool, [(image,)]), rows)
        assert paddle.infer(out, pool, [(image.reshape(2, 4, 9),)]).shape == (1, 4 * 2 * 9)


def test_a_size_that_comes_again_gives_the_same(rng, monkeypatch):
    monkeypatch.setattr(resized, "_KEPT", 1)
    with build.fresh():
        out = described(conv)
        pool = paddle.parameters.create(out)
        batches = [[(rng.random((2, *size)),)] for size in (SIZES[0], SIZES[1], SIZES[0])]
        batches[2] = batches[0]
        first, _, again = [paddle.infer(out, pool, batch) for batch in batches]
    np.testing.assert_array_equal(first, again)


# ---- what does not fit


def refused(network, batch, feeding=None):
    with build.fresh():
        out = described(network)
        pool = paddle.parameters.create(out)
        with pytest.raises((pd.GraphError, ValueError)) as error:
            paddle.infer(out, pool, batch, feeding)
        return str(error.value)


@pytest.mark.parametrize(
    "network, message",
    [
        (
            lambda x: L.fc(input=conv(x), size=3, name="y"),
            "images 'x' of 5 x 9: fc layer 'y' takes rows of 96, and '__conv_0__' gives 108",
        ),
        (
            lambda x: L.addto(input=[conv(x), conv(x)], name="y"),
            "addto layer 'y' takes rows of 96",
        ),
        (
            lambda x: conv(L.pad(input=conv(x), pad_h=[1, 1], name="p"), num_channels=4),
            "'p' is 180 wide, which is not 4 channels of 6 x 6 pixels",
        ),
        (lambda x: conv(x, shared_biases=False), r"'___conv_0__.wbias' is \[96, 1\] elsewhere"),
        (lambda x: conv(x, filter_size=10, padding=2), "'__conv_0__': conv: the window is 10 wide"),
    ],
    ids=["fc", "addto", "behind pad", "unshared biases", "small images"],
)
def test_what_needs_its_declared_size(network, message, rng):
    assert re.search(message, refused(network, samples(rng, 5, 9), FEEDING))


def test_images_of_one_batch_have_one_size(rng):
    batch = [(rng.random((2, 5, 8)),), (rng.random((2, 8, 5)),)]
    assert "sample 1: expected shape (2, 5, 8)" in refused(conv, batch)


def test_a_batch_that_does_not_fit_is_named(rng):
    with build.fresh():
        cost = L.sum_cost(input=L.fc(input=conv(L.data("x", T.dense_vector(72))), size=1))
        pool = paddle.parameters.create(cost)
        trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Adam())
        before = [pool.get(name) for name in pool.names()]
        with pytest.raises(pd.ShapeError, match="takes rows of 96") as error:
            trainer.train(lambda: iter([[(rng.random((2, 5, 9)),)]]))
        assert "in batch 0 of pass 0" in error.value.__notes__[0]
        for value, name in zip(before, pool.names(), strict=True):
            np.testing.assert_array_equal(value, pool.get(name))
