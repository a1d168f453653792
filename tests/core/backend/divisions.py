"""Divisions of integers on which kernels of ONNX Runtime end the process.

`python -m tests.core.backend.divisions` writes their results as JSON: {name: list}.
"""

import json

import numpy as np
from onnx import helper

import pd_core as pd

TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint64"]


def operands(dtype):
    """The least number, the largest and 7, by each of 0, -1 and 3."""
    info = np.iinfo(dtype)
    divisors = [0, -1, 3] if info.min else [0, info.max, 3]
    a, b = np.meshgrid(np.array([info.min, info.max, 7], dtype), np.array(divisors, dtype))
    return a.ravel(), b.ravel()


def of_a_file(op_type, dtype, constant, **attributes):
    """An imported operator of two inputs, or of one and a stored divisor."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    a, b = operands(dtype)
    inputs = [helper.make_tensor_value_info(n, kind, [None]) for n in "ab"]
    stored = [helper.make_tensor("b", kind, b.shape, b)] if constant else []
    graph = helper.make_graph(
        [helper.make_node(op_type, ["a", "b"], ["y"], **attributes)],
        "division",
        inputs[: 2 - len(stored)],
        [helper.make_tensor_value_info("y", kind, [None])],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with pd.fresh():
        x, y = (pd.Variable([None], dtype=dtype) for _ in range(2))
        imported = pd.import_onnx(model)
        return pd.eval(imported(x) if constant else imported(x, y), {x: a, y: b})


def in_a_loop(dtype):
    with pd.fresh():
        x, y = (pd.Variable([None], dtype=dtype) for _ in range(2))
        _, both = pd.scan(lambda n, v: (n, (v[0] // v[1]) + v[0] % v[1]), 0, pd.stack([x, y], 1))
        a, b = operands(dtype)
        return pd.eval(both, {x: a, y: b})


def at_hand(dtype):
    with pd.guard():
        a, b = (pd.to_variable(v) for v in operands(dtype))
        return (a // b).numpy()


def main():
    results = {}
    for dtype in TYPES:
        for constant in (False, True):
            name = f"{dtype}{' by a constant' if constant else ''}"
            results[f"Div {name}"] = of_a_file("Div", dtype, constant)
            results[f"Mod {name}"] = of_a_file("Mod", dtype, constant)
            results[f"fmod {name}"] = of_a_file("Mod", dtype, constant, fmod=1)
        results[f"loop {dtype}"], results[f"guard {dtype}"] = in_a_loop(dtype), at_hand(dtype)
    print(json.dumps({name: y.tolist() for name, y in results.items()}))


if __name__ == "__main__":
    main()
