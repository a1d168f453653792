"""Write the models of the tests: a perceptron with adapters, and the same of another width."""

import json
import sys
from pathlib import Path

import numpy as np

import pd_core as pd

STEPS = 6


def batch(k):
    rng = np.random.default_rng(k)
    x = rng.normal(size=(8, 6)).astype("float32")
    return {"x": x, "label": x[:, :3].argmax(1)}


def write(folder, width):
    """Write step, initial state, prediction, batches and the losses that pd computes."""
    folder.mkdir(parents=True, exist_ok=True)
    pd.reset(seed=0)
    x = pd.Variable("x", shape=[None, 6])
    label = pd.Variable("label", shape=[None], dtype="int64")
    rate = pd.Variable("learning_rate", data=np.array(0.1, "float32"), trainable=False)
    hidden = pd.dropout(pd.fc(x, width, act="tanh", W="W1", B="b1"), 0.2)
    scores = pd.fc(hidden, 3, W="W2", B="b2")
    adapters = pd.lora(scores, rank=2)
    (adapted,) = adapters.outputs
    probability = pd.identity(pd.softmax(adapted), name="probability")
    cost = pd.identity(pd.reduce_mean(pd.softmax_cross_entropy(adapted, label)), name="cost")
    step = pd.AdamOptimizer(rate).minimize(cost)
    initial = folder / "initial.onnx"
    pd.export_step(folder / "step.onnx", step, [cost], [x, label], initial=initial)
    pd.export_onnx(folder / "predict.onnx", [probability], inputs=[x, *adapters.parameters()])
    feeds = [batch(k) for k in range(STEPS)]
    before = pd.eval(probability, {"x": feeds[0]["x"]})
    losses = [float(pd.eval([cost, step], f)[0]) for f in feeds]
    after = pd.eval(probability, {"x": feeds[0]["x"]})
    facts = {
        "batches": [{n: a.ravel().tolist() for n, a in f.items()} for f in feeds],
        "losses": losses,
        "before": before.ravel().tolist(),
        "after": after.ravel().tolist(),
    }
    (folder / "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    for name, width in (("step", 5), ("other", 7)):
        write(Path(sys.argv[1]) / name, width)
