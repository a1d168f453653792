"""`python -m pd_v2 report`: the page of some logs, and what is said if there is none."""

import pytest
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary

from pd_v2.__main__ import main

NAME = "python -m pd_v2 report"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two runs, `a` and `b`, in the folder `logs`; the current folder is above."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / "logs" / name).mkdir(parents=True)
        writer = EventsWriter(str(tmp_path / "logs" / name / "events"))
        for step in range(1, 4):
            value = Summary.Value(tag="train/cost", simple_value=1 / step)
            writer.write_event(Event(step=step, summary=Summary(value=[value])))
        writer.close()
    return tmp_path


def test_a_page_of_several_runs(folder, capsys):
    assert main(["report", "logs"]) == 0
    assert capsys.readouterr() == ("report.html: a, b\n", "")
    assert "<!DOCTYPE html>" in (folder / "report.html").read_text()
    assert main(["report", "logs/b", "logs/a", "-o", "two.html"]) == 0
    assert capsys.readouterr() == ("two.html: b, a\n", "")


def test_a_page_that_exists_is_replaced(folder, capsys):
    (folder / "report.html").write_text("old")
    assert main(["report", "logs"]) == 0
    assert "train/cost" not in (folder / "report.html").read_text()[:10]
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert sorted(p.name for p in folder.iterdir()) == ["logs", "report.html"]


def test_damaged_records(folder, capsys):
    (path,) = (folder / "logs" / "a").iterdir()
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    assert main(["report", "logs"]) == 0
    out, err = capsys.readouterr()
    assert out == "report.html: a, b\n"
    assert err.startswith(f"{NAME}: logs/a/events.out.tfevents.") and "checksum" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none"], "none: no such folder; the folders in "),
        (["logs/c"], "logs are a, b"),
        (["empty"], "empty: there are no event files in it"),
        (["logs", "empty"], "empty: there are no event files in it"),
        (["file"], "Not a directory: 'file'"),
        (["logs", "-o", "none/report.html"], "No such file or directory"),
        (["logs", "-o", "empty"], "Is a directory: 'empty'"),
    ],
)
def test_what_does_not_work(folder, arguments, message, capsys):
    (folder / "empty").mkdir()
    (folder / "file").write_text("")
    assert main(["report", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"{NAME}: ") and err.count("\n") == 1
    assert message in err
    assert not (folder / "report.html").exists()


def test_arguments_that_are_missing(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["report"])
    assert stopped.value.code == 2 and "LOGDIR" in capsys.readouterr().err
