"""Calls of one rank alone, among few ranks and many."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.distributed.world import BARRIER, FEW, Description
from tests.core.distributed.in_process import run

SIZES = 2, 5, FEW + 3


class Book:
    """Notes what a rank has done, in the middle of an exchange of all ranks."""

    def __init__(self, world, rank):
        self.world, self.rank, self.notes = world, rank, []
        self.key = world.calls.add(self, "book")

    def take_part(self, what, name):
        assert self.gather() is None
        self.notes.append(f"{what} {name}")

    def gather(self):
        return self.world.gather_at_callers(np.array([self.rank]), "a test")

    def read(self, text):
        assert self.gather()[:, 0].tolist() == list(range(self.world.size))
        self.notes.append(text)

    def call(self, name):
        self.world.calls.run(self.key, "read", name, lambda: self.read(f"{name} alone"))

    def meet(self):
        self.world.barrier(BARRIER, Description())


def notes(size, program):
    def of_rank(rank, session, exchange):
        book = Book(exchange.world, rank)
        program(book)
        return book.notes

    return run(size, of_rank)


@pytest.mark.parametrize("size", SIZES)
def test_the_others_take_part_where_they_wait(size):
    def program(book):
        if book.rank == size - 1:
            book.call("a")
            book.call("b")
        book.meet()
        if book.rank == 0:
            book.call("c")
        book.world.finish()

    first, *others, last = notes(size, program)
    assert all(other == ["read a", "read b", "read c"] for other in others)
    assert (first, last) == (["read a", "read b", "c alone"], ["a alone", "b alone", "read c"])


@pytest.mark.parametrize("size", SIZES)
def test_several_ranks_call_at_the_same_time(size):
    """The same; then other things, the first rank first."""

    def program(book):
        if book.rank in (0, size - 1):
            book.call("same")
            book.call("of first" if book.rank == 0 else "of last")
        book.meet()

    first, *others, last = notes(size, program)
    assert first == ["same alone", "of first alone", "read of last"]
    assert all(other == ["read same", "read of first", "read of last"] for other in others)
    assert last == ["same alone", "read of first", "of last alone"]


def test_what_a_rank_has_forgotten_is_kept():
    """Until the next meeting, and the newest of all for ever."""

    def program(rank, session, exchange):
        world = exchange.world
        old, new = Book(world, rank), Book(world, rank)
        seen = [old.notes, new.notes]
        if rank:
            del old, new
            world.barrier(BARRIER, Description())
        else:
            old.call("old")
            world.barrier(BARRIER, Description())
            new.call("new")
            try:
                old.call("old")
            except pd.GraphError as error:
                assert "rank 0 calls read of the book of" in str(error)
                seen.append("which rank 1 does not have" in str(error))
        if rank:
            with pytest.raises(pd.GraphError, match="which rank 1 does not have"):
                world.barrier(BARRIER, Description())
        return seen

    first, second = run(2, program)
    assert first == [["old alone"], ["new alone"], True]
    assert second == [["read old"], ["read new"]]


def test_a_rank_that_does_not_come_is_named():
    def program(rank, session, exchange):
        exchange.world.timeout = 0.05
        book = Book(exchange.world, rank)
        if rank == 0:
            with pytest.raises(TimeoutError, match="rank 1 of 2 did not come to a call for all"):
                book.call("a")

    run(2, program)


def test_an_end_and_a_step_disagree_as_ever():
    def program(rank, session, exchange):
        Book(exchange.world, rank)
        if rank == 0:
            exchange.world.finish()
        else:
            with pytest.raises(RuntimeError, match="rank 0 of 3 ended while rank"):
                exchange.world.barrier(BARRIER, Description())

    run(3, program)
