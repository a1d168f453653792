"""Importing this module makes `paddle` and `paddle.v2` aliases of pd_v2, in this process only.

    import pd_v2.as_paddle
    import paddle.v2 as paddle

The modules are the same objects under both names: `paddle.v2.dataset.mnist is pd_v2.dataset.mnist`.
Pickles of 2017 that name a class in paddle therefore load too.
"""

import functools
import importlib
import importlib.util
import sys
import types
from importlib.machinery import ModuleSpec

# Modules of 2017 and the modules with their contents here; submodules are included. In 2018 the
# readers and datasets moved out of v2.
_MODULES = {
    "paddle.v2": "pd_v2",
    "paddle.batch": "pd_v2.minibatch",
    "paddle.dataset.image": "pd_v2.image",
    "paddle.dataset": "pd_v2.dataset",
    "paddle.proto.ModelConfig_pb2": "pd_v2.formats.proto",
    "paddle.proto.ParameterConfig_pb2": "pd_v2.formats.proto",
    "paddle.proto.TrainerConfig_pb2": "pd_v2.formats.proto",
    "paddle.reader": "pd_v2.reader",
    "paddle.trainer.PyDataProvider2": "pd_v2.data_type",
    "paddle.trainer.config_parser": "pd_v2.trainer_config_helpers.config_parser",
    "paddle.trainer_config_helpers": "pd_v2.trainer_config_helpers",
    "paddle.utils.dump_v2_config": "pd_v2.described.merged_model",
    "paddle.utils.image_util": "pd_v2.image",
    "paddle.utils.merge_model": "pd_v2.described.merged_model",
    "py_paddle": "pd_v2.py_paddle",
}

# The same for other packages that paddle depended on.
_DEPENDENCIES = {"recordio": "pd_v2.recordio.package"}

# The attributes of `paddle` after `import paddle` alone.
_ATTRIBUTES = (
    *("paddle.v2", "paddle.reader", "paddle.dataset", "paddle.dataset.image", "paddle.batch"),
)

# The packages of 2017 that only hold those modules.
_PACKAGES = ("paddle", "paddle.proto", "paddle.trainer", "paddle.utils")


class _Finder:
    """Finder of the modules of paddle."""

    def find_spec(self, name, path=None, target=None):
        if name in _PACKAGES:
            return ModuleSpec(name, _PackageLoader(), is_package=True)
        actual = _actual_name(name)
        if actual is None or not _exists(actual):
            return None
        return ModuleSpec(name, _AliasLoader(actual))


class _LastFinder:
    """Finder of the dependencies of paddle, where they are not installed."""

    def find_spec(self, name, path=None, target=None):
        actual = _DEPENDENCIES.get(name)
        return None if actual is None else ModuleSpec(name, _AliasLoader(actual))


class _PackageLoader:
    def create_module(self, spec):
        module = types.ModuleType(spec.name, "Modules of 2017, found in pd_v2.")
        module.__path__ = []
        return module

    def exec_module(self, module):
        module.__getattr__ = functools.partial(_module_of_2017, module.__name__)
        if module.__name__ == "paddle":
            for name in _ATTRIBUTES:
                importlib.import_module(name)
            module.batch = module.batch.batch  # the function, also where the module is imported


def _module_of_2017(package, name):
    """Import what `import paddle.v2` had imported in 2017, when a program asks for it."""
    full = f"{package}.{name}"
    if full not in _PACKAGES and _actual_name(full) is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
    return importlib.import_module(full)


class _AliasLoader:
    """Loader of a module under another name."""

    def __init__(self, actual):
        self.actual = actual

    def create_module(self, spec):
        module = importlib.import_module(self.actual)
        self.original_spec = module.__spec__
        return module

    def exec_module(self, module):
        # the import system has just replaced the module's spec by that of the alias
        module.__spec__ = self.original_spec


def _actual_name(name):
    """Return the name in pd_v2 of a module of paddle, or None."""
    for old, new in _MODULES.items():
        if name == old or name.startswith(old + "."):
            return new + name.removeprefix(old)
    return None


def _exists(name):
    return name in sys.modules or importlib.util.find_spec(name) is not None


def install():
    """Put the finder before all others; importing this module does so."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if "paddle" in sys.modules:
        place = getattr(sys.modules["paddle"], "__file__", None) or "this process"
        raise ImportError(
            f"pd_v2.as_paddle: another paddle is already imported, from {place}\n"
            "  hint: import pd_v2.as_paddle before it"
        )
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_LastFinder())


install()
