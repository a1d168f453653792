/* c [m] = alpha a [m, k] b [k], with rows of neighbours; sums of doubles */
void vectors(float *restrict c, int64_t cm, const float *restrict a, int64_t am,
             const float *restrict b, int64_t bk, int64_t m, int64_t k, float alpha) {
  for (int64_t i = 0; i < m; i++) {
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t l = 0; l < k; l++) s += a[i * am + l] * b[l * bk];
    c[i * cm] = (float)s * alpha;
  }
}
