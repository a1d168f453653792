"""Ranks without processes: worlds of one process whose messages are queues.

Their exchanges are moved on in a random order of the ranks, as those of processes are.
"""

from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import pd_core as pd
from pd_core.distributed.buffers import Buffer
from pd_core.distributed.exchange import RankExchange
from pd_core.distributed.settings import Settings
from pd_core.distributed.world import World
from pd_core.run.exchange import use_exchange


class Request:
    def __init__(self, test):
        self._test, self._done = test, False

    def Test(self):
        self._done = self._done or self._test()
        return self._done

    @staticmethod
    def Testall(requests):
        return all(request.Test() for request in requests)


class Comm:
    """The end of one rank; `network` has what was sent and not yet received."""

    def __init__(self, network, rank, size):
        self.network, self.rank, self.size = network, rank, size
        self.sent = self.messages = self.gathered = 0

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size

    def Isend(self, data, to, tag):
        self.sent += data.nbytes
        self.messages += 1
        held = data.copy()
        self.network[self.rank, to, tag].append((held, data))
        return Request(lambda: (data == held).all() or _changed())  # not changed under way

    def Irecv(self, data, source, tag):
        queue = self.network[source, self.rank, tag]

        def take():
            if not queue:
                return False
            held, _ = queue.popleft()
            assert held.nbytes == data.nbytes
            data[:] = held
            return True

        return Request(take)

    def Iprobe(self, source, tag, status=None):
        return source >= 0 and bool(self.network[source, self.rank, tag])

    def Iallgather(self, sent, received):
        each = received.reshape(self.size, -1)
        return self._gather(sent, [slice(r, r + 1) for r in range(self.size)], each)

    def Igather(self, sent, received, root):
        every = np.empty((self.size, sent.size), np.uint8)
        request = self.Iallgather(sent, every)

        def is_done():
            if request.Test() and root == self.rank:
                received[:] = every.reshape(-1)
            return request.Test()

        return Request(is_done)

    def Iallgatherv(self, sent, message):
        received, counts, places, _ = message
        bounds = [slice(a, a + n) for a, n in zip(places, counts, strict=True)]
        own = received[bounds[self.rank]] if sent is None else sent
        self.sent += own.nbytes * (self.size - 1)
        return self._gather(own, bounds, received)

    def Ibcast(self, data, root):
        every = np.empty((self.size, data.size), np.uint8)
        request = self.Iallgather(data, every)

        def is_done():
            if request.Test():
                data[:] = every[root]
            return request.Test()

        return Request(is_done)

    def _gather(self, sent, bounds, received):
        number, self.gathered = self.gathered, self.gathered + 1
        parts = self.network["gathered", number]
        parts.append((self.rank, sent.copy()))

        def is_done():
            if len(parts) < self.size:
                return False
            for rank, part in list(parts):
                received[bounds[rank]] = part.reshape(received[bounds[rank]].shape)
            return True

        return Request(is_done)


def _changed():
    raise AssertionError("what is under way was changed")


class Mpi:
    Request, ANY_SOURCE, UNDEFINED, BYTE, IN_PLACE = Request, -1, -1, None, None

    class Status:
        pass

    class Exception(Exception):
        pass

    def __init__(self, network, rank, size):
        self.COMM_WORLD = Comm(network, rank, size)


def worlds(size):
    """Return the World of each of so many ranks."""
    network = defaultdict(deque)
    return [World(Mpi(network, rank, size), 5.0) for rank in range(size)]


def sums(arrays, function=np.add, bucket_bytes=1 << 22, wires=(), seed=0, more=False):
    """Return the sums of the ranks' arrays as each of them has them, with the worlds.

    `arrays` are those of each rank, and `wires` how they travel; with `more` the buffers, too.
    """
    every = worlds(len(arrays))
    buffers = []
    for rank, (world, own) in enumerate(zip(every, arrays, strict=True)):
        wire = wires[rank] if wires else None
        shapes = [a.shape for a in own]
        buffers.append(Buffer(world, shapes, own[0].dtype, wire, bucket_bytes))
        for k, array in enumerate(own):
            buffers[-1].fill(k, array, 1.0)
    left = [bucket for buffer in buffers for bucket in buffer.buckets]
    for bucket in left:
        bucket.begin(function)
    rng = np.random.default_rng(seed)
    for _ in range(100_000):
        if not left:
            assert not any(every[0].comm.network.values())  # no message is left over
            found = [buffer.views for buffer in buffers], every
            return (*found, buffers) if more else found
        k = int(rng.integers(len(left)))
        if left[k].advance():
            del left[k]
    raise AssertionError("an exchange does not end")


# ---- trainings


class Router:
    """The exchange of this process: each session is a rank."""

    def __init__(self, exchanges):
        self.exchanges = exchanges  # by session

    def of(self, session):
        exchange = self.exchanges.get(session)
        return None if exchange is None else exchange.of(session)

    def draw_seed(self, seed):
        return seed

    def mean(self, number):
        return number


def run(size, program, **options):
    """Return what `program(rank, session, exchange)` returns on each of so many ranks, in threads.

    `options` are those of `init`. Graphs are built before.
    """
    settings = Settings(**options)
    settings.check()
    exchanges = [RankExchange(world, settings) for world in worlds(size)]
    sessions = [pd.Session(seed=3) for _ in exchanges]
    use_exchange(Router(dict(zip(sessions, exchanges, strict=True))))
    try:
        with ThreadPoolExecutor(size) as pool:
            ranks = zip(range(size), sessions, exchanges, strict=True)
            running = [pool.submit(program, *each) for each in ranks]
            return [each.result(timeout=300) for each in running]
    finally:
        use_exchange(None)
