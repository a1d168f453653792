"""A test for `kernels`: an operator with faults, which sanitizers have to see."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from pd_core.backend import fused
from pd_core.backend.fused.build import build
from tests.core.backend.fused.alone import model_of, run

# Each part reads behind the input, which has 8 numbers, and writes to the same one.
SOURCE = """
typedef struct { const float *x; float *y; } Both;
static void bad_part(void *state, size_t part) {
  const Both *b = state;
  b->y[0] += b->x[8] + (float)part;
}
static Status *bad(void *state, Context *context) {
  Both b;
  int64_t n = 8;
  (void)state;
  TRY(input(context, 0, (const void **)&b.x));
  TRY(output(context, 0, &n, 1, (void **)&b.y));
  return parallel(context, bad_part, 8, &b);
}
static const unsigned char types[] = {1, 1};
static Op ops[] = {OPERATOR("Bad", 1, 1, types, 0, 0, bad)};
REGISTER("test.bad")
"""


def test_of_faults():
    """Run the operator on what another one has made."""
    node = helper.make_node
    nodes = [node("Neg", ["x"], ["y"]), node("Bad", ["y"], ["z"], domain="test.bad")]
    nodes.append(node("Neg", ["z"], ["w"]))
    model = model_of(nodes, {"x": (TensorProto.FLOAT, [8])}, ["w"])
    model.opset_import.append(helper.make_opsetid("test.bad", 1))
    prelude = Path(fused.__file__).with_name("prelude.c").read_text(encoding="utf-8")
    run(model, {"x": np.ones(8, np.float32)}, build(prelude + SOURCE))
