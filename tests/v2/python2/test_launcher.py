"""`python -m pd_v2 script`: as `python script` behaves, which the tests run beside it."""

import re
import signal
import sys
import zipfile
from pathlib import Path

import pytest

import pd_core as pd
from pd_v2.__main__ import main
from pd_v2.search_path import is_module_command

# Valid in both dialects, with the same meaning.
_ENVIRONMENT = """\
from __future__ import print_function
import sys
import zipfile
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


@pytest.mark.parametrize(("folder", "anew"), [("", True), ("folder/", False)])
def test_the_environment_is_that_of_python(launch, folder, anew):
    files = {f"{folder}script.py": _ENVIRONMENT}
    arguments = ("a", "--help", "-x", "--translate")
    ours, plain = launch(files, *arguments, anew=anew), launch(files, *arguments, plain=True)
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
    heed = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job in the background
    ours = launch(
        {"script.py": f"import os, signal\n{heed}\nprint 1\nos.kill(os.getpid(), signal.SIGINT)\n"}
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


def test_bytes_pass_through_the_standard_streams(launch):
    text = "import sys\nfor line in sys.stdin: print line.split()[1]"
    ours = launch({"script.py": text}, send=b"a \xff\xe9\n")
    assert (ours.stdout, ours.returncode) == (b"\xff\xe9\n", 0)


def test_lines_of_the_standard_input_end_at_newlines(launch):
    text = "import sys\nprint [line for line in sys.stdin]\n"
    ours = launch({"script.py": text}, send=b"a\r\nb\rc\n")
    assert ours.stdout == b"['a\\r\\n', 'b\\rc\\n']\n"


def test_the_standard_input_is_undecoded(launch):
    text = """\
import sys
print [len(line.split()) for line in iter(sys.stdin.readline, 'end\\n')], raw_input().split()
print len(sys.stdin.next().split()), [len(line.split()) for line in sys.stdin.readlines(1)]
print len(sys.stdin.read().split())
"""
    done = launch({"main.py": text}, send="a\u00a0b c\nend\nd\u3000e\nf\x1cg\nh\u2003\ni\u00a0j\n")
    assert done.stdout == "[2] ['d\\xe3\\x80\\x80e']\n1 [1]\n1\n"


def test_sets_have_one_order_in_all_processes(launch, monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    text = "import sys\nsys.stdout.write(' '.join(set('word%d' % n for n in range(9))))"
    found = launch({"main.py": text}, "x", anew=True)
    assert found.stdout == launch({"main.py": text}, plain=True, PYTHONHASHSEED="0").stdout
    assert found.stdout != launch({"main.py": text}, anew=True, PYTHONHASHSEED="1").stdout


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("-m pd_v2", True),
        ("-mpd_v2", True),
        ("-u -W error -Impd_v2", True),
        ("-m pd_v2.__main__", True),
        ("-m my_pd_v2", False),
        ("-m my.pd_v2", False),
        ("-mmy_pd_v2", False),
    ],
)
def test_the_command_is_told_from_other_modules(command, found, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-m", "a.py", "pd_v2"])
    monkeypatch.setattr(sys, "orig_argv", ["python", *command.split(), "a.py", "pd_v2"])
    assert is_module_command() == found


def test_translate_prints(tmp_path, capsys):
    (tmp_path / "script.py").write_text("print 1 / 2\n")
    assert main(["--translate", str(tmp_path / "script.py")]) == 0
    out, err = capsys.readouterr()
    assert out == "print(_py2_divide(1, 2))\n"
    assert err.startswith("python -m pd_v2: to be read, not run: ")


def test_translate_of_what_python_runs_as_it_is(tmp_path, capsys):
    (tmp_path / "script.py").write_text("from __future__ import division\nx = [1 / 2]\n")
    assert main(["--translate", str(tmp_path / "script.py")]) == 0
    assert capsys.readouterr().err == ""


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


def test_the_name_it_was_called_by(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/pd-v2"])
    for arguments in (["--help"], ["check", "--help"], ["export", "--help"], ["report", "--help"]):
        with pytest.raises(SystemExit):
            main(arguments)
        expected = " ".join(["usage: pd-v2", *arguments[:-1]])
        assert capsys.readouterr().out.startswith(f"{expected} [-h]")
    assert main(["missing.py"]) == 2
    assert capsys.readouterr().err.startswith("pd-v2: can't open file ")


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"pd {pd.__version__}\n"


_UNFIT = """
import paddle.v2 as paddle
x = paddle.layer.data(name='x', type=paddle.data_type.dense_vector(3))
cost = paddle.layer.sum_cost(paddle.layer.fc(x, size=1))
pool = paddle.parameters.create(cost)
def samples():
    yield [([1.0, 2.0],)]
