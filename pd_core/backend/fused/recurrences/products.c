
/* ---- products of rows with a matrix ----

   The matrix is packed once for all steps: panels of PANEL columns, row by row. A tile of up to TILE
   rows of the result stays in registers while it runs along DEPTH rows of a panel, which fit in the
   first cache. Each element is one sum in the order of the matrix's rows, however the rows of x are
   cut into tiles and parts. */
#if defined(__AVX512F__)
#define LANES 16
#define VECTORS 2
#define TILE 12
#elif defined(__AVX__)
#define LANES 8
#define VECTORS 2
#define TILE 6
#elif defined(__aarch64__)
#define LANES 4
#define VECTORS 4
#define TILE 6
#else
#define LANES 4
#define VECTORS 2
#define TILE 4
#endif
#define PANEL (LANES * VECTORS)
#define DEPTH (4096 / PANEL)
#define WHOLE(width) (((width) + PANEL - 1) / PANEL * PANEL)
#define WHOLE_TILES(rows) (((rows) + TILE - 1) / TILE * TILE)

void pack(float *restrict packed, const float *restrict matrix, int64_t depth, int64_t width,
          int64_t from, int64_t to);
void multiply(int64_t rows, const float *restrict x, int64_t x_width, const float *restrict packed,
              int64_t depth, int64_t width, float *restrict y, int64_t y_width);
Status *expect(Context *context, size_t k, size_t rank, int64_t *const *sizes);
Status *expect_count(Context *context, size_t k, int64_t count);
Status *reserve(size_t bytes, void **memory, char **aligned);
void copy_rows(float *restrict to, int64_t to_width, const float *restrict from, int64_t from_width,
               int64_t width, int64_t rows);

#ifdef PRODUCTS
typedef float Lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE Lanes lanes_of(float x) { return x - (Lanes){0.f}; } /* one instruction; a loop is not */

/* Columns from `from` to `to` in panels of a matrix [depth, width]; beyond its width are zeros. */
void pack(float *restrict packed, const float *restrict matrix, int64_t depth, int64_t width,
          int64_t from, int64_t to) {
  for (int64_t j = from; j < to; j += PANEL) {
    float *restrict panel = packed + j * depth;
    int64_t whole = width - j < PANEL ? width - j : PANEL;
    for (int64_t k = 0; k < depth; k++) {
      if (whole == PANEL) {
        memcpy(panel + k * PANEL, matrix + k * width + j, 4 * PANEL);
      } else {
        for (int64_t i = 0; i < PANEL; i++)
          panel[k * PANEL + i] = i < whole ? matrix[k * width + j + i] : 0.f;
      }
    }
  }
}

enum { START, RESUME, ADD }; /* a sum begins, goes on from what is in y, or is added to that at its end */

/* y [rows, panels * PANEL] = x times that many panels, `whole` apart; x [rows, depth] has its rows
   `row` and its columns `column` apart. */
INLINE void tile(const int rows, const int panels, const float *restrict x, const int64_t row,
                 const int64_t column, const float *restrict panel, const int64_t whole, int64_t depth,
                 const int how, float *restrict y, const int64_t y_width) {
  Lanes sums[TILE * VECTORS][VECTORS]; /* of row i and panel p at i * panels + p */
  for (int i = 0; i < rows * panels; i++)
    for (int v = 0; v < VECTORS; v++)
      sums[i][v] = how != RESUME ? (Lanes){0.f}
                                 : *(const Lanes *)(y + i / panels * y_width + i % panels * PANEL + v * LANES);
  for (int64_t k = 0; k < depth; k++)
    for (int p = 0; p < panels; p++) {
      Lanes m[VECTORS];
      for (int v = 0; v < VECTORS; v++)
        m[v] = *(const Lanes *)(panel + p * whole + k * PANEL + v * LANES);
      for (int i = 0; i < rows; i++) {
        Lanes a = lanes_of(x[i * row + k * column]);
        for (int v = 0; v < VECTORS; v++) sums[i * panels + p][v] += a * m[v];
      }
    }
  for (int i = 0; i < rows * panels; i++)
    for (int v = 0; v < VECTORS; v++) {
      Lanes *to = (Lanes *)(y + i / panels * y_width + i % panels * PANEL + v * LANES);
      if (how == ADD) sums[i][v] += *to;
      *to = sums[i][v];
    }
}

