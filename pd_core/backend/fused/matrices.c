/* c [m, n] = alpha a [m, k] b [k, n] with strides: so many rows and vectors of columns at once in
   registers. This file is compiled so that they do not stay in memory, and that products and sums may be
   one instruction, as in the runtime's own kernels. */
typedef float V8 __attribute__((vector_size(32), aligned(4), may_alias));
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
static void matrices(float *restrict c, int64_t cm, const float *restrict a, int64_t am, int64_t ak,
                     const float *restrict b, int64_t bk, int64_t m, int64_t n, int64_t k, float alpha) {
  int64_t i = 0;
  BLOCKS(6)
  BLOCKS(4)
  BLOCKS(2)
  BLOCKS(1)
}
/* The same for columns of b that are no neighbours: b is copied, `room` has its elements. */
void turned(float *restrict c, int64_t cm, const float *restrict a, int64_t am, int64_t ak,
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
