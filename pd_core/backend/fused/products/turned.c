/* Y [M, N] = Xᵀ Z of X [K, M] and Z [K, N]: the gradient of a weight, whose factors have their rows in
   common. It comes after prelude.c and recurrences/products.c, whose tiles it uses.

   The rows of the factors are divided into up to SPLIT parts, which have a sum of their own each, and
   the rows of Y into blocks: as many as follow from the sizes. A part takes DEEP rows of the factors at
   a time. Those of X are copied, with lines apart from each other in a cache, those of Z as panels,
   each of which stays in the first cache while it meets all rows of Y. */

#define MOST 16   /* parts */
#define SPLIT 4   /* of the rows of factors */
#define WORTH 8e6 /* multiplications that are worth a part */
#define DEEP 128  /* rows of factors at a time */
#define CHUNK 512 /* columns at a time, whole panels */
#define BETWEEN (DEEP * PANEL + 16) /* from one panel to the next, which has other lines of a cache */
#define LONG 512  /* rows of a part, at least */
#define HIGH 48   /* rows of Y of a part, at least */
#define SUMMED 8192 /* elements of a part of the last sum */

typedef struct {
  const float *x, *z;
  float *y;
  int64_t depth, rows, columns, split, down, high, length; /* split x down parts, high rows of Y each */
  int64_t step, chunk, each; /* between rows of X, copied; floats of copied panels, and of a part */
  float *memory, *sums; /* sums [split, rows, columns]: Y itself if there is one */
} Turned;

Status *run_turned(void *state, Context *context);
void turned_part(void *state, size_t part);

#ifdef PRODUCTS
/* A chunk of columns as panels: rows are read in their order, as memory is read ahead. */
static void copy_panels(float *restrict to, const float *restrict z, int64_t step, int64_t rows, int64_t columns) {
  const int64_t wide = columns < CHUNK ? columns : CHUNK;
  for (int64_t l = 0; l < rows; l++, z += step, to += PANEL) {
    int64_t j = 0;
    float *panel = to;
    for (; j + PANEL <= wide; j += PANEL, panel += BETWEEN) memcpy(panel, z + j, 4 * PANEL);
    for (int64_t c = 0; j < wide && c < PANEL; c++) panel[c] = j + c < wide ? z[j + c] : 0;
  }
}
void turned_part(void *state, size_t part) {
  const Turned *a = state;
  const int64_t i0 = (int64_t)part % a->down * a->high, own = (int64_t)part / a->down;
  const int64_t rows = a->rows - i0 < a->high ? a->rows - i0 : a->high, columns = a->columns;
  const int64_t from = own * a->length, to = a->depth - from < a->length ? a->depth : from + a->length;
  float *const block = a->memory + (int64_t)part * a->each, *const copied = block + a->step * DEEP;
  float *const edge = copied + a->chunk; /* the last panel of Y, whole */
  float *const sums = a->sums + (own * a->rows + i0) * columns;
  for (int64_t k = from; k < to; k += DEEP) {
    const int64_t deep = to - k < DEEP ? to - k : DEEP;
    for (int64_t l = 0; l < deep; l++)
      memcpy(block + l * a->step, a->x + (k + l) * a->rows + i0, 4 * (size_t)rows);
    for (int64_t j = 0; j < columns; j += PANEL) {
      const int64_t whole = columns - j < PANEL ? columns - j : PANEL, at = j % CHUNK;
      if (!at) copy_panels(copied, a->z + k * columns + j, columns, deep, columns - j);
      const float *const panel = copied + at / PANEL * BETWEEN;
      for (int64_t i = 0; i < rows; i += TILE) {
        const int64_t count = rows - i < TILE ? rows - i : TILE;
        const float *x = block + i;
        float *y = sums + i * columns + j;
        int64_t step = columns;
        if (whole < PANEL) {
          for (int64_t r = 0; k > from && r < count; r++) memcpy(edge + r * PANEL, y + r * step, 4 * (size_t)whole);
          y = edge, step = PANEL;
        }
        switch (count) {
#define ROWS(n) case n: \
  if (k > from) tile(n, 1, x, 1, a->step, panel, 0, deep, ADD, y, step); \
  else tile(n, 1, x, 1, a->step, panel, 0, deep, START, y, step); \
  break;
          ROWS(1) ROWS(2) ROWS(3) ROWS(4)
#if TILE > 4
          ROWS(5) ROWS(6)
#endif
#if TILE > 6
          ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#endif
#undef ROWS
        }
        if (whole < PANEL)
          for (int64_t r = 0; r < count; r++)
            memcpy(sums + (i + r) * columns + j, edge + r * PANEL, 4 * (size_t)whole);
      }
    }
  }
}
#endif

