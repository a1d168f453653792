"""Cycles are looked for rarely while a program is built, and as before once it is."""

import gc
from threading import Thread

import numpy as np
import pytest

import pd_core as pd
from pd_core.run.garbage import rare_collections


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_regions_may_be_nested_and_end_in_any_order():
    gc.set_threshold(500, 7, 6)
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    inside = gc.get_threshold()
    second.__enter__()
    first.__exit__(None, None, None)
    assert inside[0] > 10_000 and inside[1:] == (7, 6) and gc.get_threshold() == inside
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (500, 7, 6)


@pytest.mark.parametrize("threshold", [0, 1_000_000])
def test_collections_that_are_rarer_stay_so(threshold):
    gc.set_threshold(threshold, 7, 6)
    with rare_collections():
        assert gc.get_threshold() == (threshold, 7, 6)
    assert gc.get_threshold() == (threshold, 7, 6)


def test_building_ends_a_region_also_if_it_fails():
    gc.set_threshold(500, 7, 6)
    x = pd.Variable([None, 3])
    pd.eval([x + 1.0], {x: np.zeros((2, 3))})
    with pytest.raises(pd.MissingFeed):
        pd.eval([x * 2.0])
    threads = [Thread(target=_in_region) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == (500, 7, 6)


def _in_region():
    for _ in range(50):
        with rare_collections():
            pass
