"""A training that clients feed, save, pause and stop."""

import gc
import json
import os
import socket
import threading
import time

import numpy as np
import pytest

import pd_v2 as paddle

E = paddle.event


def test_online_learning(trainer, client, source, tmp_path):
    reader = source()
    log = []
    thread = trainer.in_thread(reader=reader, num_passes=1, event_handler=log.append)
    c = client(reader)
    c.samples(40), c.command("save", name="m1"), c.command("pause"), c.wait_idle()
    n = len(log)
    c.samples(8), c.wait_idle()
    assert len(log) == n  # paused: what arrives waits
    c.command("resume"), c.command("stop")
    thread.join(10)
    assert not thread.is_alive()
    assert (tmp_path / "m1").exists()
    assert isinstance(log[-1], E.EndPass)
    assert trainer.saved == {"m1": 10, "final": 12}
    assert trainer.context.is_stopped
    assert reader.is_closed


def test_the_numbers_are_those_of_plain_training(learning, trainer):
    _, c, stop = learning(batch_size=5)
    start = trainer.weights()
    c.samples(23)
    stop()
    assert trainer.sizes == [5, 5, 5, 5, 3]
    w = start
    x = np.random.default_rng(0).normal(size=(23, 2))
    for k in range(0, 23, 5):
        batch = x[k : k + 5]
        w = w - 0.01 * 2 * batch.T @ (batch @ w - batch.sum(1))
    np.testing.assert_allclose(trainer.weights(), w, rtol=1e-4)
