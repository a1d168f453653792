"""The built-in names of a translated module.

Each module has its own __builtins__ with Python 2's `open`, `map`, `import` and so on. So the
source needs no rewriting, and no other module is affected.
"""

import builtins
import functools
import sys

from pd_v2.python2 import evaluation, import_statement
from pd_v2.python2.shims import (
    arithmetic,
    attributes,
    classes,
    comparison,
    files,
    formatting,
    printing,
    raising,
    sequences,
    text,
)
from pd_v2.python2.shims.types import basestring, bytearray_of, bytes_of, is_instance, unicode
from pd_v2.python2.shims.views import overrides, reload


def builtins_of(program):
    """Return the __builtins__ of a module with a Program."""
    if not program.is_python2:
        return builtins
    names = dict(vars(builtins), **_NAMES)
    if not program.has_print_function:
        names["print"] = printing.print_statement
    implicit = not program.has_absolute_imports
    names["__import__"] = functools.partial(import_statement.import_module, implicit)
    return names


def _apply(function, args=(), keywords=None):
    return function(*args, **(keywords or {}))


def _buffer(obj, offset=0, size=None):
    return text.Binary(memoryview(text.as_bytes(obj)))[offset:][:size]


def raw_input(*prompt):
    """`raw_input(...)`: a line of the standard input."""
    return text.undecoded(input(*prompt))


_NAMES = {
    "_py2_attribute": attributes.attribute,
    "_py2_bytes": text.literal,
    "_py2_class": classes.adapt_class,
    "_py2_compare": comparison.compare,
    "_py2_convert": formatting.convert,
    "_py2_divide": arithmetic.divide,
    "_py2_divide_in_place": arithmetic.divide_in_place,
    "_py2_ending": raising.ending,
    "_py2_fill": formatting.format_percent,
    "_py2_parts": raising.parts,
    "_py2_raised": raising.raised,
    "_py2_text": text.as_text,
    "StandardError": Exception,
    "apply": _apply,
    "basestring": basestring,
    "buffer": _buffer,
    "bytearray": bytearray_of,
    "bytes": bytes_of,
    "chr": text.chr_of_byte,
    "cmp": comparison.three_way,
    "coerce": arithmetic.coerce,
    "compile": evaluation.compile_source,
    "eval": evaluation.evaluate,
    "exec": evaluation.execute,
    "execfile": evaluation.execute_file,
    "file": files.File,
    "filter": sequences.filter_list,
    "format": formatting.format_value,
    "getattr": attributes.attribute_named,
    "hasattr": attributes.has_attribute,
    "hash": arithmetic.hash_fixed,
    "input": evaluation.evaluate_input,
    "intern": sys.intern,
    "isinstance": is_instance,
    "long": int,
    "map": sequences.map_list,
    "max": comparison.max_any,
    "min": comparison.min_any,
    "oct": arithmetic.octal,
    "open": files.File,
    "ord": text.ord_of_byte,
    "range": sequences.range_list,
    "raw_input": raw_input,
    "reduce": functools.reduce,
    "reload": reload,
    "repr": text.shown,
    "round": arithmetic.round_away,
    "sorted": comparison.sorted_any,
    "unichr": chr,
    "unicode": unicode,
    "xrange": range,
    "zip": sequences.zip_list,
}


@overrides("builtins")
def _builtins(_):
    return _NAMES
