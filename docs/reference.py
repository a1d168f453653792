"""How docstrings and signatures become pages of the site, an extension of Sphinx.

Docstrings are text that reads well in a terminal: `code`, formulas such as |x - y| and *sizes, and
indented lines that are aligned. The sections Args, Returns and Raises are left to napoleon.
"""

import ast
import inspect
import re
import textwrap

from docutils import nodes
from sphinx import addnodes

_DIRECTIVE = re.compile(r"^```\{(auto\w+)\} (\S+)\n((?::.*\n)*)```$", re.M)
_TITLE = re.compile(r"\A# .*\n")
_IMPORT = "\n```python\nimport pd_core as pd\n```\n"
_SECTION = re.compile(r"(?:Args|Returns|Raises|Yields|Attributes|Example):$")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)(\w?)")


def directives(app, name, source):
    """Turn the directives of a page of docs/api into those of reStructuredText, as docstrings are."""
    if not name.startswith("api/"):
        return
    text = _TITLE.sub(lambda title: title[0] + _IMPORT, source[0])

    def converted(found):
        options = "".join(f"   {line}\n" for line in found[3].splitlines())
        return f"```{{eval-rst}}\n.. {found[1]}:: {found[2]}\n{options}```"

    source[0] = _DIRECTIVE.sub(converted, text)


def docstring(app, what, name, thing, options, lines):
    """Escape what reStructuredText would take for its own in the lines of a docstring."""
    blocks, section = [], False
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        section = section or bool(_SECTION.match(block.splitlines()[0] if block else ""))
        blocks += [block] if section and False else list(_parts(block, section))
    lines[:] = "\n\n".join(blocks).split("\n") + [""]


def _parts(block, section):
    """Yield the paragraphs and the aligned lines of a block, escaped."""
    if section:
        yield _escaped(block)
        return
    text = []
    for line in block.split("\n"):
        aligned = line.startswith("    ")
        if text and aligned != text[-1].startswith("    "):
            yield _finished(text)
            text = []
        text.append(line)
    yield _finished(text)


def _finished(text):
    if text[0].startswith("    "):
        return "::\n\n" + "\n".join(text)
    return _escaped("\n".join(text))


def _escaped(text):
    """Return a paragraph with code as reStructuredText has it, and no other markup."""
    parts, end = [], 0
    for found in _CODE.finditer(text):
        parts += [_plain(text[end : found.start()]), f"``{found[1]}``"]
        parts += ["\\ ", found[2]] if found[2] else []
        end = found.end()
    return "".join([*parts, _plain(text[end:])])


def _plain(text):
    return re.sub(r"[\\*|]|_\b", r"\\\g<0>", text)


def signature(app, what, name, thing, options, arguments, result):
    """Return a signature as the source has it: with the names of types, not what they stand for."""
    function = inspect.unwrap(thing.__init__ if inspect.isclass(thing) else thing)
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # a dataclass has a constructor without source
        return None
    node = ast.parse(source).body[0]
    if not isinstance(node, ast.FunctionDef) or arguments is None:
        return None
    a = node.args
    if what in ("class", "method", "exception") and not is_static(node):
        (a.posonlyargs or a.args).pop(0)
    returned = node.returns and not inspect.isclass(thing)
    return f"({ast.unparse(a)})", ast.unparse(node.returns) if returned else None


def is_static(node):
    """Return whether a method has no first argument of its own."""
    return any(getattr(d, "id", None) == "staticmethod" for d in node.decorator_list)


def short_names(app, tree, name):
    """Write `pd.` where a name of pd_core is shown: the page imports it so."""
    for prefix in tree.findall(addnodes.desc_addname):
        text = re.sub(r"^pd_core\.", "pd.", prefix.astext())
        prefix.children = [nodes.Text(text)]


def setup(app):
    """Connect them; docstrings are escaped before napoleon reads them."""
    app.connect("source-read", directives)
    app.connect("autodoc-process-docstring", docstring, priority=400)
    app.connect("autodoc-process-signature", signature)
    app.connect("doctree-resolved", short_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
