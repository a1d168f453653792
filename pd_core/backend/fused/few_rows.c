/* c [m, n] = alpha a [m, k] b [k, n] for few rows of a: b is read once, in its order, since it takes
   longer to arrive from memory than to be used. Eight of its rows at a time are added to c, which
   is in the first cache; in the same order wherever the columns are divided. */
typedef float V8 __attribute__((vector_size(32), aligned(4), may_alias));
#define WIDE 512 /* columns at a time for several rows of a: eight rows of b stay in the first cache */
#define ADD(count) \
  for (int64_t i = 0; i < m; i++) { \
    const float *x = a + i * am + l * ak; \
    float *y = c + i * cm, s[count]; \
    int64_t j = from; \
    for (int r = 0; r < count; r++) s[r] = x[r * ak] * alpha; \
    for (; j + 8 <= to; j += 8) { \
      V8 sum = {0}; \
      if (l) sum = *(const V8 *)(y + j); \
      for (int r = 0; r < count; r++) sum += s[r] * *(const V8 *)(b + (l + r) * bk + j); \
      *(V8 *)(y + j) = sum; \
    } \
    for (; j < to; j++) { \
      float sum = l ? y[j] : 0; \
      for (int r = 0; r < count; r++) sum = MULTIPLY_ADD(s[r], b[(l + r) * bk + j], sum); \
      y[j] = sum; \
    } \
  }
void few(float *restrict c, int64_t cm, const float *restrict a, int64_t am, int64_t ak,
         const float *restrict b, int64_t bk, int64_t m, int64_t n, int64_t k, float alpha) {
  const int64_t wide = m > 1 ? WIDE : n;
  for (int64_t from = 0; from < n; from += wide) {
    const int64_t to = n - from < wide ? n : from + wide;
    int64_t l = 0;
    for (; l + 8 <= k; l += 8) ADD(8)
    for (; l < k; l++) ADD(1)
  }
}
