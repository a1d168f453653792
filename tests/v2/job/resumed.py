"""Trainings that stop and are resumed: `python -m pd_v2 --own-files resumed.py FOLDER`.

FOLDER/one has the checkpoint of one process; two ranks go on from there, and leave one in
FOLDER/two. Trainers with data of their own stop and go on in the same job.
"""

import os
import sys

import numpy as np

import pd_v2 as paddle
from tests.v2.job import programs

STOP = (1, 2)  # pass and batch


class Stopped(Exception):
    """Raised by the handler, on all ranks."""


class Stopping(programs.Seen):
    """Stops the training after a batch."""

    stop = STOP

    def __call__(self, event):
        super().__call__(event)
        is_end = isinstance(event, paddle.event.EndIteration)
        if is_end and (event.pass_id, event.batch_id) == self.stop:
            raise Stopped


class Whole(Stopping):
    """Does not stop."""

    stop = None


def local(folder=None, seen=Whole):
    """A shuffled training; its checkpoints are in `folder`."""
    return train(paddle.reader.shuffle(programs.rows(), 20), 7, folder, seen)


class StoppingLate(programs.Seen):
    """Stops the training at its end."""

    def after_pass(self, event):
        if event.pass_id == 1:
            raise Stopped


def cluster(folder=None, seen=Whole, every=2):
    """Rank 1 has more samples than rank 0."""
    rank = int(os.environ["PADDLE_INIT_TRAINER_ID"])
    return train(programs.rows(12 + 9 * rank, seed=rank), 4, folder, seen, every, is_local=False)


def train(reader, size, folder, seen, every=2, **options):
    """Train for two passes, with a checkpoint after every so many batches."""
    cost, _, _ = programs.classifier()
    pool = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Adam(learning_rate=0.02)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, **options)
    handler = seen(trainer, pool)
    checkpoint = None if folder is None else paddle.Checkpoint(folder, every)
    try:
        trainer.train(paddle.batch(reader, size), 2, handler, checkpoint=checkpoint)
    except Stopped:
        return None
    return handler.end()


def main(folder):
    """Go on, stop, and do the same as trainers of a cluster."""
    rank = os.environ["PADDLE_INIT_TRAINER_ID"]
    np.savez(f"{folder}/local-{rank}.npz", **programs.run(local, f"{folder}/one"))
    programs.run(local, f"{folder}/two", Stopping)
    np.savez(f"{folder}/whole-{rank}.npz", **programs.run(cluster))
    programs.run(cluster, f"{folder}/cluster", Stopping)
    np.savez(f"{folder}/cluster-{rank}.npz", **programs.run(cluster, f"{folder}/cluster"))
    # the last checkpoint is one after rank 0 has come to the end of its data
    programs.run(cluster, f"{folder}/late", StoppingLate, 5)
    np.savez(f"{folder}/late-{rank}.npz", **programs.run(cluster, f"{folder}/late", Whole, 5))


if __name__ == "__main__":
    main(sys.argv[1])
