"""The ranks of an MPI job on a Ray cluster, without ssh: `python ray_ranks.py -n 4 train.py`.

Ray keeps a core for each rank, and mpiexec starts its daemons as tasks of Ray: where it would call
ssh, it calls this file. Each machine has Python, pd-onnx[cluster], Ray and the program at the same
paths. A task that is lost ends the job; put `pd-v2 restart` before this line to go on.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as Inside


@ray.remote(num_cpus=0, max_retries=0)
def shell(line, environment):
    """Run a shell command on a machine; return its exit status."""
    return subprocess.run(["sh", "-c", line], env=os.environ | environment).returncode


@ray.remote(num_cpus=0)
def address():
    return ray.util.get_node_ip_address()


def agent(host, *words):
    """Run a command on the machine of an address, as ssh does."""
    ray.init(os.environ["RAY_ADDRESS"], log_to_driver=True, logging_level="ERROR")
    node = next(n["NodeID"] for n in ray.nodes() if n["Alive"] and n["NodeManagerAddress"] == host)
    strategy = On(node, soft=False)
    return ray.get(shell.options(scheduling_strategy=strategy).remote(" ".join(words), {}))


def run(ranks, command):
    """Run a program on ranks, each with a core that Ray keeps for it; return the exit status."""
    ray.init(os.environ.get("RAY_ADDRESS"), logging_level="ERROR")
    group = placement_group([{"CPU": 1}] * ranks)
    ray.get(group.ready())
    places = [Inside(group, placement_group_bundle_index=k) for k in range(ranks)]
    hosts = Counter(ray.get([address.options(scheduling_strategy=p).remote() for p in places]))
    beside = Path(sys.executable).parent
    mpiexec = shutil.which("mpiexec", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    line = [mpiexec, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--host"]
    line += [",".join(f"{host}:{count}" for host, count in hosts.items())]
    line += ["--prtemca", "plm_ssh_agent", f"{sys.executable} {Path(__file__).resolve()} --agent"]
    environment = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address, "PYTHONHASHSEED": "0"}
    task = shell.options(scheduling_strategy=places[0])
    return ray.get(task.remote(shlex.join([*line, *command]), environment))


def main(argv):
    if argv[:1] == ["--agent"]:
        return agent(*argv[1:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, required=True, help="the number of ranks")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="a program with its arguments")
    options = parser.parse_args(argv)
    return run(options.n, [sys.executable, *options.program])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
