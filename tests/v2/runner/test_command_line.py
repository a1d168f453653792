"""Options of the command line for trainings: what they set, and what is refused."""

import sys

import pytest

import pd_v2 as paddle
from pd_core.training import Log, Progress
from pd_v2 import __main__ as command
from pd_v2 import settings
from pd_v2.runner import command_line
from pd_v2.runner.options import Options, current_options, set_options


@pytest.fixture(autouse=True)
def own_options():
    """No option is left to other tests."""
    before = current_options()
    yield
    set_options(before)


@pytest.mark.parametrize(
    "arguments, leading",
    [
        ("train.py --every 3", 0),
        ("--checkpoint saved train.py --resume", 2),
        ("--checkpoint=saved --every 3 --resume train.py --keep 1", 4),
        ("--progress --check-numerics -c pass", 2),
        ("--keep=3 --logdir logs -m module", 3),
        ("--resume=yes train.py", 0),
        ("--save-best=best.tar --patience 3 --restore-best --monitor cost train.py", 6),
        ("--checkpoint", 2),
        ("", 0),
    ],
)
def test_options_are_before_the_program(arguments, leading):
    argv = arguments.split()
    assert command_line.split(argv) == (argv[:leading], argv[leading:])


@pytest.mark.parametrize(
    "arguments, text",
    [
        ("--every 3 train.py", "--every needs --checkpoint DIR"),
        ("--keep 3 train.py", "--keep needs --checkpoint DIR"),
        ("--resume train.py", "--resume needs --checkpoint DIR"),
        ("--checkpoint saved --every 0 train.py", "0 is not a positive number"),
        ("--checkpoint saved --keep -1 train.py", "-1 is not a positive number"),
        ("--checkpoint saved --every x train.py", "argument --every: x is not a positive number"),
        ("--workers 2 --max-restarts 3 train.py", "--max-restarts needs --checkpoint DIR"),
        ("--max-restarts 3 --checkpoint saved train.py", "--max-restarts needs --workers N"),
        ("--heartbeat 3 train.py", "restart does it for a command, such as mpiexec"),
        ("--workers 2 --min-workers 1 train.py", "--min-workers needs --max-restarts N"),
        (
            "--workers 2 --min-workers 3 --max-restarts 1 --checkpoint saved train.py",
            "--min-workers 3 is above --workers 2",
        ),
        ("--workers 2 --heartbeat x train.py", "x is not a positive number of seconds"),
        ("--compression int8 train.py", "--compression needs --workers N, or mpiexec"),
        ("--workers 2 --compression zip train.py", "argument --compression: invalid choice: 'zip'"),
        ("--local-steps 4 train.py", "--local-steps needs --workers N, or mpiexec"),
        ("--workers 2 --local-steps 0 train.py", "argument --local-steps: 0 is not a positive"),
        ("--workers 2 --local-steps x train.py", "argument --local-steps: x is not a positive"),
        (
            "--workers 2 --local-steps 4 --compression int8 train.py",
            "--compression and --local-steps exclude each other: what travels after local steps",
        ),
        ("--monitor test/cost train.py", "--monitor needs --save-best FILE, --patience N or"),
        ("--patience 0 train.py", "argument --patience: 0 is not a positive number"),
        ("--save-best . train.py", "--save-best .: it is a folder, and needs a file"),
        ("--checkpoint saved", "there is no program to train with"),
    ],
)
def test_wrong_options(arguments, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    with pytest.raises(SystemExit) as caught:
        command.main(arguments.split())
    assert caught.value.code == 2
    assert text in capsys.readouterr().err
    assert current_options() == Options()


def test_what_options_set(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [])
    saved, logs = str(tmp_path / "saved"), str(tmp_path / "logs")
    options = ["--checkpoint", saved, "--every", "3", "--keep", "4", "--resume"]
    options += ["--logdir", logs, "--progress", "--check-numerics"]
    parser = command._parser()
    command_line.apply(parser.parse_args([*options, "-"]))
    current = current_options()
    checkpoint = current.checkpoint
    assert isinstance(checkpoint, paddle.Checkpoint) and str(checkpoint.folder) == saved
    found = checkpoint.every_batches, checkpoint.keep, checkpoint.resume, checkpoint.on_sigterm
    assert found == (3, 4, True, True)
    assert {type(item) for item in current.items(0)} == {Log, Progress}
    assert settings.current().flags["check_numerics"]


def test_without_options(tmp_path):
    parser = command._parser()
    command_line.apply(parser.parse_args(["--checkpoint", str(tmp_path), "-"]))
    checkpoint = current_options().checkpoint
    assert (checkpoint.every_batches, checkpoint.keep, checkpoint.resume) == (None, 2, False)
    assert current_options().items(0) == []
