"""Views of modules, with the names of Python 2.

A view replaces a module in translated programs only; the module itself is not changed. Attributes
that the view does not override are the module's, also in assignments.
"""

import importlib
import types

# Python 2's names of modules, and the modules of Python 3 with their contents.
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
    "md5": ("hashlib",),
    "pipes": ("shlex",),
    "Queue": ("queue",),
    "repr": ("reprlib",),
    "robotparser": ("urllib.robotparser",),
    "sha": ("hashlib",),
    "sets": ("builtins",),
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

# {name of a module: function that returns the names to override in it}.
_OVERRIDES = {}


def overrides(*names):
    """Decorate a function of a module that returns {name: value in Python 2's module}."""

    def register(function):
        _OVERRIDES.update(dict.fromkeys(names, function))
        return function

    return register


class View(types.ModuleType):
    """A view of one or several modules as a module of Python 2."""

    def __init__(self, name, modules, names):
        super().__init__(name, modules[0].__doc__)
        # not by setattr, which would store them in the module of Python 3
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
    """Return a value of a module; a submodule with overrides as its view."""
    is_viewed = isinstance(value, types.ModuleType) and value.__name__ in _OVERRIDES
    return view(value.__name__) if is_viewed else value


def has_view(name):
    return name in _RENAMED or name in _OVERRIDES


_views = {}


def view(name):
    """Return the view of a module by its name in Python 2 or Python 3."""
    if name not in _views:
        modules = [importlib.import_module(target) for target in _RENAMED.get(name, (name,))]
        names = {}
        for module in modules:
            if module.__name__ in _OVERRIDES:
                names.update(_OVERRIDES[module.__name__](module))
        if name in _RENAMED and name in _OVERRIDES:
            names.update(_OVERRIDES[name](modules[0]))
        _views[name] = View(name, modules, names)
    return _views[name]


def reload(module):
    """Reload a module; a view stays: `reload(sys)` was for setdefaultencoding."""
    return module if isinstance(module, View) else importlib.reload(module)
