"""Rows of Python's numbers, or arrays of one, as one array: by a loop in C where kernels are fused.

Python takes 7 ns for each number of a list, the loop 2: most of that is reading the objects from
memory.
"""

import ctypes
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.fused.build import build, find

# Rows and their data are fetched some rows, and numbers some numbers, before they are read: at the
# end of a row the first numbers of the next.
_SOURCE = r"""
/* Python VERSIONS */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/ndarraytypes.h>
#include <math.h>
#include <string.h>

enum { ROWS = 12, DATA = 6, NUMBERS = 64, LINE = 64, LINES = 8 };

static int stack_array(PyArrayObject *row, float *to, Py_ssize_t size, PyObject *dtype) {
  if ((PyObject *)PyArray_DESCR(row) != dtype || PyArray_NDIM(row) != 1) return 0;
  if (PyArray_DIM(row, 0) != size || !PyArray_IS_C_CONTIGUOUS(row)) return 0;
  memcpy(to, PyArray_DATA(row), size * sizeof *to);
  return 1;
}

/* The numbers of a list or tuple of `size`; NULL for anything else. */
static PyObject **numbers_of(PyObject *row, Py_ssize_t size) {
  if (!PyList_CheckExact(row) && !PyTuple_CheckExact(row)) return NULL;
  return PySequence_Fast_GET_SIZE(row) == size ? PySequence_Fast_ITEMS(row) : NULL;
}

static int stack_numbers(PyObject *row, float *to, Py_ssize_t size, PyObject *next) {
  PyObject **numbers = numbers_of(row, size);
  if (!numbers) return 0;
  PyObject **following = next && size >= NUMBERS ? numbers_of(next, size) : NULL;
  for (Py_ssize_t k = 0; k < size; k++) {
    PyObject *number = numbers[k];
    double x;
    if (k + NUMBERS < size) __builtin_prefetch(numbers[k + NUMBERS]);
    else if (following) __builtin_prefetch(following[k + NUMBERS - size]);
    if (PyFloat_CheckExact(number)) {
      x = PyFloat_AS_DOUBLE(number);
    } else {
      if (!PyLong_CheckExact(number)) return 0;
      x = PyLong_AsDouble(number);
      if (x == -1.0 && PyErr_Occurred()) return PyErr_Clear(), 0;
    }
    to[k] = (float)x;
    if (isinf(to[k]) && !isinf(x)) return 0; /* too large for float32 */
  }
  return 1;
}

/* Whether all rows, a list or tuple of them, are of `size` numbers; then they are in `to`. */
__attribute__((visibility("default"))) int
stack(PyObject *rows, float *to, Py_ssize_t size, PyTypeObject *array, PyObject *dtype) {
  Py_ssize_t count = PySequence_Fast_GET_SIZE(rows);
  PyObject **row = PySequence_Fast_ITEMS(rows);
  for (Py_ssize_t k = 0; k < count; k++, to += size) {
    if (k + ROWS < count) __builtin_prefetch(row[k + ROWS]);
    if (k + DATA < count && Py_TYPE(row[k + DATA]) == array) {
      const char *data = PyArray_DATA((PyArrayObject *)row[k + DATA]);
      for (int line = 0; line < LINES; line++) __builtin_prefetch(data + LINE * line);
    }
    PyObject *next = k + 1 < count ? row[k + 1] : NULL;
    if (!(Py_TYPE(row[k]) == array ? stack_array((PyArrayObject *)row[k], to, size, dtype)
                                   : stack_numbers(row[k], to, size, next)))
      return 0;
  }
  return 1;
}
"""


_MANY = 1 << 24  # numbers in lists, for which Python takes as long as the compiler


class Stack:
    """A function of the rows of a batch, with the library that it is in once that is there.

    It is used if it is there already, and compiled once Python has stacked so many numbers of lists
    that it would have paid. Arrays do not count: they gain 30 µs a batch by it.
    """

    def __init__(self, include: Path):
        self._source = _SOURCE.replace("VERSIONS", f"{sys.version}, NumPy {np.__version__}")
        self._dtype = np.dtype(np.float32)
        links = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
        self._options: dict[str, Any] = {"include": [include, np.get_include()], "flags": links}
        self._function: Any = None
        self._stacked = -1  # numbers of lists until now

    def __call__(self, rows: Sequence[Any], size: int) -> np.ndarray | None:
        """Return float32 [rows, size]; None where a row is something else than `size` numbers.

        `rows` is a list or tuple of lists, tuples and float32 arrays of floats and integers.
        """
        if self._function is None and not self._load(rows, size):
            return None
        block = np.empty((len(rows), size), self._dtype)
        to = block.ctypes.data
        return block if self._function(rows, to, size, np.ndarray, self._dtype) else None

    def _load(self, rows: Sequence[Any], size: int) -> bool:
        """Load the library, which stays loaded; return whether it is there."""
        is_new = self._stacked < 0
        self._stacked = max(self._stacked, 0)
        if isinstance(rows[0], list | tuple):
            self._stacked += len(rows) * size
        compiles = self._stacked >= _MANY
        if not (compiles or is_new):
            return False
        path = (build if compiles else find)(self._source, **self._options)
        if path is None:
            return False
        function, of = ctypes.PyDLL(str(path)).stack, ctypes.py_object
        function.argtypes = [of, ctypes.c_void_p, ctypes.c_ssize_t, of, of]
        function.restype, self._function = ctypes.c_int, function
        return True


def stack_of(session: Any) -> Stack | None:
    """Return what stacks the rows of a batch by a loop in C; None for a session without kernels.

    None, too, where Python's headers are missing: what converts then takes longer, and gives the
    same numbers.
    """
    return _stack() if session.fused else None


@cache
def _stack() -> Stack | None:
    include = Path(sysconfig.get_paths()["include"])
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()  # a list may change without it
    return Stack(include) if has_lock and (include / "Python.h").exists() else None
