"""Detection of files of the standard library and of installed distributions.

It imports nothing of this package: a starting interpreter loads it by its path
(`startup.sitecustomize`), before it is known whether the package is needed.
"""

import functools
import os
import site
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

_LIBRARY = os.path.realpath(os.path.dirname(os.__file__))
_OURS = tuple(os.path.join(ROOT, package) for package in ("pd_core", "pd_v2"))

# The names of the folders that installers write to, on any platform.
_SITE_FOLDERS = ("site-packages", "dist-packages")


def is_library(path):
    """Return whether a path is in the standard library, or in a folder of installed packages."""
    return any(map(_is_library, {os.path.abspath(path), os.path.realpath(path)}))


def is_installed(path, module):
    """Return whether the file of a module, given by its full name, is installed."""
    return is_library(path) or _is_listed(path) or _is_editable(path, module.partition(".")[0])


def is_command(path):
    """Return whether a script is installed, such as pip's."""
    folders = {os.path.dirname(sys.executable), os.path.dirname(os.path.realpath(sys.executable))}
    folders.add(os.path.join(site.USER_BASE or sys.prefix, "bin"))
    return is_library(path) or os.path.dirname(os.path.realpath(path)) in folders


def _is_library(path):
    is_ours = any(is_below(path, folder) for folder in (_LIBRARY, *_OURS))
    return is_ours or any(part in _SITE_FOLDERS for part in path.split(os.sep))


def is_below(path, folder):
    """Return whether a path is a folder or inside of it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_listed(path):
    """Return whether metadata beside a file lists it, as after `pip install --target`."""
    path = os.path.realpath(path)
    roots = {os.path.realpath(entry) for entry in sys.path}
    return any(is_below(path, root) and path in _listed_files(root) for root in roots)


@functools.cache
def _listed_files(root):
    """Return the files of all distributions whose metadata is in a folder."""
    records = [os.path.join(root, info, _RECORDS[kind]) for info, kind in _metadata(root)]
    lines = [(record, line) for record in records for line in _lines(record)]
    return {_listed_file(root, record, line) for record, line in lines}


# The list of installed files, by the kind of metadata.
_RECORDS = {".dist-info": "RECORD", ".egg-info": "installed-files.txt"}


def _metadata(folder):
    """Return (name, kind) of each metadata folder in a folder."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [(name, kind) for name in names for kind in _RECORDS if name.endswith(kind)]


def _lines(path):
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def _listed_file(root, record, line):
    """Return the path in a line; lines of a RECORD are relative to the root, with hash and size."""
    if record.endswith("RECORD"):
        return os.path.normpath(os.path.join(root, line.rsplit(",", 2)[0].strip('"')))
    return os.path.normpath(os.path.join(os.path.dirname(record), line))


def _is_editable(path, top):
    """Return whether a path belongs to the top-level module `top` of an editable install."""
    path = os.path.realpath(path)
    return any(
        (top in names and is_below(path, project)) or _is_module_of(folders, path, top)
        for project, names, folders in _editables(tuple(sys.path))
    )


def _is_module_of(folders, path, top):
    bases = [os.path.join(folder, top) for folder in folders]
    return any(path == base + ".py" or is_below(path, base) for base in bases)


@functools.lru_cache(maxsize=8)
def _editables(entries):
    """Return (project, top-level names, folders put on sys.path) of each editable install."""
    sites = [entry for entry in entries if os.path.basename(entry) in _SITE_FOLDERS]
    return [editable for site in sites for editable in _editables_in(site)]


def _editables_in(site):
    for name, _ in _metadata(site):
        info = os.path.join(site, name)
        project = _project(os.path.join(info, "direct_url.json"))
        if project is not None:
            names = _lines(os.path.join(info, "top_level.txt"))
            yield project, names, [] if names else _path_entries(site, info)
    for name in os.listdir(site) if os.path.isdir(site) else []:
        if name.endswith(".egg-link"):  # written by setup.py develop
            folder = os.path.realpath(_lines(os.path.join(site, name))[0])
            infos = [os.path.join(folder, info) for info, _ in _metadata(folder)]
            names = [top for info in infos for top in _lines(os.path.join(info, "top_level.txt"))]
            yield folder, names, []


def _project(direct_url):
    """Return the folder of an editable install, or None for any other."""
    if not os.path.isfile(direct_url):
        return None
    import json
    from urllib.parse import unquote, urlsplit

    with open(direct_url, encoding="utf-8") as file:
        origin = json.load(file)
    if not origin.get("dir_info", {}).get("editable"):
        return None
    path = unquote(urlsplit(origin["url"]).path)
    return os.path.realpath(path.lstrip("/") if os.name == "nt" else path)


def _path_entries(site, info):
    """Return the folders in the .pth files of a distribution."""
    files = [line.rsplit(",", 2)[0] for line in _lines(os.path.join(info, "RECORD"))]
    pths = [os.path.join(site, file) for file in files if file.endswith(".pth")]
    lines = [line for pth in pths for line in _lines(pth)]
    return [os.path.realpath(line) for line in lines if os.path.isdir(line)]
