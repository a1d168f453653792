"""Translate numbers to words, with attention as in chapter 8 of the 2017 paddle.v2 book.

A bidirectional GRU encodes the digits of 407, a GRU with attention decodes them to "four hundred
seven", by beam search. It is trained on 700 of the numbers below 1,000 and tested on the others.
A picture shows to which digit each word of a translation attends.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import onnxruntime

import pd_v2 as paddle
from picture import table

A, L, N, T = paddle.activation, paddle.layer, paddle.networks, paddle.data_type
ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ONES += ["eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"]
ONES += ["eighteen", "nineteen"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = ["<s>", "<e>", *ONES, *TENS, "hundred"]  # <s> starts a sequence, <e> ends it
START, END = 0, 1
WIDTH, BATCH, BEAM_SIZE, MAX_LENGTH = 64, 32, 3, 6
PASSES, QUICK_PASSES = 40, 25
TRAINING_NUMBERS, BOUND = 700, 0.8
ATTENDED = 407  # of the picture


def in_words(number):
    """Return the words of a number: ["four", "hundred", "seven"] for 407."""
    if number >= 100:
        rest = in_words(number % 100) if number % 100 else []
        return [ONES[number // 100], "hundred", *rest]
    if number >= 20:
        return [TENS[number // 10 - 2], *([ONES[number % 10]] if number % 10 else [])]
    return [ONES[number]]


def sample(number):
    """Return (digits, words after <s>, words before <e>), as ids."""
    digits, words = [int(d) for d in str(number)], [WORDS.index(w) for w in in_words(number)]
    return digits, [START, *words], [*words, END]


def network(generating):
    """Return the cost of the next words, or two layers: the most probable words and attention.

    For each generated word the attention has a weight of each digit.
    """
    digits = L.data(name="digits", type=T.integer_value_sequence(10))
    embedded = L.embedding(input=digits, size=WIDTH)
    forward = N.simple_gru(input=embedded, size=WIDTH, name="forward")
    backward = N.simple_gru(input=embedded, size=WIDTH, reverse=True, name="backward")
    encoded = L.concat(input=[forward, backward])
    projected = L.fc(input=encoded, size=WIDTH, act=A.Linear(), bias_attr=False, name="projected")
    boot = L.fc(input=L.first_seq(input=backward), size=WIDTH, name="boot")

    def step(encoded, projected, word):
        state = L.memory(name="state", size=WIDTH, boot_layer=boot)
        context = N.simple_attention(
            encoded_sequence=encoded, encoded_proj=projected, decoder_state=state, name="attention"
        )
        gates = L.fc(input=[context, word], size=3 * WIDTH, act=A.Linear(), name="gates")
        state = L.gru_step(name="state", input=gates, output_mem=state, size=WIDTH)
        word = L.fc(input=state, size=len(WORDS), act=A.Softmax(), name="next")
        if not generating:
            return word
        scaled = context.parents[0]  # the context is the sum of the rows, each times its weight
        return word, scaled.parents[0]

    static = [L.StaticInput(encoded), L.StaticInput(projected)]
    if generating:
        return L.beam_search(
            step=step,
            input=[*static, L.GeneratedInput(len(WORDS), "words", WIDTH)],
            bos_id=START,
            eos_id=END,
            beam_size=BEAM_SIZE,
            num_results_per_sample=1,
            max_length=MAX_LENGTH,
            name="decoder",
        )
    before = L.data(name="before", type=T.integer_value_sequence(len(WORDS)))
    after = L.data(name="after", type=T.integer_value_sequence(len(WORDS)))
    word = L.embedding(input=before, size=WIDTH, param_attr=paddle.attr.Param(name="words"))
    decoded = L.recurrent_group(step=step, input=[*static, word], name="decoder")
    return L.classification_cost(input=decoded, label=after)


def train(numbers, passes):
    """Train for some passes over the numbers; return the parameters."""
    cost = network(generating=False)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2 / BATCH * 4),
    )

    def event_handler(event):
        if isinstance(event, paddle.event.EndPass) and event.pass_id % 5 == 4:
            (error,) = event.metrics.values()
            print(f"pass {event.pass_id + 1:2}  {error:6.1%} of the next words are wrong")

    reader = paddle.reader.shuffle(lambda: map(sample, numbers), buf_size=1000)
    trainer.train(paddle.batch(reader, BATCH), num_passes=passes, event_handler=event_handler)
    return parameters


def draw_attention(number, generator, parameters, path):
    """Draw which digit each word of the translation of a number attends to."""
    digits = sample(number)[0]
    found, attention = generator
    ids = paddle.infer(found, parameters, input=[(digits,)], field="id")
    weights = paddle.infer(attention, parameters, input=[(digits,)])
    words = [WORDS[k] for k in ids if k != START]
    weights = np.reshape(weights, (-1, len(digits)))[: len(words)]
    labels = [w if w != WORDS[END] else "(end)" for w in words]
    title = f"Attention: {number}"
    table(path, title, weights.round(2), "digit", "word", list(str(number)), labels)


def translated(path, numbers):
    """Return the words that an exported model gives for numbers, run by plain ONNX Runtime."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    translations = []
    for number in numbers:
        digits = np.array(sample(number)[0], np.int64)
        (ids,) = session.run(None, {"digits": digits, "digits.lengths": np.array([len(digits)])})
        translations.append([WORDS[k] for k in ids if k != END])
    return translations


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PASSES} passes, not {PASSES}")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    random.seed(1)  # for the choice of training numbers and shuffling
    numbers = random.sample(range(1000), 1000)
    seen, unseen = numbers[:TRAINING_NUMBERS], numbers[TRAINING_NUMBERS:]

    paddle.init(use_gpu=False, trainer_count=1, seed=1)
    parameters = train(seen, QUICK_PASSES if args.quick else PASSES)
    with paddle.build.fresh():  # the generating network has the same names
        generator = network(generating=True)
        path = str(args.out / "translate.onnx")
        paddle.topology.Topology(generator[0]).export_onnx(path, parameters)
        draw_attention(ATTENDED, generator, parameters, args.out / "translate.png")
    translations = translated(path, unseen)
    accuracy = np.mean(
        [words == in_words(n) for n, words in zip(unseen, translations, strict=True)]
    )
    for number, words in list(zip(unseen, translations, strict=True))[:8]:
        print(f"{number:4}  {' '.join(words)}")
    print(f"{accuracy:.1%} of {len(unseen)} test numbers are right; the model is {path}")
    if accuracy < BOUND:
        raise SystemExit(f"did not learn: less than {BOUND:.0%} right")


if __name__ == "__main__":
    main()
