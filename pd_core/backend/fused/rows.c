/* Operators on the rows of tables: values added at an index, and numbers put in order. It comes after
   prelude.c. */
#include <stdio.h>

#define MOST 8         /* parts of columns */
#define COLUMNS 32     /* of a part, at least; as many bytes as two lines of a cache */
#define GRAIN 40000    /* elements that are worth the help of another thread */
#define AHEAD 64       /* rows, of one number, by which memory is asked for them before they change */
#define COPIED 65536   /* elements of a part of a copy */

static Status *count_of(Context *context, size_t k, int64_t *count) {
  int64_t d[16];
  size_t rank = 0;
  TRY(shape(context, k, d, 16, &rank));
  *count = 1;
  for (size_t a = 0; a < rank; a++) *count *= d[a];
  return 0;
}

/* ---- y [V, W] = x with values [N, W] added at an index [N] of rows, in the order of the index ---- */

typedef struct {
  float *y;
  const float *x, *values;
  const void *index;
  int64_t n, height, width, step; /* `step` columns are a part */
} Added;

static void copy_part(void *state, size_t part) {
  const Added *a = state;
  int64_t lo = (int64_t)part * COPIED, rest = a->height * a->width - lo;
  memcpy(a->y + lo, a->x + lo, (size_t)(rest < COPIED ? rest : COPIED) * sizeof(float));
}

/* For indices of a type: the first one that is out of range, or -1; and the sums of some columns. */
#define ADDED(type) \
  static int64_t outside_##type(const Added *a) { \
    const type *index = a->index; \
    const int64_t h = a->height; \
    uint64_t outside = 0; /* the sign of what is left of -h, or right of h - 1 */ \
    _Pragma("omp simd reduction(| : outside)") \
    for (int64_t k = 0; k < a->n; k++) { \
      const uint64_t row = (uint64_t)(int64_t)index[k]; \
      outside |= (row + (uint64_t)h) | ((uint64_t)h - 1 - row); \
    } \
    for (int64_t k = 0; outside >> 63 && k < a->n; k++) \
      if (index[k] < -h || index[k] >= h) return k; \
    return -1; \
  } \
  static void add_part_##type(void *state, size_t part) { \
    const Added *a = state; \
    const type *index = a->index; \
    const int64_t lo = (int64_t)part * a->step, w = a->width; \
    const int64_t wide = lo + a->step < w ? a->step : w - lo; \
    if (w == 1) { \
      for (int64_t k = 0; k < a->n; k++) { \
        const int64_t row = (int64_t)index[k], later = (int64_t)index[k + AHEAD < a->n ? k + AHEAD : k]; \
        __builtin_prefetch(a->y + (later < 0 ? later + a->height : later), 1); \
        a->y[row < 0 ? row + a->height : row] += a->values[k]; \
      } \
      return; \
    } \
    for (int64_t k = 0; k < a->n; k++) { \
      const int64_t row = (int64_t)index[k]; \
      float *restrict to = a->y + (row < 0 ? row + a->height : row) * w + lo; \
      const float *restrict from = a->values + k * w + lo; \
      _Pragma("omp simd") \
      for (int64_t j = 0; j < wide; j++) to[j] += from[j]; \
    } \
  }
ADDED(int64_t)
ADDED(int32_t)

static Status *run_added(const int64_t *width, Context *context, int is_wide) {
  Added a;
  int64_t d[16], total = 0, count = 0;
  size_t rank = 0;
  TRY(input(context, 0, (const void **)&a.x));
  TRY(input(context, 1, &a.index));
  TRY(input(context, 2, (const void **)&a.values));
  TRY(count_of(context, 0, &total));
  TRY(count_of(context, 1, &a.n));
  TRY(count_of(context, 2, &count));
  TRY(shape(context, 0, d, 16, &rank));
  TRY(output(context, 0, d, rank, (void **)&a.y));
  a.width = *width;
  if (count != a.n * a.width || total % a.width)
    return failure("the values to be added to rows do not have the sizes of their index and the table");
  a.height = total / a.width;
  const int64_t outside = is_wide ? outside_int64_t(&a) : outside_int32_t(&a);
  if (outside >= 0) { /* before anything is written: the table may be its own result */
    char text[160];
    const int64_t found = is_wide ? ((const int64_t *)a.index)[outside] : ((const int32_t *)a.index)[outside];
    snprintf(text, sizeof text, "out of data bounds, idx=%lld must be within the inclusive range [%lld, %lld]",
             (long long)found, -(long long)a.height, (long long)a.height - 1);
    return failure(text);
  }
  if (a.y != a.x) TRY(parallel(context, copy_part, (size_t)((total + COPIED - 1) / COPIED), &a));
  int64_t parts = count < GRAIN ? 1 : a.width / COLUMNS < MOST ? a.width / COLUMNS : MOST;
  a.step = parts > 1 ? (a.width / parts + COLUMNS - 1) / COLUMNS * COLUMNS : a.width;
  return parallel(context, is_wide ? add_part_int64_t : add_part_int32_t,
                  (size_t)((a.width + a.step - 1) / a.step), &a);
}
static Status *run_added_64(void *width, Context *context) { return run_added(width, context, 1); }
static Status *run_added_32(void *width, Context *context) { return run_added(width, context, 0); }
static Status *open_added(const Info *info, void **state) {
  int64_t *width = malloc(sizeof *width);
  if (!width) return failure("no memory for a kernel");
  Status *status = attribute_int(info, "width", width);
  if (!status && *width < 1) status = failure("rows have no columns");
  if (status) free(width);
  else *state = width;
  return status;
}

