"""Jobs that are started again: with fewer workers, when they hang, and by other launchers."""

import json
import os
import shlex
import sys
import time

import pytest

from pd_core import distributed
from pd_core.distributed import heartbeat, process
from pd_core.storage.folders import lock_folder
from pd_v2 import __main__ as command
from pd_v2 import restart
from pd_v2.job import supervise
from pd_v2.job.supervise import Policy
from pd_v2.job.watch import Watch
from tests.core.distributed import jobs


def beat(folder, rank=0, host="there", **content):
    known = {"rank": rank, "host": host, "pid": 7, "beats": 1, "met": 3, "evaluations": 2}
    (folder / f"rank-{rank}").write_text(json.dumps(known | content))


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def watched(tmp_path):
    """A function that lets seconds pass, and looks at the heartbeats of a folder."""
    clock = Clock()
    watch = Watch(tmp_path, 10.0, 60.0, clock)

    def look(seconds):
        clock.seconds += seconds
        return watch.look()

    return look


def test_progress_of_any_rank_is_progress(watched, tmp_path):
    """One rank tests alone, and the others wait."""
    beat(tmp_path, 1)
    for number in range(5):
        beat(tmp_path, 0, evaluations=number, beats=number)
        assert watched(9.0) is None
    assert watched(9.0) is None
    (tmp_path / "rank-1").write_text("{")  # while it is written
    assert "no progress for 10 s" in watched(2.0)


def test_imports_and_compiling_have_their_own_limit(watched, tmp_path):
    assert watched(50.0) is None
    beat(tmp_path, evaluations=0)
    watched(0.0)
    assert watched(59.0) is None
    beat(tmp_path, evaluations=1, beats=2)
    watched(0.0)
    assert watched(9.0) is None
    assert watched(2.0).startswith("no progress for 10 s")


def test_a_job_that_nobody_joins_hangs(watched):
    assert watched(50.0) is None
    assert watched(11.0) == "no rank has joined the job within 60 s"


def test_the_end_of_a_program_has_no_limit(watched, tmp_path):
    beat(tmp_path, 0)
    assert watched(1.0) is None
    (tmp_path / "rank-0").unlink()
    assert watched(1000.0) is None and watched(1000.0) is None


@pytest.mark.parametrize(
    ("late", "words"),
    [
        ({"met": 2}, "10 s; rank 1 (process 7 of there): behind the others, which wait"),
        ({"beats": 0}, "10 s; rank 1 (process 7 of there): stopped, or the machine is down"),
        ({}, "rank 0 (process 7 of there), rank 1 (process 7 of there): no further than"),
    ],
    ids=["behind", "stopped", "all"],
)
def test_who_hangs_is_named(late, words, watched, tmp_path):
    for number in range(1, 13):
        beat(tmp_path, 0, beats=number)
        beat(tmp_path, 1, **{"beats": number, **late})
        said = watched(1.0)
    assert words in said


def test_ranks_of_other_machines_are_not_killed(tmp_path, monkeypatch):
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    watch = Watch(tmp_path, 1.0)
    beat(tmp_path, 0)
    beat(tmp_path, 1, host=os.uname().nodename, pid=8)
    watch.look()
    watch.kill()
    assert killed == [(8, 9)]


def test_a_rank_sends_heartbeats(tmp_path, monkeypatch):
    monkeypatch.setenv("PD_HEARTBEAT", f"0.005:{tmp_path}")
    distributed.init()
    try:
        before = heartbeat.read_heartbeats(tmp_path)[0]
        assert before["pid"] == os.getpid() and before["met"] == 0
        distributed.barrier()
        end = time.monotonic() + 20.0
        while heartbeat.read_heartbeats(tmp_path).get(0, before)["met"] == 0:
            assert time.monotonic() < end
    finally:
        distributed.shutdown()
    assert heartbeat.read_heartbeats(tmp_path) == {}


