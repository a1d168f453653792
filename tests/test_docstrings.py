"""What docstrings say of arguments and errors: each error that one names is raised."""

import inspect
import re
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import pd_core as pd

from .docstring_rows import TRAINING

ORDER = "Args", "Returns", "Raises"
SECTION = re.compile(r"^(Args|Returns|Raises):\n((?: {4}.*\n?)+)", re.M)


def f(*shape):
    """A feed slot of float32."""
    return pd.Variable(list(shape))


def i(*shape):
    """A feed slot of int64."""
    return pd.Variable(list(shape), dtype="int64")


def b(*shape):
    """A feed slot of bool."""
    return pd.Variable(list(shape), dtype="bool")


def s(*shape):
    """A feed slot of text."""
    return pd.Variable(list(shape), dtype="str")


class Net(pd.nn.Module):
    """A module of one layer."""

    def __init__(self):
        super().__init__()
        self.fc = pd.nn.FC(2)

    def forward(self, x):
        return self.fc(x)


def load_of_another():
    """Load a file into a module with a parameter that the file lacks."""
    net = Net()
    net.compile([(None, 3)])
    with TemporaryDirectory() as folder:
        net.save(f"{folder}/net")
        net.more = pd.Variable(data=np.ones(2))
        net.load(f"{folder}/net", strict=True)


def rows(count):
    """Samples with two numbers each."""
    return np.zeros((count, 2), np.float32)


def running():
    """A Runner inside of its `with`."""
    runner = pd.training.Runner().add_item(pd.training.Counter())
    return runner.__enter__()


def added_twice():
    item = pd.training.Counter()
    pd.training.Runner().add_item(item).add_item(item)


