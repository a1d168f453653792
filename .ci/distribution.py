"""The build backend: setuptools', which makes one of two distributions from this tree.

`pd-onnx` is what setup.cfg says; its runtime has CUDA. `pd-onnx-cpu` has the same packages and
extras, and the runtime for CPUs alone:

    pip install . --config-settings runtime=cpu      # or with PD_RUNTIME=cpu in the environment

An environment that has `pd-onnx-cpu` keeps it: `pip install '.[plot]'` brings no other runtime.
"""

import functools
import os
import re
import sys
import sysconfig
from pathlib import Path

# Before pip looks for packages: it would say that there is no new onnxruntime for an old Python.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"pd-onnx needs Python 3.11 or later, and this is {sys.version.split()[0]}")

import setuptools
from setuptools import build_meta
from setuptools.command.sdist import sdist

RUNTIMES = "cuda", "cpu"
FOR_CPUS = "pd-onnx-cpu"
BUILT_FROM = ".ci/distribution.py", "docs/package.md"  # besides the packages


def runtime(settings):
    """Return the runtime that is wanted: by a setting, a variable, or what was chosen before."""
    chosen = settings.pop("runtime", None) or os.environ.get("PD_RUNTIME")
    chosen = chosen or ("cpu" if was_for_cpus() else "cuda")
    if chosen not in RUNTIMES:
        sys.exit(f"pd-onnx: the runtime {chosen!r} is none of {', '.join(RUNTIMES)}")
    return chosen


def was_for_cpus():
    """Return whether a source archive or the environment is one for CPUs."""
    info = Path("PKG-INFO")  # at the top of a source archive only
    if info.is_file():
        return re.search(rf"^Name: {FOR_CPUS}$", info.read_text(encoding="utf-8"), re.M) is not None
    installed = f"{FOR_CPUS.replace('-', '_')}-*.dist-info"
    return any(Path(sysconfig.get_path("purelib")).glob(installed))


class ForCPUs(setuptools.Distribution):
    """The distribution of setup.cfg, with another name and runtime."""

    def parse_config_files(self, *args, **kwargs):
        super().parse_config_files(*args, **kwargs)
        self.metadata.name = FOR_CPUS
        required = self.install_requires
        [bare] = [line.partition(";")[0] for line in required if re.match("onnxruntime[>;=]", line)]
        # in place: the metadata has the same list
        required[:] = [line for line in required if not line.startswith("onnxruntime")] + [bare]


class SourceArchive(sdist):
    """A source archive with all that it is built from."""

    def make_distribution(self):
        self.filelist.extend(BUILT_FROM)
        super().make_distribution()


def _build(hook, folder, settings, *rest):
    """Call a hook of setuptools. It runs `setuptools.setup()`, for want of a setup.py."""
    settings = dict(settings or {})
    kind = ForCPUs if runtime(settings) == "cpu" else setuptools.Distribution
    classes = {"distclass": kind, "cmdclass": {"sdist": SourceArchive}}
    setuptools.setup = functools.partial(setuptools.setup, **classes)
    return getattr(build_meta, hook)(folder, settings, *rest)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return _build("prepare_metadata_for_build_wheel", metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    return _build("prepare_metadata_for_build_editable", metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _build("build_wheel", wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _build("build_editable", wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    return _build("build_sdist", sdist_directory, config_settings)
