"""The files of demos/scheduling: a manifest for Kubernetes, and ranks on a Ray cluster."""

import os
import re
import subprocess
import sys

import pytest

from pd_v2 import restart
from tests.core.distributed import jobs

FOLDER = jobs.ROOT / "demos" / "scheduling"

# The fields of an MPIJob, kubeflow.org/v2beta1, and of what it contains of Kubernetes' own: each
# name with its type, a tuple of allowed values, a list of one type, or fields again.
CONTAINER = {
    "name": str,
    "image": str,
    "command": [str],
    "args": [str],
    "env": [{"name": str, "value": str}],
    "resources": {"limits": dict, "requests": dict},
    "volumeMounts": [{"name": str, "mountPath": str}],
}
POD = {
    "containers": [CONTAINER],
    "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str}}],
}
REPLICA = {
    "replicas": int,
    "restartPolicy": ("Never", "OnFailure"),
    "template": {"metadata": dict, "spec": POD},
}
MPI_JOB = {
    "apiVersion": ("kubeflow.org/v2beta1",),
    "kind": ("MPIJob",),
    "metadata": {"name": str, "namespace": str, "labels": dict},
    "spec": {
        "slotsPerWorker": int,
        "runLauncherAsWorker": bool,
        "sshAuthMountPath": str,
        "launcherCreationPolicy": ("AtStartup", "WaitForWorkersReady"),
        "mpiImplementation": ("OpenMPI", "Intel", "MPICH"),
        "runPolicy": {
            "cleanPodPolicy": ("None", "Running", "All"),
            "ttlSecondsAfterFinished": int,
            "activeDeadlineSeconds": int,
            "backoffLimit": int,
            "suspend": bool,
        },
        "mpiReplicaSpecs": {"Launcher": REPLICA, "Worker": REPLICA},
    },
}


def mistakes(value, schema, place="job"):
    """Yield what a value has that a schema does not allow."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            yield f"{place} is {value!r}"
            return
        yield from (f"{place} has no field {name}" for name in value.keys() - schema.keys())
        for name in value.keys() & schema.keys():
            yield from mistakes(value[name], schema[name], f"{place}.{name}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            yield f"{place} is {value!r}"
            return
        for k, each in enumerate(value):
            yield from mistakes(each, schema[0], f"{place}[{k}]")
    elif isinstance(schema, tuple):
        if value not in schema:
            yield f"{place} is {value!r}"
    elif type(value) is not schema:
        yield f"{place} is {value!r}"


def manifest():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((FOLDER / "mpijob.yaml").read_text(encoding="utf-8"))


def test_the_manifest_has_fields_of_the_operator():
    job = manifest()
    assert list(mistakes(job, MPI_JOB)) == []
    replicas = job["spec"]["mpiReplicaSpecs"]
    assert replicas["Launcher"]["replicas"] == 1
    mounted = [
        {mount["name"] for mount in container["volumeMounts"]}
        for replica in replicas.values()
        for container in replica["template"]["spec"]["containers"]
    ]
    assert mounted == [{"data"}, {"data"}]
    job["spec"]["slots"], job["spec"]["slotsPerWorker"] = 2, "2"
    job["kind"] = "Job"
    assert sorted(mistakes(job, MPI_JOB)) == [
        "job.kind is 'Job'",
        "job.spec has no field slots",
        "job.spec.slotsPerWorker is '2'",
    ]


def test_the_launcher_of_the_manifest_starts_as_many_ranks(monkeypatch):
    """Its command line is one that `pd-v2 restart` takes."""
    spec = manifest()["spec"]
    (launcher,) = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    seen = []

    def supervise(prepared, line, workers, policy):
        seen.append((workers, policy, prepared(workers, False)[0]))
        return 0

    monkeypatch.setattr(restart, "supervise", supervise)
    monkeypatch.setattr(restart.shutil, "which", lambda name: name)
    assert launcher["command"][:2] == ["pd-v2", "restart"]
    assert restart.main([*launcher["command"][2:], *launcher["args"]]) == 0
    ((workers, policy, command),) = seen
    assert workers == spec["slotsPerWorker"] * spec["mpiReplicaSpecs"]["Worker"]["replicas"]
    assert policy.checkpoint == "/data/saved" and policy.heartbeat == 600.0
    assert policy.least == 2 and command == launcher["args"]


RANKS = """
import os, subprocess, sys
import pd_core as pd
pd.distributed.init()
every = pd.distributed.allgather(os.getpid())
print("<rank>", pd.distributed.rank(), len(set(every)), flush=True)
if pd.distributed.rank() == 0:
    import ray
    host = ray.util.get_node_ip_address()
    line = [sys.executable, sys.argv[1], "--agent", host, "echo", "'started by Ray'"]
    print("<agent>", subprocess.run(line).returncode, flush=True)
"""


def test_ranks_on_a_ray_cluster(tmp_path):
    """A cluster of this machine; what starts processes on others is called as mpiexec would."""
    pytest.importorskip("ray")
    jobs.mpiexec()
    (tmp_path / "train.py").write_text(RANKS)
    wrapper = FOLDER / "ray_ranks.py"
    job = subprocess.run(
        [sys.executable, wrapper, "-n", "2", tmp_path / "train.py", wrapper],
        env=os.environ | jobs.OWN | {"RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert job.returncode == 0, job.stderr
    assert sorted(re.findall(r"<rank> (.*)", job.stdout)) == ["0 2", "1 2"]
    assert "<agent> 0" in job.stdout and "started by Ray" in job.stdout + job.stderr
