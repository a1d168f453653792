"""Fuzzing guided by coverage, with atheris: inputs that reach new lines are changed further.

    python -m tests.campaign.fuzz.guided FORMAT SECONDS

needs `pip install atheris`. It ends with an error, and leaves the input, where one is read badly.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path


def main(name: str, seconds: int) -> None:
    """Fuzz one format for some time."""
    try:
        import atheris
    except ImportError:
        sys.exit("guided fuzzing needs atheris: pip install atheris")
    with atheris.instrument_imports(include=["pd_core", "pd_v2"]):
        from pd_v2.dataset import common

        from .formats import FORMATS
    from ..plan import Plan
    from .worker import Trials

    warnings.simplefilter("ignore")
    os.environ["PD_DATASET_CHECK"] = "0"
    with tempfile.TemporaryDirectory(prefix="pd-fuzz-") as folder:
        (Path(folder) / "trials").mkdir()
        trials = Trials(name, Plan(), Path(folder) / "trials")
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for file in trials.files:
            (corpus / file.name).write_bytes(file.read_bytes())
        file, form = trials.files[0], FORMATS[name]

        def read(data):
            file.write_bytes(data)
            try:
                form.read(Path(common.DATA_HOME))
            except form.errors as error:
                if form.named and str(trials.home) not in str(error):
                    raise

        kept = tempfile.mkdtemp(prefix="pd-fuzz-")
        limits = [
            f"-artifact_prefix={kept}/",
            f"-max_total_time={seconds}",
            "-timeout=10",
            "-rss_limit_mb=3000",
        ]
        atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", str(corpus)], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
