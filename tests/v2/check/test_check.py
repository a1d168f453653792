"""`python -m pd_v2 check`: what programs use that pd_v2 lacks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pd_v2 import check as checks
from pd_v2.check import sources

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def report(tmp_path):
    """The Report on a program."""

    def of(text, name="a.py"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return checks.check([str(path)])

    return of


def lines(places):
    """{name: line numbers} of {name: places}."""
    return {name: [int(p.rsplit(":", 1)[1]) for p in where] for name, where in places.items()}


NAMES = [
    # a program, and what it uses that is not there, with the lines
    ("import paddle.v2 as paddle\npaddle.layer.fc\n", {}),
    (
        "import paddle.v2 as p\np.layer.nope\np.nope.fc\np.layer.nope.x\n",
        {"v2.layer.nope": [2, 4], "v2.nope": [3]},
    ),
    ("import paddle.v2\npaddle.v2.layer.nope(1)(2)\n", {"v2.layer.nope": [2]}),
    ("from paddle import v2\nv2.layer.data(1).nope.nope\nv2.no\n", {"v2.no": [3]}),
    ("from paddle.v2.layer import fc as f, nope\nf, nope\n", {"v2.layer.nope": [1, 2]}),
    ("import paddle.v2.networks as net\nnet.simple_lstm, net.no\n", {"v2.networks.no": [2]}),
    ("import paddle.v2.nope.sub\nfrom paddle.nope import x\n", {"v2.nope": [1], "nope": [2]}),
    ("import paddle.v2.layer as L\nM = L\nclass A:\n  N = M\n  N.no\n", {"v2.layer.no": [5]}),
    (
        "import paddle.v2 as p\nl = p.layer\ndef f(x=l.no):\n  return l.no\n",
        {"v2.layer.no": [3, 4]},
    ),
    ("def f():\n  import paddle.v2 as p\n  return p.no\np.no\n", {"v2.no": [3]}),
    ("def f():\n  global p\n  import paddle.v2 as p\nf()\np.no\n", {"v2.no": [5]}),
    ("import paddle.v2 as p\n@p.no\ndef f(): pass\n[p.no for x in p.no]\n", {"v2.no": [2, 4, 4]}),
    (
        "import paddle.v2 as p\np.parameters.Parameters.from_no\n",
        {"v2.parameters.Parameters.from_no": [2]},
    ),
    ("from paddle.v2.dataset import mnist, nope\nmnist.train()\n", {"v2.dataset.nope": [1]}),
    (
        "import py_paddle.swig_paddle as api\napi.initPaddle, api.no\n",
        {"py_paddle.swig_paddle.no": [2]},
    ),
    # a name that is, or may be, something else
    ("import paddle.v2 as p\nq = p.layer\nq = {}\nq.no\n", {}),
    ("import paddle.v2 as p\nq = p.layer\nif q: q = other()\nq.no\n", {}),
    ("import paddle.v2 as p\ndef f(p):\n  return p.no\nlambda p: p.no\n", {}),
    ("import paddle.v2 as p\ndef f():\n  p = 1\n  def g():\n    return p.no\n", {}),
    ("from .paddle import v2\nfrom paddles import no\nimport my.paddle\nv2.no, my.no\n", {}),
    ("import paddle.v2 as p\nt = p.trainer.SGD()\nt.__topology__, t.no\n", {}),
    ("import paddle.v2 as p\np.no = 1\n", {}),
    ("q = q.no\nq.no\na = b\nb = a\n", {}),
    # one of two
    ("try:\n  import paddle.v2 as p\nexcept ImportError:\n  p = None\np.no\n", {"v2.no": [5]}),
    ("try: import paddle.no as p\nexcept E: import paddle.v2 as p\np.layer\np.x\n", {"no": [1, 4]}),
]


@pytest.mark.parametrize(("text", "expected"), NAMES)
def test_names(report, text, expected):
    expected = {
        name if name.startswith("py_") else f"paddle.{name}": where
        for name, where in expected.items()
    }
    assert lines(report(text).lacking) == expected


STAR = "from paddle.trainer_config_helpers import *\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STAR + "x = fc_layer(input=1, size=2)\nxrange, len, x\n", []),
        (STAR + "settings(batch_size=3)\n", ["paddle.trainer_config_helpers.settings"]),
        (STAR + "settings = 1\nsettings\n", []),
        ("import paddle.v2 as p, paddle\npaddle.trainer_config_helpers.fc_layer\n", []),
        (
            "import paddle\npaddle.trainer_config_helpers.no_layer\n",
            ["paddle.trainer_config_helpers.no_layer"],
        ),
        (STAR + "from others import *\nsettings\n", []),
        ("def f():\n  settings\n", []),
    ],
)
def test_names_that_a_star_gives(report, text, expected):
    assert list(report(text).lacking) == expected


P = "import paddle.v2 as paddle\n"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("paddle.layer.fc(input=1, size=2, no=3)", ["layer.fc(no=)"]),
        ("paddle.layer.fc(1, 2, **options)", []),
        ("paddle.layer.nce(input=1, label=2, act=3)", []),
        ("paddle.infer(output=1, parameters=2, reader=3, reader_dict=4, no=5)", ["infer(no=)"]),
        ("paddle.init(anything=1)", []),
        ("paddle.trainer.SGD(cost=1, no=2)", ["trainer.SGD(no=)"]),
        (
            "paddle.trainer.SGD(1).train(reader_dict=2, num_pass=3)",
            ["trainer.SGD.train(num_pass=)"],
        ),
        ("t = paddle.trainer.SGD(1)\nt.train(no=2, feeding=3)", ["trainer.SGD.train(no=)"]),
        ("t = paddle.trainer.SGD(1)\nt = f()\nt.train(no=2)", []),
        ("paddle.optimizer.Adam(beta1=1, learning_rate=2, no=3)", ["optimizer.Adam(no=)"]),
        ("paddle.layer.nope(no=1)", []),
        ("paddle.layer(no=1)", []),
        ("paddle.attr.Param(name=1, l2_rate=2, no=3)", ["attr.Param(no=)"]),
        ("paddle.networks.simple_gru(input=1, size=2, no=3)", ["networks.simple_gru(no=)"]),
        ("paddle.evaluator.auc(input=1, no=3)", ["evaluator.auc(no=)"]),
    ],
)
def test_keywords(report, call, expected):
    assert list(report(P + call + "\n").keywords) == [f"paddle.v2.{name}" for name in expected]


def test_programs_of_python_2(report):
    text = """import paddle.v2 as paddle
