"""Runs unchanged Python 2 programs on Python 3.

The layers, from the outside in:

- Syntax (`print x`, `except E, e`, 0777): the source is rewritten in memory by fissix and a few
  fixers of this package, line by line, so that tracebacks show the original lines (`syntax`).
- Semantics (`/` of two integers, `d.keys()`, `s.decode()`, `None < 1`): where Python 3 differs, the
  syntax tree is rewritten to call functions that do what Python 2 did (`semantics`).
- Names (`xrange`, `open`, `map`, `import`): a translated module has its own `__builtins__`, so that
  its names need no rewriting, and no other module is affected (`namespace`).
- Modules (`cPickle`, `urllib2`, `gzip`, `np.int`): its import statement returns views of Python 3's
  modules, with the names and the behaviour of Python 2 (`shims.views` and the files beside it). The
  modules themselves are not changed, and neither is any installed package.

Strings are the hard part: Python 2's str was bytes, and used as text. Here it is text in UTF-8;
bytes that are not UTF-8 become lone surrogates. A file is a binary file inside, whether it is
opened by `open`, gzip, tarfile or zipfile: any kind of string can be written, lines are text, and
blocks of binary files are bytes that can be used like text (`shims.text`, `shims.files`). A program
can see one difference: `len` and indices count characters, not bytes.
"""

from pd_v2.python2.run import launch
from pd_v2.python2.sources import read_source
from pd_v2.python2.translate import translate

__all__ = ["launch", "read_source", "translate"]
