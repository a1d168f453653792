"""Lines of clients: what is understood, and what is refused with which words."""

import json
import math

import pytest

from pd_v2.online.messages import Answer, Message, MessageError, parse


def test_messages():
    assert parse(b'{"sample": [[1, 2.5], "a"]}') == Message(
        "samples", [[[1, 2.5], "a"]], None, True
    )
    assert parse(b'{"samples": [[1], [2]], "id": 7}\r') == Message("samples", [[1], [2]], 7)
    assert parse(b'{"samples": []}') == Message("samples", [])
    assert parse('{"token": "häagen", "id": null}'.encode()) == Message("token", "häagen")
    (large,) = parse(
        b'{"sample": [9223372036854775807, 9223372036854775808, -%s]}' % (b"9" * 400)
    ).value
    assert large == [2**63 - 1, 2.0**63, -math.inf]
    assert [type(x) for x in large] == [int, float, float]
    for name in ("pause", "resume", "stop", "status", "metrics"):
        assert parse(json.dumps({"command": name, "id": "x"}).encode()) == Message(name, None, "x")
    for name in ("m1", "a", "A.b_c-9", "9" * 64, "a..b", "m."):
        line = json.dumps({"command": "save", "name": name}).encode()
        assert parse(line) == Message("save", name)


REFUSED = [
    (b"", "no JSON in UTF-8"),
    (b"hello", "no JSON in UTF-8"),
    (b'{"sample": [1]', "no JSON in UTF-8"),
    (b'{"sample": [1]}}', "Extra data"),
    (b'{"sample": ["\xff"]}', "no JSON in UTF-8: 'utf-8' codec"),
    ('{"command": "stop"}'.encode("utf-16"), "no JSON in UTF-8"),
    (b'\xef\xbb\xbf{"command": "stop"}', "no JSON in UTF-8"),
    (b'{"sample": [NaN]}', "NaN is no JSON number"),
    (b'{"sample": [-Infinity]}', "-Infinity is no JSON number"),
    (b'{"sample": [%s]}' % (b"9" * 5000), "no JSON in UTF-8: Exceeds the limit"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"sample": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply"),
    (b"[1]", "a message is a JSON object, not a list"),
    (b"3.5", "a message is a JSON object, not 3.5"),
    (b"{}", "one of sample, samples, command and token"),
    (b'{"sample": [1], "command": "stop"}', "one of sample, samples, command and token"),
    (b'{"sample": [1], "weight": 2}', 'a message with sample has no field "weight"'),
    (b'{"samples": {"0": [1]}}', "samples is a list of samples, not an object"),
    (b'{"command": ["stop"]}', "command is a string, not a list"),
    (b'{"command": "quit"}', 'no command "quit"; there are save, pause'),
    (b'{"command": "%s"}' % (b"x" * 9999), r'no command "x{56}\.\.\.; there'),
    (b'{"command": "stop", "name": "m1"}', "the command stop takes no name"),
    (b'{"token": 1}', "token is a string, not 1"),
    (b'{"sample": [1], "id": true}', "an id is a string or a number"),
    (b'{"sample": [1], "id": [1]}', "an id is a string or a number"),
    (b'{"sample": [1], "id": 1e999}', "an id is a finite number"),
    (b'{"sample": [1], "id": "%s"}' % (b"x" * 255), "an id has at most 256 characters"),
    (b'{"command": "save"}', "save: the name null is not"),
    (b'{"command": "save", "name": 3}', "save: the name 3 is not"),
]


@pytest.mark.parametrize(("line", "error"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_message(line, error):
    with pytest.raises(MessageError, match=error):
        parse(line)


NAMES = ["", "../x", "a/b", "..", ".", ".hidden", "/etc/passwd", "a\\b", "C:x", "-x", "_x", "a b"]
NAMES += [
    "\0",
    "m1\0",
    "m1\n",
    "\n",
    "x" * 65,
    "x" * 100_000,
    "é",
    "m\u0661",
    "\ud800",
    "~",
    "$HOME",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_that_may_leave_the_folder_are_refused(name):
    with pytest.raises(MessageError, match="the first one a letter or a digit") as e:
        parse(json.dumps({"command": "save", "name": name, "id": 5}).encode())
    assert e.value.id == 5
    assert len(str(e.value)) < 300


def test_answers_are_strict_json():
    answer = Answer(3, command="save")
    assert answer.line is None
    assert json.loads(answer.succeed(batches=2).line) == {
        "ok": True,
        "id": 3,
        "command": "save",
        "batches": 2,
    }
    line = Answer().fail("no\nnewline \ud800").line
    assert line.count(b"\n") == 1
    assert json.loads(line)["error"].startswith("no\nnewline")
    with pytest.raises(ValueError, match="JSON"):
        Answer().succeed(cost=math.nan)


def test_any_bytes_are_a_message_or_refused(rng):
    good = [
        b'{"sample": [[1.5, -2], [0]], "id": "a"}',
        b'{"samples": [[[1, 2], [3]], []]}',
        b'{"command": "save", "name": "m1", "id": 12}',
        b'{"command": "status"}',
    ]
    pieces = [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"1e9",
        b"null",
        b"\\u0000",
        b"NaN",
        b"\xc3",
    ]
    refused = 0
    for _ in range(5000):
        line = bytearray(good[rng.integers(4)])
        for _ in range(rng.integers(1, 4)):
            k = int(rng.integers(len(line)))
            kind = rng.integers(4)
            if kind == 0:
                line[k] = int(rng.integers(256))
            elif kind == 1:
                del line[k : k + int(rng.integers(1, 6))]
            else:
                line[k:k] = pieces[rng.integers(len(pieces))] * int(rng.integers(1, 3))
            line = line or bytearray(b" ")
        try:
            assert isinstance(parse(bytes(line)), Message)
        except MessageError as error:
            assert Answer(error.id).fail(error).line.count(b"\n") == 1
            refused += 1
    assert 1000 < refused < 5000
