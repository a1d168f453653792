"""Which dialect a program is, where its lines are, and how its mistakes are reported."""

import ast

import pytest

from pd_v2.python2 import translate
from pd_v2.python2.translate import parse


@pytest.mark.parametrize(
    "source",
    [
        "f'{x}'",
        "def f(a: int): pass",
        "def f() -> int: pass",
        "def f(*, a): pass",
        "def f(a, /): pass",
        "x: int = 1",
        "async def f(): pass",
        "def f():\n    nonlocal_x = 1\n    def g():\n        nonlocal nonlocal_x",
        "def f(): yield from x",
        "raise A from B",
        "class A(B, metaclass=C): pass",
        "class A:\n    def f(self): super().f()",
        "(x := 1)",
        "a @ b",
        "a, *b = c",
        "for a, *b in c: pass",
        "[*a, 1]",
        "{**a}",
        "f(*a, *b)",
        "print(1, file=f)",
        "open(a, encoding='utf-8')",
        "match x:\n    case 1: pass",
    ],
)
def test_clearly_python3_stays_as_it_is(source):
    assert not parse(source, "f").is_python2
    assert translate(source) == source


@pytest.mark.parametrize(
    "source",
    [
        "x = 1 / 2",
        "print('a')",
        "print 'a'",
        "def f(*a, **b): return g(*a, **b)",
        "class A(object): pass",
        "super(A, self).f()",
        "x = {1: 2, 3: [4]}",
        "from __future__ import print_function\nprint(1, file=f)",
        "with open(a) as b, open(c) as d: pass",
        "from io import open\nopen(a, encoding='utf-8')",
        "open(a, mode='r')",
        "",
    ],
)
def test_everything_else_is_python2(source):
    assert parse(source, "f").is_python2


def test_translation_is_python3():
    translated = translate("print 7 / 2\n")
    assert translated == "print(_py2_divide(7, 2))\n"
    ast.parse(translated)


def test_translated_text_is_only_what_has_to_change():
    assert translate("x = y(1) + len('a')") == "x = y(1) + len('a')\n"


def test_lines_keep_their_numbers():
    source = (
        "print 1, \\\n  2\n\ndef f((a,\n       b), c):\n    x = '''\n'''\n    return a\n"
        "try: raise E, \\\n  (1,\n   2), \\\n t\nexcept F: g.throw(E,\n  3)\n"
        "try: f((1, 2), 3)\nexcept E, (d,\n  e): exec '1'\nlast = `1`\n"
    )
    tree = parse(source, "f").tree
    assert tree.body[-1].lineno == source.split("\n").index("last = `1`") + 1
    assert tree.body[1].body[-1].lineno == source.split("\n").index("    return a") + 1


@pytest.mark.parametrize(
    ("source", "message", "line", "offset"),
    [
        ("print 'a'\nx = (1,\ny = 2 3\n", "invalid syntax", 3, None),
        ("x = 1\nif x\n    y\n", "expected ':'", 2, 5),
        ("print 'a'\ndef f(:\n    pass\n", "invalid syntax", 2, 7),
        ("print 'a'\nreturn 3\n", "'return' outside function", 2, 1),
        ("def f():\n    x = 1\n      y = 2\n", "unexpected indent", 3, None),
        ("print 'a'\nif 1:\n        x = 1\n   y = 2\n", "unindent does not match", 4, None),
        ("print 'a'\nx = '''\n", "unterminated triple-quoted string|EOF in multi-line", 2, None),
        ("print 'a'\nx = [1,\n", "was never closed|EOF in multi-line", None, None),
        ("print 'a'\nx = 'b\n", "unterminated string|invalid", 2, None),
    ],
)
def test_mistakes_are_reported_where_they_are(source, message, line, offset):
    from pd_v2.python2.translate import compile_program

    with pytest.raises(SyntaxError, match=message) as caught:
        compile_program(parse(source, "script.py"), "script.py")
    assert caught.value.filename == "script.py"
    assert line is None or caught.value.lineno == line
    assert offset is None or caught.value.offset == offset


def test_the_line_of_a_mistake_is_as_written():
    from pd_v2.python2.translate import compile_program

    source = "x = 0777; print `x`\nprint 'a'; None = `4`\n"
    with pytest.raises(SyntaxError, match="cannot assign to None") as caught:
        compile_program(parse(source, "script.py"), "script.py")
    assert caught.value.text.strip() == "print 'a'; None = `4`"
