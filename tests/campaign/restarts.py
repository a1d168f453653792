"""kill -9 at random moments of jobs of several processes, under `--max-restarts`.

Killed is a rank, mpiexec or the launcher; a launcher that was killed is started again by the same
command, as whatever watches it does. Each training has to end with the bytes of one that nobody
disturbed.
"""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .plan import Plan, Row

ROOT = Path(__file__).resolve().parents[2]
KILLS = 20  # of a program, in the long form
IN_A_JOB = 10  # kills
VICTIMS = "rank 0", "rank 1", "rank 0", "rank 1", "mpiexec", "launcher"
SECONDS = 600.0  # for a job to end
RESTARTS = 3 * IN_A_JOB  # those that a kill does not cause are a defect
_MODULE = "tests.v2.job.restarted"


def run(plan: Plan) -> list[Row]:
    """Kill every program; a row for each."""
    from tests.v2.job.restarted import PROGRAMS

    return [_killed(name, plan) for name in PROGRAMS]


def command(name: str, folder: Path) -> list[str]:
    """Return the command line of a program under supervision."""
    program = ["-m", _MODULE, name, str(folder / "end")]
    python = [sys.executable, "-m", "pd_v2"]
    restarts = ["--max-restarts", str(RESTARTS)]
    if name == "core":
        from tests.core.distributed.jobs import mpiexec

        return [*python, "restart", *restarts, mpiexec(), "-n", "2", sys.executable, *program]
    saved = ["--checkpoint", str(folder / "saved"), "--every", "10", "--resume"]
    return [*python, "--workers", "2", *restarts, *saved, *program]


def _killed(name, plan):
    row, rng = Row("restarts", name), plan.rng("restarts", name)
    kills, slowest, started_again = 0, 0.0, 0
    with tempfile.TemporaryDirectory(prefix="pd-restarts-") as home:
        start = time.monotonic()
        job = Job(name, Path(home))
        job.wait()
        whole, seconds = job.digest(), time.monotonic() - start
        if whole is None or job.restarts():
            row.add("failed", f"without a kill: {job.said()}")
            return row
    while kills < plan.count(2, KILLS):
        with tempfile.TemporaryDirectory(prefix="pd-restarts-") as home:
            job, killed = Job(name, Path(home)), []
            while len(killed) < IN_A_JOB and kills + len(killed) < plan.count(2, KILLS):
                victim = VICTIMS[rng.integers(len(VICTIMS))]
                if not job.kill(victim, rng.random() * seconds):
                    break
                killed.append(victim)
            end = time.monotonic()
            job.wait()
            slowest = max(slowest, time.monotonic() - end)
            started_again += job.restarts()
            how = f"{', '.join(killed)} after {kills} kills of seed {plan.seed}: {job.said()}"
            if job.is_hanging:
                outcome = "hang"
            elif job.digest() is None:
                outcome = "failed"
            else:
                outcome = "right" if job.digest() == whole else "silent difference"
            for _ in killed:
                row.add(outcome, how)
            kills += len(killed)
            if outcome != "right":
                break
    row.figures = f"{seconds:.0f} s undisturbed; {started_again} restarts; {slowest:.0f} s at most"
    return row


class Job:
    """A job of two ranks, which is killed and started again."""

    def __init__(self, name: str, folder: Path):
        self.folder, self.command = folder, command(name, folder)
        self.is_hanging = False
        self.start()

    def start(self) -> None:
        """Start the launcher."""
        from tests.core.distributed.jobs import OWN

        with open(self.folder / "said", "ab") as said:
            self.launcher = subprocess.Popen(
                self.command, env=os.environ | OWN, cwd=self.folder, stdout=said, stderr=said
            )

    def kill(self, victim: str, seconds: float) -> bool:
        """Kill a process after so many seconds; return whether it was there."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.launcher.poll() is not None:
                return False
            time.sleep(0.01)
        pid = self._pid(victim)
        if pid is None:
            return False
        os.kill(pid, signal.SIGKILL)
        if victim == "launcher":
            self.launcher.wait()
            self.start()
        return True

    def _pid(self, victim):
        """The process of a victim; it may take a moment until there is one."""
        end = time.monotonic() + 60.0
        while self.launcher.poll() is None and time.monotonic() < end:
            found = [self.launcher.pid]
            for _ in range(["launcher", "mpiexec"].index(victim) if victim[0] != "r" else 2):
                found = children(found[0])
                if not found:
                    break
            if victim[0] != "r" and found:
                return found[0]
            if len(found) == 2:
                return found[int(victim[-1])]
            time.sleep(0.01)
        return None

    def wait(self) -> None:
        """Wait for the end; a job that does not come to it is ended."""
        try:
            self.launcher.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.is_hanging = True
            for parent in children(self.launcher.pid):
                for pid in [*children(parent), parent]:
                    os.kill(pid, signal.SIGKILL)
            self.launcher.kill()
            self.launcher.wait()

    def digest(self) -> str | None:
        """Return the sum of what the training wrote, None if it failed."""
        end = self.folder / "end"
        if self.launcher.returncode or not end.exists():
            return None
        return hashlib.sha256(end.read_bytes()).hexdigest()

    def said(self) -> str:
        """Return the end of what it printed."""
        return (self.folder / "said").read_text(errors="replace")[-1500:]

    def restarts(self) -> int:
        """Return how often the launcher has started it again."""
        return (self.folder / "said").read_text(errors="replace").count("; restart ")


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, oldest first."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        if parent == pid:
            found.append(int(path.parent.name))
    return sorted(found)
