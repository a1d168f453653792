/* Columns of batches as arrays: rows of numbers, ids, and (column, value) pairs.

   A function fills an array that it is given and returns True, or returns False at the first thing
   that it does not take, with the array in any state: Python converts those. Each takes the batch, a
   list or tuple, and the number of a field of its samples, lists or tuples; -1 is the sample itself.

   What is read are objects all over the memory. So they are fetched ahead, in the order in which one
   leads to the next: sample, field, its data. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/ndarraytypes.h>
#include <numpy/arrayscalars.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { SAMPLES = 24, FIELDS = 16, DATA = 8, NUMBERS = 64, LINE = 64, LINES = 8, AXES = 3 };
#define EXACT 9007199254740992ll /* integers up to it are numbers of float64 */

/* ---- what is read ---- */

/* The items of a list or tuple, NULL for anything else. */
static inline PyObject **items_of(PyObject *x, Py_ssize_t *count) {
  if (!PyList_CheckExact(x) && !PyTuple_CheckExact(x)) return NULL;
  *count = PySequence_Fast_GET_SIZE(x);
  return PySequence_Fast_ITEMS(x);
}

typedef struct {
  PyObject **samples;
  Py_ssize_t count, field;
} Column;

/* The field of a sample that has it, else NULL. */
static inline PyObject *field_of(const Column *c, Py_ssize_t k) {
  Py_ssize_t count;
  if (c->field < 0) return c->samples[k];
  PyObject **fields = items_of(c->samples[k], &count);
  return fields && c->field < count ? fields[c->field] : NULL;
}

/* Fetch what the samples after one will be read for. */
static inline void fetch(const Column *c, Py_ssize_t k) {
  if (k + SAMPLES < c->count) __builtin_prefetch(c->samples[k + SAMPLES]);
  if (k + FIELDS < c->count) {
    PyObject *field = field_of(c, k + FIELDS);
    if (field) {
      __builtin_prefetch(field);
      __builtin_prefetch((const char *)field + LINE);
    }
  }
}

/* ---- rows ---- */

typedef struct {
  PyTypeObject *array;     /* numpy.ndarray */
  PyArrayObject *first;    /* the first row, if it is an array; others of its type are like it */
  Py_ssize_t size;
} Rows;

static inline void fetch_data(const Column *c, Py_ssize_t k, const Rows *r) {
  if (k + DATA >= c->count) return;
  PyObject *field = field_of(c, k + DATA);
  if (!field || Py_TYPE(field) != r->array) return;
  PyArrayObject *row = (PyArrayObject *)field;
  __builtin_prefetch(PyArray_DIMS(row));
  for (int line = 0; line < LINES; line++) __builtin_prefetch(PyArray_BYTES(row) + LINE * line);
}

/* Whether an array has the numbers of a row: a vector, or an image if the first row is one of its shape. */
static int is_row(PyArrayObject *row, const Rows *r) {
  int rank = PyArray_NDIM(row);
  if (rank != (r->first ? PyArray_NDIM(r->first) : 1) || rank < 1 || rank > AXES) return 0;
  Py_ssize_t size = 1;
  for (int axis = 0; axis < rank; axis++) {
    if (r->first && PyArray_DIM(r->first, axis) != PyArray_DIM(row, axis)) return 0;
    size *= PyArray_DIM(row, axis);
  }
  return size == r->size && PyArray_ISCARRAY_RO(row);
}

#define CONVERTED(number, type) \
  case number: { \
    const type *restrict x = data; \
    _Pragma("omp simd") \
    for (Py_ssize_t k = 0; k < size; k++) to[k] = (float)x[k]; \
    return 1; \
  }

