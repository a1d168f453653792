"""How docstrings and signatures become pages of the site, an extension of Sphinx.

Docstrings are text that reads well in a terminal: `code`, formulas such as |x - y| and *sizes, and
indented lines that are aligned. The sections Args, Returns and Raises are left to napoleon.
"""

import ast
import builtins
import inspect
import re
import sys
import textwrap
from functools import cache

from docutils import nodes
from sphinx import addnodes

import pd_core as pd

_DIRECTIVE = re.compile(r"^```\{(auto\w+)\} (\S+)\n((?::.*\n)*)```$", re.M)
_TITLE = re.compile(r"\A# .*\n")
_IMPORT = "\n```python\nimport numpy as np\nimport pd_core as pd\n```\n"
_SECTION = re.compile(r"(?:Args|Returns|Raises|Yields):\n")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)(?=(\w?))")


def directives(app, name, source):
    """Turn the directives of a page of docs/api into reStructuredText, as docstrings are."""
    if not name.startswith("api/"):
        return

    def converted(found):
        options = "".join(f"   {line}\n" for line in found[3].splitlines())
        return f"```{{eval-rst}}\n.. {found[1]}:: {found[2]}\n{options}```"

    text = _TITLE.sub(lambda title: title[0] + _IMPORT, source[0])
    source[0] = _DIRECTIVE.sub(converted, text)


def docstring(app, what, name, thing, options, lines):
    """Escape what reStructuredText would take for its own in the lines of a docstring."""
    blocks = re.split(r"\n\s*\n", "\n".join(lines).strip("\n"))
    text = "\n\n".join(part for block in blocks for part in _parts(block))
    lines[:] = [*text.split("\n"), ""]


def _parts(block):
    """Return the paragraphs and the aligned lines of a block, escaped; a section as it is."""
    if _SECTION.match(block):
        return [_escaped(block)]
    parts = re.split(r"^((?: {4}.*\n?)+)", block, flags=re.M)
    texts = [part.rstrip("\n") for part in parts]
    return ["::\n\n" + t if t.startswith("    ") else _escaped(t) for t in texts if t]


def _escaped(text):
    """Return a paragraph with code as reStructuredText has it, and no other markup."""
    parts, end = [], 0
    for found in _CODE.finditer(text):
        full = f"pd_core.{found[1].removeprefix('pd.')}"
        code = f":py:obj:`{found[1]} <{full}>`" if full in names() else f"``{found[1]}``"
        parts += [_plain(text[end : found.start()]), code, "\\ " if found[2] else ""]
        end = found.end()
    return "".join([*parts, _plain(text[end:])])


def _plain(text):
    return re.sub(r"[\\*|]|_\b", r"\\\g<0>", text)


@cache
def names():
    """Return {name: thing} of the public names of pd and of its modules."""
    things = {f"pd_core.{name}": getattr(pd, name) for name in pd.__all__}
    for module, thing in [(n, t) for n, t in things.items() if inspect.ismodule(t)]:
        for name in getattr(thing, "__all__", ()):
            things[f"{module}.{name}"] = getattr(thing, name)
    things |= {f"pd_core.sklearn.{name}": getattr(pd.sklearn, name) for name in pd.sklearn.__all__}
    return things


@cache
def _classes():
    """Return {id of a class: its full name} of those of pd."""
    return {id(t): name for name, t in names().items() if inspect.isclass(t)}


class _FullNames(ast.NodeTransformer):
    """Writes `~pd_core.Update` for a class of pd, which Sphinx shows and links as `Update`."""

    def __init__(self, scope):
        self.scope = scope

    def visit_Name(self, node):
        full = _classes().get(id(self.scope.get(node.id)))
        return ast.Name(f"~{full}") if full else node


def _source(thing):
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _fields(thing):
    """Return the arguments of a dataclass, as the source of its fields has them."""
    types = {}
    for base in reversed(thing.__mro__[:-1]):
        scope = vars(sys.modules[base.__module__])
        for node in (n for n in _source(base).body if isinstance(n, ast.AnnAssign)):
            setter = getattr(scope.get(ast.unparse(node.annotation)), "__set__", None)
            annotation = _source(setter).args.args[-1].annotation if setter else node.annotation
            types[node.target.id] = ast.unparse(_FullNames(scope).visit(annotation))
    shown = []
    for name, parameter in inspect.signature(thing).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{name}: {types[name]}{default}")
    return ", ".join(shown)


def signature(app, what, name, thing, options, arguments, result):
    """Return a signature as the source has it: with the names of types, not what they stand for."""
    function = inspect.unwrap(thing.__init__ if inspect.isclass(thing) else thing)
    if arguments is None or not inspect.isfunction(function):
        return None
    try:
        node = _source(function)
    except OSError:  # the constructor of a dataclass has no source
        return f"({_fields(thing)})", None
    node = _FullNames(function.__globals__).visit(node)
    static = any(getattr(d, "id", None) == "staticmethod" for d in node.decorator_list)
    if what != "function" and not static:
        (node.args.posonlyargs or node.args.args).pop(0)
    shows_result = node.returns and not inspect.isclass(thing)
    return f"({ast.unparse(node.args)})", ast.unparse(node.returns) if shows_result else None


def plain_builtins(app, tree):
    """Leave names such as ValueError without a link: Sphinx would look for them in all others."""
    for link in list(tree.findall(addnodes.pending_xref)):
        if link["refdomain"] == "py" and hasattr(builtins, link["reftarget"]):
            link.replace_self(link.children)


def short_names(app, tree, name):
    """Write `pd.` where a name of pd_core is shown: the page imports it so."""
    for prefix in tree.findall(addnodes.desc_addname):
        prefix.children = [nodes.Text(re.sub(r"^pd_core\.", "pd.", prefix.astext()))]


def setup(app):
    """Connect them; docstrings are escaped before napoleon reads them."""
    app.connect("source-read", directives)
    app.connect("autodoc-process-docstring", docstring, priority=400)
    app.connect("autodoc-process-signature", signature)
    app.connect("doctree-read", plain_builtins)
    app.connect("doctree-resolved", short_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
