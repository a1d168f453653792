"""Finds a job that hangs, by the heartbeats of its ranks."""

import os
import platform
import signal
import time
from contextlib import suppress

from pd_core.distributed.heartbeat import read_heartbeats

_START_SECONDS = 600.0  # for what comes before the first evaluation: imports, data, compiling
_PROGRESS = "met", "evaluations"


class Watch:
    """What is known of the ranks of a job: it hangs if none makes progress for `limit` seconds.

    Progress is an evaluation, or that a rank comes to where all ranks meet: one that computes alone
    while others wait, as in a test, is progress of the job. Until a rank has made its first
    evaluation, the limit is `start` seconds, unless `limit` is longer; when the last one has left
    the job, there is none. `hung` says what was found, `pause` is how many seconds there are
    between two heartbeats.
    """

    def __init__(self, folder, limit, start=_START_SECONDS, clock=time.monotonic):
        self.limit, self.start, self.pause = limit, max(start, limit), min(limit / 8, 1.0)
        self.hung = None
        self._folder, self._clock = folder, clock
        self._ranks = {}  # the last heartbeat of each
        self._alive = {}  # when it came
        self._has_left = False  # a rank has come to its end
        self._progress, self._since = {}, clock()

    def look(self):
        """Read the heartbeats; return what hangs, in words, or None."""
        now = self._clock()
        beats = read_heartbeats(self._folder)
        for rank, beat in beats.items():
            if beat is not None and beat != self._ranks.get(rank):
                self._ranks[rank], self._alive[rank] = beat, now
        for rank in self._ranks.keys() - beats.keys():  # it has left the job
            del self._ranks[rank], self._alive[rank]
            self._has_left = True
        progress = {r: [beat[name] for name in _PROGRESS] for r, beat in self._ranks.items()}
        if progress != self._progress:
            self._progress, self._since = progress, now
        has_begun = any(beat["evaluations"] for beat in self._ranks.values())
        limit = self.limit if has_begun else self.start
        if now - self._since > limit and (self._ranks or not self._has_left):
            self.hung = self._words(now, limit)
        return self.hung

    def _words(self, now, limit):
        if not self._ranks:
            return f"no rank has joined the job within {limit:g} s"
        silent = [r for r, at in self._alive.items() if now - at > max(limit / 2, 2 * self.pause)]
        places = {beat["met"] for beat in self._ranks.values()}
        if silent:
            ranks, why = silent, "stopped, or the machine is down"
        elif len(places) > 1:
            ranks = [r for r, beat in self._ranks.items() if beat["met"] == min(places)]
            why = "behind the others, which wait"
        else:
            ranks, why = [*self._ranks], "no further than before"
        beats = [self._ranks[r] for r in sorted(ranks)]
        names = ", ".join(f"rank {b['rank']} (process {b['pid']} of {b['host']})" for b in beats)
        return f"no progress for {limit:g} s; {names}: {why}"

    def has_no_end(self):
        """Whether ranks have joined the job, and none of them has left it at its end.

        Open MPI that tolerates the loss of ranks ends a job with status 0 if all of them are lost.
        """
        beats = [beat or {} for beat in read_heartbeats(self._folder).values()]
        return 0 < max([beat.get("size", 0) for beat in beats], default=0) <= len(beats)

    def kill(self):
        """Kill the ranks that run on this machine, which ends the others too."""
        for beat in self._ranks.values():
            if beat["host"] == platform.node():
                with suppress(OSError):
                    os.kill(beat["pid"], signal.SIGKILL)