static int put_array(PyArrayObject *row, float *restrict to, const Rows *r) {
  const void *data = PyArray_DATA(row);
  const Py_ssize_t size = r->size;
  int number = PyArray_TYPE(row);
  /* NumPy converts rows of several types to a common one first */
  if (!is_row(row, r) || number != (r->first ? PyArray_TYPE(r->first) : NPY_FLOAT)) return 0;
  switch (number) {
    case NPY_FLOAT:
      memcpy(to, data, size * sizeof *to);
      return 1;
    case NPY_DOUBLE: {
      const double *restrict x = data;
      int large = 0;
      _Pragma("omp simd reduction(|:large)")
      for (Py_ssize_t k = 0; k < size; k++) {
        to[k] = (float)x[k];
        large |= (fabsf(to[k]) > FLT_MAX) & (fabs(x[k]) <= DBL_MAX);
      }
      return !large; /* NumPy warns of those that are too large */
    }
    CONVERTED(NPY_UINT8, npy_uint8)
    CONVERTED(NPY_INT8, npy_int8)
    CONVERTED(NPY_INT16, npy_int16)
    CONVERTED(NPY_INT32, npy_int32)
    CONVERTED(NPY_INT64, npy_int64)
  }
  return 0;
}

/* A number of Python as a float32; 0 if it is something else, or too large. */
static inline int number_of(PyObject *number, float *to) {
  double x;
  if (PyFloat_CheckExact(number)) {
    x = PyFloat_AS_DOUBLE(number);
  } else {
    if (!PyLong_CheckExact(number)) return 0;
    x = PyLong_AsDouble(number);
    if (x == -1.0 && PyErr_Occurred()) return PyErr_Clear(), 0;
  }
  *to = (float)x;
  return !isinf(*to) || isinf(x);
}

static int put_numbers(PyObject *row, float *to, const Rows *r, PyObject *next) {
  Py_ssize_t count, size = r->size;
  PyObject **numbers = items_of(row, &count), **following = NULL;
  if (!numbers || count != size) return 0;
  if (r->first && (PyArray_TYPE(r->first) != NPY_FLOAT || PyArray_NDIM(r->first) != 1)) return 0;
  if (next && size >= NUMBERS) {
    following = items_of(next, &count);
    if (count != size) following = NULL;
  }
  for (Py_ssize_t k = 0; k < size; k++) {
    if (k + NUMBERS < size) __builtin_prefetch(numbers[k + NUMBERS]);
    else if (following) __builtin_prefetch(following[k + NUMBERS - size]);
    if (!number_of(numbers[k], to + k)) return 0;
  }
  return 1;
}

/* rows(batch, field, to): numbers of Python, or arrays of them, in `to`, float32 [rows, size]. */
static PyObject *rows(PyObject *self, PyObject *const *args, Py_ssize_t given) {
  (void)self;
  if (given != 3) return PyErr_SetString(PyExc_TypeError, "rows(batch, field, to)"), NULL;
  Column c = {.field = PyLong_AsSsize_t(args[1])};
  if (!(c.samples = items_of(args[0], &c.count))) Py_RETURN_FALSE;
  PyArrayObject *block = (PyArrayObject *)args[2];
  Rows r = {.array = Py_TYPE(block), .size = PyArray_DIM(block, 1)};
  float *to = PyArray_DATA(block);
  if (PyArray_DIM(block, 0) != c.count) Py_RETURN_FALSE;
  for (Py_ssize_t k = 0; k < c.count; k++, to += r.size) {
    fetch(&c, k);
    fetch_data(&c, k, &r);
    PyObject *row = field_of(&c, k);
    if (!row) Py_RETURN_FALSE;
    if (Py_TYPE(row) == r.array) {
      if (!k) r.first = (PyArrayObject *)row;
      if (!put_array((PyArrayObject *)row, to, &r)) Py_RETURN_FALSE;
    } else if (!put_numbers(row, to, &r, k + 1 < c.count ? field_of(&c, k + 1) : NULL)) {
      Py_RETURN_FALSE;
    }
  }
  Py_RETURN_TRUE;
}

/* ---- ids ---- */