# name, error, a call that raises it
ROWS = [
    ("cholesky", "DTypeError", lambda: pd.cholesky(i(2, 2))),
    ("cholesky", "ShapeError", lambda: pd.cholesky(f(2, 3))),
    (
        "solve_triangular",
        "DTypeError",
        lambda: pd.solve_triangular(f(2, 2), pd.Variable([2, 1], dtype="float64")),
    ),
    ("solve_triangular", "ShapeError", lambda: pd.solve_triangular(f(2, 2), f(3, 1))),
    ("cross_entropy", "DTypeError", lambda: pd.cross_entropy(f(2, 3), f(2))),
    ("cross_entropy", "ShapeError", lambda: pd.cross_entropy(f(2, 3), i(3))),
    (
        "softmax_cross_entropy",
        "GraphError",
        lambda: pd.softmax_cross_entropy(f(2, 3), i(2), label_smoothing=2.0),
    ),
    ("softmax_cross_entropy", "DTypeError", lambda: pd.softmax_cross_entropy(f(2, 3), f(2))),
    (
        "softmax_cross_entropy",
        "ShapeError",
        lambda: pd.softmax_cross_entropy(f(2, 3), i(2), weight=f(4)),
    ),
    ("negative_log_likelihood", "DTypeError", lambda: pd.negative_log_likelihood(i(2, 3), i(2))),
    ("negative_log_likelihood", "ShapeError", lambda: pd.negative_log_likelihood(f(2, 3), i(4))),
    ("sigmoid_cross_entropy", "ShapeError", lambda: pd.sigmoid_cross_entropy(f(2, 3), f(2, 4))),
    ("binary_cross_entropy", "ShapeError", lambda: pd.binary_cross_entropy(f(2, 3), f(2, 4))),
    ("square_error", "ShapeError", lambda: pd.square_error(f(3), f(3))),
    ("huber_loss", "GraphError", lambda: pd.huber_loss(f(2), f(2), delta=0.0)),
    ("huber_loss", "ShapeError", lambda: pd.huber_loss(f(2, 3), f(2, 4))),
    ("kl_divergence", "ShapeError", lambda: pd.kl_divergence(f(2, 3), f(2, 4))),
    ("label_weights", "DTypeError", lambda: pd.label_weights(f(3))),
    ("label_weights", "ShapeError", lambda: pd.label_weights(i(3), weight=f(2, 2))),
    ("classification_error", "DTypeError", lambda: pd.classification_error(f(2, 3), f(2))),
    ("classification_error", "ShapeError", lambda: pd.classification_error(f(2, 3), i(4))),
    ("l1_loss", "ShapeError", lambda: pd.l1_loss(f(2, 3), f(2, 4))),
    ("hinge_loss", "ShapeError", lambda: pd.hinge_loss(f(2, 3), f(2, 4))),
    ("poisson_nll_loss", "ShapeError", lambda: pd.poisson_nll_loss(f(2, 3), f(2, 4))),
    ("gaussian_nll_loss", "ShapeError", lambda: pd.gaussian_nll_loss(f(2, 3), f(2, 4), f(2, 3))),
    ("focal_loss", "GraphError", lambda: pd.focal_loss(f(2), f(2), alpha=2.0)),
    ("focal_loss", "ShapeError", lambda: pd.focal_loss(f(2, 3), f(2, 4))),
    ("dice_loss", "ShapeError", lambda: pd.dice_loss(f(2, 3), f(2, 4))),
    ("contrastive_loss", "ShapeError", lambda: pd.contrastive_loss(f(2, 3), f(2, 4), f(2, 1))),
    ("triplet_loss", "GraphError", lambda: pd.triplet_loss(f(2, 3), f(2, 3), f(2, 3), p=0.5)),
    ("triplet_loss", "ShapeError", lambda: pd.triplet_loss(f(2, 3), f(2, 4), f(2, 3))),
    (
        "cosine_embedding_loss",
        "ShapeError",
        lambda: pd.cosine_embedding_loss(f(2, 3), f(2, 4), f(2, 1)),
    ),
    (
        "margin_ranking_loss",
        "ShapeError",
        lambda: pd.margin_ranking_loss(f(2, 3), f(2, 4), f(2, 3)),
    ),
    ("reduce_sum", "DTypeError", lambda: pd.reduce_sum(s(3))),
    ("reduce_sum", "ShapeError", lambda: pd.reduce_sum(f(2, 3), axis=5)),
    ("reduce_sum", "TypeError", lambda: pd.reduce_sum(f(2, 3), axis=1, axes=0)),
    ("reduce_mean", "ShapeError", lambda: pd.reduce_mean(f(2, 3), axis=5)),
    ("reduce_mean", "TypeError", lambda: pd.reduce_mean(f(2, 3), axis=1, axes=0)),
    ("reduce_prod", "DTypeError", lambda: pd.reduce_prod(s(3))),
    ("reduce_prod", "ShapeError", lambda: pd.reduce_prod(f(2, 3), axis=5)),
    ("reduce_prod", "TypeError", lambda: pd.reduce_prod(f(2, 3), axis=1, axes=0)),
    ("reduce_max", "DTypeError", lambda: pd.reduce_max(s(3))),
    ("reduce_max", "ShapeError", lambda: pd.reduce_max(f(2, 3), axis=5)),
    ("reduce_max", "TypeError", lambda: pd.reduce_max(f(2, 3), axis=1, axes=0)),
    ("reduce_min", "DTypeError", lambda: pd.reduce_min(s(3))),
    ("reduce_min", "ShapeError", lambda: pd.reduce_min(f(2, 3), axis=5)),
    ("reduce_min", "TypeError", lambda: pd.reduce_min(f(2, 3), axis=1, axes=0)),
    ("reduce_all", "DTypeError", lambda: pd.reduce_all(i(3))),
    ("reduce_all", "ShapeError", lambda: pd.reduce_all(b(3), axis=5)),
    ("reduce_any", "DTypeError", lambda: pd.reduce_any(i(3))),
    ("reduce_any", "ShapeError", lambda: pd.reduce_any(b(3), axis=5)),
    ("count_nonzero", "ShapeError", lambda: pd.count_nonzero(f(3), axis=5)),
    ("logsumexp", "DTypeError", lambda: pd.logsumexp(i(3))),
    ("logsumexp", "ShapeError", lambda: pd.logsumexp(f(3), axis=5)),
    ("norm", "DTypeError", lambda: pd.norm(i(3))),
    ("norm", "ShapeError", lambda: pd.norm(f(3), axis=5)),
    ("var", "DTypeError", lambda: pd.var(i(3))),
    ("var", "ShapeError", lambda: pd.var(f(3), axis=5)),
    ("std", "DTypeError", lambda: pd.std(i(3))),
    ("std", "ShapeError", lambda: pd.std(f(3), axis=5)),
    ("cum_sum", "DTypeError", lambda: pd.cum_sum(s(3))),
    ("cum_sum", "ShapeError", lambda: pd.cum_sum(f(3), axis=5)),
    ("cum_prod", "DTypeError", lambda: pd.cum_prod(s(3))),
    ("cum_prod", "ShapeError", lambda: pd.cum_prod(f(3), axis=5)),
    ("arg_max", "DTypeError", lambda: pd.arg_max(s(3))),
    ("arg_max", "ShapeError", lambda: pd.arg_max(f(3), axis=5)),
    ("arg_min", "DTypeError", lambda: pd.arg_min(s(3))),
    ("arg_min", "ShapeError", lambda: pd.arg_min(f(3), axis=5)),
    ("log_softmax", "DTypeError", lambda: pd.log_softmax(i(2, 3))),
    ("log_softmax", "ShapeError", lambda: pd.log_softmax(f(2, 3), axis=5)),
    ("sort", "DTypeError", lambda: pd.sort(b(3))),
    ("sort", "ShapeError", lambda: pd.sort(f(3), axis=5)),
    ("argsort", "DTypeError", lambda: pd.argsort(b(3))),
    ("argsort", "ShapeError", lambda: pd.argsort(f(3), axis=5)),
    ("unique", "ShapeError", lambda: pd.unique(f(3), axis=5)),
    ("matmul", "DTypeError", lambda: pd.matmul(b(2, 3), b(3, 2))),
    ("matmul", "ShapeError", lambda: pd.matmul(f(2, 3), f(4, 2))),
    ("det", "DTypeError", lambda: pd.det(b(3, 3))),
    ("det", "ShapeError", lambda: pd.det(f(3, 4))),
    ("einsum", "ShapeError", lambda: pd.einsum("ij,jk->ik", f(2, 3), f(4, 2, 2))),
    ("elu", "DTypeError", lambda: pd.elu(i(2, 3))),
    ("gelu", "DTypeError", lambda: pd.gelu(i(2, 3))),
    ("hard_sigmoid", "DTypeError", lambda: pd.hard_sigmoid(i(2, 3))),
    ("hard_swish", "DTypeError", lambda: pd.hard_swish(i(2, 3))),
    ("leaky_relu", "DTypeError", lambda: pd.leaky_relu(i(2, 3))),
    ("mish", "DTypeError", lambda: pd.mish(i(2, 3))),
    ("selu", "DTypeError", lambda: pd.selu(i(2, 3))),
    ("sigmoid", "DTypeError", lambda: pd.sigmoid(i(2, 3))),
    ("silu", "DTypeError", lambda: pd.silu(i(2, 3))),
    ("softplus", "DTypeError", lambda: pd.softplus(i(2, 3))),
    ("softsign", "DTypeError", lambda: pd.softsign(i(2, 3))),
    ("tanh", "DTypeError", lambda: pd.tanh(i(2, 3))),
    ("tanhshrink", "DTypeError", lambda: pd.tanhshrink(i(2, 3))),
    ("relu", "DTypeError", lambda: pd.relu(b(2, 3))),
    ("celu", "ValueError", lambda: pd.celu(f(2), alpha=0.0)),
    ("glu", "DTypeError", lambda: pd.glu(i(2, 4))),
    ("glu", "ShapeError", lambda: pd.glu(f(2, 3))),
    ("prelu", "ShapeError", lambda: pd.prelu(f(2, 3), f(4))),
    ("arange", "DTypeError", lambda: pd.arange(f())),
    ("arange", "ShapeError", lambda: pd.arange(i(3))),
    ("arange", "TypeError", lambda: pd.arange()),
    ("arange", "ValueError", lambda: pd.arange(1, 5, 0)),
    ("reshape", "ShapeError", lambda: pd.reshape(f(2, 3), [4, 2])),
    ("reshape_like", "ShapeError", lambda: pd.reshape_like(f(2, 3), f(4, 2))),
    ("flatten", "ShapeError", lambda: pd.flatten(f(2, 3), axis=9)),
    ("squeeze", "ShapeError", lambda: pd.squeeze(f(2, 3), axis=9)),
    ("squeeze", "TypeError", lambda: pd.squeeze(f(1, 3), axis=0, axes=0)),
    ("unsqueeze", "ShapeError", lambda: pd.unsqueeze(f(2, 3), 9)),
    ("unsqueeze", "TypeError", lambda: pd.unsqueeze(f(2, 3))),
    ("transpose", "ShapeError", lambda: pd.transpose(f(2, 3), [0, 0])),
    ("matrix_transpose", "ShapeError", lambda: pd.matrix_transpose(f(3))),
    ("concat", "ShapeError", lambda: pd.concat([f(2, 3), f(2, 3)], axis=9)),
    ("split", "ShapeError", lambda: pd.split(f(2, 6), [1, 2], axis=1)),
    ("slice", "TypeError", lambda: pd.slice(f(4, 4), [0], [2], axis=0, axes=1)),
    ("pad", "GraphError", lambda: pd.pad(f(2), [1], [1], mode="mirror")),
    ("pad", "TypeError", lambda: pd.pad(f(2), [1], "constant")),
    ("pad", "ShapeError", lambda: pd.pad(f(2), [-9], [0])),
    ("expand", "ShapeError", lambda: pd.expand(f(2, 3), [4, 4])),
    ("expand_like", "ShapeError", lambda: pd.expand_like(f(2, 3), f(4, 4))),
    ("size_of", "ShapeError", lambda: pd.size_of(f(2, 3), 5)),
    ("depth_to_space", "ShapeError", lambda: pd.depth_to_space(f(3, 4), 2)),
    ("space_to_depth", "ShapeError", lambda: pd.space_to_depth(f(3, 4), 2)),
    ("chunk", "ShapeError", lambda: pd.chunk(f(5), 0)),
    ("stack", "ShapeError", lambda: pd.stack([f(2), f(3)])),
    ("unstack", "ShapeError", lambda: pd.unstack(f(None, 2))),
    ("repeat", "DTypeError", lambda: pd.repeat(f(3), f())),
    ("repeat", "ShapeError", lambda: pd.repeat(f(3), 2, axis=4)),
    ("repeat", "ValueError", lambda: pd.repeat(f(3), [1, -1, 2])),
    ("roll", "DTypeError", lambda: pd.roll(f(3), f())),
    ("roll", "ShapeError", lambda: pd.roll(f(3), 1, axis=4)),
    ("tril", "DTypeError", lambda: pd.tril(f(3, 3), f())),
    ("tril", "ShapeError", lambda: pd.tril(f(3, 3), i(2))),
    ("triu", "DTypeError", lambda: pd.triu(f(3, 3), f())),
    ("triu", "ShapeError", lambda: pd.triu(f(3, 3), i(2))),
    ("flip", "ShapeError", lambda: pd.flip(f(3), axis=4)),
    ("move_axis", "ShapeError", lambda: pd.move_axis(f(2, 3), 5, 0)),
    ("swap_axes", "ShapeError", lambda: pd.swap_axes(f(2, 3), 0, 5)),
    ("diagonal", "ShapeError", lambda: pd.diagonal(f(4))),
    ("meshgrid", "ShapeError", lambda: pd.meshgrid(f(2, 2))),
    ("meshgrid", "ValueError", lambda: pd.meshgrid(f(2), f(3), indexing="yx")),
    ("top_k", "DTypeError", lambda: pd.top_k(b(3), 1)),
    ("top_k", "ShapeError", lambda: pd.top_k(f(3), 5)),
    ("gather", "DTypeError", lambda: pd.gather(f(3), f(2))),
    ("gather", "ShapeError", lambda: pd.gather(f(3), i(2), axis=4)),
    ("gather_elements", "DTypeError", lambda: pd.gather_elements(f(2, 3), f(2, 3))),
    ("gather_elements", "ShapeError", lambda: pd.gather_elements(f(2, 3), i(2, 3), axis=4)),
    ("gather_nd", "DTypeError", lambda: pd.gather_nd(f(3), f(2, 1))),
    ("scatter", "DTypeError", lambda: pd.scatter(f(2, 3), f(2, 3), f(2, 3))),
    ("scatter", "ShapeError", lambda: pd.scatter(f(2, 3), i(2, 3), f(2, 3), axis=4)),
    ("scatter_add", "DTypeError", lambda: pd.scatter_add(f(2, 3), f(2, 3), f(2, 3))),
    ("scatter_add", "ShapeError", lambda: pd.scatter_add(f(2, 3), i(2, 3), f(2, 3), axis=4)),
    ("scatter_nd", "ShapeError", lambda: pd.scatter_nd(f(3), i(2, None), f(2))),
    ("index_update", "IndexError", lambda: pd.index_update(f(3), (0, 0), 1.0)),
    ("index_add", "IndexError", lambda: pd.index_add(f(3), (0, 0), 1.0)),
    ("one_hot", "DTypeError", lambda: pd.one_hot(f(3), 4)),
    ("one_hot", "ShapeError", lambda: pd.one_hot(i(3), -1)),
    (
        "batch_norm",
        "ShapeError",
        lambda: pd.batch_norm(
            f(2, None, 4),
            f(3),
            f(3),
            pd.Variable("m", data=np.zeros(3, "f")),
            pd.Variable("v", data=np.ones(3, "f")),
        ),
    ),
    (
        "batch_norm",
        "TypeError",
        lambda: pd.batch_norm(f(2, 3, 4), f(3), f(3), f(3), np.ones(3, "f")),
    ),
    ("group_norm", "ShapeError", lambda: pd.group_norm(f(2, 5, 4), 2)),
    ("instance_norm", "ShapeError", lambda: pd.instance_norm(f(2, 5))),
    ("layer_norm", "ShapeError", lambda: pd.layer_norm(f(2, 5), axis=4)),
    ("rms_norm", "ShapeError", lambda: pd.rms_norm(f(2, 5), axis=4)),
    ("layer_norm", "TypeError", lambda: pd.layer_norm(f(2, 5), (5,))),
    ("rms_norm", "TypeError", lambda: pd.rms_norm(f(2, 5), [5])),
    ("local_response_norm", "ShapeError", lambda: pd.local_response_norm(f(2, None, 4, 4), 3)),
    (
        "attention",
        "GraphError",
        lambda: pd.attention(f(1, 2, 3, 4), f(1, 2, 3, 4), f(1, 2, 3, 4), mask=f(1, 1, 1, 1, 3)),
    ),
    ("attention", "ShapeError", lambda: pd.attention(f(2, 3, 4), f(2, 3, 4), f(2, 3, 4))),
    (
        "attention",
        "ValueError",
        lambda: pd.attention(f(1, 2, 3, 4), f(1, 2, 3, 4), f(1, 2, 3, 4), dropout=1.5),
    ),
    ("rotary_embedding", "ShapeError", lambda: pd.rotary_embedding(f(2, 5))),
    ("dropout", "ValueError", lambda: pd.dropout(f(2), 1.0)),
    ("bernoulli", "ValueError", lambda: pd.bernoulli(f(2), 2.0)),
    ("uniform_random", "ShapeError", lambda: pd.uniform_random([-1])),
    ("gaussian_random", "ShapeError", lambda: pd.gaussian_random([-1])),
    ("exponential_random", "ShapeError", lambda: pd.exponential_random([-1])),
    ("randint", "DTypeError", lambda: pd.randint([2], 0, f())),
    ("randint", "ShapeError", lambda: pd.randint([-1], 0, 5)),
    ("randint", "ValueError", lambda: pd.randint([2], 5, 5)),
    ("categorical", "DTypeError", lambda: pd.categorical(i(2, 3))),
    ("categorical", "ShapeError", lambda: pd.categorical(f())),
    ("multinomial", "DTypeError", lambda: pd.multinomial(i(2, 3), 1, replacement=True)),
    ("multinomial", "ShapeError", lambda: pd.multinomial(f(2, 3), 4, replacement=False)),
    ("multinomial", "ValueError", lambda: pd.multinomial(f(2, 3), 0, replacement=True)),
    ("random_classes", "ShapeError", lambda: pd.random_classes([-1], 3)),
    ("random_classes", "ValueError", lambda: pd.random_classes([2], 3, [0.5, 0.6, 0.7])),
    ("adaptive_avg_pool", "ShapeError", lambda: pd.adaptive_avg_pool(f(1, 2, None, 4), 2)),
    ("adaptive_max_pool", "ShapeError", lambda: pd.adaptive_max_pool(f(1, 2, None, 4), 2)),
    ("global_avg_pool", "ShapeError", lambda: pd.global_avg_pool(f(2, 3))),
    ("global_max_pool", "ShapeError", lambda: pd.global_max_pool(f(2, 3))),
    ("interpolate", "DTypeError", lambda: pd.interpolate(i(1, 2, 4, 4), 8)),
    ("interpolate", "GraphError", lambda: pd.interpolate(f(1, 2, 4, 4))),
    ("interpolate", "ShapeError", lambda: pd.interpolate(f(1, 2, 4, 4), [8, 8, 8])),
    ("im2col", "ShapeError", lambda: pd.im2col(f(1, 2, None, 4), (2, 2), (1, 1), (0, 0))),
    ("roi_max_pool", "DTypeError", lambda: pd.roi_max_pool(f(1, 2, 4, 4), i(3, 5), (2, 2))),
    ("roi_max_pool", "ShapeError", lambda: pd.roi_max_pool(f(1, 2, 4, 4), f(3, 4), (2, 2))),
    ("affine_grid", "ShapeError", lambda: pd.affine_grid(f(1, 3, 3), [1, 1, 4, 4])),
    (
        "grid_sample",
        "GraphError",
        lambda: pd.grid_sample(f(1, 2, 4, 4), f(1, 3, 3, 2), mode="square"),
    ),
    ("grid_sample", "ShapeError", lambda: pd.grid_sample(f(1, 2, 4, 4), f(1, 3, 3, 3))),
    ("nce_loss", "DTypeError", lambda: pd.nce_loss(f(2, 4), f(2), f(9, 4))),
    ("nce_loss", "ShapeError", lambda: pd.nce_loss(f(2, 4), i(2), [f(9, 4), f(9, 4)])),
    ("nce_loss", "ValueError", lambda: pd.nce_loss(f(2, 4), i(2), f(9, 4), samples=0)),
    ("hierarchical_sigmoid", "DTypeError", lambda: pd.hierarchical_sigmoid(f(2, 4), f(2), f(8, 4))),
    (
        "hierarchical_sigmoid",
        "ShapeError",
        lambda: pd.hierarchical_sigmoid(f(2, 4), i(2), [f(8, 4), f(8, 4)]),
    ),
    (
        "crf_loss",
        "DTypeError",
        lambda: pd.crf_loss(f(3, 2), f(3), pd.Segments(np.array([2, 1])), f(2, 2)),
    ),
    (
        "ctc_loss",
        "DTypeError",
        lambda: pd.ctc_loss(f(2, 3), f(1), pd.Segments(np.array([2])), pd.Segments(np.array([1]))),
    ),
    (
        "ctc_loss",
        "ShapeError",
        lambda: pd.ctc_loss(
            f(2, 3), i(1), pd.Segments(np.array([2])), pd.Segments(np.array([1])), blank=7
        ),
    ),
    ("cond", "GraphError", lambda: pd.cond(f(3), lambda: f(1), lambda: f(1))),
    ("while_loop", "GraphError", lambda: pd.while_loop(lambda x: x, lambda x: [x], [1.0])),
    (
        "while_loop",
        "ShapeError",
        lambda: pd.while_loop(lambda x: x < 3.0, lambda x: [pd.concat([x, x])], [np.zeros(2, "f")]),
    ),
    ("scan", "GraphError", lambda: pd.scan(lambda s, x: s, f(2), f(3, 2))),
    ("scan", "ShapeError", lambda: pd.scan(lambda s, x: (pd.concat([s, s]), x), f(2), f(3, 2))),
    ("for_loop", "GraphError", lambda: pd.for_loop(3, lambda i, s: s, f(2))),
    ("for_loop", "ShapeError", lambda: pd.for_loop(3, lambda i, s: (pd.concat([s, s]), s), f(2))),
    ("vmap", "GraphError", lambda: pd.vmap(lambda x: x, in_axes=(0, 0))(f(2, 3))),
    ("gru_cell", "ShapeError", lambda: pd.gru_cell(f(2, 8), f(2, 3), f(3, 6), f(3, 3))),
    (
        "gru_cell_reset_after",
        "ShapeError",
        lambda: pd.gru_cell_reset_after(f(2, 8), f(2, 9), f(2, 3)),
    ),
    ("lstm_cell", "ShapeError", lambda: pd.lstm_cell(f(2, 8), f(2, 3))),
    ("dft", "ShapeError", lambda: pd.dft(f(2, 4, 1), axis=7)),
    ("zeros", "ShapeError", lambda: pd.zeros(i(2, 2))),
    ("ones", "ShapeError", lambda: pd.ones(i(2, 2))),
    ("full", "ShapeError", lambda: pd.full(i(2, 2), 1.0)),
    ("eye", "TypeError", lambda: pd.eye(2.5)),
    ("mode_switch", "ShapeError", lambda: pd.mode_switch(f(2), f(2, 2))),
    ("box_overlaps", "ShapeError", lambda: pd.box_overlaps(f(3, 5), f(2, 4))),
    ("encode_boxes", "ShapeError", lambda: pd.encode_boxes(f(3, 5), f(3, 4), f(4))),
    ("decode_boxes", "ShapeError", lambda: pd.decode_boxes(f(3, 4), f(3, 5), f(4))),
    ("match_boxes", "ShapeError", lambda: pd.match_boxes(f(3, 4), 0.5)),
    (
        "non_max_suppression",
        "ShapeError",
        lambda: pd.non_max_suppression(f(1, 3, 5), f(1, 2, 3), 0.5, 0.0),
    ),
    ("cross_entropy_over_beam", "ShapeError", lambda: pd.cross_entropy_over_beam([])),
    ("embedding", "DTypeError", lambda: pd.embedding(f(2), (5, 3))),
    ("embedding", "ShapeError", lambda: pd.embedding(i(2), (0, 3))),
    ("embedding", "ValueError", lambda: pd.embedding(i(2), (5, 3), padding_id=7)),
    ("fc", "GraphError", lambda: pd.fc(f(2, 3), 4, act="rleu")),
    ("fc", "ShapeError", lambda: pd.fc(f(2, None), 4)),
    ("gru", "GraphError", lambda: pd.gru(f(2, 5, 3), 4, W=["a", "b"])),
    ("gru", "ShapeError", lambda: pd.gru(f(2, 3), 4)),
    ("lstm", "GraphError", lambda: pd.lstm(f(2, 5, 3), 4, W=["a", "b"])),
    ("lstm", "ShapeError", lambda: pd.lstm(f(2, 3), 4)),
    ("simple_rnn", "ShapeError", lambda: pd.simple_rnn(f(2, 3), 4)),
    ("eval", "FeedError", lambda: pd.eval(f(2), {"nobody": 1.0})),
    ("eval", "MissingFeed", lambda: pd.eval(f(None) * 2.0)),
    ("save", "GraphError", lambda: pd.save("never", pd.constant(1.0))),
    ("save", "TypeError", lambda: pd.save("never", 3)),
    ("export_onnx", "ExportError", lambda: pd.export_onnx(None, [f(2) * 2.0], opset=5)),
    ("export_onnx", "TypeError", lambda: pd.export_onnx(None, [f(2) * 2.0], seed=0.5)),
    ("export_onnx", "ValueError", lambda: pd.export_onnx(None, [f(2) * 2.0], seed=2**70)),
    ("autocast", "DTypeError", lambda: pd.autocast(f(2), "bfloat16")),
    ("autocast", "TypeError", lambda: pd.autocast(3.0)),
    ("fallbacks", "PlaceError", lambda: pd.fallbacks("abacus")),
    ("register_devices", "PlaceError", lambda: pd.register_devices("/no/such/library.so")),
    ("import_onnx", "DamagedModel", lambda: pd.import_onnx(b"no model")),
    ("softmax", "ShapeError", lambda: pd.softmax(f(2, 3), size=1)),
    (
        "softmax_cross_entropy",
        "ValueError",
        lambda: pd.softmax_cross_entropy(f(2, 3), pd.fc(f(2, 4), 3)),
    ),
    (
        "sigmoid_cross_entropy",
        "ValueError",
        lambda: pd.sigmoid_cross_entropy(f(2, 3), pd.fc(f(2, 4), 3)),
    ),
    (
        "batch_norm",
        "ValueError",
        lambda: pd.batch_norm(
            f(2, 3),
            *(pd.Variable(data=np.ones(3, "f"), trainable=t) for t in (False, False, True, True)),
        ),
    ),
    ("straight_through", "ShapeError", lambda: pd.straight_through(f(2), f(3))),
    ("sum_over_ranks", "DTypeError", lambda: pd.sum_over_ranks(i(2))),
    ("subgraph", "FeedError", lambda: pd.subgraph(f(2) * 2.0, {"nobody": 1.0})),
    ("subgraph", "TypeError", lambda: pd.subgraph(3)),
    ("summary", "GraphError", lambda: pd.summary(f(None, None) * 2.0)),
    ("summary", "TypeError", lambda: pd.summary(3)),
    ("sequence_windows", "ShapeError", lambda: pd.sequence_windows(pd.Segments(np.array([3])), 0)),
    (
        "nn.Module.fit",
        "DTypeError",
        lambda: Net().fit(np.array(["a"]), rows(1), optimizer=pd.SGDOptimizer(), loss=pd.nn.MSE()),
    ),
    (
        "nn.Module.fit",
        "ShapeError",
        lambda: Net().fit(rows(4), rows(5), optimizer=pd.SGDOptimizer(), loss=pd.nn.MSE()),
    ),
    ("nn.Module.fit", "TypeError", lambda: Net().fit(rows(4), rows(4), loss=pd.nn.MSE())),
    (
        "nn.Module.fit",
        "ValueError",
        lambda: Net().fit(
            rows(4), rows(4), optimizer=pd.SGDOptimizer(), loss=pd.nn.MSE(), validation_split=2.0
        ),
    ),
    (
        "nn.Module.evaluate",
        "ShapeError",
        lambda: Net().evaluate(rows(4), rows(5), loss=pd.nn.MSE()),
    ),
    ("nn.Module.evaluate", "TypeError", lambda: Net().evaluate(rows(4), rows(4))),
    (
        "nn.Module.evaluate",
        "ValueError",
        lambda: Net().evaluate(lambda: iter([]), loss=pd.nn.MSE()),
    ),
    ("nn.Module.predict", "ShapeError", lambda: Net().predict(rows(0))),
    ("nn.Module.predict", "ValueError", lambda: Net().predict(lambda: iter([]))),
    ("nn.Module.get_params", "NotInitialized", lambda: Net().get_params()),
    ("nn.Module.get_states", "NotInitialized", lambda: Net().get_states()),
    ("nn.Module.summary", "NotInitialized", lambda: Net().summary()),
    ("nn.Module.save", "NotInitialized", lambda: Net().save("never")),
    ("nn.Module.load", "NotInitialized", lambda: Net().load("never")),
    ("nn.Module.load", "GraphError", load_of_another),
    ("training.Runner.add_item", "GraphError", lambda: running().add_item(pd.training.Counter())),
    ("training.Runner.add_item", "TypeError", lambda: pd.training.Runner().add_item(3)),
    ("training.Runner.add_item", "ValueError", lambda: added_twice()),
    ("training.Runner.run_one_pass", "GraphError", lambda: pd.training.Runner().run_one_pass()),
    ("training.Runner.run", "GraphError", lambda: pd.training.Runner().run()),
    ("training.Runner.save", "GraphError", lambda: pd.training.Runner().save("never")),
    *TRAINING,
]