@pytest.mark.parametrize("setting", ["x:/folder", "0:/folder", "1", "1:"])
def test_a_wrong_setting_is_an_error(setting, monkeypatch):
    monkeypatch.setenv("PD_HEARTBEAT", setting)
    with pytest.raises(ValueError, match="PD_HEARTBEAT is SECONDS:FOLDER, not"):
        distributed.init()
    assert not process._heartbeats and not distributed.is_initialized()


BEAT = {"rank": 0, "host": "there", "pid": 1, "beats": 1, "met": 1, "evaluations": 1}
HANGS = f"""\
echo {shlex.quote(json.dumps(BEAT))} > "${{PD_HEARTBEAT#*:}}/rank-0"
exec sleep 60
"""


class Runs:
    """A job that does another thing each time; `counts` are its numbers of workers."""

    def __init__(self, *texts):
        self.texts, self.counts = list(texts), []

    def prepared(self, workers, is_again):
        assert is_again == bool(self.counts)
        self.counts.append(workers)
        return ["sh", "-c", self.texts[len(self.counts) - 1]], dict(os.environ)

    def supervised(self, workers, **policy):
        return supervise.supervise(self.prepared, lambda n: f"line {n}", workers, Policy(**policy))


def test_a_job_that_hangs_is_started_again(capfd):
    job = Runs(HANGS, "exit 0")
    assert job.supervised(2, restarts=1, heartbeat=0.2) == 0
    text = capfd.readouterr().err
    assert "the job hung: no progress for 0.2 s; rank 0 (process 1 of there): stopped" in text
    assert Runs(HANGS).supervised(2, heartbeat=0.2) == 124


@pytest.mark.parametrize("heartbeat", [None, 5.0])
def test_a_job_that_lost_all_ranks_has_failed(heartbeat, capfd):
    """Open MPI with --with-ft ulfm says 0; one that lost some of its ranks has come to its end."""
    lines = [
        f'[ -z "$PD_HEARTBEAT" ] || echo {shlex.quote(json.dumps(BEAT | {"size": size}))} '
        '> "${PD_HEARTBEAT#*:}/rank-0"'
        for size in (1, 2)
    ]
    job = Runs(*lines)
    assert job.supervised(2, restarts=3, heartbeat=heartbeat, is_local=False) == 0
    assert job.counts == [2, 2]
    text = "the job ended with exit status 0, but no rank of it has come to the end of the program"
    assert f"{text}; restart 1 of 3" in capfd.readouterr().err


AGENT = """#!/bin/sh
echo "ssh: connect to host $3 port 22: No route to host" >&2
exit 255
"""


