"""The table of PyTorch's names in docs/from_pytorch.md: complete, fresh, and about what exists."""

from operator import attrgetter

import numpy as np
import pytest

import pd_core as pd

from ...torch_names import HOW, INTERNAL, NO, PAGE, TORCH, ours, page, rows, shares


def test_the_page_is_fresh():
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.torch_names"


def test_every_name_of_pytorch_is_in_the_table():
    torch = pytest.importorskip("torch")
    from torch.nn import functional
    from torch.optim import lr_scheduler, swa_utils

    optim = {*dir(torch.optim), *lr_scheduler.__all__, *swa_utils.__all__}
    for module, names in zip(TORCH, (dir(torch.nn), dir(functional), optim), strict=True):
        public = {name for name in names if not name.startswith("_")}
        assert public - {*INTERNAL} == {*TORCH[module]}


@pytest.mark.parametrize("module", TORCH)
def test_every_name_of_pd_in_it_exists(module):
    texts = [(name, kind, text) for m, name, kind, text in rows() if m == module]
    for name, kind, text in texts:
        assert ours(text) or kind in ("how", "no"), name
        for path in ours(text):
            attrgetter(path[1:])(pd)


def test_no_entry_is_out_of_date():
    """What is there under its own name or another is not said to be missing."""
    listed = {name for names in TORCH.values() for name in names}
    assert {*HOW, *NO} <= listed
    missing = {name for _, name, kind, _ in rows() if kind == "no"}
    assert missing == {*NO}


def test_most_names_are_there():
    for there, how, no in shares().values():
        assert there + how > 2 * no


def expression(text):
    """The expression of a line."""
    return text.split("`")[1]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_is_that_of_pytorch(n, rng):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    arrays = [rng.standard_normal((2, 3, *[size] * n)).astype("float32") for size in (6, 3)]
    x, v = (pd.Variable(list(a.shape)) for a in arrays)
    line = eval(expression(HOW[f"max_unpool{n}d"]), {"pd": pd, "x": x, "v": v, "k": [2] * n})
    pooled, unpooled = (getattr(functional, f"max_{u}pool{n}d") for u in ("", "un"))
    _, places = pooled(torch.tensor(arrays[0]), 2, return_indices=True)
    wanted = unpooled(torch.tensor(arrays[1]), places, 2)
    np.testing.assert_array_equal(pd.eval(line, {x: arrays[0], v: arrays[1]}), wanted)


def test_random_lines_are_those_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    x = rng.standard_normal((200, 300)).astype("float32")
    names = {"pd": pd, "x": pd.constant(x)}
    for name in ("rrelu", "alpha_dropout"):
        text = HOW[{"rrelu": "RReLU", "alpha_dropout": "AlphaDropout"}[name]]
        found = pd.eval(eval(expression(text), names), training=True)
        wanted = getattr(f, name)(torch.tensor(x), training=True).numpy()
        for share in (0.05, 0.25, 0.5, 0.75, 0.95):
            np.testing.assert_allclose(*(np.quantile(v, share) for v in (found, wanted)), atol=0.03)
        np.testing.assert_allclose(
            [found.mean(), found.std()], [wanted.mean(), wanted.std()], atol=0.02
        )