if {trains}:
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Adam())
    trainer.train(samples)
else:
    paddle.infer(output_layer=cost, parameters=pool, input=[([1.0, 2.0],)])
"""


@pytest.mark.parametrize("trains", [True, False])
def test_data_that_does_not_fit_ends_at_the_users_line(launch, trains):
    done = launch({"script.py": _UNFIT.format(trains=trains)})
    assert done.returncode == 1
    frames = re.findall(r'^  File "(.*)", line (\d+)', done.stderr, re.M)
    assert [(Path(file).name, line) for file, line in frames] == [("script.py", frames[0][1])]
    assert frames[0][1] == ("10" if trains else "12")
    problem = "sample 0: expected 3 numbers, got 2"
    assert f"\nValueError: data layer 'x' (column 0), {problem}\n" in done.stderr


def test_missing_script(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["missing.py"]) == 2
    expected = (
        f"can't open file {str(tmp_path / 'missing.py')!r}: [Errno 2] No such file or directory"
    )
    assert capsys.readouterr().err == f"python -m pd_v2: {expected}\n"


# Valid in both dialects, with the same meaning.
_PACKAGE = {
    "package/module.py": """\
from __future__ import print_function
import sys
import zipfile
from . import beside
from package.beside import name
print(__name__, __package__, __file__, sys.argv, sys.path[0], name, beside.name, __spec__.name)
""",
    "package/beside.py": "name = __name__\n",
    "package/__init__.py": "",
    "package/__main__.py": "import sys\nsys.exit('main of %s: %s' % (__package__, sys.argv))\n",
}


@pytest.mark.parametrize("module", ["package.module", "package", "nothing", "package.beside.none"])
def test_modules_are_run_as_python_does(launch, module):
    results = [
        launch(_PACKAGE, "a", "-b", command=("-m", module), plain=plain) for plain in (False, True)
    ]
    ours, plain = [(result.stdout, result.returncode) for result in results]
    assert ours == plain
    assert bool(results[0].stderr) == (module != "package.module")
    if module.startswith("package."):
        assert results[0].stderr == "" or "No module named package.beside.none" in results[0].stderr
    else:
        assert results[0].stderr == results[1].stderr


def test_folders_and_zip_files_are_run_as_python_does(launch, tmp_path):
    source = (
        "from __future__ import print_function\nimport sys, beside\n"
        "print(__name__, repr(__package__), __file__, sys.argv, sys.path[0], beside.name)\n"
    )
    files = {"app/__main__.py": source, "app/beside.py": "name = __name__\n"}
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name.removeprefix("app/"), text)
    for path in ("app", "app.zip"):
        ours, plain = [launch(files, "a", command=[path], plain=plain) for plain in (False, True)]
        assert ours.stdout == plain.stdout
        assert (ours.stderr, ours.returncode) == ("", 0)


def test_a_folder_without_main(launch):
    ours, plain = [launch({"a/b": ""}, command=["a"], plain=plain) for plain in (False, True)]
    assert (ours.stderr, ours.returncode) == (plain.stderr, plain.returncode)


def test_text_is_run(launch):
    source = "import sys, beside; print 7 / 2, sys.argv, __name__, repr(sys.path[0]), beside.x\n1/0"
    files = {"beside.py": "x = 1 / 2"}
    for command, send in ((("-c", source), ""), (("-",), source)):
        ours = launch(files, "a", "-m", command=command, send=send)
        assert ours.stdout == f"3 ['{command[0]}', 'a', '-m'] __main__ '' 0\n"
        assert ours.stderr.splitlines()[0] == "Traceback (most recent call last):"
        assert ours.stderr.splitlines()[-1].startswith("ZeroDivisionError")
        assert ours.returncode == 1
        assert "pd_v2" not in ours.stderr


def test_tests_of_modules(launch):
    source = (
        "import unittest, half\nclass HalfTest(unittest.TestCase):\n    def test_half(self):\n"
        "        self.assertEquals(half.half(7), 3)\n        self.failIf(half.half(1))\n"
        "        self.assertEqual(half.half(7), 3.5)\n"
    )
    files = {"half.py": "def half(x): return x / 2", "test_half.py": source}
    ours = launch(files, command=("-m", "unittest", "test_half"))
    assert "AssertionError: 3 != 3.5" in ours.stderr
    assert "Ran 1 test in" in ours.stderr
    assert "Deprecation" not in ours.stderr
    assert ours.returncode == 1


def test_files_named_like_modules_of_the_launcher(launch):
    files = {
        "script.py": "import queue, enum, random\nprint queue.x, enum.x, random.x, random.seed(1)",
        "queue.py": "x = 1 / 2",
        "enum.py": "x = 3 / 2",
        "random.py": "from os import *\nx = 5 / 2\ndef seed(n): return n / 2",
    }
    ours = launch(files, anew=True)
    assert (ours.stdout, ours.stderr) == ("0 1 2 0\n", "")


_SPLIT = """\
import csv, json
import cPickle
import numpy as np
from paddle.v2.dataset import common
def samples():
    for i in range(3):
        yield i, 'w%d' % i
