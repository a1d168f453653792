"""Clients that are many, slow, dead or hostile."""

import json
import re
import socket
import struct
import time

import numpy as np
import pytest

from pd_v2.data_feeder import DataFeeder
from pd_v2.online import connection as connections

from ...threads import in_threads
from .conftest import SECONDS, Client

TOKEN = "a token of 16 or more"


def line(message):
    return json.dumps(message).encode() + b"\n"


def numbered(n, id=None):
    """A sample that can be recognized."""
    return {"sample": [[n / 1000, 0], [0]]} | ({} if id is None else {"id": id})


def numbers(samples):
    return [round(1000 * sample[0][0]) for sample in samples]


class ByHand:
    """A training that takes batches when the test says so."""

    def __init__(self, source, trainer):
        self.source, self.taken = source, []
        source.attach(trainer.context, DataFeeder(trainer.types))
        self.samples = source()

    def take(self):
        """Take a batch; return the numbers of its samples."""
        self.taken.append(numbers(next(self.samples)))
        return self.taken[-1]

    def take_all(self):
        """Take batches until a stop; return the numbers of all samples so far."""
        for samples in self.samples:
            self.taken.append(numbers(samples))
        return [n for batch in self.taken for n in batch]


@pytest.fixture
def by_hand(source, trainer):
    """Return a function that makes an online reader with such a training."""
    return lambda **arguments: ByHand(source(**arguments), trainer)


# ---- lines


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_in_pieces_of_any_size(by_hand, client, rng, end):
    hand = by_hand(max_queue=100_000)
    c = client(hand.source)
    messages, expected, count = [], [], 0
    for k in range(1000):
        kind = rng.integers(6)
        if kind == 0:
            messages.append({"command": "quit", "id": k})
        elif kind == 1:
            messages.append({"sample": [[1, "x"], [0]], "id": k})
        elif kind == 2:
            several = [numbered(count + i)["sample"] for i in range(int(rng.integers(4)))]
            count += len(several)
            messages.append({"samples": several, "id": k})
        elif kind == 3:
            messages.append({"command": "status", "id": k})
        else:
            messages.append(numbered(count, k))
            count += 1
        expected.append((k, kind > 1))
    data = b"".join(json.dumps(m).encode() + end for m in messages)
    answers = []
    start = 0
    while start < len(data):
        size = int(rng.choice([1, 2, 3, 10, 100, 1000, 50_000]))
        c.socket.sendall(data[start : start + size])
        start += size
    for _ in messages:
        answers.append(c.answer())
    assert [(a["id"], a.get("ok", False)) for a in answers] == expected
    client(hand.source).send({"command": "stop"})
    assert hand.take_all() == list(range(count))


def test_a_line_that_is_too_long_ends_the_connection(by_hand, client):
    hand = by_hand(max_message=1000)
    c, other = client(hand.source), client(hand.source)
    fits = {"samples": [numbered(7)["sample"]] * 4}
    text = json.dumps(fits).encode()
    c.socket.sendall(text + b" " * (1000 - len(text)) + b"\n")
    assert c.answer() == {"ok": True}
    c.socket.sendall(text + b" " * (1001 - len(text)) + b"\n" + line(numbered(1)))
    assert c.answer() == {"error": "a line has at most 1000 bytes"}
    assert c.answer() is None
    endless = client(hand.source)
    endless.socket.sendall(b"[" * 50_000)
    assert endless.answer() == {"error": "a line has at most 1000 bytes"}
    assert endless.answer() is None
    assert other.command("metrics")["dropped"] == 2
    assert other.command("status")["queue"] == 4


def test_a_browser_cannot_send_samples(by_hand, client):
    hand = by_hand()
    c = client(hand.source)
    body = line(numbered(1))
    c.socket.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n" + body)
    assert c.answer() == {"error": "this is no web server"}
    assert c.answer() is None
    assert client(hand.source).command("status")["queue"] == 0