def sections(name):
    """{section: {entry: text}} of the docstring of a public function."""
    text = inspect.getdoc(attrgetter(name)(pd)) or ""
    found = SECTION.findall(text)
    titles = [title for title, _ in found]
    assert titles == [title for title in ORDER if title in titles], name
    entries = {title: re.findall(r"^ {4}(\S.*?): ", lines, re.M) for title, lines in found}
    return {title: set(names) for title, names in entries.items()}


def public(module, kind):
    """The names of public functions or classes of a module of pd."""
    found = attrgetter(module)(pd) if module else pd
    own = [k for k, v in vars(found).items() if getattr(v, "__module__", "") == found.__name__]
    names = [k for k in getattr(found, "__all__", own) if kind(getattr(found, k)) and k[0] != "_"]
    return [f"{module}.{name}".lstrip(".") for name in names]


MODULES = "", "distributions", "interchange", "metrics", "schedules"
FUNCTIONS = [name for module in MODULES for name in public(module, inspect.isfunction)]
CLASSES = [name for module in MODULES for name in public(module, inspect.isclass)]
OF_METHODS = (
    *("LBFGSOptimizer", "MovingAverage", "Session", "nn.Module", "optimizers.Optimizer"),
    *("training.Runner", *(name for name in CLASSES if "." in name)),
)
for name in OF_METHODS:
    things = vars(attrgetter(name)(pd)).items()
    FUNCTIONS += [f"{name}.{k}" for k, thing in things if inspect.isfunction(thing) and k[0] != "_"]