print "cost %f" % paddle.layer.nope, `paddle.no`
try:
\texec "x = 1"
except Exception, e:
        raise ValueError, paddle.event.no
print >>f, 0777, ur"x"
"""
    found = report(text)
    assert lines(found.lacking) == {
        "paddle.v2.layer.nope": [2],
        "paddle.v2.no": [2],
        "paddle.v2.event.no": [6],
    }
    assert not found.unread


def test_another_api_is_named_once_a_program(report):
    text = "import paddle.fluid as fluid\nfluid.layers.fc(no=1)\nimport paddle\npaddle.fluid.no\n"
    found = report(text)
    assert lines(found.other_apis) == {"paddle.fluid": [1]}
    assert not found.lacking and not found.keywords and not found.complete
    assert list(report("from paddle.v2.fluid import nets\n").other_apis) == ["paddle.v2.fluid"]


def test_data_sets(report):
    text = P + "from paddle.v2.dataset import imdb\npaddle.dataset.mnist.train()\n"
    text += "paddle.dataset.common.md5file\nimport paddle.v2.dataset.uci_housing as u\nu.train\n"
    found = report(text)
    assert lines(found.data_sets) == {"imdb": [2], "mnist": [3], "uci_housing": [5, 6]}
    assert found.complete
    assert "data sets" in found.as_text()


def test_a_program_is_not_run(report, tmp_path):
    text = f"open({str(tmp_path / 'ran')!r}, 'w')\nimport sys, no_such_module\nsys.exit(3)\n"
    assert report(text).complete
    assert not (tmp_path / "ran").exists()


# ---- files


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"def f(:\n", "line 1: "),
        (b"x = 1\nprint 'a' 'b',, 2\n", "line 2: "),
        ("# ça\n".encode("latin-1"), "encoding"),
        ("#\n#\nx = 'ça'\n".encode("latin-1"), "not in the encoding that it declares"),
        (b"# coding: no-such-code\n", "unknown encoding"),
        (b"x = 1\0\n", "null bytes"),
        (b"x = " + b"(" * 5000 + b")" * 5000, ""),
    ],
)
def test_files_that_do_not_parse(report, content, reason):
    found = report(content)
    assert [each.path.endswith("a.py") for each in found.unread] == [True]
    assert reason in found.unread[0].reason and found.unread[0].reason
    assert not found.complete
    assert "files that could not be read" in found.as_text()


def test_an_encoding_that_is_declared(report):
    text = "# coding: latin-1\nimport paddle.v2 as paddle\nx = 'ça'\npaddle.no\n"
    assert lines(report(text.encode("latin-1")).lacking) == {"paddle.v2.no": [4]}


def test_a_file_that_is_too_large(report, monkeypatch):
    monkeypatch.setattr(sources, "MAX_BYTES", 10)
    assert report(b"x = 1\n" * 10).unread[0].reason == "it has 60 bytes, more than 10"


def test_folders(tmp_path):
    for name in ("b.py", "in/a.py", "in/notes.txt", ".git/c.py", "__pycache__/d.py", "env/e.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(P)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    (tmp_path / "in" / "same.py").symlink_to(tmp_path / "b.py")
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    outside = tmp_path / "in" / "linked"
    outside.symlink_to(tmp_path / "env", target_is_directory=True)
    found = checks.check([str(tmp_path), str(tmp_path / "b.py")])
    reasons = {os.path.basename(each.path): each.reason for each in found.unread}
    assert reasons == {"broken.py": "No such file or directory", "pipe.py": "it is no regular file"}
    assert found.files == 4 and found.names == {"paddle.v2"}


def notebook(*cells, **more):
    return json.dumps({"cells": list(cells), **more})


def code(*source):
    return {"cell_type": "code", "source": list(source)}


def test_notebooks(report):
    text = notebook(
        {"cell_type": "markdown", "source": ["paddle.no"]},
        code("%matplotlib inline\n", "import paddle.v2 as paddle\n", "!ls\n", "x = !ls"),
        code("%%bash\n", "paddle.no ("),
        code("    print 'x'\n", "    if x:\n", "        %time\n", "    paddle.layer.no"),
        {"cell_type": "code", "source": "\npaddle.event.no"},
    )
    found = report(text, "a.ipynb")
    places = {name: [os.path.basename(p) for p in where] for name, where in found.lacking.items()}
    assert places == {
        "paddle.v2.layer.no": ["a.ipynb, cell 4:4"],
        "paddle.v2.event.no": ["a.ipynb, cell 5:2"],
    }


def test_notebooks_of_the_older_format(report):
    cell = {"cell_type": "code", "input": ["import paddle.v2.no"]}
    assert list(report(json.dumps({"worksheets": [{"cells": [cell]}]}), "a.ipynb").lacking)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"cells": [1]}', notebook(code("def (:"))])
def test_what_is_no_notebook(report, text):
    assert report(text, "a.ipynb").unread


def test_a_notebook_without_code(report):
    assert report(notebook(), "a.ipynb").complete


# ---- the report


def test_the_text(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.py").write_text(P + "paddle.no\n" * 5 + "paddle.layer.fc(no=1)\n")
    monkeypatch.chdir(tmp_path)
    assert checks.main(["a.py"]) == 1
    assert capsys.readouterr().out == (
        "names that pd_v2 lacks:\n"
        "      5  paddle.v2.no  a.py:2, a.py:3, a.py:4, ...\n"
        "\n"
        "keywords that are not taken:\n"
        "      1  paddle.v2.layer.fc(no=)  a.py:7\n"
        "\n"
        "files: 1; names of paddle: 3 used, 1 lacking, 1 keywords not taken\n"
    )


def test_the_json(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.py").write_text(P + "paddle.no\npaddle.dataset.mnist\n")
    (tmp_path / "b.py").write_text("(")
    monkeypatch.chdir(tmp_path)
    assert checks.main(["--json", "."]) == 1
    found = json.loads(capsys.readouterr().out)
    reason = found["unread"][0].pop("reason")
    assert "line 1: " in reason
    assert found == {
        "files": 2,
        "names": 3,
        "lacking": [{"name": "paddle.v2.no", "count": 1, "places": ["./a.py:2"]}],
        "keywords": [],
        "other_apis": [],
        "data_sets": [{"name": "mnist", "count": 1, "places": ["./a.py:3"]}],
        "unread": [{"file": "./b.py"}],
    }


def test_the_command(tmp_path):
    (tmp_path / "a.py").write_text(P + "print paddle.layer.fc\n")
    run = [sys.executable, "-m", "pd_v2", "check", str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "files: 1; names of paddle: 2 used, 0 lacking\n"


def test_a_path_that_does_not_exist(tmp_path, capsys):
    assert checks.main([str(tmp_path / "nowhere")]) == 2
    assert "there is no " in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["PD_LEGACY_DIR", "PD_LEGACY_MODELS_DIR"])
def test_published_programs_lack_nothing(variable):
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no checkout")
    found = checks.check([folder])
    assert found.complete, found.as_text()
    assert found.files > 10 and len(found.names) > 50
