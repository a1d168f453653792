"""Rows of Python's numbers, or arrays of one, as one array: by a loop in C where kernels are fused.

Python takes 7 ns for each number of a list, the loop 2: most of that is reading the objects from
memory.
"""

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.fused.build import build

Stack = Callable[[Sequence[Any], int], np.ndarray | None]

# Rows and their data are fetched some rows, and numbers some numbers, before they are read.
_SOURCE = r"""
/* Python VERSIONS */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/ndarraytypes.h>
#include <math.h>
#include <string.h>

enum { ROWS = 12, DATA = 6, NUMBERS = 24, LINE = 64, LINES = 8 };

static int stack_array(PyArrayObject *row, float *to, Py_ssize_t size, PyObject *dtype) {
  if ((PyObject *)PyArray_DESCR(row) != dtype || PyArray_NDIM(row) != 1) return 0;
  if (PyArray_DIM(row, 0) != size || !PyArray_IS_C_CONTIGUOUS(row)) return 0;
  memcpy(to, PyArray_DATA(row), size * sizeof *to);
  return 1;
}

static int stack_numbers(PyObject *row, float *to, Py_ssize_t size) {
  if (!PyList_CheckExact(row) && !PyTuple_CheckExact(row)) return 0;
  if (PySequence_Fast_GET_SIZE(row) != size) return 0;
  PyObject **numbers = PySequence_Fast_ITEMS(row);
  for (Py_ssize_t k = 0; k < size; k++) {
    PyObject *number = numbers[k];
    double x;
    if (k + NUMBERS < size) __builtin_prefetch(numbers[k + NUMBERS]);
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
    if (!(Py_TYPE(row[k]) == array ? stack_array((PyArrayObject *)row[k], to, size, dtype)
                                   : stack_numbers(row[k], to, size)))
      return 0;
  }
  return 1;
}
"""


def stack_of(session: Any) -> Stack | None:
    """Return what stacks the rows of a batch by a loop in C; None for a session without kernels.

    `stack(rows, size)` gives float32 [rows, size] for a list or tuple of lists, tuples and float32
    arrays of so many numbers, floats and integers, rounded as NumPy does; None where a row is
    something else. None instead of it, too, where Python's headers are missing: what converts then
    takes longer, and gives the same numbers.
    """
    return _stack() if session.fused else None


@cache
def _stack() -> Stack | None:
    """The function of the library, which stays loaded."""
    include = Path(sysconfig.get_paths()["include"])
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()  # a list may change without it
    if not has_lock or not (include / "Python.h").exists():
        return None
    source = _SOURCE.replace("VERSIONS", f"{sys.version}, NumPy {np.__version__}")
    links = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    library = ctypes.PyDLL(str(build(source, include=[include, np.get_include()], flags=links)))
    function, number = library.stack, ctypes.c_ssize_t
    of, restype = ctypes.py_object, ctypes.c_int
    function.argtypes, function.restype = [of, ctypes.c_void_p, number, of, of], restype
    dtype = np.dtype(np.float32)

    def stack(rows: Sequence[Any], size: int) -> np.ndarray | None:
        block = np.empty((len(rows), size), dtype)
        return block if function(rows, block.ctypes.data, size, np.ndarray, dtype) else None

    return stack
