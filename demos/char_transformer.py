"""A small causal transformer that learns to write like the Apache License, letter by letter.

It is trained as a `pd.nn.Module`, called with arrays; with --static the same layers build a static
graph, which gives the same losses. Text is sampled with a cache of keys and values.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import pd_core as pd
from picture import curves

TEXT = Path(__file__).resolve().parents[1] / "LICENSE"
CONTEXT, WIDTH, HEADS, LAYERS, DROPOUT = 64, 64, 4, 2, 0.1
BATCH, LEARNING_RATE = 16, 6e-3
STEPS, QUICK_STEPS = 800, 50
BOUND, QUICK_BOUND = 1.7, 2.8  # largest loss of a trained model, in nats a character
LINES, TEMPERATURE = 8, 0.7


def sinusoids(shape, rng):
    """Initial values of learned positions: sine waves (Vaswani et al. 2017, section 3.5).

    With these it takes half as many steps as with random ones until attention is of use.
    """
    half = shape[1] // 2
    angles = np.arange(shape[0])[:, None] / 10_000 ** (np.arange(half) / half)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


class CharTransformer(pd.nn.Module):
    """A language model: ids of characters [B, T] to logits of the next ones [B, T, vocabulary]."""

    def __init__(self, vocabulary):
        super().__init__()
        self.embedding = pd.nn.Embedding(vocabulary, WIDTH, kernel_init="normal")
        self.positions = pd.nn.Embedding(CONTEXT, WIDTH, kernel_init=sinusoids)
        self.layers = pd.nn.LayerList(
            pd.nn.TransformerEncoderLayer(
                WIDTH, HEADS, 2 * WIDTH, DROPOUT, "gelu", norm_first=True, causal=True
            )
            for _ in range(LAYERS)
        )
        self.norm, self.output = pd.nn.LayerNorm(), pd.nn.FC(vocabulary)
        self.loss = pd.nn.SoftmaxCrossEntropy()
        self.optim = pd.AdamOptimizer(LEARNING_RATE, clip=pd.ClipGlobalNorm(1.0))

    def forward(self, x, start=0, caches=None):
        """Return the logits for characters at positions from `start` on.

        With caches, one for each layer, the result is (logits, new caches).
        """
        h = self.embedding(x) + self.positions(np.arange(start, start + x.shape[1]))
        h, new = pd.dropout(h, DROPOUT), []
        for k, layer in enumerate(self.layers):
            if caches is None:
                h = layer(h)
            else:
                h, cache = layer(h, cache=caches[k])
                new.append(cache)
        logits = self.output(self.norm(h))
        return logits if caches is None else (logits, new)

    def train_one_batch(self, x, y):
        loss = self.loss(self.forward(x), y)
        self.optim.backward_and_update(loss)
        return loss


def encoded():
    """Return the characters of the text, and the text, without its indentation, as their ids."""
    lines = [line.strip() for line in TEXT.read_text("utf-8").splitlines()]
    return np.unique(list("\n".join(lines)), return_inverse=True)


def batches(ids, steps, seed=1):
    """Yield random pieces of a text, and the same pieces one character later: [BATCH, CONTEXT]."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        pieces = rng.integers(len(ids) - CONTEXT, size=(BATCH, 1)) + np.arange(CONTEXT)
        yield ids[pieces], ids[pieces + 1]


def dynamic_losses(model, pairs):
    """Train on each pair by a call of the module; yield the losses."""
    model.compile([pd.Placeholder((None, CONTEXT), dtype="int64", name="x")], is_train=True)
    for x, y in pairs:
        yield float(model(x, y))


def static_losses(model, pairs):
    """Train on each pair by an evaluation of one static graph; yield the losses."""
    x, y = (pd.Variable([None, CONTEXT], dtype="int64") for _ in "xy")
    loss = model.loss(model(x), y)
    step = model.optim.minimize(loss)
    for x_value, y_value in pairs:
        _, value = pd.eval([step, loss], feeds={x: x_value, y: y_value})
        yield float(value)


def sample(model, newline, rng):
    """Return ids [LINES, CONTEXT] drawn one after the other, each row after a newline."""
    model.eval()
    ids = np.full((LINES, 1), newline)
    caches = [layer.self_attention.empty_cache(LINES) for layer in model.layers]
    for start in range(CONTEXT):
        logits, caches = model(ids[:, -1:], start=start, caches=caches)
        # As arrays: sizes of results are fixed, each length of a cache would be another program.
        caches = [(keys.numpy(), values.numpy()) for keys, values in caches]
        noise = rng.gumbel(size=(LINES, logits.shape[-1]))  # the largest sum is a draw of softmax
        drawn = np.argmax(logits.numpy()[:, 0] / TEMPERATURE + noise, 1)
        ids = np.concatenate([ids, drawn[:, None]], 1)
    return ids[:, 1:]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps, not {STEPS}")
    parser.add_argument("--static", action="store_true", help="train as a static graph")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    letters, ids = encoded()
    print(f"{len(ids):,} characters, {len(letters)} different ones")

    pd.reset(seed=1)
    model = CharTransformer(len(letters))
    steps, bound = (QUICK_STEPS, QUICK_BOUND) if args.quick else (STEPS, BOUND)
    train = static_losses if args.static else dynamic_losses
    losses, start = [], time.perf_counter()
    for loss in train(model, batches(ids, steps)):
        losses.append(loss)
        if len(losses) == 1 or len(losses) % (steps // 10) == 0:
            loss, seconds = np.mean(losses[-20:]), time.perf_counter() - start
            print(f"step {len(losses):5}  loss {loss:.3f}  {seconds:4.0f} s")

    for row in sample(model, list(letters).index("\n"), np.random.default_rng(1)):
        print("   ", "".join(letters[row]).strip().split("\n")[0])
    curves(
        args.out / "char_transformer.png",
        "Transformer over characters",
        {"loss": losses},
        "step",
        "loss, nats a character",
    )
    if (loss := np.mean(losses[-20:])) > bound:
        raise SystemExit(f"did not learn: the loss is {loss:.2f}, more than {bound}")


if __name__ == "__main__":
    main()
