"""Python processes that a program starts run its Python 2, too, and nobody else's."""

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

from pd_v2.python2 import process
from pd_v2.python2.startup import command_line
from pd_v2.python2.translate import parse

_HELPER = "import sys, half, paddle.v2\nprint half.x, sys.argv, paddle.v2.__name__\n"
_HALF = "x = 7 / 2"

_STARTS = """\
import os, subprocess, sys
run = lambda *command, **keywords: subprocess.check_output(command, **keywords).strip()
python = sys.executable
print run(python, '-u', 'tools/helper.py', 'a', '-m')
print run(python, '-uc', 'import sys; print 7 / 2, sys.argv', '-c')
os.environ['PYTHONPATH'] = 'tools'
print os.popen('%s -m half_package.sub a' % python).read().strip()
print run(python, '-', env={'PATH': ''}, stdin=open('tools/text'))
"""


def test_scripts_modules_and_text(launch):
    files = {
        "main.py": _STARTS,
        "tools/helper.py": _HELPER,
        "tools/half.py": _HALF,
        "tools/text": "import sys; print 5 / 2, sys.argv",
        "half_package/__init__.py": "",
        "half_package/sub.py": "import beside, half, sys; print beside.x, half.x, sys.argv[1:]",
        "half_package/beside.py": "x = 9 / 2",
    }
    ours = launch(files)
    assert ours.stdout.splitlines() == [
        "3 ['tools/helper.py', 'a', '-m'] pd_v2",
        "3 ['-c', '-c']",
        "4 3 ['a']",
        "2 ['-']",
    ]
    assert ours.stderr == ""


def test_a_program_that_starts_itself_anew(launch):
    source = (
        "import os, sys\nprint 7 / 2, sys.argv; sys.stdout.flush()\n"
        "if len(sys.argv) == 1:\n    os.execv(sys.executable, [sys.executable] + sys.argv + ['x'])"
    )
    ours = launch({"main.py": source})
    assert ours.stdout == "3 ['main.py']\n3 ['main.py', 'x']\n"


_POOL = """\
import multiprocessing, sys
from jobs import Job, half

class Result(object):
    def __init__(self, x):
        self.x = x / 2

def result(x):
    return Result(x)

def put(queue):
    queue.put(Result(5))

if __name__ == '__main__':
    {choose}
    pool = multiprocessing.Pool(1)
    print [r.x for r in pool.map(result, [3, 7])], pool.map(half, [9]), pool.map(Job.run, [Job(3)])
    pool.close()
    pool.join()
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=put, args=(queue,))
    process.start()
    print queue.get().x,
    process.join()
    print process.exitcode
"""

_JOBS = """\
class Job(object):
    def __init__(self, x): self.x = x
    def run(self): return self.x / 2

def half(x): return x / 2
"""


@pytest.mark.parametrize(
    ("method", "command"),
    [
        (None, ["main.py"]),
        ("spawn", ["main.py"]),
        ("spawn", ["-m", "main"]),
        ("forkserver", ["main.py"]),
    ],
)
def test_multiprocessing(launch, method, command):
    if method not in (None, *multiprocessing.get_all_start_methods()):
        pytest.skip(f"no {method} on this platform")
    choose = f"multiprocessing.set_start_method({method!r})" if method else "pass"
    files = {"main.py": _POOL.replace("{choose}", choose), "jobs.py": _JOBS}
    ours = launch(files, command=command)
    assert (ours.stdout, ours.stderr) == ("[1, 3] [4] [1]\n2 0\n", "")


def test_functions_without_a_name_are_for_forks(launch):
    source = (
        "import multiprocessing\nimport paddle.v2.reader as reader\n"
        "queue = multiprocessing.Queue()\n"
        "p = multiprocessing.Process(target=lambda: queue.put(7 / 2))\np.start()\n"
        "print queue.get(); p.join()\n"
        "d = multiprocessing.Manager().dict(); d['a'] = 1; print d.values()\n"
        "numbers = lambda: iter(xrange(5))\n"
        "print sorted(reader.xmap_readers(lambda x: x / 2, numbers, 2, 2)())\n"
    )
    ours = launch({"main.py": source})
    assert (ours.stdout, ours.stderr) == ("3\n[1]\n[0, 0, 1, 1, 2]\n", "")


