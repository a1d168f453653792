"""Modules as Python 2 had them: under the old name, with the old names inside.

A view stands in for a module in translated programs only; nothing of the module itself is changed.
What the view does not override is the module's, also when it is assigned to.
"""

import importlib
import types

# The old names of modules, and the modules of today that hold what they held.
_RENAMED = {
    "__builtin__": ("builtins",),
    "anydbm": ("dbm",),
    "BaseHTTPServer": ("http.server",),
    "cgi": ("html",),
    "commands": ("subprocess",),
    "ConfigParser": ("configparser",),
    "Cookie": ("http.cookies",),
    "cookielib": ("http.cookiejar",),
    "copy_reg": ("copyreg",),
    "cPickle": ("pickle",),
    "cStringIO": ("pd_v2.python2.shims.buffers",),
    "distutils": ("pd_v2.python2.shims.distutils",),
    "dummy_thread": ("_thread",),
    "exceptions": ("builtins",),
    "future_builtins": ("builtins",),
    "HTMLParser": ("html.parser", "html"),
    "htmlentitydefs": ("html.entities",),
    "httplib": ("http.client",),
    "imp": ("pd_v2.python2.shims.imp",),
    "pipes": ("shlex",),
    "Queue": ("queue",),
    "repr": ("reprlib",),
    "robotparser": ("urllib.robotparser",),
    "SimpleHTTPServer": ("http.server",),
    "SocketServer": ("socketserver",),
    "StringIO": ("pd_v2.python2.shims.buffers",),
    "thread": ("_thread",),
    "Tkinter": ("tkinter",),
    "urllib": ("urllib", "urllib.request", "urllib.parse", "urllib.error"),
    "urllib2": ("urllib.request", "urllib.error", "urllib.parse"),
    "urlparse": ("urllib.parse",),
    "UserDict": ("collections",),
    "UserList": ("collections",),
    "UserString": ("collections",),
    "xmlrpclib": ("xmlrpc.client",),
}

# By the name of a module of today: a function from the module to the names that differ.
_OVERRIDES = {}


def overrides(*names):
    """A decorator: the function gives the names in which Python 2's module of that name differs."""

    def register(function):
        _OVERRIDES.update(dict.fromkeys(names, function))
        return function

    return register


class View(types.ModuleType):
    """One or several modules of today, seen as a module of Python 2."""

    def __init__(self, name, modules, names):
        super().__init__(name, modules[0].__doc__)
        # Not by attribute, which would be stored in the module of today.
        vars(self).update(names, _modules=modules, _own={*names})

    def __getattr__(self, name):
        if name == "__all__":
            return _public_names(self)
        for module in vars(self)["_modules"]:
            if hasattr(module, name):
                return _viewed(getattr(module, name))
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name, value):
        if name in vars(self)["_own"]:
            vars(self)[name] = value
        else:
            setattr(vars(self)["_modules"][0], name, value)

    def __delattr__(self, name):
        delattr(vars(self)["_modules"][0], name)

    def __dir__(self):
        return sorted({*vars(self)["_own"]}.union(*map(dir, vars(self)["_modules"])))


def _public_names(view):
    names = set(vars(view)["_own"])
    for module in vars(view)["_modules"]:
        names.update(getattr(module, "__all__", [n for n in vars(module) if n[0] != "_"]))
    return sorted(name for name in names if name[0] != "_")


def _viewed(value):
    """A submodule is seen through its own view."""
    is_viewed = isinstance(value, types.ModuleType) and value.__name__ in _OVERRIDES
    return view(value.__name__) if is_viewed else value


def has_view(name):
    return name in _RENAMED or name in _OVERRIDES


_views = {}


def view(name):
    """The view under a name of Python 2 or of today."""
    if name not in _views:
        modules = [importlib.import_module(today) for today in _RENAMED.get(name, (name,))]
        names = {}
        for module in modules:
            if module.__name__ in _OVERRIDES:
                names.update(_OVERRIDES[module.__name__](module))
        _views[name] = View(name, modules, names)
    return _views[name]