@pytest.mark.parametrize("how", ["close", "half", "reset"])
def test_clients_that_end_within_a_line(how, by_hand, client):
    hand = by_hand()
    c, other = client(hand.source), client(hand.source)
    c.socket.sendall(line(numbered(0)) + line(numbered(1))[:-4])
    if how == "half":
        c.socket.shutdown(socket.SHUT_WR)
        assert c.answer() == {"ok": True}
        assert "no JSON" in c.answer()["error"]
        assert c.answer() is None
    elif how == "close":
        c.close()
    else:
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    assert other.wait_for(lambda s: s["queue"] == 1)
    assert other.command("metrics")["malformed"] == 1


def test_the_last_line_needs_no_end(by_hand, client):
    hand = by_hand()
    c = client(hand.source)
    c.socket.sendall(line(numbered(0)) + json.dumps({"command": "status"}).encode())
    c.socket.shutdown(socket.SHUT_WR)
    assert c.answer() == {"ok": True}
    assert c.answer()["queue"] == 1
    assert c.answer() is None


# ---- clients that do not read, and come for one message only


def test_answers_that_nobody_reads(by_hand, client):
    hand = by_hand(batch_size=50, max_queue=50_000)
    for k in range(20):
        c = Client(hand.source.address)
        c.socket.sendall(b"".join(line(numbered(1000 * k + i)) for i in range(1000)))
        c.close()  # with answers unread, which resets the connection
    client(hand.source).send({"command": "stop"})
    assert hand.take_all() == list(range(20_000))


def test_a_connection_for_each_message(learning, trainer):
    reader, _, stop = learning(batch_size=3)

    def send(message):
        c = Client(reader.address)
        c.send(message)
        c.close()

    for k in range(200):
        send(numbered(k))
        if k == 99:
            send({"command": "save", "name": "m1"})
    send({"command": "pause"})
    for k in range(6):
        send(numbered(k))
    send({"command": "resume"})
    stop()
    assert trainer.saved == {"m1": 33, "final": 69}
    assert trainer.sizes == [3] * 68 + [2]


def test_many_clients_at_once(learning, trainer):
    reader, c, stop = learning(batch_size=16)

    def feed(number):
        own = Client(reader.address)
        answers = []
        for k in range(30):
            answers.append(own.ask(numbered(number, k)))
            if k % 10 == 0:
                assert "error" in own.ask({"sample": number})
        if number % 20 == 0:
            assert own.command("save", name=f"m{number}")["ok"]
        own.close()
        return answers

    results = in_threads(feed, range(100))
    assert all(a == [{"ok": True, "id": k} for k in range(30)] for a in results.values())
    found = c.command("metrics")
    assert found["malformed"] == 300
    assert found["dropped"] == 0
    stop()
    assert sum(trainer.sizes) == 3000
    assert trainer.sizes[:-1] == [16] * 187
    assert {*trainer.saved} == {"m0", "m20", "m40", "m60", "m80", "final"}


def test_connections_are_bounded(by_hand, client):
    hand = by_hand(max_connections=3)
    clients = [client(hand.source) for _ in range(3)]
    for c in clients:
        assert c.command("status")["ok"]
    refused = client(hand.source)
    assert refused.answer() == {"error": "too many connections"}
    assert clients[0].command("metrics")["dropped"] == 1
    clients[1].close()
    clients[0].command("status")  # sees the end of the other
    assert client(hand.source).command("status")["ok"]


# ---- back-pressure


def test_senders_wait_while_the_queue_is_full(by_hand, client):
    hand = by_hand(batch_size=4, max_queue=10)
    sender, other = client(hand.source), client(hand.source)
    sender.send({"samples": [numbered(k)["sample"] for k in range(25)], "id": "a"})
    sender.send(numbered(25, "b"))
    status = other.wait_for(lambda s: s["queue"] == 10)
    assert not status["idle"]
    assert other.command("metrics")["ok"]  # gets through
    other.send(numbered(100, "c"))
    for k in range(4):
        assert hand.take() == list(range(4 * k, 4 * k + 4))
        assert client(hand.source).command("status")["queue"] <= 10
    assert sender.answer() == {"ok": True, "id": "a"}
    assert other.answer() == {"ok": True, "id": "c"}  # it came before b
    assert hand.take() == [16, 17, 18, 19]
    assert sender.answer() == {"ok": True, "id": "b"}
    client(hand.source).send({"command": "stop"})
    assert hand.take_all() == [*range(25), 100, 25]