/* An integer of Python or of NumPy's int64 in range(limit); 0 if it is anything else. */
static inline int id_of(PyObject *id, PyTypeObject *int64, int64_t limit, int64_t *to) {
  if (PyLong_CheckExact(id)) {
    int overflow;
    *to = PyLong_AsLongLongAndOverflow(id, &overflow);
    if (overflow) return 0;
  } else {
    if (Py_TYPE(id) != int64) return 0;
    *to = PyArrayScalar_VAL(id, Int64);
  }
  return *to >= 0 && *to < limit;
}

/* ids(batch, field, to, limit, numpy.int64): integers in range(limit) in `to`, int64 [ids]. */
static PyObject *ids(PyObject *self, PyObject *const *args, Py_ssize_t given) {
  (void)self;
  if (given != 5) return PyErr_SetString(PyExc_TypeError, "ids(batch, field, to, limit, int64)"), NULL;
  Column c = {.field = PyLong_AsSsize_t(args[1])};
  if (!(c.samples = items_of(args[0], &c.count))) Py_RETURN_FALSE;
  int64_t *to = PyArray_DATA((PyArrayObject *)args[2]), limit = PyLong_AsLongLong(args[3]);
  if (PyArray_DIM((PyArrayObject *)args[2], 0) != c.count) Py_RETURN_FALSE;
  for (Py_ssize_t k = 0; k < c.count; k++) {
    fetch(&c, k);
    PyObject *id = field_of(&c, k);
    if (!id || !id_of(id, (PyTypeObject *)args[4], limit, to + k)) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

/* pairs(entries, ids, values, limit, numpy.int64): (column, value) pairs in `ids`, int64 [entries], and
   `values`, float32 [entries]. */
static PyObject *pairs(PyObject *self, PyObject *const *args, Py_ssize_t given) {
  (void)self;
  if (given != 5) return PyErr_SetString(PyExc_TypeError, "pairs(entries, ids, values, limit, int64)"), NULL;
  Py_ssize_t count, two;
  PyObject **entries = items_of(args[0], &count);
  int64_t *column = PyArray_DATA((PyArrayObject *)args[1]), limit = PyLong_AsLongLong(args[3]);
  float *value = PyArray_DATA((PyArrayObject *)args[2]);
  if (!entries || PyArray_DIM((PyArrayObject *)args[1], 0) != count) Py_RETURN_FALSE;
  if (PyArray_DIM((PyArrayObject *)args[2], 0) != count || limit > EXACT) Py_RETURN_FALSE;
  for (Py_ssize_t k = 0; k < count; k++) {
    if (k + SAMPLES < count) __builtin_prefetch(entries[k + SAMPLES]);
    PyObject **pair = items_of(entries[k], &two);
    if (!pair || two != 2 || !id_of(pair[0], (PyTypeObject *)args[4], limit, column + k)) Py_RETURN_FALSE;
    if (PyLong_CheckExact(pair[1])) { /* an array of integers alone would round larger ones once */
      int overflow;
      long long whole = PyLong_AsLongLongAndOverflow(pair[1], &overflow);
      if (overflow || whole > EXACT || whole < -EXACT) Py_RETURN_FALSE;
      value[k] = (float)whole;
    } else if (!number_of(pair[1], value + k)) {
      Py_RETURN_FALSE;
    }
  }
  Py_RETURN_TRUE;
}

/* ---- the module ---- */

static PyMethodDef methods[] = {
  {"rows", (PyCFunction)(void (*)(void))rows, METH_FASTCALL, NULL},
  {"ids", (PyCFunction)(void (*)(void))ids, METH_FASTCALL, NULL},
  {"pairs", (PyCFunction)(void (*)(void))pairs, METH_FASTCALL, NULL},
  {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "pd_columns", NULL, 0, methods, slots, NULL, NULL, NULL};

__attribute__((visibility("default"))) PyObject *PyInit_pd_columns(void) { return PyModuleDef_Init(&module); }
