"""Mutation fuzzing: mutants of small files of every format are read in processes of their own."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import local

from ..plan import Plan, Row
from .watch import Worker

TRIALS = 3200  # of a format, in the long form


def run(plan: Plan) -> list[Row]:
    """Fuzz every format; a row for each."""
    from .formats import FORMATS  # imports the packages

    names = list(FORMATS)
    here, workers = local(), list[Worker]()

    def fuzz(name):
        if not hasattr(here, "worker"):
            here.worker = Worker()
            workers.append(here.worker)
        row = Row("fuzz", name)
        for number, outcome, text in here.worker.trials(name, plan.seed, plan.count(25, TRIALS)):
            again = f'python -m tests.campaign.fuzz.worker "{name}" {plan.seed} {number}'
            row.add(outcome, f"{text} ({again})")
        return row

    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(fuzz, names))
    finally:
        for worker in workers:
            worker.close()
