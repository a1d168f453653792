"""A training that clients feed, save, pause and stop."""

import gc
import signal
import socket
import threading
import time

import numpy as np
import pytest

import pd_v2 as paddle
from pd_core.training import read_checkpoint
from pd_v2.data_feeder import DataFeeder

from .conftest import SECONDS, Client

E = paddle.event
SAMPLE = {"sample": [[1.0, 2.0], [3.0]]}


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
    thread.join(SECONDS)
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


def test_a_checkpoint_has_the_weights_of_whole_batches(learning, trainer, tmp_path):
    _, c, stop = learning()
    c.samples(10)
    assert c.command("save", name="m1", id=3) == {
        "ok": True,
        "id": 3,
        "command": "save",
        "name": "m1",
        "batches": 2,
    }
    c.wait_idle()
    weights = trainer.weights()
    c.samples(20)
    assert c.command("save", name="m2")["batches"] == 7
    stop()
    with open(tmp_path / "m1" / "parameters.tar", "rb") as f:
        saved = paddle.parameters.Parameters.from_tar(f)
    np.testing.assert_array_equal(saved[saved.names()[0]].ravel(), weights)
    assert (trainer.weights() != weights).all()
    assert trainer.saved == {"m1": 2, "m2": 7, "final": 8}


def test_refused_names_do_not_stop_the_training(learning, trainer, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "models"
    _, c, stop = learning(folder=folder)
    (folder / "link").symlink_to(outside)
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    (folder / "notes").write_text("mine")
    for name in ("../x", "a/b", "..", ".hidden", "\0", "x" * 65, "", None, 3):
        assert "letters, digits" in c.command("save", name=name)["error"]
    assert "is not 1 to 64 letters" in c.command("save")["error"]
    for name in ("link", "dangling"):
        answer = c.command("save", name=name, id="n")
        error = f"FileExistsError: {name} is a link, which is not followed"
        assert answer == {"error": error, "id": "n", "command": "save", "name": name}
    assert "exists and is no checkpoint" in c.command("save", name="notes")["error"]
    c.samples(4)
    assert c.command("save", name="m1")["ok"]
    assert c.command("save", name="m1")["ok"]  # replaces a checkpoint
    stop()
    assert trainer.saved == {"m1": 1, "final": 1}
    assert {p.name for p in tmp_path.iterdir()} == {"outside", "models"}
    assert {p.name for p in folder.iterdir()} == {"link", "dangling", "notes", "m1", "final"}
    assert not any(outside.iterdir())


def test_no_folder_no_checkpoints(learning, trainer):
    _, c, stop = learning(folder=None)
    answer = c.command("save", name="m1")
    assert answer["error"] == "ValueError: there is no folder for checkpoints"
    c.samples(5)
    stop()
    assert trainer.sizes == [4, 1]
    assert trainer.saved == {}


def test_a_last_checkpoint_that_fails_is_an_error(source, trainer, client, tmp_path):
    (tmp_path / "final").write_text("mine")
    thread = trainer.in_thread(reader=(reader := source()))
    answer = client(reader).command("stop")
    assert answer["error"] == "FileExistsError: final exists and is no checkpoint"
    thread.join(SECONDS)
    assert [type(e) for e in trainer.errors] == [FileExistsError]
    assert not trainer.context.is_stopped
    assert (tmp_path / "final").read_text() == "mine"


def test_a_stop_trains_what_waits(learning, trainer, client):
    reader, c, _ = learning()
    assert c.command("pause") == {"ok": True, "command": "pause"}
    c.samples(9)
    status = c.wait_for(lambda s: s["idle"])
    assert {k: status[k] for k in ("paused", "stopping", "queue", "batches")} == {
        "paused": True,
        "stopping": False,
        "queue": 9,
        "batches": 0,
    }
    c.send({"command": "save", "name": "m1"})  # waits, and lets the next answers pass
    assert c.command("status")["command"] == "status"
    other = client(reader)
    assert other.command("stop", id=1) == {"ok": True, "id": 1, "command": "stop", "batches": 3}
    assert c.answer()["name"] == "m1"
    assert trainer.sizes == [4, 4, 1]
    assert trainer.saved == {"m1": 2, "final": 3}


def test_a_save_that_trains_nothing_is_done_in_a_pause(learning, trainer):
    _, c, stop = learning()
    c.samples(7), c.command("pause")
    assert c.command("save", name="m1")["batches"] == 1
    assert c.command("status")["queue"] == 3
    stop()
    assert trainer.saved == {"m1": 1, "final": 2}


def test_a_resume_goes_on_with_what_waits(learning, trainer):
    _, c, stop = learning()
    c.command("pause"), c.samples(9), c.wait_idle()
    assert trainer.sizes == []
    assert c.command("resume") == {"ok": True, "command": "resume"}
    assert c.wait_for(lambda s: s["idle"])["batches"] == 2
    assert c.command("resume")["ok"]
    stop()
    assert trainer.sizes == [4, 4, 1]


def test_a_stop_before_the_training_begins(source, trainer, client):
    reader = source()
    c = client(reader)
    for _ in range(6):
        c.send(SAMPLE)
    c.send({"command": "stop"})
    assert client(reader).command("status")["attached"] is False
    trainer.run(reader)  # in this thread
    assert trainer.sizes == [4, 2]
    assert [c.answer() for _ in range(6)] == [{"ok": True}] * 6
    assert c.answer() == {"ok": True, "command": "stop", "batches": 2}
    assert c.answer() is None


def test_stops_of_several_clients(source, trainer, client):
    reader = source()
    clients = [client(reader) for _ in range(3)]
    for c in clients:
        c.send({"command": "stop"})
    trainer.run(reader)
    assert [c.answer()["ok"] for c in clients] == [True] * 3
    assert trainer.sizes == []
    assert trainer.saved == {"final": 0}


def test_samples_after_a_stop_are_refused(source, trainer, client):
    reader = source()
    c = client(reader)
    (
        c.send({"command": "stop"}),
        c.send({**SAMPLE, "id": 4}),
        c.send({"command": "save", "name": "x"}),
    )
    trainer.run(reader)
    assert c.answer()["ok"]
    assert c.answer() == {"error": "the training stops: 0 of 1 samples were taken", "id": 4}
    assert c.answer()["error"] == "the training stops"
    assert trainer.sizes == []


def test_metrics(learning, trainer):
    _, c, stop = learning(folder=None)
    empty = {"cost": None, "metrics": {}, "batches": 0, "samples": 0, "queue": 0}
    empty |= {"malformed": 0, "dropped": 0, "seconds_since_batch": None}
    assert c.command("metrics", id=7) == {"ok": True, "id": 7, "command": "metrics"} | empty
    trainer.context.metrics = {"error": 0.25, "bad": float("nan")}
    c.samples(9)
    assert "error" in c.ask({"sample": [[1, 2], [3], 4]})
    assert "error" in c.ask({"sample": []})
    assert "error" in c.ask([])
    c.wait_idle()
    found = c.command("metrics")
    assert found.pop("seconds_since_batch") >= 0
    assert found.pop("cost") == pytest.approx(trainer.context.cost)
    assert found == {"ok": True, "command": "metrics"} | {
        "metrics": {"error": 0.25, "bad": None},
        "batches": 2,
        "samples": 8,
        "queue": 1,
        "malformed": 3,
        "dropped": 0,
    }
    stop()


def test_malformed_samples_do_not_reach_the_network(learning, trainer):
    _, c, stop = learning()
    wrong = [
        [[1, 2]],
        [[1, 2], [3], 4],
        [[1], "x"],
        [["a", 2], [3]],
        [[[1, 2]], [3]],
        [[1e39, 2], [3]],
    ]
    for sample in wrong:
        assert "error" in c.ask({"sample": sample})
        answer = c.ask({"samples": [SAMPLE["sample"], sample], "id": 1})
        assert answer["id"] == 1
        assert answer["error"].startswith("samples[1]: ")
    assert c.ask({"samples": [SAMPLE["sample"]] * 5, "id": "five"}) == {"ok": True, "id": "five"}
    assert c.ask({"samples": []}) == {"ok": True}
    stop()
    assert trainer.sizes == [4, 1]


def test_fields_by_feeding_and_a_check(learning, trainer):
    def check(sample):
        if sample[0] != "day":
            raise ValueError("not of today")

    _, c, stop = learning(feeding={"y": 1, "x": 2}, check=check)
    assert c.ask({"sample": ["day", [3], [1, 2]]}) == {"ok": True}
    assert c.ask({"sample": ["night", [3], [1, 2]]}) == {"error": "not of today"}
    assert "2" in c.ask({"sample": [[3], [1, 2]]})["error"]
    stop()
    assert trainer.sizes == [1]


# ---- the end


def free(address):
    """Whether another server may have the port."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(address)
        return True


def test_an_error_in_training_closes_the_reader(source, trainer, client):
    def handler(event):
        if isinstance(event, E.EndIteration):
            raise RuntimeError("of the handler")

    reader = source()
    c = client(reader)
    for _ in range(4):
        c.send(SAMPLE)
    c.send({"command": "pause"})
    with pytest.raises(RuntimeError, match="of the handler"):
        trainer.run(reader, event_handler=handler)
    assert reader.is_closed
    assert [c.answer() for _ in range(4)] == [{"ok": True}] * 4
    assert c.answer() == {"error": "the training has ended", "command": "pause"}
    assert c.answer() is None
    assert free(reader.address)


def test_an_interrupt_closes_the_reader(source, trainer, client):
    reader = source()
    c = client(reader)
    main = threading.main_thread().ident

    def interrupt_main():
        c.wait_idle()
        signal.pthread_kill(main, signal.SIGINT)

    interrupt = threading.Thread(target=interrupt_main)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            trainer.run(reader)
    finally:
        signal.signal(signal.SIGINT, before)
    interrupt.join()
    assert reader.is_closed
    assert free(reader.address)


def test_closing_ends_the_pass(learning, trainer, client):
    reader, c, _ = learning()
    c.samples(9)
    assert c.wait_for(lambda s: s["idle"])["batches"] == 2
    reader.close()
    reader.close()
    assert c.answer() is None
    assert free(reader.address)
    assert trainer.saved == {}


def test_a_handler_may_close_the_reader(source, trainer, client):
    reader, log = source(), []

    def handler(event):
        log.append(type(event))
        if isinstance(event, E.EndIteration):
            reader.close()

    c = client(reader)
    for _ in range(8):
        c.send(SAMPLE)
    trainer.run(reader, event_handler=handler)
    assert trainer.sizes == [4]
    assert log[-1] is E.EndPass


def test_a_reader_that_nobody_uses_is_closed():
    reader = paddle.reader.online(("127.0.0.1", 0), 4)
    address = reader.address
    (thread,) = [t for t in threading.enumerate() if t.name == "pd_v2.online"]
    del reader
    gc.collect()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert free(address)


def test_it_has_one_pass_of_one_training(source, trainer):
    reader = source()
    assert reader.unrepeatable
    samples = reader()
    assert iter(samples) is samples
    assert not hasattr(samples, "state")
    with pytest.raises(
        RuntimeError, match=r"online\(.*no training was attached\n.*itself as reader"
    ):
        next(samples)
    feeder = DataFeeder(trainer.types)
    reader.attach(trainer.context, feeder)
    reader.attach(trainer.context, feeder)  # the next pass
    with pytest.raises(ValueError, match="is read by another training already"):
        reader.attach(object(), feeder)
    reader()  # an iterator that is not used leaves it open
    assert not reader.is_closed
    samples.close()
    samples.close()
    assert reader.is_closed
    assert list(samples) == []
    with pytest.raises(ValueError, match="is closed: it has one pass, which is over"):
        reader()


def test_a_failure_of_the_server_reaches_the_training(source, trainer, monkeypatch):
    reader = source()

    def fail(*_):
        raise OSError("of the server")

    monkeypatch.setattr("pd_v2.online.server.Server._serve", fail)
    with pytest.raises(RuntimeError, match="the server failed") as error:
        trainer.run(reader)
    assert str(error.value.__cause__) == "of the server"
    assert reader.is_closed


# ---- arguments


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "", "::", "192.0.2.1", "8.8.8.8", "::ffff:1.2.3.4", "fe80::1"]
)
def test_other_addresses_than_loopback_need_a_token(host):
    with pytest.raises(ValueError, match="can be reached from other machines, which needs a token"):
        paddle.reader.online((host, 0), 4)
    with pytest.raises(ValueError, match="at least 16 characters"):
        paddle.reader.online((host, 0), 4, token="x" * 15)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "localhost"])
def test_loopback_needs_none(host, source, client):
    reader = source(address=(host, 0))
    assert client(reader).command("status")["ok"]
    assert reader.address[1] > 0
    assert repr(reader) == f"online({reader.address!r})"


def test_a_port_that_is_taken(source):
    reader = source()
    with pytest.raises(OSError, match=r"in use|Address"):
        source(address=reader.address)


ARGUMENTS = [
    ({"address": "127.0.0.1:9000"}, TypeError, r"a pair \(host, port\), not '127"),
    ({"address": ("127.0.0.1", "9000")}, TypeError, "a pair"),
    ({"address": ("127.0.0.1", 70_000)}, ValueError, "a port is from 0 to 65535, not 70000"),
    ({"batch_size": 0}, ValueError, "batch_size is at least 1, not 0"),
    ({"batch_size": 2.0}, TypeError, "batch_size is an integer, not 2.0"),
    ({"batch_size": True}, TypeError, "batch_size is an integer, not True"),
    ({"max_queue": 3}, ValueError, "max_queue is at least 4, not 3"),
    ({"max_message": 0}, ValueError, "max_message is at least 2, not 0"),
    ({"max_connections": 0}, ValueError, "max_connections is at least 1, not 0"),
    ({"timeout": 0}, ValueError, "timeout is a positive number of seconds, not 0"),
    ({"token": "short"}, ValueError, "a token has at least 16 characters"),
    ({"token": b"x" * 16}, TypeError, "a token is a string, not a bytes"),
    ({"check": "x"}, TypeError, "check is a function of a sample, not 'x'"),
]


@pytest.mark.parametrize(("arguments", "kind", "error"), ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_arguments(source, arguments, kind, error):
    with pytest.raises(kind, match=error):
        source(**arguments)


def test_a_folder_is_made_at_once(source, tmp_path):
    source(folder=tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        source(folder=tmp_path / "file")


def test_time_since_a_batch_grows(learning):
    _, c, stop = learning()
    c.samples(4), c.wait_idle()
    first = c.command("metrics")["seconds_since_batch"]
    end = time.monotonic() + SECONDS
    while c.command("metrics")["seconds_since_batch"] <= first:
        assert time.monotonic() < end
    stop()


def test_a_checkpoint_has_the_parameters(tmp_path):
    layer, data_type = paddle.layer, paddle.data_type
    x = layer.data(name="x", type=data_type.dense_vector(2))
    y = layer.data(name="y", type=data_type.dense_vector(1))
    prediction = layer.fc(x, size=1, act=paddle.activation.Linear())
    cost = layer.square_error_cost(prediction, y)
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Adam(learning_rate=0.1))
    source = paddle.reader.online(("127.0.0.1", 0), batch_size=4, folder=tmp_path)
    seen = []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            seen.append({name: pool[name] for name in pool})

    thread = trainer.in_thread(reader=source, event_handler=handler)
    client = Client(source.address)
    client.samples(12)
    assert client.command("save", name="m1")["ok"]
    client.samples(8)
    client.command("stop")
    thread.join(SECONDS)
    client.close()
    for name, values in (("m1", seen[2]), ("final", seen[4])):
        saved = paddle.parameters.Parameters.from_checkpoint(tmp_path / name)
        assert saved.keys() == pool.keys()
        assert all((saved[k].ravel() == values[k]).all() for k in values)
    counts = read_checkpoint(tmp_path / "m1").parts["Counter"]
    assert (counts["batches"], counts["batch_id"], counts["samples"]) == (3, 2, 12)
    row = (np.ones(2, np.float32),)
    expected = paddle.infer(output_layer=prediction, parameters=pool, input=[row])
    assert paddle.infer(output_layer=prediction, parameters=saved, input=[row]) == expected
