"""The cache of downloaded datasets, and samples stored in numbered files.

The cache is the folder DATA_HOME: $PD_DATASET_HOME, or ~/.cache/paddle/dataset. A cached file whose
md5 is neither the published one nor one that the user allows (see `trust`) is downloaded again;
PD_DATASET_CHECK=0 turns this check off.
"""

import functools
import importlib
import itertools
import logging
import os
import pickle
import pkgutil

from pd_core import DamagedFile, atomic_write
from pd_core.training.positions import rereadable
from pd_v2 import pickles
from pd_v2.dataset.transfer import md5file, transfer
from pd_v2.dataset.trust import trusted
from pd_v2.files import given
from pd_v2.reader import shuffling
from pd_v2.reader.protocol import require_reader
from pd_v2.recordio.chunks import write_records
from pd_v2.recordio.storage import matching

__all__ = [
    "DATA_HOME",
    "cluster_files_reader",
    "convert",
    "download",
    "fetch_all",
    "fetch_all_recordio",
    "md5file",
    "split",
]

DATA_HOME = os.environ.get("PD_DATASET_HOME") or os.path.expanduser("~/.cache/paddle/dataset")

_log = logging.getLogger("paddle")


def must_mkdirs(path):
    """Create a folder and its parents, unless they exist."""
    os.makedirs(path, exist_ok=True)


def in_cache(*parts):
    """Return the path of a file or a folder in the cache; DamagedFile if a link leads out of it.

    Links are checked in the default cache only, which is shared with other programs, and not in a
    folder that the user has set.
    """
    path = os.path.join(DATA_HOME, *parts)
    if os.environ.get("PD_DATASET_HOME") != DATA_HOME:
        require_inside(path, DATA_HOME)
    _require_plain(path)
    return path


def require_inside(path, folder):
    """Raise DamagedFile if a path leads out of a folder."""
    target, top = os.path.realpath(path), os.path.realpath(folder)
    if not target.startswith(os.path.join(top, "")):
        raise DamagedFile(
            f"dataset: {path} leads out of {folder}, to {target}, and is not read\n"
            "  hint: put the file itself there, or set PD_DATASET_HOME, whose links are followed"
        )


