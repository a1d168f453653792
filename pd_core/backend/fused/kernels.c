/* What the generated functions of groups call. */

/* A part of a loop: buffers, sizes, the rounds from lo to hi, and which part it is. */
typedef void Rounds(void *const *p, const int64_t *n, int64_t lo, int64_t hi, int64_t part);
typedef struct { Rounds *rounds; void *const *p; const int64_t *n; int64_t count, step; } Job;

#define GRAIN 20000.0 /* operations on elements that are worth the help of another thread */
#define MOST 16       /* parts */

/* How many rounds a part has: it follows from sizes alone. Rounds of one element come in blocks. */
INLINE int64_t step_of(int64_t count, double work, int64_t block) {
  if (work < GRAIN || count < 2) return count > 0 ? count : 1;
  double wanted = work / (GRAIN / 2);
  int64_t parts = wanted > MOST ? MOST : (int64_t)wanted, step = (count + parts - 1) / parts;
  return (step + block - 1) / block * block;
}
#define ALIGNED(bytes) (((bytes) + 63) / 64 * 64) /* for memory that lies behind other memory */
INLINE int64_t parts_of(int64_t count, int64_t step) { return (count + step - 1) / step; }

UNUSED static void job(void *state, size_t k) {
  const Job *j = state;
  int64_t lo = (int64_t)k * j->step, hi = lo + j->step;
  j->rounds(j->p, j->n, lo, hi < j->count ? hi : j->count, (int64_t)k);
}
UNUSED static Status *spread(Context *context, Rounds *rounds, void *const *p, const int64_t *n,
                             int64_t count, int64_t step) {
  Job j = {rounds, p, n, count, step};
  return parallel(context, job, (size_t)parts_of(count, step), &j);
}

/* A loop of a table: its function, the buffers from one place of a list on, its sizes likewise. */
typedef struct { Rounds *rounds; int64_t count, block; double work; int32_t buffer, number; } Row;
typedef struct {
  const Row *rows;
  void *const *p;
  const int64_t *numbers, *first, *step; /* of each row, its first part and the rounds of a part */
  int64_t count;
} Table;

UNUSED static void row_job(void *state, size_t k) {
  const Table *t = state;
  int64_t low = 0, high = t->count;
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    if (t->first[middle] <= (int64_t)k) low = middle;
    else high = middle;
  }
  const Row *row = t->rows + low;
  int64_t lo = ((int64_t)k - t->first[low]) * t->step[low], hi = lo + t->step[low];
  row->rounds(t->p + row->buffer, t->numbers + row->number, lo, hi < row->count ? hi : row->count, 0);
}
/* All loops of a table, none of which reads what another one writes: `places` are their buffers. */
UNUSED static Status *spread_rows(Context *context, const Row *rows, int64_t count,
                                  const uint16_t *places, int64_t n_places, const int64_t *numbers,
                                  void *const *b) {
  void *p[n_places];
  int64_t first[count], step[count], parts = 0;
  double work = 0;
  for (int64_t k = 0; k < n_places; k++) p[k] = b[places[k]];
  for (int64_t k = 0; k < count; k++) {
    first[k] = parts, step[k] = step_of(rows[k].count, rows[k].work, rows[k].block);
    parts += parts_of(rows[k].count, step[k]), work += rows[k].work;
  }
  Table t = {rows, p, numbers, first, step, count};
  if (work >= GRAIN) return parallel(context, row_job, (size_t)parts, &t);
  for (int64_t k = 0; k < parts; k++) row_job(&t, (size_t)k);
  return 0;
}

/* Sizes and outputs of a table: for each its place, how many sizes, and these; -1 is the end. */
UNUSED static Status *wrong_sizes(const char *name, int64_t k) {
  char text[128];
  snprintf(text, sizeof text, "%s: input %d does not have the sizes that it was compiled for", name, (int)k);
  return failure(text);
}
UNUSED static Status *fixed_sizes(Context *context, const char *name, const int64_t *row) {
  for (; *row >= 0; row += 2 + row[1]) {
    int64_t d[16];
    size_t r;
    TRY(shape(context, (size_t)row[0], d, 16, &r));
    if ((int64_t)r != row[1] || memcmp(d, row + 2, r * sizeof *d)) return wrong_sizes(name, row[0]);
  }
  return 0;
}
UNUSED static Status *fixed_outputs(Context *context, const int64_t *row, void **b) {
  for (; *row >= 0; row += 2 + row[1])
    TRY(output(context, (size_t)row[0], row + 2, (size_t)row[1], &b[row[0]]));
  return 0;
}

/* An index counted from the beginning; an error is noted for one that is out of range. */
INLINE int64_t in_range(int64_t index, int64_t n, void *bad) {
  index += index < 0 ? n : 0;
  if (index < 0 || index >= n || n > 0x7fffffff) {
    __atomic_store_n((int32_t *)bad, 1, __ATOMIC_RELAXED);
    return 0;
  }
  return index;
}

/* The larger and the smaller of two values, NaN if one is */
#define CHOOSE(type) \
  INLINE type larger_##type(type a, type b) { return a > b || a != a ? a : b; } \
  INLINE type smaller_##type(type a, type b) { return a < b || a != a ? a : b; }
