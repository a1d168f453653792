"""The ledger: leases that end in every way, passes, positions, and what the journal says."""

import sqlite3

import pytest

from pd_v2.master.journal import describe, read_journal
from pd_v2.master.ledger import Ledger

FILES = [["a", 10], ["b", 20]]


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self):
        return self.now


class Book:
    """A ledger of three tasks in a file, with a clock."""

    def __init__(self, folder, **options):
        self.path, self.clock = folder / "ledger", Clock()
        self.options = {"lease_seconds": 10, "task_seconds": 100, **options}
        self.open()

    def open(self):
        self.ledger = Ledger(self.path, clock=self.clock, **self.options)
        self.dataset = self.ledger.add_dataset("job", ["*"], FILES, [[0], [0, 7]])

    def lease(self, process, pass_id=0, worker=None):
        return self.ledger.lease(self.dataset, pass_id, process, worker or process)

    def take(self, process, pass_id=0):
        """Lease a task, and return its number and that of the lease."""
        answer = self.lease(process, pass_id)
        return answer["task"], answer["lease"]

    def read(self, process, pass_id=0):
        """Read a pass to its end; return the tasks."""
        tasks = []
        while "lease" in (answer := self.lease(process, pass_id)):
            tasks.append(answer["task"])
            assert self.ledger.finish(answer["lease"], 5)
        assert answer == {"dropped": []}
        return tasks

    def outcomes(self, pass_id=0):
        """The leases in the journal: task, worker and outcome of each."""
        (one,) = (p for p in read_journal(self.path) if p.number == pass_id)
        return [(row["task"], row["worker"], row["outcome"]) for row in one.leases]

    def text(self):
        return "\n".join(line for one in read_journal(self.path) for line in describe(one))


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


def test_a_pass_hands_out_each_task_once(book):
    answer = book.lease("p", worker="rank 0")
    assert answer == {"lease": 1, "pass": 0, "task": 0, "file": "a", "offset": 0}
    book.ledger.finish(1, 5)
    assert book.lease("q") == {"lease": 2, "pass": 0, "task": 1, "file": "b", "offset": 0}
    book.ledger.finish(2, 5)
    assert book.read("p") == [2]
    assert book.outcomes() == [(0, "rank 0", "done"), (1, "q", "done"), (2, "p", "done")]
    (one,) = read_journal(book.path)
    assert one.is_complete and one.records == 15
    assert book.text() == (
        'job ["*"] pass 0: 3 of 3 chunks done exactly once, 15 records; leases: 3 done'
    )


def test_passes_do_not_depend_on_each_other(book):
    book.take("p", 0)
    assert book.read("p", 1) == [0, 1, 2]
    assert book.read("q", 7) == [0, 1, 2]
    assert book.read("q", 7) == []
    assert "pass 0: 0 of 3 chunks" in book.text() and "done 0 times" in book.text()


def test_only_leases_of_others_are_waited_for(book):
    own, other = book.take("p")[1], book.take("q")[1]
    assert book.read("p", 1) == [0, 1, 2]
    last = book.take("p")[1]
    assert book.lease("p") == {"wait": True}
    assert book.ledger.finish(other, 1)
    assert book.lease("p") == {"dropped": []}  # though it has two leases itself
    assert book.lease("q") == {"wait": True}
    assert book.ledger.finish(own, 1) and book.ledger.finish(last, 1)
    assert book.lease("q") == {"dropped": []}


def test_an_expired_lease_goes_to_another(book):
    task, lease = book.take("lost")
    book.take("q")
    book.clock.now = 10.0
    book.ledger.renew([lease + 1])
    book.clock.now = 10.5
    assert book.take("q")[0] == task
    assert not book.ledger.finish(lease, 3)
    assert not book.ledger.finish(lease, 3)
    assert book.outcomes()[0] == (0, "lost", "expired")
    assert "lease 1 of lost: a at byte 0 expired, finished too late" in book.text()


def test_an_expired_lease_that_nobody_has_got_is_finished(book):
    task, lease = book.take("slow")
    book.clock.now = 50.0
    assert book.take("q")[0] == task == 0
    assert book.take("q")[0] == 1
    book.ledger.release(3, 0)
    slow = book.take("slow")
    book.clock.now = 70.0
    book.lease("q", 1)  # ends leases of pass 0 too
    assert (slow[0], book.outcomes()[3]) == (1, (1, "slow", "expired"))
    assert book.ledger.finish(slow[1], 5)
    assert book.outcomes()[3] == (1, "slow", "done") and not book.ledger.finish(lease, 5)


def test_a_renewed_lease_ends_with_its_task(book):
    _, lease = book.take("hangs")
    for now in range(5, 101, 5):
        book.clock.now = float(now)
        book.ledger.renew([lease])
        assert book.outcomes()[0][2] is None
    book.clock.now = 101.0
    assert book.take("q")[0] == 0


def test_a_task_that_fails_comes_last_and_is_dropped(book):
    for attempt in (1, 2, 3):
        task, lease = book.take("p")
        while task != 0:
            assert book.ledger.finish(lease, 5)
            task, lease = book.take("p")
        dropped = book.ledger.fail(lease, f"damaged {attempt}")
        assert dropped is (attempt == 3) and book.ledger.fail(lease, "again") is dropped
    assert book.lease("q")["dropped"] == [["a", 0, "damaged 3"]]
    assert [task for task, _, _ in book.outcomes()] == [0, 1, 2, 0, 0]
    assert "lease 1 of p: a at byte 0 failed after 0 records: damaged 1" in book.text()
    assert book.lease("p", 1)["task"] == 0


