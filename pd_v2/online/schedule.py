"""What a training has to do next: minibatches of queued samples, and commands between them."""

from collections import deque
from dataclasses import dataclass

from .messages import Answer

_MOST_BYTES = 1 << 26  # of queued samples, as JSON
_MOST_COMMANDS = 256


@dataclass(eq=False, slots=True)
class Command:
    """A command that acts between two batches: save, pause or stop.

    `position` counts the samples that were queued before it, of all clients.
    """

    name: str
    answer: Answer
    file: str | None = None
    position: int = 0


class Schedule:
    """The queue of samples, and the commands among them.

    A command acts when fewer samples than a batch are left before it, a stop when none are. Paused,
    only samples before a stop are trained.
    """

    def __init__(self, batch_size, max_queue):
        self.batch_size, self.max_queue = batch_size, max_queue
        self.is_paused = self.is_stopping = False
        self._samples, self._commands = deque(), deque()  # (sample, bytes of JSON); Command
        self._taken = self._bytes = 0

    def __len__(self):
        return len(self._samples)

    @property
    def is_full(self):
        """Whether no more samples fit, in number or in size; at least a batch of them does."""
        n = len(self._samples)
        return n >= self.max_queue or (n >= self.batch_size and self._bytes >= _MOST_BYTES)

    def add_sample(self, sample, size):
        """Queue a sample that was `size` bytes of JSON."""
        self._samples.append((sample, size))
        self._bytes += size

    def add_command(self, command):
        """Queue a command behind the samples so far; ValueError if it comes too late."""
        if self.is_stopping and command.name != "stop":
            raise ValueError("the training stops")
        is_first_stop = command.name == "stop" and not self.is_stopping
        if len(self._commands) >= _MOST_COMMANDS and not is_first_stop:
            raise ValueError(f"{_MOST_COMMANDS} commands wait already")
        command.position = self._taken + len(self._samples)
        self._commands.append(command)
        self.is_stopping = self.is_stopping or is_first_stop

    def resume(self):
        """End the pause, and those that are queued."""
        self.is_paused = False
        for command in [c for c in self._commands if c.name == "pause"]:
            self._commands.remove(command)
            command.answer.succeed()

    def next_action(self):
        """Return what the training does next: a list of samples, a Command, or None to wait.

        Pauses act here.
        """
        while True:
            first = self._commands[0] if self._commands else None
            n = len(self._samples) if first is None else first.position - self._taken
            is_stop = first is not None and first.name == "stop"
            if n >= self.batch_size or (is_stop and n):
                if self.is_paused and not self.is_stopping:
                    return None
                return self._take(min(n, self.batch_size))
            if first is None:
                return None
            self._commands.popleft()
            if first.name != "pause":
                return first
            self.is_paused = not self.is_stopping
            first.answer.succeed()

    def drop_commands(self):
        """Return the commands that wait, and forget them."""
        commands = list(self._commands)
        self._commands.clear()
        return commands

    def _take(self, count):
        taken = [self._samples.popleft() for _ in range(count)]
        self._taken += count
        self._bytes -= sum(size for _, size in taken)
        return [sample for sample, _ in taken]