/* y = x times the first `depth` rows of a matrix in panels of `all` rows, or added to y. */
INLINE void panels(int64_t rows, const float *restrict x, const int64_t row, const int64_t column,
                   const float *restrict packed, int64_t all, int64_t depth, int64_t width,
                   float *restrict y, int64_t y_width, int add) {
  const int64_t tiles = (rows + TILE - 1) / TILE, whole = PANEL * all;
  const int64_t end = WHOLE(width);
  int64_t j = 0;
  if (!depth && !add)
    for (int64_t i = 0; i < rows; i++)
      for (j = 0; j < end; j++) y[i * y_width + j] = 0;
  j = 0;
#define ROWS(n, m) \
  case n: tile(n, m, a, row, column, panel, whole, deep, how, b, y_width); break;
  /* of one or two rows several panels at once: a sum waits for the one before it */
  for (const int64_t wide = rows == 1 ? 4 : rows == 2 ? 2 : 0; wide && j + wide * PANEL <= end;) {
    for (int64_t k = 0; k < depth; k += DEPTH) {
      const float *panel = packed + j * all + k * PANEL, *a = x + k * column;
      const int64_t deep = depth - k < DEPTH ? depth - k : DEPTH;
      const int how = k || add ? RESUME : START;
      float *b = y + j;
      switch (rows) { ROWS(1, 4) ROWS(2, 2) }
    }
    j += wide * PANEL;
  }
  for (; j < end; j += PANEL) {
    for (int64_t k = 0; k < depth; k += DEPTH) {
      const float *panel = packed + j * all + k * PANEL;
      const int64_t deep = depth - k < DEPTH ? depth - k : DEPTH;
      const int how = k || add ? RESUME : START;
      for (int64_t t = 0, i = 0; t < tiles; t++) { /* tiles of nearly the same size */
        const int64_t count = rows / tiles + (t < rows % tiles);
        const float *a = x + i * row + k * column;
        float *b = y + i * y_width + j;
        switch (count) {
          ROWS(1, 1) ROWS(2, 1) ROWS(3, 1) ROWS(4, 1)
#if TILE > 4
          ROWS(5, 1) ROWS(6, 1)
#endif
#if TILE > 6
          ROWS(7, 1) ROWS(8, 1) ROWS(9, 1) ROWS(10, 1) ROWS(11, 1) ROWS(12, 1)
#endif
        }
        i += count;
      }
    }
  }
#undef ROWS
}

/* y [rows, y_width] = x [rows, x_width] times a packed matrix; y has whole panels of columns. */
void multiply(int64_t rows, const float *restrict x, int64_t x_width, const float *restrict packed,
              int64_t depth, int64_t width, float *restrict y, int64_t y_width) {
  panels(rows, x, x_width, 1, packed, depth, depth, width, y, y_width, 0);
}

/* ---- loops over rows ---- */

/* The sizes of input k; those of which nothing is known yet (-1) become known, others are compared. */
Status *expect(Context *context, size_t k, size_t rank, int64_t *const *sizes) {
  int64_t dims[3];
  size_t found = 0;
  TRY(shape(context, k, dims, 3, &found));
  if (found != rank) return failure("an input of a loop has another number of axes");
  for (size_t i = 0; i < rank; i++) {
    if (*sizes[i] < 0) *sizes[i] = dims[i];
    else if (*sizes[i] != dims[i]) {
      char text[160];
      snprintf(text, sizeof text,
               "inputs of a loop do not have the same sizes: %lld and %lld, that of axis %d of input %d",
               (long long)*sizes[i], (long long)dims[i], (int)i, (int)k);
      return failure(text);
    }
  }
  return 0;
}

/* Input k has so many elements. */
Status *expect_count(Context *context, size_t k, int64_t count) {
  int64_t dims[8], found = 1;
  size_t rank = 0;
  TRY(shape(context, k, dims, 8, &rank));
  for (size_t i = 0; i < rank; i++) found *= dims[i];
  if (found == count) return 0;
  char text[120];
  snprintf(text, sizeof text, "input %d of a loop has %lld elements in place of %lld", (int)k,
           (long long)found, (long long)count);
  return failure(text);
}

/* Memory of a run, aligned to the lines of caches. */
Status *reserve(size_t bytes, void **memory, char **aligned) {
  *memory = malloc(bytes + 64);
  if (!*memory) return failure("no memory for a loop");
  *aligned = (char *)(((uintptr_t)*memory + 63) & ~(uintptr_t)63);
  return 0;
}

void copy_rows(float *restrict to, int64_t to_width, const float *restrict from, int64_t from_width,
               int64_t width, int64_t rows) {
  for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_width, from + r * from_width, 4 * width);
}
#endif