/* ---- integers [N] in ascending order, and where each of them was; equal ones keep their order ---- */

typedef struct { uint64_t key; int64_t place; } Entry;
#define SIGN (1ull << 63)
#define SHORT 32

static Status *run_sorted(void *state, Context *context) {
  const int64_t *x;
  int64_t n, *y, *order, bytes;
  Entry *from, *to;
  (void)state;
  TRY(input(context, 0, (const void **)&x));
  TRY(count_of(context, 0, &n));
  bytes = 2 * n * (int64_t)sizeof(Entry);
  TRY(output(context, 0, &n, 1, (void **)&y));
  TRY(output(context, 1, &n, 1, (void **)&order));
  TRY(output(context, 2, &bytes, 1, (void **)&from));
  if (!n) return 0;
  to = from + n;
  uint64_t differ = 0;
  for (int64_t k = 0; k < n; k++) {
    from[k] = (Entry){(uint64_t)x[k] ^ SIGN, k};
    differ |= from[k].key ^ from[0].key;
  }
  if (n <= SHORT) { /* by insertion */
    for (int64_t k = 1; k < n; k++) {
      Entry e = from[k];
      int64_t j = k;
      for (; j && from[j - 1].key > e.key; j--) from[j] = from[j - 1];
      from[j] = e;
    }
  } else { /* by each byte in which some differ, the lowest one first */
    for (int shift = 0; shift < 64; shift += 8) {
      int64_t start[256] = {0}, sum = 0;
      if (!(differ >> shift & 255)) continue;
      for (int64_t k = 0; k < n; k++) start[from[k].key >> shift & 255]++;
      for (int b = 0; b < 256; b++) {
        int64_t count = start[b];
        start[b] = sum, sum += count;
      }
      for (int64_t k = 0; k < n; k++) to[start[from[k].key >> shift & 255]++] = from[k];
      Entry *swap = from;
      from = to, to = swap;
    }
  }
  for (int64_t k = 0; k < n; k++) y[k] = (int64_t)(from[k].key ^ SIGN), order[k] = from[k].place;
  return 0;
}

/* ---- integers as they are; what reads them waits for whatever else is given ---- */

static Status *run_waiting(size_t bytes, Context *context) {
  const void *x;
  void *y;
  int64_t d[16], count = 0;
  size_t rank = 0;
  TRY(input(context, 0, &x));
  TRY(count_of(context, 0, &count));
  TRY(shape(context, 0, d, 16, &rank));
  TRY(output(context, 0, d, rank, &y));
  if (y != x) memcpy(y, x, (size_t)count * bytes);
  return 0;
}
static Status *run_waiting_64(void *state, Context *context) {
  (void)state;
  return run_waiting(8, context);
}
static Status *run_waiting_32(void *state, Context *context) {
  (void)state;
  return run_waiting(4, context);
}

/* ---- the operators ---- */

static int zero[1];
static size_t CALLED in_place(int **inputs, int **outputs) {
  *inputs = *outputs = zero;
  return 1;
}
static void CALLED release(int *inputs, int *outputs) { (void)inputs; (void)outputs; }

static const unsigned char types_64[] = {1, 7, 1, 1}, types_32[] = {1, 6, 1, 1}, types_sorted[] = {7, 7, 7, 2};
static const unsigned char waiting_64[] = {1, 7, 1, 0, 1}, waiting_32[] = {1, 6, 1, 0, 1};
static const unsigned char index_64[] = {7, 0, 7}, index_32[] = {6, 0, 6};
static const Op ops[] = {
  OPERATOR_IN_PLACE("AddRows64", 3, 1, types_64, open_added, free, run_added_64, in_place, release),
  OPERATOR_IN_PLACE("AddRows32", 3, 1, types_32, open_added, free, run_added_32, in_place, release),
  OPERATOR_WAITING("AddRowsLast64", 4, 1, waiting_64, open_added, free, run_added_64, in_place, release),
  OPERATOR_WAITING("AddRowsLast32", 4, 1, waiting_32, open_added, free, run_added_32, in_place, release),
  OPERATOR_WAITING("Wait64", 2, 1, index_64, 0, 0, run_waiting_64, in_place, release),
  OPERATOR_WAITING("Wait32", 2, 1, index_32, 0, 0, run_waiting_32, in_place, release),
  OPERATOR("Sort", 1, 3, types_sorted, 0, 0, run_sorted),
};
REGISTER("pd.rows")
