"""The order of batches and commands: a pause waits, a stop takes all that came before it."""

import pytest

from pd_v2.online.messages import Answer
from pd_v2.online.schedule import Command, Schedule


def scheduled(script, batch_size=4):
    """Carry out a script: a number of samples, names of commands, '?' for all that can be done."""
    schedule, done, n = Schedule(batch_size, 1000), [], 0
    for entry in script.split():
        if entry == "?":
            while (action := schedule.next_action()) is not None:
                done.append(action.name if isinstance(action, Command) else len(action))
            done.append("|")
        elif entry == "resume":
            schedule.resume()
        elif entry.isdigit():
            for _ in range(int(entry)):
                schedule.add_sample(n, 1)
                n += 1
        else:
            schedule.add_command(Command(entry, Answer()))
    return " ".join(map(str, done)), len(schedule)


@pytest.mark.parametrize(
    ("script", "done", "left"),
    [
        ("3 ? 1 ? 9 ?", "| 4 | 4 4 |", 1),
        ("10 save ? 2 ?", "4 4 save | 4 |", 0),
        ("save ?", "save |", 0),
        ("3 save ? 1 ?", "save | 4 |", 0),
        ("6 save 6 save ?", "4 save 4 4 save |", 0),
        ("10 pause 8 ? 8 ? resume ?", "4 4 | | 4 4 4 4 |", 2),
        ("pause resume 4 ?", "4 |", 0),
        ("4 pause resume pause 4 ?", "4 |", 4),
        ("4 pause 4 pause 4 ? resume ?", "4 | 4 4 |", 0),
        ("pause ? 3 save ? 4 save ? resume ?", "| save | | 4 save |", 3),
        ("5 stop ?", "4 1 stop |", 0),
        ("stop ?", "stop |", 0),
        ("8 stop ?", "4 4 stop |", 0),
        ("pause ? 6 stop ?", "| 4 2 stop |", 0),
        ("pause 6 stop ?", "4 2 stop |", 0),
        ("6 pause 5 save 5 stop ?", "4 4 save 4 4 stop |", 0),
        ("pause ? 4 save 4 ? stop ?", "| | 4 save 4 stop |", 0),
        ("2 stop stop ?", "2 stop stop |", 0),
    ],
)
def test_orders(script, done, left):
    assert scheduled(script) == (done, left)


def test_answers_come_when_a_pause_acts():
    schedule, answers = Schedule(2, 10), [Answer() for _ in range(3)]
    schedule.add_sample("a", 1), schedule.add_sample("b", 1)
    schedule.add_command(Command("pause", answers[0]))
    assert schedule.next_action() == ["a", "b"]
    assert answers[0].line is None
    assert schedule.next_action() is None
    assert schedule.is_paused
    assert answers[0].line is not None
    schedule.add_sample("c", 1), schedule.add_sample("d", 1)
    schedule.add_command(Command("pause", answers[1]))
    assert schedule.next_action() is None
    assert answers[1].line is None
    schedule.resume()
    assert answers[1].line is not None
    assert schedule.next_action() == ["c", "d"]


def test_nothing_comes_after_a_stop():
    schedule = Schedule(2, 10)
    schedule.add_command(Command("stop", Answer()))
    for name in ("save", "pause"):
        with pytest.raises(ValueError, match="the training stops"):
            schedule.add_command(Command(name, Answer()))


def test_commands_that_wait_are_bounded():
    schedule = Schedule(2, 10)
    for _ in range(2):
        schedule.add_sample(0, 1)
    for _ in range(256):
        schedule.add_command(Command("save", Answer()))
    with pytest.raises(ValueError, match="256 commands wait already"):
        schedule.add_command(Command("save", Answer()))
    stop = Command("stop", Answer())
    schedule.add_command(stop)  # there is always room for one
    with pytest.raises(ValueError, match="256 commands wait already"):
        schedule.add_command(Command("stop", Answer()))
    assert schedule.next_action() == [0, 0]
    assert {schedule.next_action().name for _ in range(256)} == {"save"}
    assert schedule.next_action() is stop


def test_the_queue_is_bounded_in_number_and_size():
    schedule = Schedule(2, 5)
    for _ in range(4):
        schedule.add_sample(0, 1)
        assert not schedule.is_full
    schedule.add_sample(0, 1)
    assert schedule.is_full
    schedule = Schedule(2, 5)
    schedule.add_sample(0, 1 << 26)
    assert not schedule.is_full  # a batch fits, however large
    schedule.add_sample(0, 1 << 26)
    assert schedule.is_full
    schedule.next_action()
    assert not schedule.is_full


class Simple:
    """The same as one list of everything that was sent, read again from the beginning."""

    def __init__(self, batch_size):
        self.batch_size, self.sent, self.done = batch_size, [], 0

    def actions(self):
        """All actions that the messages so far lead to, those that were done included."""
        actions, samples, paused = [], [], False
        waiting = []
        for entry in self.sent:
            if entry == "resume":
                paused = False
                for w in waiting:
                    if w != "pause":
                        samples, _ = self._step(w, actions, samples, False)
                waiting = []
            elif paused and (waiting or self._waits(entry, samples)):
                waiting.append(entry)
            else:
                samples, paused = self._step(entry, actions, samples, paused)
        return actions

    def _waits(self, entry, samples):
        return isinstance(entry, int) and len(samples) + 1 == self.batch_size

    def _step(self, entry, actions, samples, paused):
        if isinstance(entry, int):
            samples = [*samples, entry]
            if len(samples) == self.batch_size:
                actions.append(samples)
                samples = []
        elif entry == "pause":
            paused = True
        else:
            actions.append(entry)
        return samples, paused


def test_random_orders(rng):
    for _ in range(300):
        size = int(rng.integers(1, 5))
        schedule, simple, done = Schedule(size, 10_000), Simple(size), []
        for n in range(int(rng.integers(5, 60))):
            kind = rng.random()
            name = "save" if kind < 0.1 else "pause" if kind < 0.2 else "resume"
            if kind > 0.3:
                simple.sent.append(n)
                schedule.add_sample(n, 1)
            elif name == "resume":
                simple.sent.append(name)
                schedule.resume()
            else:
                simple.sent.append(name)
                schedule.add_command(Command(name, Answer()))
            while (action := schedule.next_action()) is not None:
                done.append(action.name if isinstance(action, Command) else action)
            assert done == simple.actions()
        simple.sent.append("stop")
        schedule.add_command(Command("stop", Answer()))
        while (action := schedule.next_action()) is not None:
            done.append(action.name if isinstance(action, Command) else action)
        assert done[-1] == "stop"
        taken = [n for a in done if isinstance(a, list) for n in a]
        assert taken == [n for n in simple.sent if isinstance(n, int)]
        assert done.count("save") == simple.sent.count("save")
