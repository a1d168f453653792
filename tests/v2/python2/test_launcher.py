"""`python -m pd_v2 script`: as `python script` behaves, which the tests run beside it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pd_v2.__main__ import main

_ROOT = str(Path(__file__).parents[3])


def _start(*command, cwd, send=""):
    environment = {**os.environ, "PYTHONPATH": _ROOT, "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        input=send,
    )


@pytest.fixture
def launch(tmp_path):
    """Write files, run the first with arguments; as is, or with the launcher."""

    def run(files, *arguments, plain=False):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        launcher = ["-B"] if plain else ["-m", "pd_v2"]
        return _start(*launcher, next(iter(files)), *arguments, cwd=tmp_path)

    return run


# Valid in both dialects, with the same meaning.
_ENVIRONMENT = """\
from __future__ import print_function
import sys
print(sys.argv, __name__, __file__, sys.path[0], sys.modules["__main__"].x if "x" in dir() else 0)
print(sys.stdin.read().strip(), __doc__, __package__)
sys.exit(3)
"""

_ERROR = """\
from __future__ import print_function
import module

def broken(n):
    return module.call(lambda: [1, 2][n] + int("3"))

try:
    broken("a")
except TypeError:
    broken(5)
"""

_MODULE = """\
def call(function):
    for value in [1]:
        return function() + value
"""


@pytest.mark.parametrize("folder", ["", "folder/"])
def test_the_environment_is_that_of_python(launch, folder):
    files = {f"{folder}script.py": _ENVIRONMENT}
    arguments = ("a", "--help", "-x", "--translate")
    ours, plain = launch(files, *arguments), launch(files, *arguments, plain=True)
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode)
    assert ours.returncode == 3
    assert ours.stderr == ""


def test_tracebacks_are_those_of_python(launch):
    files = {"script.py": _ERROR, "module.py": _MODULE}
    ours, plain = launch(files), launch(files, plain=True)
    assert ours.stderr == plain.stderr
    assert ours.returncode == plain.returncode == 1
    assert "IndexError: list index out of range" in ours.stderr


def test_tracebacks_show_the_lines_of_the_author(launch):
    source = (
        "print 'start'\ndef f(n):\n    '''doc\n    '''\n"
        "    print >>out, `n`, n / 0\nout = None\nf(1)\n"
    )
    ours = launch({"script.py": source})
    assert ours.stdout == "start\n"
    assert [line for line in ours.stderr.splitlines() if "^" not in line] == [
        "Traceback (most recent call last):",
        f'  File "{_path(ours)}", line 7, in <module>',
        "    f(1)",
        f'  File "{_path(ours)}", line 5, in f',
        "    print >>out, `n`, n / 0",
        "ZeroDivisionError: integer division or modulo by zero",
    ]


def _path(result):
    """The absolute path that the traceback names."""
    return next(line.split('"')[1] for line in result.stderr.splitlines() if 'File "' in line)


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\nif x\n    y\n",
        "x = 1\nreturn x\n",
        "def f():\n    x = 1\n      y = 2\n",
        "x = (1,\n",
    ],
)
def test_syntax_errors_are_those_of_python(launch, source):
    ours, plain = launch({"script.py": source}), launch({"script.py": source}, plain=True)
    assert ours.stderr == plain.stderr
    assert ours.returncode == plain.returncode == 1


def test_syntax_error_in_python2(launch):
    ours = launch({"script.py": "print 'a'\ndef f(:\n    pass\n"})
    lines = ours.stderr.splitlines()
    assert lines[0].endswith('script.py", line 2')
    assert lines[1:] == ["    def f(:", "          ^", "SyntaxError: invalid syntax"]
    assert (ours.stdout, ours.returncode) == ("", 1)


def test_syntax_error_in_a_module(launch):
    ours = launch({"script.py": "print 'a'\nimport broken\n", "broken.py": "x = = 1\n"})
    assert ours.stdout == "a\n"
    assert "pd_v2" not in ours.stderr
    assert 'script.py", line 2, in <module>' in ours.stderr
    assert 'broken.py", line 1\n    x = = 1\n' in ours.stderr


def test_exit_with_a_message_and_an_unfinished_line(launch):
    ours = launch({"script.py": "import sys\nprint 'x',\nsys.exit('stopped')\n"})
    assert (ours.stdout, ours.stderr, ours.returncode) == ("x\n", "stopped\n", 1)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_interrupt(launch):
    ours = launch(
        {"script.py": "import os, signal\nprint 1\nos.kill(os.getpid(), signal.SIGINT)\n"}
    )
    assert ours.returncode in (130, -signal.SIGINT)
    assert ours.stdout == "1\n"
    assert ours.stderr.endswith("KeyboardInterrupt\n")
    assert "pd_v2" not in ours.stderr


def test_nothing_is_written_beside_the_script(launch, tmp_path):
    files = {
        "script.py": "import module, package\nprint module.x",
        "module.py": "x = 1 / 2",
        "package/__init__.py": "",
    }
    assert launch(files).stdout == "0\n"
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert names == {"script.py", "module.py", "package", "package/__init__.py"}


def test_paddle_and_pickled_main_classes(launch):
    source = (
        "import paddle.v2.data_type as t, cPickle, numpy as np\n"
        "class A: pass\n"
        "print t.dense_vector(3), cPickle.loads(cPickle.dumps(A())).__class__ is A\n"
        "print [np.float32(0.5)], np.zeros(2)\n"
    )
    ours = launch({"script.py": source})
    assert ours.stderr == ""
    assert ours.stdout == (
        "InputType(dim=3, seq_type=SequenceType.NO_SEQUENCE, type=DataType.Dense) True\n"
        "[0.5] [ 0.  0.]\n"
    )


def test_bytes_pass_through_the_standard_streams(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nfor line in sys.stdin: print line.split()[1]")
    command = [sys.executable, "-m", "pd_v2", "script.py"]
    ours = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": _ROOT},
        capture_output=True,
        input=b"a \xff\xe9\n",
    )
    assert (ours.stdout, ours.returncode) == (b"\xff\xe9\n", 0)


def test_lines_of_the_standard_input_end_at_newlines(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint [line for line in sys.stdin]\n")
    command = [sys.executable, "-m", "pd_v2", "script.py"]
    environment = {**os.environ, "PYTHONPATH": _ROOT}
    ours = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, input=b"a\r\nb\rc\n"
    )
    assert ours.stdout == b"['a\\r\\n', 'b\\rc\\n']\n"


def test_translate_prints(tmp_path, capsys):
    (tmp_path / "script.py").write_text("print 1 / 2\n")
    assert main(["--translate", str(tmp_path / "script.py")]) == 0
    assert capsys.readouterr().out == "print(_py2_divide(1, 2))\n"


def test_translate_of_a_mistake(tmp_path, capsys):
    (tmp_path / "script.py").write_text("print 1 +\n")
    assert main(["--translate", str(tmp_path / "script.py")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f'  File "{tmp_path / "script.py"}", line 1',
        "    print 1 +",
        "             ^",
        "SyntaxError: invalid syntax",
    ]


def test_no_script_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "usage: python -m pd_v2" in capsys.readouterr().err


def test_missing_script(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["missing.py"]) == 2
    expected = (
        f"can't open file {str(tmp_path / 'missing.py')!r}: [Errno 2] No such file or directory"
    )
    assert capsys.readouterr().err == f"python -m pd_v2: {expected}\n"