def test_a_machine_that_is_down(tmp_path, monkeypatch, capfd):
    """What mpiexec says, and what the exit status of it means, which is none of a signal."""
    agent, hosts = tmp_path / "agent", tmp_path / "hosts"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    hosts.write_text("no-such-machine slots=2\n")
    for name, value in (jobs.OWN | {"TMPDIR": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PRTE_MCA_plm_ssh_agent", f"{agent} -o ConnectTimeout=10")
    job = [jobs.mpiexec(), "-n", "2", "--hostfile", str(hosts), "true"]
    assert restart.main(["--max-restarts", "1", *job]) == 255
    text = capfd.readouterr().err
    assert text.count("ssh: connect to host no-such-machine port 22: No route to host") == 2
    ended = "the job ended with exit status 255: a machine may be down or have another name"
    assert f"{ended}, see what mpiexec says above; restart 1 of 1" in text
    assert text.count(ended) == 2
    assert "signal" not in text


def test_an_exit_status_that_is_no_signal(capfd):
    assert Runs("exit 250").supervised(2) == 250
    assert "the job ended with exit status 250\n" in capfd.readouterr().err


def saves(folder, batches):
    """A shell command that makes a checkpoint."""
    return f"mkdir -p {folder} && cp -r {folder}-made {folder}/batch-{batches:05} && exit 1"


def test_a_job_without_progress_has_fewer_workers(tmp_path, capfd):
    from pd_core.training.checkpoint import Checkpoint, write_checkpoint

    folder = tmp_path / "saved"
    write_checkpoint(f"{folder}-made", Checkpoint({}))
    job = Runs("exit 1", "exit 1", saves(folder, 1), "exit 1", "exit 1", "exit 1", "exit 0")
    assert job.supervised(4, restarts=9, least=2, checkpoint=str(folder)) == 0
    assert job.counts == [4, 3, 2, 2, 2, 2, 2]
    job = Runs(*["exit 1"] * 2, saves(folder, 2), *["exit 1"] * 4)
    assert job.supervised(5, restarts=5, least=2, checkpoint=str(folder)) == 1
    assert job.counts == [5, 4, 3, 3, 2, 2]
    said = capfd.readouterr().err
    assert f"restart 3 of 5 from {folder}/batch-00002 with 3 workers" in said
    assert said.endswith(f"  hint: line 2\n    goes on from {folder}/batch-00002\n")


def test_an_earlier_job_is_waited_for(tmp_path, capfd, monkeypatch):
    lock = lock_folder(tmp_path)
    monkeypatch.setattr(supervise.time, "sleep", lambda seconds: lock.close())
    assert Runs("exit 0").supervised(1, checkpoint=str(tmp_path)) == 0
    assert f"waits for another training that writes checkpoints to {tmp_path}" in (
        capfd.readouterr().err
    )


# ---- other launchers


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    """The path of a launcher that fails twice, and where it writes its arguments."""
    path = tmp_path / "mpiexec"
    path.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n'
        f"[ $(wc -l < {tmp_path}/calls) -gt 2 ] || exit 1\n"
    )
    path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return str(path), tmp_path / "calls"


def test_a_command_is_started_again(launcher, capfd):
    path, calls = launcher
    line = [path, "-np", "3", "--hostfile", "h", "pd-v2", "--checkpoint", "saved", "--resume", "t"]
    assert command.main(["restart", "--min-workers", "2", *line]) == 0
    program = "--hostfile h pd-v2 --checkpoint saved --resume t"
    assert calls.read_text() == "".join(f"-np {n} {program}\n" for n in (3, 2, 2))
    assert "restart 1 of 3 from the beginning: there is no checkpoint" in capfd.readouterr().err


def test_the_end_says_which_command_resumes(launcher, capfd):
    path, _ = launcher
    line = [path, "--ntasks=2", "python", "train.py"]
    options = ["--max-restarts", "1", "--checkpoint", "a b"]
    assert restart.main([*options, "--", *line]) == 1
    last = capfd.readouterr().err.splitlines()[-2:]
    assert last[0].endswith(f" restart --max-restarts 1 --checkpoint 'a b' -- {shlex.join(line)}")
    assert last[1] == "    goes on from the beginning: there is no checkpoint"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "there is no command, such as mpiexec -n 4"),
        ("no-such-mpiexec -n 2", "there is no command 'no-such-mpiexec'"),
        ("sh pd-v2 --checkpoint=a t.py", "hint: sh pd-v2 --resume --checkpoint=a t.py"),
        ("--min-workers 2 sh t.py", "sh has no option -n, -np or --ntasks with a number"),
        ("--min-workers 3 sh -n 2 t.py", "--min-workers 3 is above -n 2"),
        ("--min-workers 1 sh -n 2 t.py", "--min-workers needs --checkpoint DIR"),
        ("--heartbeat 0 sh", "0 is not a positive number of seconds"),
        ("--heartbeat nan sh", "nan is not a positive number of seconds"),
    ],
)
def test_wrong_commands(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["restart", *arguments.split()])
    assert caught.value.code == 2 and message in capsys.readouterr().err
    assert sys.argv  # untouched