def test_released_tasks_are_handed_out_again(book):
    book.take("p")
    book.take("p")
    book.ledger.release(1, 3)
    book.ledger.release_process("p")
    assert book.outcomes() == [(0, "p", "released"), (1, "p", "released")]
    assert book.read("q") == [0, 1, 2]
    assert "a at byte 0 released after 3 records" in book.text()


def test_answers_that_were_lost_are_asked_for_again(book):
    _, lease = book.take("p")
    assert book.ledger.finish(lease, 5) and book.ledger.finish(lease, 5)
    book.ledger.release(lease, 5)
    assert book.ledger.add_dataset("job", ["*"], FILES, [[0], [0, 7]]) == book.dataset
    assert book.read("p") == [1, 2]


def test_leases_remain_when_a_master_is_killed(book):
    _, lease = book.take("p")
    book.clock.now = 90.0  # the master was away
    book.open()
    book.ledger.renew_all()
    assert book.take("q")[0] == 1 and book.ledger.finish(lease, 5)
    assert book.read("q") == [2]


def test_workers_in_step_do_not_wait(tmp_path):
    """What a dead one has left behind is handed out in the next pass."""
    book = Book(tmp_path, waits=False)
    book.take("dead")
    abandoned = book.take("other")[1]
    assert book.read("p") == [2]
    book.ledger.release(abandoned, 1)
    book.clock.now = 50.0
    answer = book.lease("q", 1)
    assert (answer["pass"], answer["task"]) == (1, 0)
    assert book.ledger.finish(answer["lease"], 5)
    assert book.read("q", 1) == [1, 2, 0]
    assert book.outcomes()[0] == (0, "dead", "expired")
    assert [(row[0], row[2]) for row in book.outcomes() if row[1] == "q"] == [(0, "done")]
    assert "pass 0: 2 of 3 chunks done exactly once" in book.text()


def position(book, process, done, chunk, pass_id=1, worker="w"):
    return book.ledger.resume(book.dataset, pass_id, process, worker, done, chunk)


def test_a_worker_goes_on_at_a_position(book):
    """It had done task 0 and was in task 1; later it did all of that pass and some of the next."""
    for pass_id in (1, 2):
        for _ in range(3 if pass_id == 1 else 1):
            assert book.ledger.finish(book.lease("old", pass_id, "w")["lease"], 5)
    book.lease("old", 2, "w")
    answer = position(book, "new", [0], [1, 1])
    assert (answer["pass"], answer["task"]) == (1, 1)
    assert book.ledger.finish(answer["lease"], 5)
    assert book.read("new", 1) == [2] and book.read("new", 2) == [0, 1, 2]
    assert [row[2] for row in book.outcomes(2)] == ["rewound", "rewound", *["done"] * 3]
    assert [row[2] for row in book.outcomes(1)] == ["done", "rewound", "rewound", "done", "done"]
    assert all(one.is_complete for one in read_journal(book.path))


def test_others_keep_what_they_have_at_a_position(book):
    assert book.ledger.finish(book.lease("p", 1, "w")["lease"], 5)
    for _ in range(2):
        assert book.ledger.finish(book.lease("other", 1)["lease"], 5)
    assert position(book, "new", [], [1, 1]) is None
    assert book.read("new", 1) == [0]


def test_a_new_ledger_learns_a_position(book):
    answer = position(book, "new", [0, 2], [1, 1])
    assert answer["task"] == 1 and book.ledger.finish(answer["lease"], 5)
    assert book.read("new", 1) == []
    (one,) = read_journal(book.path)
    assert one.is_complete and one.outcomes == {"restored": 2, "done": 1}


def test_one_trainer_saves(book):
    assert book.ledger.may_save("job", "one", 5)
    assert not book.ledger.may_save("job", "two", 5)
    assert book.ledger.may_save("job", "one", 5) and book.ledger.may_save("else", "two", 5)
    book.clock.now = 5.0
    assert book.ledger.may_save("job", "two", 5)


def test_wrong_requests(book):
    with pytest.raises(ValueError, match=r"there is no dataset 9; was the state replaced\?"):
        book.ledger.lease(9, 0, "p", "p")
    with pytest.raises(ValueError, match=r"there is no lease 9; was the state replaced\?"):
        book.ledger.finish(9, 0)
    with pytest.raises(ValueError, match="2 files, offsets of 1"):
        book.ledger.add_dataset("new", ["*"], FILES, [[0]])
    for changed in ([["a", 11], FILES[1]], [FILES[0]], [*FILES, ["c", 1]]):
        with pytest.raises(ValueError, match="the dataset of the job 'job' has changed: "):
            book.ledger.find_dataset("job", ["*"], changed)
    assert book.ledger.find_dataset("job", ["other"], FILES) is None


def test_an_error_leaves_nothing_behind(book):
    with pytest.raises(sqlite3.Error):
        book.ledger.add_dataset("new", ["*"], FILES, [[0], [{}]])
    assert book.ledger.find_dataset("new", ["*"], FILES) is None
