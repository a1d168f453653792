"""Trainers of a cluster share the chunks of a `cloud_reader`, with nothing else said."""

import json
from pathlib import Path

from pd_v2.dataset.common import convert
from tests.core.distributed import jobs


def test_every_sample_goes_to_one_trainer(tmp_path):
    def rows():
        for k in range(23):
            yield [k / 10.0, 0.5, -0.1], [k / 20.0], k

    jobs.mpiexec()
    convert(str(tmp_path), rows, 3, "rows")
    script = Path(__file__).with_name("shared_chunks.py")
    job = jobs.run(2, "-m", "pd_v2", script, f"{tmp_path}/rows-*", tmp_path)
    assert job.stdout.count("pass 2") == 2  # both are trainers, and print
    ranks = [json.loads((tmp_path / f"{r}.json").read_text()) for r in range(2)]
    passes = [seen for seen, _ in ranks]
    for number in range(3):
        every = [k for seen in passes for k in (seen[number] if number < len(seen) else [])]
        assert sorted(every) == list(range(23))
    assert all(passes), "one trainer got all chunks"
    assert ranks[0][1] == ranks[1][1]
