"""The table of PyTorch's names in docs/from_pytorch.md: complete, fresh, and about what exists."""

from operator import attrgetter

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
