"""Tells the modules of the standard library and of installed distributions from a program's own.

It imports nothing of this package: a starting interpreter loads it by its path
(`startup.sitecustomize`), long before it is known whether the package is needed.
"""

import functools
import os
import site
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

_LIBRARY = os.path.realpath(os.path.dirname(os.__file__))
_OURS = tuple(os.path.join(ROOT, package) for package in ("pd_core", "pd_v2"))

# What the folders are called that installers write to, whatever the platform.
_SITES = ("site-packages", "dist-packages")


def is_library(path):
    """Whether a path is inside the standard library, or where distributions are installed."""
    return any(map(_is_library, {os.path.abspath(path), os.path.realpath(path)}))


def is_installed(path, module):
    """Whether the file of a module, given with its full name, is no part of a program."""
    return is_library(path) or _is_listed(path) or _is_editable(path, module.partition(".")[0])


def is_command(path):
    """Whether a script is installed, such as pip's."""
    folders = {os.path.dirname(sys.executable), os.path.dirname(os.path.realpath(sys.executable))}
    folders.add(os.path.join(site.USER_BASE or sys.prefix, "bin"))
    return is_library(path) or os.path.dirname(os.path.realpath(path)) in folders


def _is_library(path):
    is_ours = any(is_below(path, folder) for folder in (_LIBRARY, *_OURS))
    return is_ours or any(part in _SITES for part in path.split(os.sep))


def is_below(path, folder):
    """Whether a path is a folder or something in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_listed(path):
    """Whether a distribution beside it lists the file: `pip install --target` writes both."""
    path = os.path.realpath(path)
    roots = {os.path.realpath(entry) for entry in sys.path}
    return any(is_below(path, root) and path in _listed_files(root) for root in roots)


@functools.cache
def _listed_files(root):
    """The files of all distributions whose metadata is in a folder."""
    records = [os.path.join(root, info, _RECORDS[kind]) for info, kind in _metadata(root)]
    lines = [(record, line) for record in records for line in _lines(record)]
    return {_listed_file(root, record, line) for record, line in lines}


# Where an installer lists what it wrote, by the kind of its metadata.
_RECORDS = {".dist-info": "RECORD", ".egg-info": "installed-files.txt"}


def _metadata(folder):
    """(name, kind) of each folder of metadata in a folder."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [(name, kind) for name in names for kind in _RECORDS if name.endswith(kind)]


def _lines(path):
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def _listed_file(root, record, line):
    """The path of a file. A RECORD tells it from the root, with hash and size."""
    if record.endswith("RECORD"):
        return os.path.normpath(os.path.join(root, line.rsplit(",", 2)[0].strip('"')))
    return os.path.normpath(os.path.join(os.path.dirname(record), line))


def _is_editable(path, top):
    """Whether it is the module or package of that name in an editable install."""
    path = os.path.realpath(path)
    return any(
        (top in names and is_below(path, project)) or _is_module_of(folders, path, top)
        for project, names, folders in _editables(tuple(sys.path))
    )


def _is_module_of(folders, path, top):
    places = [os.path.join(folder, top) for folder in folders]
    return any(path == place + ".py" or is_below(path, place) for place in places)


@functools.lru_cache(maxsize=8)
def _editables(entries):
    """(project, top-level names, folders put on sys.path) of each editable install."""
    sites = [entry for entry in entries if os.path.basename(entry) in _SITES]
    return [editable for site in sites for editable in _editables_in(site)]


def _editables_in(site):
    for name, _ in _metadata(site):
        info = os.path.join(site, name)
        project = _project(os.path.join(info, "direct_url.json"))
        if project is not None:
            names = _lines(os.path.join(info, "top_level.txt"))
            yield project, names, [] if names else _path_entries(site, info)
    for name in os.listdir(site) if os.path.isdir(site) else []:
        if name.endswith(".egg-link"):  # what setup.py develop leaves
            folder = os.path.realpath(_lines(os.path.join(site, name))[0])
            infos = [os.path.join(folder, info) for info, _ in _metadata(folder)]
            names = [top for info in infos for top in _lines(os.path.join(info, "top_level.txt"))]
            yield folder, names, []


def _project(direct_url):
    """The folder of an editable install, or None for any other."""
    if not os.path.isfile(direct_url):
        return None
    import json
    from urllib.parse import unquote, urlsplit

    with open(direct_url, encoding="utf-8") as file:
        origin = json.load(file)
    if not origin.get("dir_info", {}).get("editable"):
        return None
    place = unquote(urlsplit(origin["url"]).path)
    return os.path.realpath(place.lstrip("/") if os.name == "nt" else place)


def _path_entries(site, info):
    """The folders that a distribution's .pth files name."""
    files = [line.rsplit(",", 2)[0] for line in _lines(os.path.join(info, "RECORD"))]
    pths = [os.path.join(site, file) for file in files if file.endswith(".pth")]
    lines = [line for pth in pths for line in _lines(pth)]
    return [os.path.realpath(line) for line in lines if os.path.isdir(line)]
