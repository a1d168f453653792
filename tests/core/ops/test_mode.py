"""Ops that are built for one mode."""

import numpy as np

import pd_core as pd
from pd_core.ops.mode import in_mode

SAMPLES = np.arange(12, dtype=np.float32).reshape(4, 3)


def parameters():
    return pd.Variable("scale", data=np.ones(3)), pd.Variable("shift", data=np.zeros(3))


def test_built_for_inference_a_training_step_keeps_it():
    x = pd.Variable([None, 3])
    with in_mode(False):
        y = pd.dropout(x, 0.5)
    assert (pd.eval(y, {x: SAMPLES}, training=True) == SAMPLES).all()


def test_batch_norm_for_inference_stores_no_statistics():
    x, (scale, shift) = pd.Variable([None, 3]), parameters()
    mean, variance = (pd.Variable(n, data=np.full(3, 2.0), trainable=False) for n in "mv")
    with in_mode(False):
        y = pd.batch_norm(x, scale, shift, mean, variance, epsilon=0.0)
    assert np.allclose(pd.eval(y, {x: SAMPLES}, training=True), (SAMPLES - 2) / np.sqrt(2))
    assert not pd.effects([y])


def test_modes_nest():
    x = pd.Variable([None, 3])
    with in_mode(False), in_mode(True):
        y = pd.dropout(x, 0.5)
    assert (pd.eval(y, {x: SAMPLES + 1}, training=True) == 0).any()
    assert (pd.eval(y, {x: SAMPLES + 1}) == SAMPLES + 1).all()