CLASSES = [name for name in CLASSES if sections(name)]
FUNCTIONS += CLASSES
OF_ALL = {"name", "regularizer", "clip", "groups", "accumulate"}  # settings of all optimizers


@pytest.mark.parametrize(("name", "error", "call"), ROWS, ids=[f"{n}-{e}" for n, e, _ in ROWS])
def test_documented_errors_are_raised(name, error, call):
    with pytest.raises(Exception) as raised:
        call()
    assert type(raised.value).__name__ == error


def test_documented_errors_have_rows():
    documented = {(name, error) for name in FUNCTIONS for error in sections(name).get("Raises", ())}
    assert documented == {(name, error) for name, error, _ in ROWS}
    assert len({name for name, _ in documented}) >= 250


def test_documented_arguments_exist():
    assert len(FUNCTIONS) > 400
    for name in FUNCTIONS:
        parameters = inspect.signature(attrgetter(name)(pd)).parameters
        assert sections(name).get("Args", set()) <= set(parameters), name


def test_settings_are_documented():
    for name in CLASSES:
        thing = attrgetter(name)(pd)
        parameters = set(inspect.signature(thing).parameters)
        is_first = not issubclass(thing, pd.optimizers.Optimizer) or thing is pd.SGDOptimizer
        inherited = set() if is_first or thing is pd.Lookahead else OF_ALL
        assert sections(name)["Args"] == parameters - inherited, name


