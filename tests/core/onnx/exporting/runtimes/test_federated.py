"""Federated averaging: demos/federated with clients in Python and in Node, killed and attacked."""

import contextlib
import json
import math
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import pytest
from safetensors.numpy import load, save

import pd_core as pd

from .federated_rounds import PythonClient, ask, serving
from .test_other_runtimes import ROOT, modules, needs

FOLDER = ROOT / "demos" / "federated"
TOKEN = "a token of a test"
__all__ = ["modules"]  # a fixture


@pytest.fixture(scope="module")
def demo():
    """The modules of the demo by name; `server` is there only with aiohttp."""
    sys.path.insert(0, str(FOLDER))
    try:
        names = ["updates", "privacy", "rounds", "write_files"]
        with contextlib.suppress(ImportError):
            import aiohttp  # noqa: F401

            names.append("server")
        found = {name: __import__(name) for name in names}
    finally:
        sys.path.remove(str(FOLDER))
    for name in found:  # another demo may have one of this name
        del sys.modules[name]
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The models of a small network."""
    folder = tmp_path_factory.mktemp("federated")
    with pd.fresh(seed=0):
        x = pd.Variable("x", shape=[None, 4])
        label = pd.Variable("label", shape=[None], dtype="int64")
        rate = pd.Variable("learning_rate", data=np.array(0.5, "float32"), trainable=False)
        scores = pd.fc(x, 3, W="W", B="b")
        cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, label))
        step = pd.MomentumOptimizer(rate, 0.9).minimize(cost)
        pd.export_step(folder / "step.onnx", step, [cost], initial=folder / "initial.onnx")
        inputs = [x, *pd.trainable_variables()]
        pd.export_onnx(folder / "predict.onnx", [pd.softmax(scores)], inputs=inputs)
    return folder


@pytest.fixture(scope="module")
def averaged(demo, files):
    return demo["updates"].averaged_of(files)


@pytest.fixture
def opened(demo, averaged, tmp_path):
    """Rounds in a folder of the test; they are closed at its end."""
    with contextlib.ExitStack() as stack:

        def opened(clients=2, total=9, late=(), averaged=averaged, **rule):
            rule = demo["privacy"].Rule(clients, **rule)
            rounds = demo["rounds"].Rounds(tmp_path / "state", averaged, rule, total, *late)
            stack.callback(rounds.release)
            return rounds

        yield opened


def samples(rng, n):
    x = rng.normal(size=(n, 4)).astype(np.float32)
    return x, x[:, :3].argmax(1)


def update(averaged, value=1.0, **changes):
    """The bytes of an update in which all weights are one number."""
    arrays = {n: np.full_like(a, value) for n, a in averaged.initial.items()} | changes
    arrays = {n: a for n, a in arrays.items() if a is not None}
    return save(arrays, {"pd.digest": averaged.digest})


# ---- averages


def test_one_local_step_is_a_step_on_all_samples(demo, opened, files, rng):
    rounds = opened(clients=4)
    x, label = samples(rng, 20)
    with serving(demo, rounds, files) as address:
        clients = [
            PythonClient(address, f"c{k}", x[5 * k : 5 * k + 5], label[5 * k : 5 * k + 5])
            for k in range(4)
        ]
        everything = PythonClient(address, "all", x, label)
        central = everything.initial
        for _ in range(3):
            assert [client.take_part() for client in clients] == [
                (201, {"round": rounds.number - 1, "counted": True})
            ] * 4
            fresh = {n: a for n, a in everything.initial.items() if n not in rounds.now.weights}
            central = everything.train({**central, **fresh})
            for name, found in rounds.now.weights.items():
                np.testing.assert_allclose(found, central[name], rtol=0, atol=1e-6)
    assert rounds.number == 3


def test_updates_weigh_as_many_samples_as_they_have(opened, averaged):
    rounds = opened(most_samples=6)
    before = rounds.now.weights
    rounds.add(0, "a", 2, update(averaged, 1.0))
    rounds.add(0, "b", 1000, update(averaged, 5.0))  # counts as 6
    for name, array in rounds.now.weights.items():
        np.testing.assert_allclose(array, np.full_like(array, (2 * 1 + 6 * 5) / 8), rtol=1e-6)
        assert array.dtype == before[name].dtype


def test_clipped_differences(opened, averaged):
    rounds = opened(clients=2, clip=0.5)
    before = rounds.now.weights
    other = {n: a + np.float32(0.01) for n, a in before.items()}  # shorter than 0.5
    rounds.add(0, "a", 1, update(averaged, 9.0))
    rounds.add(0, "b", 1, update(averaged, **other))
    difference = {n: 9.0 - a.astype(float) for n, a in before.items()}
    length = np.linalg.norm(np.concatenate([d.ravel() for d in difference.values()]))
    for name, array in rounds.now.weights.items():
        wanted = before[name] + (0.5 / length * difference[name] + 0.01) / 2
        np.testing.assert_allclose(array, wanted, atol=1e-6)


def test_noise_has_the_deviation_that_is_accounted_for(demo, rng):
    weights = {"w": np.zeros((200, 100), np.float32), "v": np.zeros(1000, np.float32)}
    rule = demo["privacy"].Rule(clients=4, clip=2.0, noise=0.5, most_samples=10)
    same = [(weights, 10)] * 4
    first, second = rule.averaged(weights, same), rule.averaged(weights, same)
    assert not np.array_equal(first["v"], second["v"])
    noise = np.concatenate([a.ravel() for a in first.values()])
    assert noise.std() == pytest.approx(0.5 * 2.0 / 4, rel=0.03)
    assert abs(noise.mean()) < 5 * noise.std() / math.sqrt(noise.size)
    # a client with half as many samples has half the weight, whatever the others have
    moved = {n: a + 1e-3 for n, a in weights.items()}
    quiet = demo["privacy"].Rule(clients=4, clip=2.0, noise=1e-12, most_samples=10)
    found = quiet.averaged(weights, [(moved, 5), *same[:3]])
    np.testing.assert_allclose(found["v"], 1e-3 / 8, rtol=1e-3)


@pytest.mark.parametrize("multipliers", [[1.0], [0.7] * 10, [1.0, 4.0, 0.5]])
def test_epsilon_is_that_of_gaussian_mechanisms(demo, opened, averaged, multipliers):
    pytest.importorskip("dp_accounting")
    spent = 0.0
    for z in multipliers:
        spent += demo["privacy"].Rule(1, clip=1.0, noise=z).cost
    found = demo["privacy"].epsilon(spent, 1e-5)
    # Balle & Wang 2018, theorem 8
    a, below = math.sqrt(spent), lambda t: 0.5 * math.erfc(-t / math.sqrt(2))
    delta = below(a / 2 - found / a) - math.exp(found) * below(-a / 2 - found / a)
    assert delta == pytest.approx(1e-5, rel=1e-3)


def test_epsilon_of_no_noise_and_of_no_round(demo, monkeypatch):
    epsilon = demo["privacy"].epsilon
    assert epsilon(demo["privacy"].Rule(1).cost, 1e-5) == math.inf
    assert epsilon(0.0, 1e-5) == 0.0
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    assert epsilon(1.0, 1e-5) is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"clients": 0}, "at least one client"),
        ({"clients": 1, "clip": -1.0}, "a norm is a positive number"),
        ({"clients": 1, "clip": math.nan}, "a norm is a positive number"),
        ({"clients": 1, "noise": -1.0, "clip": 1.0}, "a multiplier is a number from 0 on"),
        ({"clients": 1, "noise": 1.0}, "noise needs clip"),
    ],
)
def test_rules_that_make_no_sense(demo, options, why):
    with pytest.raises(ValueError, match=why):
        demo["privacy"].Rule(**options)


# ---- what is refused

W, B = np.zeros((4, 3), np.float32), np.zeros(3, np.float32)
HOSTILE = {
    "no file": (lambda a: b"no safetensors", 400, "no safetensors file"),
    "nothing": (lambda a: b"", 400, "no safetensors file"),
    "cut": (lambda a: update(a)[:-1], 400, "no safetensors file"),
    "huge header": (lambda a: b"\xff" * 8 + update(a)[8:], 400, "no safetensors file"),
    "deep header": (
        lambda a: (9000).to_bytes(8, "little") + b"[" * 9000,
        400,
        "no safetensors file",
    ),
    "another step": (
        lambda a: save(dict(a.initial), {"pd.digest": "0" * 64}),
        409,
        "stale: its pd.digest",
    ),
    "no digest": (lambda a: save(dict(a.initial)), 409, "stale: its pd.digest"),
    "missing": (lambda a: update(a, b=None), 422, "lacks b; averaged are W, b"),
    "unknown": (lambda a: update(a, learning_rate=B), 422, "has learning_rate; averaged"),
    "long name": (lambda a: update(a, **{"n" * 5000: B}), 422, f"has {'n' * 80};"),
    "shape": (lambda a: update(a, W=W.T), 422, r"W is float32\[4, 3\], and float32\[3, 4\]"),
    "type": (lambda a: update(a, b=B.astype(float)), 422, r"b is float32\[3\], and float64\[3\]"),
    "NaN": (lambda a: update(a, b=B * np.nan), 422, "b has numbers .* NaN or infinite"),
    "infinite": (lambda a: update(a, W=W + np.inf), 422, "W has numbers .* NaN or infinite"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_updates_that_are_refused(opened, averaged, demo, case):
    make, status, why = HOSTILE[case]
    rounds = opened(clients=1)
    with pytest.raises(demo["updates"].Refused, match=why) as error:
        rounds.add(0, "a", 1, make(averaged))
    assert error.value.status == status
    assert (rounds.number, rounds.received, list(rounds._updates.parent.glob("*"))) == (0, {}, [])


REQUESTS = {
    "round": ("/rounds/1/updates/a?samples=1", 409, "round 1 is not open: this is round 0"),
    "old round": ("/rounds/-1/updates/a?samples=1", 409, "round -1 is not open"),
    "no round": ("/rounds/x/updates/a?samples=1", 400, "round is an integer"),
    "no samples": ("/rounds/0/updates/a", 400, "samples is an integer"),
    "none": ("/rounds/0/updates/a?samples=0", 400, "at least one sample"),
    "negative": ("/rounds/0/updates/a?samples=-5", 400, "at least one sample"),
    "endless": (f"/rounds/0/updates/a?samples={'9' * 5000}", 400, "samples is an integer"),
    "path": ("/rounds/0/updates/..%2F..%2Fx?samples=1", 400, "a client is 1 to 64 letters"),
    "long": (f"/rounds/0/updates/{'a' * 65}?samples=1", 400, "a client is 1 to 64 letters"),
    "nowhere": ("/elsewhere", 404, "Not Found"),
    "no method": ("/round", 405, "Method Not Allowed"),
}


def test_requests_that_are_refused(demo, opened, files, averaged):
    rounds = opened(clients=2)
    with serving(demo, rounds, files, timeout=0.2) as address:
        body = update(averaged)
        for path, status, why in REQUESTS.values():
            found = ask(address, path, body)
            assert found[0] == status, path
            assert why in found[1]["error"]
        put = "/rounds/0/updates/a?samples=1"
        large = bytes(averaged.most_bytes + 1)
        status, found = ask(address, put, large)
        assert (status, found["error"]) == (413, f"an update has at most {len(large) - 1} bytes")
        status, found = ask(address, put, body, Host="rebound.example:80")
        assert (status, "without a token" in found["error"]) == (403, True)
        assert ask(address, "/files/..%2Fserver.py")[0] == 404
        assert ask(address, "/rounds/3/weights")[0] == 409
        with half_an_update(address, body) as sock:  # and no more of it
            answer = sock.recv(1000)
        assert b" 408 " in answer.partition(b"\r\n")[0]
        assert rounds.received == {}
        assert ask(address, put, body) == (201, {"round": 0, "counted": True})
        assert ask(address, put, update(averaged, 7.0)) == (200, {"round": 0, "counted": False})
        assert ask(address, "/round")[1]["received"] == 1


def half_an_update(address, body):
    """A connection over which half of an update was sent."""
    place = urlsplit(address)
    sock = socket.create_connection((place.hostname, place.port), timeout=30)
    head = "PUT /rounds/0/updates/slow?samples=1 HTTP/1.1\r\nHost: localhost\r\n"
    sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[: len(body) // 2])
    return sock


def test_a_token_lets_in(demo, opened, files):
    with serving(demo, opened(), files, token=TOKEN) as address:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer \xe9"}):
            status, found = ask(address, "/round", **header)
            assert (status, "Bearer" in found["error"]) == (401, True)
        assert ask(address, "/round", Authorization=f"Bearer {TOKEN}")[0] == 200


@pytest.mark.parametrize(
    ("host", "token", "why"),
    [
        ("0.0.0.0", None, "0.0.0.0 can be reached from other machines, which needs PD_FED"),
        ("::", "", "can be reached from other machines"),
        ("example.org", None, "can be reached from other machines"),
        ("127.0.0.1", "short", "at least 16 characters"),
        *(("127.0.0.1", None, None), ("::1", None, None), ("localhost", TOKEN, None)),
        ("0.0.0.0", TOKEN, None),
    ],
)
def test_other_machines_need_a_token(demo, host, token, why):
    pytest.importorskip("aiohttp")
    checked = demo["server"].checked_token
    if why is None:
        assert checked(token, host) == token
        return
    with pytest.raises(ValueError, match=why):
        checked(token, host)
    assert demo["server"].parsed(["files"])[1].host == "127.0.0.1"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--noise", "1"], "noise needs clip"),
        (["--only", "nothing"], "no input of predict.onnx is part of the state"),
        (["--host", "0.0.0.0"], "which needs PD_FEDERATED_TOKEN"),
        (["--batch", "-1"], "argument --batch: -1 is no number from 0 on"),
        (["--clip", "nan"], "argument --clip: nan is no number from 1e-09 on"),
        (["--rounds", "0"], "argument --rounds: 0 is no number from 1 on"),
    ],
)
def test_what_the_command_refuses(demo, files, tmp_path, monkeypatch, capsys, options, why):
    pytest.importorskip("aiohttp")
    monkeypatch.delenv("PD_FEDERATED_TOKEN", raising=False)
    with pytest.raises(SystemExit) as stop:
        demo["server"].main([str(files), "--state", str(tmp_path), *options])
    assert stop.value.code == 2
    assert why in capsys.readouterr().err


def test_what_is_no_folder_of_models(demo, files, tmp_path):
    averaged_of = demo["updates"].averaged_of
    assert [*averaged_of(files, only="^W$").initial] == ["W"]
    with pytest.raises(ValueError, match=r"no input of .* is part of the state"):
        averaged_of(files, only="nothing")
    for name in demo["updates"].MODELS:
        (tmp_path / name).write_bytes((files / "predict.onnx").read_bytes())
    with pytest.raises(ValueError, match="is no step"):
        averaged_of(tmp_path)


# ---- rounds


def test_simultaneous_updates_count_once(demo, opened, files, averaged):
    rounds = opened(clients=3, total=1)
    with serving(demo, rounds, files) as address, ThreadPoolExecutor(6) as pool:
        waiting = pool.submit(ask, address, "/round?after=0")
        paths = [f"/rounds/0/updates/{name}?samples=1" for name in "aaabb"]
        found = list(pool.map(lambda path: ask(address, path, update(averaged)), paths))
        assert sorted(answer["counted"] for _, answer in found) == [False] * 3 + [True] * 2
        assert not waiting.done()
        assert ask(address, "/rounds/0/updates/c?samples=1", update(averaged))[0] == 201
        assert waiting.result()[1]["done"] is True
        status, answer = ask(address, "/rounds/1/updates/c?samples=1", update(averaged))
        assert (status, answer["error"]) == (409, "all 1 rounds have been made")
        _, about = ask(address, "/")
        assert about["privacy"] == {"epsilon": "infinite: some round was without noise"} | {
            "delta": 1e-5
        }


def test_a_late_round_ends_with_fewer(demo, opened, files, averaged):
    rounds = opened(clients=5, late=(0.02, 2))
    with serving(demo, rounds, files) as address:
        rounds.add(0, "a", 1, update(averaged))
        assert not rounds.close_if_late()
        assert ask(address, "/rounds/0/updates/b?samples=1", update(averaged))[0] == 201
        assert ask(address, "/round?after=0")[1]["round"] == 1


def test_killed_before_the_average(opened, averaged):
    """All updates are there, and the weights are still the old ones."""
    rounds = opened(clients=3)
    rounds.add(0, "a", 1, update(averaged, 1.0))
    rounds.add(0, "b", 3, update(averaged, 2.0))
    rounds.release()
    again = opened(clients=2)
    assert (again.number, again.received) == (1, {})
    np.testing.assert_allclose(again.now.weights["b"], 1.75)


def test_killed_after_the_average(opened, averaged, tmp_path):
    """The weights are the new ones, and the updates of the round before are still there."""
    rounds = opened(clients=2)
    rounds.add(0, "a", 1, update(averaged, 1.0))
    old = rounds._updates
    kept = {path.name: path.read_bytes() for path in old.iterdir()}
    rounds.add(0, "b", 1, update(averaged, 3.0))
    rounds.release()
    old.mkdir()
    for name, content in kept.items():
        (old / name).write_bytes(content)
    again = opened(clients=2)
    assert (again.number, again.received) == (1, {})
    assert not old.exists()
    np.testing.assert_allclose(again.now.weights["b"], 2.0)


def test_weights_are_kept_before_anybody_sees_them(opened, averaged, monkeypatch):
    """Noise that was drawn for weights that are lost is drawn again: two draws tell too much."""
    rounds = opened(clients=2, clip=1.0, noise=1.0)
    rounds.add(0, "a", 1, update(averaged, 1.0))
    before = rounds.now

    def full(path):
        raise OSError("no space is left")

    with monkeypatch.context() as patch:
        write = pd.atomic_write
        patch.setattr(pd, "atomic_write", lambda p: full(p) if p == rounds.path else write(p))
        with pytest.raises(OSError, match="no space"):
            rounds.add(0, "b", 1, update(averaged, 3.0))
    assert rounds.now is before
    assert not rounds.add(0, "b", 1, update(averaged, 3.0))  # it was counted
    assert rounds.number == 1
    assert rounds.now.spent == 1.0


def test_folders_of_others(demo, opened, averaged):
    first = opened()
    with pytest.raises(ValueError, match="in use by another server"):
        opened()
    first.release()
    other = demo["updates"].Averaged("0" * 64, averaged.initial)
    with pytest.raises(ValueError, match="use another folder: the state is stale"):
        opened(averaged=other)


def started(files, state, *options):
    """A server in a process of its own, and its address."""
    command = [sys.executable, FOLDER / "server.py", files, "--state", state, "--port", "0"]
    environment = {k: v for k, v in os.environ.items() if k != "PD_FEDERATED_TOKEN"}
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, text=True, env=environment
    )
    line = process.stdout.readline()
    return process, re.search(r"http://\S+", line)[0]


def test_kill_9_in_the_middle_of_a_round(demo, opened, files, averaged, tmp_path):
    pytest.importorskip("aiohttp")
    put = "/rounds/0/updates/{}?samples={}"
    process, address = started(files, tmp_path / "state", "--clients", "3")
    with process:
        try:
            assert ask(address, put.format("a", 1), update(averaged, 1.0))[0] == 201
            with half_an_update(address, update(averaged, 100.0)):
                assert ask(address, put.format("b", 1), update(averaged, 4.0))[0] == 201
                process.kill()
        finally:
            process.kill()
    rounds = opened(clients=3)
    assert sorted(rounds.received) == ["a", "b"]
    with serving(demo, rounds, files) as address:
        assert ask(address, "/round")[1]["received"] == 2
        found = ask(address, put.format("a", 1), update(averaged, 50.0))
        assert found == (200, {"round": 0, "counted": False})  # the client asks again, in vain
        assert ask(address, put.format("c", 2), update(averaged, 7.0))[0] == 201
        weights = load(ask(address, "/rounds/1/weights")[1])
    for array in weights.values():
        np.testing.assert_allclose(array, (1 + 4 + 2 * 7) / 4, rtol=1e-6)


# ---- clients in Node


def simulated(modules, *arguments, **places):
    """What simulate.js prints at its end."""
    done = subprocess.run(
        ["node", FOLDER / "simulate.js", *arguments],
        env=os.environ | {"PD_NODE_MODULES": str(modules)} | places,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=["weights", "adapters"])
def digits(request, demo, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    with pd.fresh(seed=0):
        demo["write_files"].write_models(folder, request.param == "adapters")
    return folder


def test_twenty_clients_in_node_are_one_training(demo, opened, digits, modules, tmp_path):
    """One local step of each client is the step on all digits; the server is gone for a while."""
    needs("onnxruntime-node")
    averaged = demo["updates"].averaged_of(digits)
    options = {"plan": {"epochs": 1, "batch": 0, "rate": 0.5}, "token": TOKEN}
    rounds = opened(clients=20, total=2, averaged=averaged)
    with ThreadPoolExecutor() as pool:
        with serving(demo, rounds, digits, **options) as address:
            how = [modules, address, "--digits", "1000"]
            simulation = pool.submit(simulated, *how, PD_FEDERATED_TOKEN=TOKEN)
            ask(address, "/round?after=0", Authorization=f"Bearer {TOKEN}")
        rounds.release()
        rounds = opened(clients=20, total=2, averaged=averaged)
        with serving(demo, rounds, digits, urlsplit(address).port, **options):
            found = simulation.result()
    assert rounds.number == 2
    assert min(found["counted"]) >= 1  # an answer may have been lost, but no update
    out = tmp_path / "central.safetensors"
    how = ["--epochs", "2", "--batch", "0", "--rate", "0.5", "--digits", "1000", "--out", out]
    assert simulated(modules, "--central", digits, *how)["accuracy"] == found["accuracy"]
    central = load(out.read_bytes())
    for name, array in rounds.now.weights.items():
        np.testing.assert_allclose(array, central[name], rtol=0, atol=1e-5)
        assert abs(array - rounds.averaged.initial[name]).max() > 1e-4


@pytest.mark.parametrize("digits", ["weights"], indirect=True)
def test_more_local_steps_are_as_good(demo, opened, digits, modules):
    needs("onnxruntime-node")
    rounds = opened(clients=20, total=5, averaged=demo["updates"].averaged_of(digits))
    plan = {"epochs": 3, "batch": 25, "rate": 0.5}
    with serving(demo, rounds, digits, plan=plan) as address:
        found = simulated(modules, address, "--digits", "2000")
    how = ["--epochs", "10", "--batch", "25", "--rate", "0.1", "--digits", "2000"]
    central = simulated(modules, "--central", digits, *how)
    assert central["accuracy"] > 0.87
    assert found["accuracy"] > central["accuracy"] - 0.04