def test_fork_is_chosen_where_today_it_is_not_the_default(monkeypatch):
    calls = []
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["forkserver", "fork"])
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: None)
    monkeypatch.setattr(
        multiprocessing, "set_start_method", lambda name, force=False: calls.append((name, force))
    )
    monkeypatch.setattr(np, "set_printoptions", lambda legacy: None)
    process.configure_for(parse("x: int = 1", "today.py"))
    assert calls == []
    process.configure_for(parse("print 1", "script.py"))
    process.set_start_method("spawn")  # a program that chooses is not told that it is too late
    process.set_start_method("fork")
    assert calls == [("fork", False), ("spawn", True), ("fork", False)]


def _start(*command, cwd, **variables):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([process.STARTUP, str(cwd)])}
    result = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**environment, **variables},
        capture_output=True,
        text=True,
    )
    assert (result.stderr, result.returncode) == ("", 0)
    return result.stdout


_SEEN = (
    "import os, sys; print(7 / 2, os.environ.get('PD_V2_PYTHON'), os.environ['PYTHONPATH'], "
    "any('startup' in entry for entry in sys.path), 'pd_v2' in sys.modules)"
)


@pytest.mark.parametrize("python", [None, "3060ff0:/another/python"])
def test_another_python_sees_nothing(tmp_path, python):
    (tmp_path / "sitecustomize.py").write_text("print('chained', __name__)")
    variables = {} if python is None else {process.VARIABLE: python}
    printed = _start("-c", _SEEN, cwd=tmp_path, **variables)
    assert printed == f"chained sitecustomize\n3.5 None {tmp_path} False False\n"


_THIS_PYTHON = f"{sys.hexversion:x}:{sys.prefix}"


def test_installed_programs_see_nothing(tmp_path):
    seen = f"import atexit\natexit.register(lambda: exec({_SEEN!r}, {{}}))"
    (tmp_path / "sitecustomize.py").write_text(seen)
    variables = {process.VARIABLE: _THIS_PYTHON}
    *_, last = _start("-m", "site", cwd=tmp_path, **variables).splitlines()
    assert last == f"3.5 None {tmp_path} False False"


def test_isolated_children_see_nothing(tmp_path):
    printed = _start("-I", "-c", "print(7 / 2)", cwd=tmp_path, **{process.VARIABLE: _THIS_PYTHON})
    assert printed == "3.5\n"


@pytest.mark.parametrize(
    ("words", "argv", "options", "target"),
    [
        (["script.py", "a"], ["script.py", "a"], [], ["script.py"]),
        (["-u", "-Wd", "script.py"], ["script.py"], ["-u", "-Wd"], ["script.py"]),
        (["-c", "pass", "a", "-c"], ["-c", "a", "-c"], [], ["-c", "pass"]),
        (["-uc", "pass"], ["-c"], ["-u"], ["-c", "pass"]),
        (["-X", "dev", "-Oucpass"], ["-c"], ["-X", "dev", "-Ou"], ["-c", "pass"]),
        (["-u", "-cpass"], ["-c"], ["-u"], ["-c", "pass"]),
        (["-c", "-1"], ["-c"], [], ["-c", "-1"]),
        (["-c-1"], ["-c"], [], ["-c", "-1"]),
        (["-W", "ignore::m", "-m", "mod"], ["-m"], ["-W", "ignore::m"], ["-m", "mod"]),
        (["-X", "dev", "-mmod", "m"], ["-m", "m"], ["-X", "dev"], ["-m", "mod"]),
        (["-umpackage.mod", "-"], ["-m", "-"], ["-u"], ["-m", "package.mod"]),
        (["-", "a"], ["-", "a"], [], ["-"]),
        (["-u"], [""], ["-u"], ["-"]),
    ],
)
def test_command_lines(words, argv, options, target):
    assert command_line.split(["python", *words], argv) == (options, target, argv[1:])


def test_a_program_that_embeds_python_is_not_started_anew(monkeypatch):
    for command in ([], ["/usr/bin/editor", "script.py"]):
        monkeypatch.setattr(sys, "orig_argv", command)
        monkeypatch.setattr(sys, "argv", command[1:] or [""])
        assert command_line.startup_action() is None