def write(rows, f):
    for row in rows:
        print >>f, '%d %s' % row
def read(f):
    for line in f:
        yield line.split()
for name, dumper, loader in [
        ('text', write, read),
        ('json', json.dump, json.load),
        ('pickle', cPickle.dump, cPickle.load),
        ('csv', lambda rows, f: csv.writer(f).writerows(rows), csv.reader),
        ('npy', lambda rows, f: np.save(f, [n for n, _ in rows]), lambda f: np.load(f).tolist())]:
    common.split(samples, 1, name + '-%d', dumper=dumper)
    print list(common.cluster_files_reader(name + '-*', 1, 0, loader=loader)())
"""

_SPLIT_PRINTS = """\
[['0', 'w0'], ['1', 'w1'], ['2', 'w2']]
[[0, 'w0'], [1, 'w1'], [2, 'w2']]
[(0, 'w0'), (1, 'w1'), (2, 'w2')]
[['0', 'w0'], ['1', 'w1'], ['2', 'w2']]
[0, 1, 2]
"""


def test_functions_are_given_files_that_take_any_string(launch):
    done = launch({"script.py": _SPLIT})
    assert done.stdout == _SPLIT_PRINTS, done.stderr


_RECORDS = """\
import recordio
w = recordio.writer('records')
w.write('a\\tb\\n')
w.write('c\\xff')
w.close()
r = recordio.reader('records')
x = r.read()
print x.strip().split('\\t'), x == 'a\\tb\\n', x[0], x.startswith('a'), isinstance(x, basestring)
print r.read() == 'c\\xff', r.read(), [len(x) for x in recordio.reader('records')]
"""


def test_records_are_strings(launch):
    done = launch({"script.py": _RECORDS})
    assert done.stdout == "['a', 'b'] True a True True\nTrue None [4, 2]\n", done.stderr


_LOGGING = """
import logging, sys, threading
logging.basicConfig(stream=sys.stdout, format='%(levelname)s:%(message)s', level=logging.DEBUG)
logging.info('x %d', 1); logging.warn('y'); logging.getLogger('q').warn('z')
t = threading.Thread(target=len, args=('',)); t.setDaemon(True)
import paddle.v2 as paddle
logging.basicConfig(format='again')
logging.getLogger('paddle').info('p')
"""


def test_logging_is_configured_by_whom_is_first(launch):
    first = launch({"script.py": _LOGGING})
    assert first.stdout == "INFO:x 1\nWARNING:y\nWARNING:z\nINFO:p\n"
    assert first.stderr == ""  # no warning of what Python 3 has deprecated
    later = launch({"script.py": "import paddle.v2 as paddle\n" + _LOGGING})
    assert later.stdout == ""
    assert later.stderr.count("script.py:") == 3