def test_what_a_sender_may_have_under_way_is_bounded(by_hand, client):
    hand = by_hand(batch_size=4, max_queue=64)
    sender, other = client(hand.source), client(hand.source)
    sender.socket.settimeout(0.5)
    pad = "".join(" " for _ in range(1000))
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 200_000:
            sender.socket.sendall(json.dumps(numbered(sent)).encode() + pad.encode() + b"\n")
            sent += 1
    assert other.wait_for(lambda s: s["queue"] == 64)
    assert 64 <= sent < 100_000  # what is in the system's buffers
    for _ in range(8):
        assert hand.take()
    sender.close()
    other.send({"command": "stop"})
    taken = hand.take_all()
    assert taken == list(range(len(taken)))
    assert len(taken) >= 64


def test_a_stop_gets_through_to_a_full_queue(by_hand, client):
    hand = by_hand(batch_size=4, max_queue=8)
    sender, other = client(hand.source), client(hand.source)
    for k in range(30):
        sender.send(numbered(k, k))
    other.wait_for(lambda s: s["queue"] == 8)
    other.send({"command": "stop"})
    assert hand.take_all() == list(range(8))
    assert [sender.answer() for _ in range(8)] == [{"ok": True, "id": k} for k in range(8)]
    error = "the training stops: 0 of 1 samples were taken"
    assert sender.answer() == {"error": error, "id": 8}


def test_samples_of_several_senders_take_turns(by_hand, client):
    hand = by_hand(batch_size=1, max_queue=1)
    first, second = client(hand.source), client(hand.source)
    for k in range(10):
        first.send(numbered(k))
    first_is_waiting = client(hand.source)
    first_is_waiting.wait_for(lambda s: s["queue"] == 1)
    second.send(numbered(100))
    taken = [hand.take()[0] for _ in range(11)]
    assert sorted(taken) == [*range(10), 100]
    assert taken.index(100) < 5
    first_is_waiting.send({"command": "stop"})
    hand.take_all()


# ---- slow clients


def test_a_client_that_stops_within_a_line_is_dropped(by_hand, client):
    hand = by_hand(timeout=0.2)
    slow, idle = client(hand.source), client(hand.source)
    slow.socket.sendall(line(numbered(0)) + b'{"samp')
    assert slow.answer() == {"ok": True}
    error = "a line is not complete after 0.2 seconds without a byte"
    assert slow.answer() == {"error": error}
    assert slow.answer() is None
    assert idle.command("metrics")["dropped"] == 1  # between lines there is no limit
    assert idle.command("status")["queue"] == 1


def test_a_byte_at_a_time_is_no_way_to_hold_a_line(by_hand, client, monkeypatch):
    monkeypatch.setattr(connections, "_LINE_TIMEOUTS", 2)
    hand = by_hand(timeout=0.2)
    slow, other = client(hand.source), client(hand.source)
    end = time.monotonic() + SECONDS
    while not other.command("metrics")["dropped"]:
        assert time.monotonic() < end
        slow.socket.sendall(b" ")
        time.sleep(0.05)
    assert "a line is not complete" in slow.answer()["error"]


def test_slow_clients_do_not_keep_others_waiting(learning, trainer):
    reader, c, stop = learning()
    slow = [Client(reader.address) for _ in range(50)]
    message = line(numbered(3))
    for k in range(len(message)):
        for s in slow:
            s.socket.sendall(message[k : k + 1])
        assert c.ask(numbered(k)) == {"ok": True}
    assert [s.answer() for s in slow] == [{"ok": True}] * 50
    for s in slow:
        s.close()
    stop()
    assert sum(trainer.sizes) == 50 + len(message)


