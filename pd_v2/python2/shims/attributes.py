"""Attributes that were changed, renamed or removed in Python 3.

A translated program has `_py2_attribute(x, "keys")` for `x.keys`, for the names in ATTRIBUTES. An
object that defines such an attribute itself keeps it.
"""

import functools
import html
import types
from collections.abc import Mapping

from pd_v2.python2.shims import comparison, formatting, text

_MISSING = object()


def attribute(obj, name):
    """Return an attribute as a Python 2 program expects it."""
    return ATTRIBUTES[name](obj, name)


def attribute_named(obj, name, *default):
    """`getattr(...)`; strings had no `__iter__`."""
    try:
        if name == "__iter__" and isinstance(obj, str | bytes):
            raise AttributeError("'str' object has no attribute '__iter__'")
        return attribute(obj, name) if name in ATTRIBUTES else getattr(obj, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def has_attribute(obj, name):
    """`hasattr(...)`"""
    return attribute_named(obj, name, _MISSING) is not _MISSING


def _renamed(*path):
    """Return the lookup of a name that was replaced by another: `f.func_code.co_argcount`."""

    def find(obj, name):
        if not _defines(obj, name) and hasattr(obj, path[0]):
            return functools.reduce(getattr, path, obj)
        return getattr(obj, name)

    return find


def _superseded(new):
    """Return the lookup of a deprecated name, which prefers the new one."""
    return lambda obj, name: getattr(obj, new if hasattr(obj, new) else name)


def _computed(function, applies):
    """Return the lookup of a removed name, computed for the objects that it applies to."""

    def find(obj, name):
        if not _defines(obj, name) and applies(obj):
            return function(obj)
        return getattr(obj, name)

    return find


def _defines(obj, name):
    """Return whether an object has an attribute; a dict's methods went before `__getattr__`."""
    if isinstance(obj, dict):
        return hasattr(type(obj), name) or name in getattr(obj, "__dict__", ())
    return hasattr(obj, name)


def _as_list(obj, name):
    """Return `d.keys` of a mapping as a function that returns a list."""
    method = getattr(obj, name)
    kind = obj if isinstance(obj, type) else type(obj)
    return (lambda *args: list(method(*args))) if issubclass(kind, Mapping) else method


def _iterated(name):
    return lambda obj: lambda *args: iter(getattr(obj, name)(*args))


def _is_mapping(obj):
    return hasattr(obj, "keys")


def _of_strings(function, name):
    """Return the lookup of a method of strings, as a function of the string."""

    def find(obj, _):
        is_string = isinstance(obj, str | bytes)
        return functools.partial(function, obj) if is_string else getattr(obj, name)

    return find


def _translate(string, table, deleted=""):
    """`s.translate(table, deleted)`: the table is None, a string of 256 or a dict."""
    characters = text.as_text(string)
    removed = set(text.as_text(deleted))
    kept = "".join(c for c in characters if c not in removed) if removed else characters
    return text.like(kept if table is None else kept.translate(table), characters)


def _sort(obj, name):
    is_plain = isinstance(obj, list) and type(obj).sort is list.sort
    return functools.partial(comparison.sort, obj) if is_plain else getattr(obj, name)


def _is_array(obj):
    return hasattr(obj, "tobytes")


def _frombytes(obj):
    return lambda string: obj.frombytes(text.as_bytes(string))


def _is_error(obj):
    return isinstance(obj, BaseException)


def _message(error):
    return str(error.args[0]) if len(error.args) == 1 else ""


def _slice(name):
    """Return the lookup of `__getslice__` and the like: of a class, a function of the object."""

    def function(obj):
        method = getattr(obj, name)
        if isinstance(obj, type):
            return lambda self, i, j, *value: method(self, slice(max(i, 0), max(j, 0)), *value)
        return lambda i, j, *value: method(slice(max(i, 0), max(j, 0)), *value)

    return _computed(function, lambda obj: hasattr(obj, name))


def _new(obj, name):
    """Return `__new__`; that of object took the arguments of `__init__`."""
    found = getattr(obj, name)
    return (lambda kind, *args, **keywords: found(kind)) if found is object.__new__ else found


# Attributes of functions that a program may assign, and their names now.
ASSIGNED = {
    name: f"__{name.removeprefix('func_')}__"
    for name in ("func_code", "func_defaults", "func_dict", "func_doc", "func_name")
}


def _function(obj, name):
    """Return the function of a method, which one of a class is itself."""
    is_function = isinstance(obj, types.FunctionType)
    return obj if is_function else _renamed("__func__")(obj, name)


def _next(obj):
    return lambda: next(obj)


def _is_iterator(obj):
    return hasattr(obj, "__next__")


ATTRIBUTES = {
    "keys": _as_list,
    "values": _as_list,
    "items": _as_list,
    "iterkeys": _computed(_iterated("keys"), _is_mapping),
    "itervalues": _computed(_iterated("values"), _is_mapping),
    "iteritems": _computed(_iterated("items"), _is_mapping),
    "__delslice__": _slice("__delitem__"),
    "__getslice__": _slice("__getitem__"),
    "__setslice__": _slice("__setitem__"),
    "viewkeys": _renamed("keys"),
    "viewvalues": _renamed("values"),
    "viewitems": _renamed("items"),
    "has_key": _computed(lambda obj: obj.__contains__, _is_mapping),
    "sort": _sort,
    "next": _computed(_next, _is_iterator),
    "decode": _of_strings(text.decode, "decode"),
    "encode": _of_strings(text.encode, "encode"),
    "format": _of_strings(formatting.format_braces, "format"),
    "join": _of_strings(text.join, "join"),
    "translate": _of_strings(_translate, "translate"),
    "tostring": _computed(lambda obj: lambda *order: text.Binary(obj.tobytes(*order)), _is_array),
    "fromstring": _computed(_frombytes, lambda obj: hasattr(obj, "frombytes")),
    "unescape": _computed(lambda _: html.unescape, lambda obj: hasattr(obj, "handle_data")),
    "message": _computed(_message, _is_error),
    "func_name": _renamed("__name__"),
    "func_doc": _renamed("__doc__"),
    "func_code": _renamed("__code__"),
    "func_globals": _renamed("__globals__"),
    "func_defaults": _renamed("__defaults__"),
    "func_closure": _renamed("__closure__"),
    "func_dict": _renamed("__dict__"),
    "__new__": _new,
    "im_func": _function,
    "im_self": _renamed("__self__"),
    "im_class": _renamed("__self__", "__class__"),
    "isAlive": _superseded("is_alive"),
    "warn": _superseded("warning"),  # of loggers
    "getchildren": _computed(lambda obj: lambda: list(obj), lambda obj: hasattr(obj, "iterfind")),
    "getiterator": _renamed("iter"),
    "readfp": _superseded("read_file"),
    "assert_": _superseded("assertTrue"),
    "assertEquals": _superseded("assertEqual"),
    "assertNotEquals": _superseded("assertNotEqual"),
    "assertAlmostEquals": _superseded("assertAlmostEqual"),
    "assertNotAlmostEquals": _superseded("assertNotAlmostEqual"),
    "assertNotRegexpMatches": _superseded("assertNotRegex"),
    "assertItemsEqual": _superseded("assertCountEqual"),
    "assertRegexpMatches": _superseded("assertRegex"),
    "assertRaisesRegexp": _superseded("assertRaisesRegex"),
    "failIf": _superseded("assertFalse"),
    "failIfEqual": _superseded("assertNotEqual"),
    "failUnless": _superseded("assertTrue"),
    "failUnlessAlmostEqual": _superseded("assertAlmostEqual"),
    "failUnlessEqual": _superseded("assertEqual"),
    "failUnlessRaises": _superseded("assertRaises"),
}