def _require_plain(path):
    """Raise DamagedFile if a path leads to a device or a pipe."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise DamagedFile(f"dataset: {path} is no file")


def download(url, module_name, md5sum, save_name=None):
    """Return the path of a file in the cache, after downloading it if it is not there.

    save_name is its name in the cache, by default the last part of the url.
    """
    path = in_cache(module_name, save_name or url.split("/")[-1])
    cached = md5file(path) if os.path.exists(path) else None
    expected = trusted(path, md5sum)
    if cached and (cached in expected or not expected):
        if expected and cached != expected[0]:
            _report(path, cached, md5sum, "as the user says")
        return path
    if cached and os.environ.get("PD_DATASET_CHECK") == "0":
        _report_unchecked(DATA_HOME)
        return path
    try:
        must_mkdirs(os.path.dirname(path))
        transfer(url, path, *expected)
    except OSError as error:
        raise RuntimeError(_unavailable(url, path, cached, expected, error)) from error
    return path


@functools.cache
def _report(path, cached, md5sum, reason):
    """Log that an unpublished file is used, once per file (hence functools.cache)."""
    _log.info("%s is used with md5 %s, not %s (%s)", path, cached, md5sum, reason)


@functools.cache
def _report_unchecked(home):
    """Log that the files of a cache are not checked, once for all of them."""
    _log.info("files in %s are used whatever their md5 (PD_DATASET_CHECK=0)", home)


def _unavailable(url, path, cached, expected, error):
    """Return the error text for an unavailable file, with a hint for the user."""
    folder, name = os.path.split(path)
    module_name = os.path.basename(folder)
    if cached:
        sums = " or ".join(expected)
        problem = f"the cached {name} has md5 {cached}, expected {sums}, and cannot be replaced"
        hint = f"to use the cached file, set PD_DATASET_MD5={cached}, or write that into {name}.md5"
    else:
        problem = f"{name} is not in the cache and cannot be downloaded"
        hint = f"put the file there, or set PD_DATASET_HOME to a folder with {module_name}/{name}"
    return (
        f"dataset {module_name}: {problem}: {error}\n"
        f"  url   {url}\n"
        f"  file  {os.path.abspath(path)}\n"
        f"  hint: {hint}"
    )


def fetch_all():
    """Download every dataset into the cache."""
    for module in _datasets("fetch"):
        module.fetch()


def fetch_all_recordio(path):
    """Write every dataset as RecordIO files into a folder of its name under `path`."""
    for module in _datasets("convert"):
        folder = os.path.join(path, module.__name__.split(".")[-1])
        must_mkdirs(folder)
        module.convert(folder)


def _datasets(function):
    """Return the dataset modules that have a function of this name."""
    package = importlib.import_module("pd_v2.dataset")
    names = [f"{package.__name__}.{info.name}" for info in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(name) for name in names if name != __name__]
    return [module for module in modules if hasattr(module, function)]


def split(reader, line_count, suffix="%05d.pickle", dumper=pickle.dump):
    """Write the samples of a reader to numbered files, each a pickled list.

    The first file holds line_count + 1 samples, the others line_count, as in 2017; it determines
    which samples each trainer of a cluster reads.
    """
    require_reader("split", reader)
    if not callable(dumper):
        raise TypeError(f"split: dumper must be a function, got {type(dumper).__name__}")
    for number, samples in enumerate(_blocks("split", reader(), line_count)):
        if samples:
            with atomic_write(suffix % number) as file:
                dumper(samples, given.file_of(file, "w"))


def convert(output_path, reader, line_count, name_prefix):
    """Write a reader's samples to RecordIO files output_path/name_prefix-00000 and so on.

    Samples are shuffled within a file; files have the sizes of `split`. The last file is not full,
    and may be empty.
    """
    require_reader("convert", reader)
    for number, samples in enumerate(_blocks("convert", reader(), line_count)):
        shuffling.shuffle(samples)
        records = (pickle.dumps(sample, protocol=2) for sample in samples)
        write_records(os.path.join(output_path, f"{name_prefix}-{number:05d}"), records)


def _blocks(who, samples, line_count):
    """Yield lists of line_count + 1 samples, then of line_count; the last is not full, or empty."""
    if line_count < 1:
        raise ValueError(f"{who}: line_count must be at least 1, got {line_count}")
    samples = iter(samples)
    size = line_count + 1
    while len(block := list(itertools.islice(samples, size))) == size:
        yield block
        size = line_count
    yield block


def cluster_files_reader(files_pattern, trainer_count, trainer_id, loader=None, trusted=False):
    """Return a reader of every trainer_count-th file of a pattern, from number trainer_id on.

    Files are sorted by name, and are pickled lists of samples from `split`: numbers, text,
    containers and arrays; DamagedFile for anything else. With trusted=True samples may be of any
    class, and unpickling runs code that a file names, as does a `loader` that unpickles: only for
    files you made yourself.
    """
    if not callable(loader) and loader is not None:
        raise TypeError(f"cluster_files_reader: loader must be a function, got {loader!r}")
    if not 0 <= trainer_id < trainer_count:
        raise ValueError(
            f"cluster_files_reader: trainer_id {trainer_id} is not one of {trainer_count} trainers"
        )

    def samples():
        names = matching("cluster_files_reader", files_pattern)
        for name in names[trainer_id::trainer_count]:
            _log.info("append file: %s", name)
            with open(name, "rb") as file:
                if loader is None:
                    yield from _load_samples(file, trusted)
                else:
                    yield from loader(given.file_of(file, "r"))

    return rereadable(samples, draws=True)  # the loader may


def _load_samples(file, trusted):
    """Unpickle a list of samples; Python 2 pickled bytes as text, one character per byte."""
    name = file.name
    samples = pickles.load_samples(f"cluster_files_reader: {name}", file.read(), trusted)
    if not (trusted or isinstance(samples, (list, tuple))):
        kind = type(samples).__name__
        raise DamagedFile(f"cluster_files_reader: {name}: expected a list of samples, found {kind}")
    return samples