#ifdef TURNED
static void sum_part(void *state, size_t part) { /* in the order of the parts */
  const Turned *a = state;
  const int64_t count = a->rows * a->columns, lo = (int64_t)part * SUMMED;
  const int64_t hi = count - lo < SUMMED ? count : lo + SUMMED;
  for (int64_t k = lo; k < hi; k += 512) {
    const int64_t wide = hi - k < 512 ? hi - k : 512;
    const float *restrict first = a->sums + k;
    float *restrict y = a->y + k;
    for (int64_t s = 1; s < a->split; s++) {
      const float *restrict more = first + s * count, *restrict before = s > 1 ? y : first;
#pragma omp simd
      for (int64_t j = 0; j < wide; j++) y[j] = before[j] + more[j];
    }
  }
}

Status *run_turned(void *state, Context *context) {
  Turned made = {0}, *a = &made;
  int64_t d[2], bytes;
  size_t rank;
  (void)state;
  TRY(shape(context, 0, d, 2, &rank));
  if (rank != 2) return failure("a product: a factor is no matrix");
  a->depth = d[0], a->rows = d[1];
  TRY(shape(context, 1, d, 2, &rank));
  if (rank != 2 || d[0] != a->depth) return failure("a product: the factors do not have as many rows");
  a->columns = d[1];
  TRY(input(context, 0, (const void **)&a->x));
  TRY(input(context, 1, (const void **)&a->z));
  d[0] = a->rows;
  TRY(output(context, 0, d, 2, (void **)&a->y));
  const double work = (double)a->depth * (double)a->rows * (double)a->columns;
  int64_t most = 1;
  while (most < MOST && work >= (double)(2 * most) * WORTH) most *= 2;
  a->split = a->down = 1;
  while (a->split < SPLIT && a->split < most && a->depth >= 2 * a->split * LONG) a->split *= 2;
  while (a->down * a->split < most && a->rows >= 2 * a->down * HIGH) a->down *= 2;
  a->high = WHOLE_TILES((a->rows + a->down - 1) / a->down);
  a->down = a->high ? (a->rows + a->high - 1) / a->high : 0;
  a->length = ((a->depth + a->split - 1) / a->split + DEEP - 1) / DEEP * DEEP;
  a->split = a->length ? (a->depth + a->length - 1) / a->length : 0;
  a->step = (a->high + 15) / 16 * 16 + 16;
  if (a->step % 32 == 0) a->step += 16; /* an odd number of lines */
  const int64_t parts = a->columns ? a->down * a->split : 0, count = a->rows * a->columns;
  const int64_t sums = a->split > 1 ? a->split * count : 0;
  a->chunk = WHOLE(a->columns < CHUNK ? a->columns : CHUNK) / PANEL * BETWEEN;
  a->each = a->step * DEEP + a->chunk + TILE * PANEL;
  bytes = 4 * (parts * a->each + sums) + 64;
  void *memory;
  TRY(output(context, 1, &bytes, 1, &memory));
  a->memory = (float *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
  a->sums = sums ? a->memory + parts * a->each : a->y;
  for (int64_t k = 0; !a->depth && k < count; k++) a->y[k] = 0; /* sums of nothing */
  TRY(parallel(context, turned_part, (size_t)parts, a));
  return sums ? parallel(context, sum_part, (size_t)((count + SUMMED - 1) / SUMMED), a) : 0;
}
#endif
