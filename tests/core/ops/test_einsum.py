"""Equations of einsum against NumPy, their gradients against PyTorch, and what is refused."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.variable import Variable, open_dim

SIZES = {"i": 3, "j": 4, "k": 2}
WRITTEN = [
    "ii->i",
    "ii",
    "iij->ij",
    "...ii->...i",
    "...ij,...jk->...ik",
    "i...->...",
    "ij->ji",
    "ba",
]
WRITTEN += [
    "i,j,k->ijk",
    ",i->i",
    "ijk,ikj->j",
    "i...,j...->...ij",
    " i j , j k -> i k ",
    "...,...->...",
]


def generated(count=12):
    rng, found = np.random.default_rng(5), []
    for _ in range(count):
        terms = [
            "".join(rng.choice(list("ijk"), rng.integers(1, 4))) for _ in range(rng.integers(1, 4))
        ]
        letters = rng.permutation(sorted(set("".join(terms))))
        found.append(f"{','.join(terms)}->{''.join(letters[: rng.integers(0, len(letters) + 1)])}")
    return found


@pytest.mark.parametrize("equation", [*WRITTEN, *generated()])
def test_equations(equation, rng):
    torch = pytest.importorskip("torch")
    arrays = []
    for term in equation.replace(" ", "").split("->")[0].split(","):
        before, dots, after = term.partition("...")
        sizes = [[SIZES.get(c, 3) for c in part] for part in (before, after)]
        shape = [*sizes[0], *([2, 3] if dots else []), *sizes[1]]
        arrays.append(rng.normal(size=shape).astype("float32"))
    wanted = np.einsum(equation, *arrays)
    seed = rng.normal(size=wanted.shape).astype("float32")
    variables = [pd.Variable(list(a.shape)) for a in arrays]
    y = pd.einsum(equation, *variables)
    feeds = dict(zip(variables, arrays, strict=True))
    found, *gradients = pd.eval([y, *pd.gradients(y, variables, [seed])], feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    (torch.einsum(equation, *tensors) * torch.tensor(seed)).sum().backward()
    for g, t in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(g, t.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "equation, shapes, text",
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], "'j' is 3 in .*, and 4 in "),
        ("ii->i", [(2, 3)], "'i' is 2 in .*, and 3 in "),
        ("...i,...i->...", [(2, 3), (2, 4)], "'i' is 3 in .*, and 4 in "),
        ("ij->ii", [(2, 3)], "has 'i' twice in its result"),
        ("i.j->ij", [(2, 3)], "is no equation: 'i.j' has other signs"),
        ("i$->i", [(2, 3)], "is no equation"),
        ("......i->i", [(2, 3)], "is no equation"),
        ("ij->ijk", [(2, 3)], "label missing from the inputs"),
        ("ij", [(2, 3, 4)], "Rank of input 0"),
        ("ij,jk->ik", [(2, 3)], "Number of input tensors does not match"),
    ],
)
def test_what_is_refused(equation, shapes, text):
    with pytest.raises(pd.ShapeError, match=f"einsum: .*{text}"):
        pd.einsum(equation, *[pd.Variable(list(shape)) for shape in shapes])


def test_sizes_of_one_are_broadcast():
    a, b = np.ones((2, 1), np.float32), np.ones((4, 5), np.float32)
    found = pd.einsum("ij,jk->ik", a, b).eval()
    np.testing.assert_array_equal(found, np.einsum("ij,jk->ik", a, b))


def test_an_ellipsis_without_a_place_in_the_result_is_summed(rng):
    a, b = rng.normal(size=(2, 3, 4)).astype("f4"), rng.normal(size=(3, 4)).astype("f4")
    x, y = pd.Variable([2, 3, 4]), pd.Variable([3, 4])
    c = pd.einsum("...i,...i->i", x, y)
    found = pd.eval([c, *pd.gradients(c, [x, y])], {x: a, y: b})
    wanted = [(a * b).sum((0, 1)), np.broadcast_to(b, a.shape), a.sum(0)]
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-5)


def test_an_ellipsis_of_sizes_that_may_be_one(rng):
    torch = pytest.importorskip("torch")
    assert pd.einsum("...i,i...->i...", pd.Variable([1, 2]), pd.Variable([2, "n"])).dims == (2, "n")
    equation = "...i,i...,...->...i"
    x = [Variable.of([open_dim() for _ in range(k)], "float64", "x") for k in (2, 3, 2)]
    y = pd.einsum(equation, *x)
    targets = [y, *pd.gradients(pd.reduce_sum(pd.square(y)), x)]
    for shapes in [((3, 2), (2, 1, 3), (4, 1)), ((1, 2), (2, 4, 3), (1, 3))]:
        arrays = [rng.normal(size=shape) for shape in shapes]
        found, *gradients = pd.eval(targets, dict(zip(x, arrays, strict=True)))
        tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
        wanted = torch.einsum(equation, *tensors)
        (wanted**2).sum().backward()
        np.testing.assert_allclose(found, wanted.detach(), rtol=1e-9)
        for g, t in zip(gradients, tensors, strict=True):
            np.testing.assert_allclose(g, t.grad, rtol=1e-9)