PAGE = Path(__file__).resolve().parents[1] / "docs" / "api" / "math.md"
KINDS = {"floats": "float32", "integers": "int64", "bools": "bool", "text": "str"}


def element_types():
    """(function, the kinds that it takes) of the table of docs/api/math.md."""
    for names, kinds in re.findall(r"^\| (`.*`) \| (\w.*) \|$", PAGE.read_text("utf-8"), re.M):
        for name in re.findall(r"\w+", names):
            yield name, {*kinds.split(", ")}


@pytest.mark.parametrize(("name", "kinds"), [*element_types()])
def test_element_types_of_arithmetic(name, kinds):
    """Others are a DTypeError, and shapes that do not broadcast a ShapeError."""
    function = getattr(pd, name)
    required = inspect.signature(function).parameters.values()
    count = sum(p.default is p.empty for p in required)
    for kind, dtype in KINDS.items():
        operands = [pd.Variable([2, 3], dtype=dtype) for _ in range(count)]
        if kind in kinds:
            assert function(*operands).shape == (2, 3)
        else:
            with pytest.raises(pd.DTypeError):
                function(*operands)
    if count == 2:
        dtype = KINDS[min(kinds & {*KINDS})]
        with pytest.raises(pd.ShapeError):
            function(pd.Variable([2, 3], dtype=dtype), pd.Variable([2, 4], dtype=dtype))
