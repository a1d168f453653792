"""Say numbers in words: translation with attention, as in chapter 8 of the 2017 paddle.v2 book.

A bidirectional GRU reads the digits of 407, a GRU with attention writes "four hundred seven", and a
beam search finds the words. It sees 700 of the numbers below 1,000 and is asked for the others.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import onnxruntime

import pd_v2 as paddle

A, L, N, T = paddle.activation, paddle.layer, paddle.networks, paddle.data_type
ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ONES += ["eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"]
ONES += ["eighteen", "nineteen"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = ["<s>", "<e>", *ONES, *TENS, "hundred"]  # <s> before the first word, <e> after the last
START, END = 0, 1
WIDTH, BATCH, BEAM, LONGEST = 64, 32, 3, 6
PASSES, QUICK_PASSES = 40, 25
SEEN, BOUND = 700, 0.8


def in_words(number):
    """407 as ["four", "hundred", "seven"]."""
    if number >= 100:
        rest = in_words(number % 100) if number % 100 else []
        return [ONES[number // 100], "hundred", *rest]
    if number >= 20:
        return [TENS[number // 10 - 2], *([ONES[number % 10]] if number % 10 else [])]
    return [ONES[number]]


def sample(number):
    """Digits, words behind a start mark, words before an end mark."""
    digits, words = [int(d) for d in str(number)], [WORDS.index(w) for w in in_words(number)]
    return digits, [START, *words], [*words, END]


def network(generating):
    """The cost of the words that follow; or the layer of the most probable ones."""
    digits = L.data(name="digits", type=T.integer_value_sequence(10))
    read = L.embedding(input=digits, size=WIDTH)
    forward = N.simple_gru(input=read, size=WIDTH, name="forward")
    backward = N.simple_gru(input=read, size=WIDTH, reverse=True, name="backward")
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
        return L.fc(input=state, size=len(WORDS), act=A.Softmax(), name="next")

    whole = [L.StaticInput(encoded), L.StaticInput(projected)]
    if generating:
        return L.beam_search(
            step=step,
            input=[*whole, L.GeneratedInput(len(WORDS), "words", WIDTH)],
            bos_id=START,
            eos_id=END,
            beam_size=BEAM,
            num_results_per_sample=1,
            max_length=LONGEST,
            name="decoder",
        )
    before = L.data(name="before", type=T.integer_value_sequence(len(WORDS)))
    after = L.data(name="after", type=T.integer_value_sequence(len(WORDS)))
    word = L.embedding(input=before, size=WIDTH, param_attr=paddle.attr.Param(name="words"))
    written = L.recurrent_group(step=step, input=[*whole, word], name="decoder")
    return L.classification_cost(input=written, label=after)


def train(numbers, passes):
    """The parameters after some passes over the numbers."""
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


def spoken(path, numbers):
    """What an exported model says for some numbers, in plain ONNX Runtime."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = []
    for number in numbers:
        digits = np.array(sample(number)[0], np.int64)
        (ids,) = session.run(None, {"digits": digits, "digits.lengths": np.array([len(digits)])})
        found.append([WORDS[k] for k in ids if k != END])
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PASSES} passes, not {PASSES}")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    random.seed(1)  # the choice of numbers and the shuffling
    numbers = random.sample(range(1000), 1000)
    seen, unseen = numbers[:SEEN], numbers[SEEN:]

    paddle.init(use_gpu=False, trainer_count=1, seed=1)
    parameters = train(seen, QUICK_PASSES if args.quick else PASSES)
    with paddle.build.fresh():  # the same names for the network that generates
        generator = network(generating=True)
        path = str(args.out / "translate.onnx")
        paddle.topology.Topology(generator).export_onnx(path, parameters)
    found = spoken(path, unseen)
    right = np.mean([words == in_words(n) for n, words in zip(unseen, found, strict=True)])
    for number, words in list(zip(unseen, found, strict=True))[:8]:
        print(f"{number:4}  {' '.join(words)}")
    print(f"{right:.1%} of {len(unseen)} numbers that it never saw are right; the model is {path}")
    if right < BOUND:
        raise SystemExit(f"did not learn: less than {BOUND:.0%} right")


if __name__ == "__main__":
    main()
