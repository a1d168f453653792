"""Runs programs written for Python 2, as they are, on the Python of today.

What is done, from the outside in:

- Syntax (`print x`, `except E, e`, 0777): the source is rewritten in memory by fissix and a few
  fixers of our own, line for line, so that a traceback shows the author's lines (`syntax`).
- Meaning (`/` of two integers, `d.keys()`, `s.decode()`, `None < 1`): the syntax tree is given
  calls of functions that do what Python 2 did, only where Python 3 does otherwise (`meaning`).
- Names (`xrange`, `open`, `map`, `import`): a translated module has its own `__builtins__`, so its
  words stay and nobody else's change (`namespace`).
- Modules (`cPickle`, `urllib2`, `gzip`, `np.int`): its import statement gives views of the modules
  of today, with the names and habits of then (`shims.views` and the files beside it). The modules
  themselves are left alone, and so is every installed package.

Strings are the hard part: Python 2's str was bytes, and used as text. Here it is text in UTF-8, in
which bytes that are no UTF-8 survive as lone surrogates. A file is bytes below, opened by `open`,
gzip, tarfile or zipfile alike: written with strings of any kind, read by lines of text or by
blocks, and blocks of binary files are bytes that are used like text (`shims.text`, `shims.files`).
What a program can see of it: `len` and indices count characters, not bytes.
"""

from pd_v2.python2.run import launch
from pd_v2.python2.sources import read_source
from pd_v2.python2.translate import translate

__all__ = ["launch", "read_source", "translate"]
