/* c [m] = alpha a [m, k] b [k], with rows of neighbours. Where b has neighbours, too, products and sums
   are one instruction on vectors, of several rows at a time; elsewhere sums are of doubles. */
typedef float V8 __attribute__((vector_size(32), aligned(4), may_alias));
#define DOTS(rows) \
  for (; i + rows <= m; i += rows) { \
    const float *x = a + i * am; \
    V8 s[rows]; \
    int64_t l = 0; \
    for (int r = 0; r < rows; r++) s[r] = (V8){0}; \
    for (; l + 8 <= k; l += 8) \
      for (int r = 0; r < rows; r++) s[r] += *(const V8 *)(x + r * am + l) * *(const V8 *)(b + l); \
    for (int r = 0; r < rows; r++) { \
      float sum = ((s[r][0] + s[r][4]) + (s[r][2] + s[r][6])) + ((s[r][1] + s[r][5]) + (s[r][3] + s[r][7])); \
      for (int64_t q = l; q < k; q++) sum = MULTIPLY_ADD(x[r * am + q], b[q], sum); \
      c[(i + r) * cm] = sum * alpha; \
    } \
  }
void vectors(float *restrict c, int64_t cm, const float *restrict a, int64_t am,
             const float *restrict b, int64_t bk, int64_t m, int64_t k, float alpha) {
  int64_t i = 0;
  if (bk == 1) {
    DOTS(4)
    DOTS(1)
  }
  for (; i < m; i++) {
    double s = 0;
    for (int64_t l = 0; l < k; l++) s += a[i * am + l] * b[l * bk];
    c[i * cm] = (float)s * alpha;
  }
}