CHOOSE(float)
CHOOSE(double)
CHOOSE(int32_t)
CHOOSE(int64_t)

/* Reductions of parts: sums are of doubles, and rounded once. */
#define COMBINE(name, type, wide, start, fold, last) \
  UNUSED static void name(type *y, const wide *x, int64_t n, int64_t parts, int64_t count) { \
    (void)count; \
    for (int64_t k = 0; k < n; k++) { \
      wide s = start; \
      for (int64_t q = 0; q < parts; q++) { \
        const wide v = x[q * n + k]; \
        s = fold; \
      } \
      y[k] = (type)(last); \
    } \
  }
COMBINE(combine_pick_1, float, double, -0.0, s + v, s)
COMBINE(combine_sum_1, float, double, 0, s + v, s)
COMBINE(combine_sum_11, double, double, 0, s + v, s)
COMBINE(combine_mean_1, float, double, 0, s + v, s / (double)(count ? count : 1))
COMBINE(combine_mean_11, double, double, 0, s + v, s / (double)(count ? count : 1))
COMBINE(combine_max_1, float, float, -INFINITY, v > s || v != v ? v : s, s)
COMBINE(combine_max_11, double, double, -INFINITY, v > s || v != v ? v : s, s)
COMBINE(combine_min_1, float, float, INFINITY, v < s || v != v ? v : s, s)
COMBINE(combine_min_11, double, double, INFINITY, v < s || v != v ? v : s, s)

/* c [m, n] = alpha a [m, k] b [k, n] with strides: so many rows and vectors of columns at once in
   registers. Here products and sums may be one instruction, as in the runtime's own kernels. */
typedef float V8 __attribute__((vector_size(32), aligned(4), may_alias));
#if defined(__clang__)
#define CONTRACTED
#define CONTRACT _Pragma("clang fp contract(fast)")
#else
#define CONTRACTED __attribute__((optimize("O3", "fp-contract=fast"))) /* else s is in memory */
#define CONTRACT
#endif
#define BLOCK(rows, vectors) \
  for (; j + 8 * vectors <= n; j += 8 * vectors) { \
    V8 s[rows][vectors]; \
    for (int r = 0; r < rows; r++) \
      for (int t = 0; t < vectors; t++) s[r][t] = (V8){0}; \
    for (int64_t l = 0; l < k; l++) { \
      const float *x = a + i * am + l * ak; \
      const V8 *y = (const V8 *)(b + l * bk + j); \
      for (int r = 0; r < rows; r++) \
        for (int t = 0; t < vectors; t++) s[r][t] += x[r * am] * y[t]; \
    } \
    for (int r = 0; r < rows; r++) \
      for (int t = 0; t < vectors; t++) \
        ((V8 *)(c + (i + r) * cm + j))[t] = s[r][t] * alpha; \
  }
#define BLOCKS(rows) \
  for (; i + rows <= m; i += rows) { \
    int64_t j = 0; \
    BLOCK(rows, 2) \
    BLOCK(rows, 1) \
    for (; j < n; j++) { \
      float s[rows] = {0}; \
      for (int64_t l = 0; l < k; l++) \
        for (int r = 0; r < rows; r++) s[r] += a[(i + r) * am + l * ak] * b[l * bk + j]; \
      for (int r = 0; r < rows; r++) c[(i + r) * cm + j] = s[r] * alpha; \
    } \
  }
CONTRACTED UNUSED static void matrices(float *restrict c, int64_t cm, const float *restrict a,
                                       int64_t am, int64_t ak, const float *restrict b, int64_t bk,
                                       int64_t m, int64_t n, int64_t k, float alpha) {
  CONTRACT
  int64_t i = 0;
  BLOCKS(6)
  BLOCKS(4)
  BLOCKS(2)
  BLOCKS(1)
}
/* The same for columns of b that are no neighbours: b is copied, `room` has its elements. */
UNUSED static void turned(float *restrict c, int64_t cm, const float *restrict a, int64_t am, int64_t ak,
                   const float *restrict b, int64_t bk, int64_t bn, int64_t m, int64_t n, int64_t k,
                   float alpha, float *restrict room) {
  if (bn == 1 || n == 1) {
    matrices(c, cm, a, am, ak, b, bk, m, n, k, alpha);
    return;
  }
  for (int64_t l = 0; l < k; l++)
    for (int64_t j = 0; j < n; j++) room[l * n + j] = b[l * bk + j * bn];
  matrices(c, cm, a, am, ak, room, n, m, n, k, alpha);
}
/* c [m] = alpha a [m, k] b [k], with rows of neighbours; sums of doubles */
UNUSED static void vectors(float *restrict c, int64_t cm, const float *restrict a, int64_t am,
                           const float *restrict b, int64_t bk, int64_t m, int64_t k, float alpha) {
  for (int64_t i = 0; i < m; i++) {
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t l = 0; l < k; l++) s += a[i * am + l] * b[l * bk];
    c[i * cm] = (float)s * alpha;
  }
}