def test_a_client_that_never_reads_is_dropped(by_hand, client):
    hand = by_hand(timeout=0.3)
    deaf, other = client(hand.source, receive_buffer=4096), client(hand.source)
    deaf.socket.settimeout(0.1)
    message = line({"command": "metrics", "id": "x" * 250}) * 50
    end = time.monotonic() + SECONDS
    while not other.command("metrics")["dropped"]:
        assert time.monotonic() < end
        try:
            deaf.socket.sendall(message)
        except OSError:  # TimeoutError, or the connection is gone
            continue
    assert other.command("status")["ok"]


# ---- tokens


def test_a_token_comes_first(source, client):
    reader = source(token=TOKEN)
    c = client(reader)
    assert c.ask({"token": TOKEN, "id": 1}) == {"ok": True, "id": 1}
    assert c.command("status")["ok"]
    assert c.ask({"token": TOKEN})["error"] == "no token is needed, or it was sent already"
    assert c.command("status")["ok"]


@pytest.mark.parametrize(
    "first",
    [
        b'{"command": "status"}\n',
        b'{"token": "another of 16 or more"}\n',
        b'{"token": ""}\n',
        b'{"token": "\\ud800"}\n',
        b'{"token": 7}\n',
        b"\n",
        b"GET / HTTP/1.1\n",
    ],
)
def test_anything_else_ends_the_connection(first, source, client):
    reader = source(token=TOKEN)
    c = client(reader)
    c.socket.sendall(first + line({"token": TOKEN}) + line({"command": "stop"}))
    error = 'the first line is {"token": "..."}, with the right token'
    assert c.answer() == {"error": error}
    assert c.answer() is None
    c = client(reader)
    assert c.ask({"token": TOKEN})["ok"]
    assert c.command("metrics")["dropped"] == 1
    assert c.command("status")["stopping"] is False


def test_strangers_have_little_room_and_time(source, client):
    reader = source(token=TOKEN, timeout=0.2)
    c = client(reader)
    c.socket.sendall(b" " * 5000)
    assert c.answer() == {"error": "a line has at most 4096 bytes"}
    silent = client(reader)
    assert re.match("a line is not complete", silent.answer()["error"])
    assert silent.answer() is None
    c = client(reader)
    assert c.ask({"token": TOKEN})["ok"]
    later = client(reader)  # its time is over after that which c would have had
    assert re.match("a line is not complete", later.answer()["error"])
    assert c.command("metrics")["dropped"] == 3


# ---- everything at once


def test_noise(learning, trainer):
    """Random bytes, dead clients and samples of others: the training gets the samples."""
    reader, c, stop = learning(batch_size=7, max_queue=50, timeout=5.0)

    def bother(number):
        rng = np.random.default_rng(number)
        count = 0
        for _ in range(25):
            own = Client(reader.address)
            for _ in range(int(rng.integers(1, 5))):
                kind = rng.integers(4)
                if kind == 0:
                    own.socket.sendall(
                        rng.bytes(int(rng.integers(200))).replace(b"\n", b"") + b"\n"
                    )
                elif kind == 1:
                    own.send({"command": str(rng.choice(["status", "metrics", "resume", "x"]))})
                elif kind == 2:
                    own.send({"samples": [numbered(1)["sample"]] * 2})
                    count += 2
                else:
                    own.send(numbered(number))
                    count += 1
            if rng.random() < 0.3:
                own.socket.sendall(b'{"sample": [[1')
            if rng.random() < 0.5:
                own.socket.shutdown(socket.SHUT_WR)
                while own.answer() is not None:
                    pass
            own.close()
        return count

    counts = in_threads(bother, range(12))
    total = sum(counts.values())
    c.wait_for(lambda s: s["idle"] and s["samples"] + s["queue"] == total)
    stop()
    assert sum(trainer.sizes) == total
    assert trainer.sizes[:-1] == [7] * (len(trainer.sizes) - 1)
