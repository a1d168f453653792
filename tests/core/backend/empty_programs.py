"""Evaluations of arrays without elements, in a process that they may end.

`python -m tests.core.backend.empty_programs FILE` writes what they give by name.
"""

import sys

import numpy as np
from onnx import TensorProto, helper

import pd_core as pd

EQUATIONS = {
    "bij,bkj->bik": [(0, 3, 4), (0, 5, 4)],
    "ij,kj": [(3, 0), (5, 0)],
    "i...j,k...j->i...k": [(2, 3, 0), (5, 3, 0)],
    "bij,kbj->bik": [(2, 3, 4), (0, 2, 4)],
    "bij,bkj,bk->bi": [(0, 3, 4), (0, 5, 4), (0, 5)],
}
# [sequences, steps, width] of an input, and what they are called
SEQUENCES = {"no sequences": (0, 6, 4), "no steps": (2, 0, 4), "neither": (0, 0, 4)}


def first(y):
    return y[0] if isinstance(y, tuple | list) else y


LAYERS = {
    "lstm": lambda x: first(pd.layer.lstm(x, 5)),
    "gru": lambda x: first(pd.layer.gru(x, 5)),
    "both directions": lambda x: first(pd.nn.LSTM(5, bidirectional=True)(x)),
    "attention": lambda x: pd.layer.multi_head_attention(x, 2),
    "causal attention": lambda x: pd.layer.multi_head_attention(x, 2, causal=True),
}


def layer(name, shape):
    x = pd.Variable([None, None, 4])
    return pd.eval(LAYERS[name](x), {x: np.ones(shape, np.float32)})


def equation(text):
    shapes = EQUATIONS[text]
    xs = [pd.Variable([None] * len(shape)) for shape in shapes]
    return pd.eval(
        pd.einsum(text, *xs),
        {x: np.ones(shape, np.float32) for x, shape in zip(xs, shapes, strict=True)},
    )


def gru_of_a_file(steps):
    """The final state of an imported GRU that begins with ones; of no steps, those ones."""
    rng = np.random.default_rng(1)
    names = "x", "W", "R", "", "", "start"
    node = helper.make_node("GRU", names, ["", "end"], hidden_size=3)
    given = {"W": rng.normal(size=(1, 9, 2)), "R": rng.normal(size=(1, 9, 3))}
    kinds = {"x": [None, None, 2], "start": [1, None, 3]}
    model = helper.make_model(
        helper.make_graph(
            [node],
            "gru",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in kinds.items()],
            [helper.make_tensor_value_info("end", TensorProto.FLOAT, [1, None, 3])],
            [
                helper.make_tensor(n, TensorProto.FLOAT, a.shape, a.astype(np.float32).ravel())
                for n, a in given.items()
            ],
        ),
        opset_imports=[helper.make_opsetid("", 22)],
    )
    pd.reset()
    x, start = pd.Variable([None, None, 2]), pd.Variable([1, None, 3])
    feeds = {x: np.ones((steps, 2, 2)), start: np.ones((1, 2, 3))}
    return pd.eval(pd.import_onnx(model)(x, start), feeds)


def main(file):
    results = {}
    for name in LAYERS:
        for kind, shape in SEQUENCES.items():
            results[f"{name}: {kind}"] = layer(name, shape)
    for text in EQUATIONS:
        results[text] = equation(text)
    results["gru of 0 steps"], results["gru of 1 step"] = gru_of_a_file(0), gru_of_a_file(1)
    np.savez(file, **results)


if __name__ == "__main__":
    main(sys.argv[1])
