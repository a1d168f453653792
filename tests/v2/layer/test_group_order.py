"""The order in which a recurrent group takes its inputs and gives its results.

Rows of a reversed group are taken from the last one on, and results that are rows stand where
their step's row does. Sub-sequences are taken from the first one on in either direction, and
results that are sequences stand in the order of steps.
"""

import numpy as np
import pytest

import pd_v2 as paddle

from .test_group import A, L, P, T, filled, inferrer, slope_error

INPUTS = {"rows": ("p",), "sub-sequences": ("n",), "both": ("p", "n"), "two": ("n", "m")}
LENGTHS = {"p": T.dense_vector_sequence, "n": T.dense_vector_sub_sequence}


def group(names, reverse):
    """A sum over the steps of all inputs; as results it, and it added to sequences.

    These are the sub-sequences of the last input, a static sequence, and one that is remembered.
    """
    data = {k: L.data(name=k, type=LENGTHS.get(k, LENGTHS["n"])(2)) for k in names}
    static = L.data(name="t", type=T.dense_vector_sequence(2))
    inputs = [L.fc(x, 2, A.Linear(), f"wide {k}", bias_attr=False) for k, x in data.items()]
    kept = L.fc(static, 2, A.Linear(), "wide t", bias_attr=False)

    def step(whole, *xs):
        parts = [x if k == "p" else L.pooling(x, P.Sum()) for k, x in zip(names, xs, strict=True)]
        h = L.addto([*parts, L.memory(name="h", size=2)], name="h")
        rows = L.memory(name="pad", size=2, boot_layer=kept)
        pad = L.addto([rows, L.expand(h, whole)], name="pad")
        last = L.addto([xs[-1], h if names[-1] == "p" else L.expand(h, xs[-1])])
        return h, last, L.addto([whole, L.expand(h, rows)]), pad

    return list(L.recurrent_group(step, [L.StaticInput(kept), *inputs], reverse))


def slow(values, names, samples, reverse):
    """What the group gives, as lists of rows."""
    wide = {k: values[f"_wide {k}.w0"] for k in [*names, "t"]}
    results = [[], [], [], []]
    for sample in samples:
        *fed, whole = sample
        xs = {
            k: [np.reshape(part, (-1, 2)) @ wide[k] for part in x]
            for k, x in zip(names, fed, strict=True)
        }
        whole = np.reshape(whole, (-1, 2)) @ wide["t"]
        if reverse and "p" in xs:
            xs["p"].reverse()
        h, pad = np.zeros(2), whole
        rows, last, seen, pads = [], [], [], []
        for parts in zip(*xs.values(), strict=True):
            h = h + sum(part.sum(0) for part in parts)
            pad = pad + h
            rows.append([h])
            last.append(parts[-1] + h)
            seen.append(whole + h)
            pads.append(pad)
        if reverse:
            rows.reverse()
            if names[-1] == "p":
                last.reverse()
        for result, steps in zip(results, (rows, last, seen, pads), strict=True):
            result += [row for step in steps for row in step]
    return [np.reshape(result, (-1, 2)) for result in results]


def drawn_rows(rng, sizes):
    """So many rows, or sub-sequences of so many."""
    if isinstance(sizes, int):
        return rng.standard_normal((sizes, 2)).tolist()
    return [drawn_rows(rng, int(n)) for n in sizes]


def drawn(rng, names, steps):
    """Samples with so many steps each."""
    samples = []
    for count in steps:
        fed = []
        for name in names:
            sizes = count if name == "p" else rng.integers(0, 4, count)
            fed.append(drawn_rows(rng, sizes))
        samples.append((*fed, drawn_rows(rng, int(rng.integers(0, 3)))))
    return samples


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("names", INPUTS.values(), ids=INPUTS)
def test_values(names, reverse, rng):
    out = group(names, reverse)
    pool, values = filled(out, rng)
    infer = inferrer(out, pool)
    for steps in ([3, 0, 1, 4], [2], [0, 0], []):
        samples = drawn(rng, names, steps)
        for found, expected in zip(
            infer(samples), slow(values, names, samples, reverse), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=str(steps))


@pytest.mark.parametrize("names", INPUTS.values(), ids=INPUTS)
def test_gradient_of_a_reversed_group(names, rng):
    out = group(names, True)
    pool, _ = filled(out, rng)
    assert slope_error(out, pool, drawn(rng, names, [4, 0, 2]), rng) < 5e-3


def test_the_first_row_of_a_reversed_nested_group_has_seen_all():
    """`first_seq` is then right, though sub-sequences are taken from the first one on."""
    x = L.data(name="n", type=T.dense_vector_sub_sequence(1))

    def step(part):
        return L.addto([L.last_seq(part), L.memory(name="h", size=1)], name="h")

    y = L.first_seq(L.recurrent_group(step=step, input=x, reverse=True))
    samples = [([[[1.0], [2.0]], [[3.0]], [[4.0]]],), ([[[5.0]]],)]
    found = paddle.infer(output_layer=y, parameters=paddle.parameters.create(y), input=samples)
    assert found.ravel().tolist() == [9, 5]


@pytest.mark.parametrize("reverse", [False, True])
def test_sequences_of_an_inner_group_are_in_the_order_of_steps(reverse):
    whole, x = (
        L.data(name=name, type=kind(1))
        for name, kind in (("w", T.dense_vector_sequence), ("n", T.dense_vector_sub_sequence))
    )

    def inner(row, seen):
        return L.addto([L.expand(row, seen), seen])

    def outer(part, seen):
        out = L.recurrent_group(inner, [part, L.StaticInput(seen)], reverse=reverse)
        return L.last_seq(out, agg_level=L.AggregateLevel.TO_SEQUENCE)

    y = L.recurrent_group(outer, [x, L.StaticInput(whole)])
    samples = [([[10.0], [20.0]], [[[1.0], [2.0]], [[3.0]]]), ([[30.0]], [[[5.0], [6.0], [8.0]]])]
    parameters = paddle.parameters.create(y)
    found = paddle.infer(
        output_layer=y, parameters=parameters, input=samples, feeding={"w": 0, "n": 1}
    )
    expected = [22, 21, 23, 38, 36, 35] if reverse else [21, 22, 23, 35, 36, 38]
    assert found.ravel().tolist() == expected
