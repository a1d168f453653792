"""A tagger with a GRU and a conditional random field (Lafferty et al. 2001), on ragged sentences.

Sentences of several lengths are packed one after another, so nothing is padded in the loss. The
task: a word is tagged 1 at and after an opening word until the closing one, else 0 or 2 for the
parity of the word.

    python demos/cookbook/tagger.py
"""

import numpy as np
from initial import weights

import pd_core as pd

WORDS, TAGS, WIDTH, HIDDEN, BATCH, RATE = 20, 3, 8, 16, 12, 0.05
OPEN, CLOSE = 0, 1


def batches(steps):
    """Yield words [N, T], 0 beyond the end, lengths [N] and the tags [sum of lengths]."""
    rng = np.random.default_rng(1)
    for _ in range(steps):
        lengths = np.sort(rng.integers(4, 12, BATCH))[::-1].copy()
        words = rng.integers(0, WORDS, (BATCH, lengths[0]))
        tags = []
        for sentence, length in zip(words, lengths, strict=True):
            inside = False
            for word in sentence[:length]:
                inside = (inside or word == OPEN) and word != CLOSE
                tags.append(1 if inside else 2 * (word % 2))
        words[np.arange(lengths[0]) >= lengths[:, None]] = 0
        yield words, lengths, np.array(tags)


class Tagger(pd.nn.Layer):
    """Words [N, T] to the scores of tags of all tokens, [sum of lengths, 3]."""

    def __init__(self, name="tagger"):
        super().__init__(name)
        self.words = pd.nn.Embedding(WORDS, WIDTH)
        self.gru = pd.nn.GRU(HIDDEN)
        self.scores = pd.nn.FC(TAGS)

    def forward(self, words, lengths):
        outputs, _ = self.gru(self.words(words), lengths=lengths)
        scores = self.scores(outputs)
        at = pd.unsqueeze(pd.arange(pd.size_of(words, 1)), 0)
        return scores[at < pd.unsqueeze(lengths, 1)]  # tokens, sentence by sentence


def build():
    """Return the network, its feeds, the tags that it finds, the cost and a training step."""
    net = Tagger()
    words = pd.Variable("words", shape=[None, None], dtype="int64")
    lengths = pd.Variable("lengths", shape=[None], dtype="int64")
    tags = pd.Variable("tags", shape=[None], dtype="int64")
    scores = net(words, lengths)
    transitions = pd.Variable("transitions", data=np.zeros((TAGS, TAGS), "float32"))
    segments = pd.Segments(lengths)
    cost = pd.reduce_mean(pd.crf_loss(scores, tags, segments, transitions))
    net.load_dict(weights({name: value.shape for name, value in net.state_dict().items()}))
    found = pd.crf_decode(scores, segments, transitions)
    step = pd.MomentumOptimizer(RATE, 0.9).minimize(cost)
    return net, (words, lengths, tags), found, cost, step


def losses(steps):
    """Train, and return the cost of each step."""
    _, feeds, _, cost, step = build()
    return [
        float(pd.eval([cost, step], feeds=dict(zip(feeds, batch, strict=True)))[0])
        for batch in batches(steps)
    ]


def main():
    _, feeds, found, cost, step = build()
    right = total = 0
    for k, batch in enumerate(batches(400)):
        c, tags, _ = pd.eval([cost, found, step], feeds=dict(zip(feeds, batch, strict=True)))
        if k % 80 == 0:
            print(f"step {k:3}  cost {c:.3f} nats a sentence")
        if k >= 350:
            right, total = right + (tags == batch[2]).sum(), total + len(tags)
    print(f"{right / total:.1%} of the tags are right")
    if right < 0.95 * total:
        raise SystemExit("did not learn the tags")


if __name__ == "__main__":
    main()
