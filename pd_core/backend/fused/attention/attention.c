/* softmax(scale Q Kᵀ + mask) V for each head, and its gradients, by blocks of queries: the scores of a
   block stay in the caches. It comes after prelude.c and products.c.

   Tensors have four axes: [batch, heads, steps, width], or [batch, steps, heads, width] where `last`
   says so. The forward pass keeps the largest score and 1 / the sum of each row, of which the
   gradients compute the weights again. Keys whose weights are 0 for sure are left out: see `seen`. */

enum { Q, K, V, Y, DY, DQ, DK, DV, TENSORS };
#define BLOCK (4 * TILE) /* queries of a block */
#define PARTS 16         /* at most; each runs its heads one after the other in the same memory */
#define FAR 1e6f         /* how far a mask is below the largest of its row where it hides a key */

typedef struct {
  float *data;
  int last;                 /* whether heads come after steps */
  int64_t batch, head, row; /* how far apart, in elements */
} Tensor;

typedef struct { /* a node */
  int has_mask, causal, keeps, last[TENSORS];
  float scale, dq_scale, dk_scale;
} Attend;

typedef struct { /* a run */
  const Attend *node;
  Tensor t[TENSORS];
  const float *mask;
  int64_t steps[4]; /* of the mask, along each axis; 0 where it is the same */
  int64_t mask_rows, *ends; /* of each row of the mask: the first key behind all that it shows */
  int hides;                /* whether some row does not show the last key */
  int64_t n, h, tq, tk, d, dv;
  int64_t parts, each, tkw, dw, dvw; /* the last are whole panels */
  float *stats;                      /* [batch, heads, queries, 2] */
  char *memory;
} Attention;

Status *run_attention(void *state, Context *context);
Status *run_attention_grad(void *state, Context *context);
void product(int64_t rows, const float *x, int64_t x_width, const float *packed, int64_t all,
             int64_t depth, int64_t width, float *y, int64_t y_width);
void add_turned(int64_t rows, const float *x, int64_t x_width, const float *packed, int64_t depth,
                int64_t width, float *y, int64_t y_width);

#ifdef ATTENTION_PRODUCTS
/* y [rows, width] = x [rows, depth] times the first `depth` rows of panels with `all` of them. */
void product(int64_t rows, const float *x, int64_t x_width, const float *packed, int64_t all,
             int64_t depth, int64_t width, float *y, int64_t y_width) {
  panels(rows, x, x_width, 1, packed, all, depth, width, y, y_width, 0);
}
/* y [rows, width] += xᵀ times panels, for x [depth, rows] */
void add_turned(int64_t rows, const float *x, int64_t x_width, const float *packed, int64_t depth,
                int64_t width, float *y, int64_t y_width) {
  panels(rows, x, 1, x_width, packed, depth, depth, width, y, y_width, 1);
}
#endif

#ifdef ATTENTION
static const float *row_of(const Tensor *t, int64_t batch, int64_t head, int64_t row) {
  return t->data + batch * t->batch + head * t->head + row * t->row;
}

/* Rows [rows, width] in panels. */
static void pack_rows(float *restrict packed, const float *restrict x, int64_t row, int64_t rows,
                      int64_t width) {
  for (int64_t j = 0; j < width; j += PANEL) {
    const int64_t whole = width - j < PANEL ? width - j : PANEL;
    for (int64_t r = 0; r < rows; r++, packed += PANEL) {
      for (int64_t i = 0; i < whole; i++) packed[i] = x[r * row + j + i];
      for (int64_t i = whole; i < PANEL; i++) packed[i] = 0;
    }
  }
}
/* The transposed matrix [width, rows] in panels. */
static void pack_turned(float *restrict packed, const float *restrict x, int64_t row, int64_t rows,
                        int64_t width) {
  for (int64_t j = 0; j < rows; j += PANEL, packed += PANEL * width) {
    const int64_t whole = rows - j < PANEL ? rows - j : PANEL;
    for (int64_t i = 0; i < PANEL; i++)
      for (int64_t k = 0; k < width; k++)
        packed[k * PANEL + i] = i < whole ? x[(j + i) * row + k] : 0;
  }
}

/* The largest magnitude of some rows, as bits: NaN and infinities are larger than all numbers. */
typedef int32_t Words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
static float magnitude(const Tensor *t, int64_t batch, int64_t head, int64_t rows, int64_t width) {
  Words most = {0};
  int32_t all = 0;
  for (int64_t r = 0; r < rows; r++) {
    const int32_t *bits = (const int32_t *)row_of(t, batch, head, r);
    int64_t k = 0;
    for (; k + LANES <= width; k += LANES) {
      const Words b = *(const Words *)(bits + k) & 0x7fffffff, larger = b > most;
      most = (b & larger) | (most & ~larger);
    }
    for (; k < width; k++) all = (bits[k] & 0x7fffffff) > all ? bits[k] & 0x7fffffff : all;
  }
  for (int i = 0; i < LANES; i++) all = most[i] > all ? most[i] : all;
  return bits_float((uint32_t)all);
}

/* Whether keys that are hidden can be left out: their scores are so far below the largest one
   that their weights are 0, and nothing is infinite or NaN, which 0 would not hide. */
static int can_hide(const Attention *a, int64_t batch, int64_t head, int with_gradient) {
  if (!a->hides) return 0;
  const float q = magnitude(&a->t[Q], batch, head, a->tq, a->d);
  const float k = magnitude(&a->t[K], batch, head, a->tk, a->d);
  float v = magnitude(&a->t[V], batch, head, a->tk, a->dv);
  if (with_gradient) { /* the products of values with a gradient do not overflow, either */
    const float dy = magnitude(&a->t[DY], batch, head, a->tq, a->dv);
    v += dy + v * dy * (float)a->dv;
  }
  const float most = q * k * (float)a->d * fabsf(a->node->scale);
  return most < FAR / 4 && v <= 3e38f; /* neither holds for NaN */
}

static const float *mask_row(const Attention *a, int64_t batch, int64_t head, int64_t query) {
  return a->mask + batch * a->steps[0] + head * a->steps[1] + query * a->steps[2];
}

/* The first key behind all that one row of a mask shows. */
static int64_t end_of(const float *restrict mask, int64_t keys) {
  float most = -INFINITY;
  int is_nan = 0;
#pragma omp simd reduction(max : most) reduction(| : is_nan)
  for (int64_t k = 0; k < keys; k++) {
    is_nan |= mask[k] != mask[k];
    most = mask[k] > most ? mask[k] : most;
  }
  if (is_nan || most == INFINITY) return keys;
  while (keys && mask[keys - 1] < most - FAR) keys--;
  return keys;
}

/* How many keys the queries lo to hi see. */
static int64_t seen(const Attention *a, int64_t batch, int64_t head, int64_t lo, int64_t hi) {
  int64_t most = 0;
  if (a->node->causal) return hi < a->tk ? hi : a->tk;
  if (!a->mask || !a->steps[3]) return a->tk;
  for (int64_t q = lo; q < hi; q++) {
    const int64_t end = a->ends[(mask_row(a, batch, head, q) - a->mask) / a->tk];
    most = end > most ? end : most;
  }
  return most;
}

/* Scores of a block become weights, not yet divided by their sums if `stats` are made. */
static void scores(const Attention *a, int64_t batch, int64_t head, int64_t query, int64_t rows,
                   int64_t keys, float *restrict s) {
  for (int64_t r = 0; r < rows; r++) {
    float *restrict x = s + r * a->tkw;
    if (a->mask) {
      const float *restrict m = mask_row(a, batch, head, query + r);
      if (a->steps[3]) {
#pragma omp simd
        for (int64_t k = 0; k < keys; k++) x[k] += m[k];
      } else {
        for (int64_t k = 0; k < keys; k++) x[k] += m[0];
      }
    }
    if (a->node->causal)
      for (int64_t k = query + r + 1; k < keys; k++) x[k] += -3.402823466e38f;
  }
}
/* exp of what is 0 at most, or NaN; 0 where it would be denormal */
INLINE float weight(float x) { return x < -87.f ? 0 : f_exp_near(x); }
static void weights(const Attention *a, int64_t rows, int64_t keys, float *restrict s,
                    float *restrict stats, int made) {
  for (int64_t r = 0; r < rows; r++, stats += 2) {
    float *restrict x = s + r * a->tkw;
    if (!made) {
      float most = x[0];
#pragma omp simd reduction(max : most)
      for (int64_t k = 0; k < keys; k++) most = x[k] > most ? x[k] : most;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < keys; k++) {
        x[k] = weight(x[k] - most);
        sum += x[k];
      }
      stats[0] = most, stats[1] = 1 / sum;
    } else {
      const float most = stats[0], factor = stats[1];
#pragma omp simd
      for (int64_t k = 0; k < keys; k++) x[k] = weight(x[k] - most) * factor;
    }
  }
}

/* Queries, scaled. */
static void scaled(const Attention *a, int64_t batch, int64_t head, int64_t query, int64_t rows,
                   float *restrict to) {
  const float scale = a->node->scale;
  for (int64_t r = 0; r < rows; r++) {
    const float *restrict x = row_of(&a->t[Q], batch, head, query + r);
#pragma omp simd
    for (int64_t k = 0; k < a->d; k++) to[r * a->d + k] = x[k] * scale;
  }
}
static void write_rows(const Tensor *t, int64_t batch, int64_t head, int64_t row, int64_t rows,
                       int64_t width, const float *restrict from, int64_t step, const float *factors) {
  for (int64_t r = 0; r < rows; r++) {
    float *restrict y = (float *)row_of(t, batch, head, row + r);
    const float f = factors[2 * r];
#pragma omp simd
    for (int64_t k = 0; k < width; k++) y[k] = from[r * step + k] * f;
  }
}

/* Memory of a part, in floats; the first call counts, with base 0. */
#define TAKE(count) (at += (((count) + 15) / 16 * 16), base + at - (((count) + 15) / 16 * 16))

static int64_t forward_head(const Attention *a, float *base, int64_t batch, int64_t head) {
  int64_t at = 0;
  float *kt = TAKE(a->tkw * a->d), *v = TAKE(a->tk * a->dvw), *q = TAKE(BLOCK * a->d);
  float *s = TAKE(BLOCK * a->tkw), *y = TAKE(BLOCK * a->dvw), *own = TAKE(2 * BLOCK);
  if (batch < 0) return at;
  const int hides = can_hide(a, batch, head, 0);
  pack_turned(kt, row_of(&a->t[K], batch, head, 0), a->t[K].row, a->tk, a->d);
  pack_rows(v, row_of(&a->t[V], batch, head, 0), a->t[V].row, a->tk, a->dv);
  for (int64_t query = 0; query < a->tq; query += BLOCK) {
    const int64_t rows = a->tq - query < BLOCK ? a->tq - query : BLOCK;
    const int64_t keys = hides ? seen(a, batch, head, query, query + rows) : a->tk;
    float *stats = a->stats ? a->stats + 2 * ((batch * a->h + head) * a->tq + query) : own;
    scaled(a, batch, head, query, rows, q);
    product(rows, q, a->d, kt, a->d, a->d, keys, s, a->tkw);
    scores(a, batch, head, query, rows, keys, s);
    weights(a, rows, keys, s, stats, 0);
    product(rows, s, a->tkw, v, a->tk, keys, a->dv, y, a->dvw);
    write_rows(&a->t[Y], batch, head, query, rows, a->dv, y, a->dvw, stats + 1);
  }
  return at;
}

static int64_t backward_head(const Attention *a, float *base, int64_t batch, int64_t head) {
  int64_t at = 0;
  float *kt = TAKE(a->tkw * a->d), *vt = TAKE(a->tkw * a->dv), *k = TAKE(a->tk * a->dw);
  float *q = TAKE(BLOCK * a->d), *qp = TAKE(BLOCK * a->dw), *dyp = TAKE(BLOCK * a->dvw);
  float *p = TAKE(BLOCK * a->tkw), *dp = TAKE(BLOCK * a->tkw), *dq = TAKE(BLOCK * a->dw);
  float *dk = TAKE(a->tk * a->dw), *dv = TAKE(a->tk * a->dvw);
  if (batch < 0) return at;
  const int hides = can_hide(a, batch, head, 1);
  const Tensor *tk = &a->t[K], *tv = &a->t[V], *ty = &a->t[Y], *tdy = &a->t[DY];
  static const float one[2] = {1, 1};
  pack_turned(kt, row_of(tk, batch, head, 0), tk->row, a->tk, a->d);
  pack_turned(vt, row_of(tv, batch, head, 0), tv->row, a->tk, a->dv);
  pack_rows(k, row_of(tk, batch, head, 0), tk->row, a->tk, a->d);
  for (int64_t j = 0; j < a->tk * a->dw; j++) dk[j] = 0;
  for (int64_t j = 0; j < a->tk * a->dvw; j++) dv[j] = 0;
  for (int64_t query = 0; query < a->tq; query += BLOCK) {
    const int64_t rows = a->tq - query < BLOCK ? a->tq - query : BLOCK;
    const int64_t keys = hides ? seen(a, batch, head, query, query + rows) : a->tk;
    const float *dy = row_of(tdy, batch, head, query);
    scaled(a, batch, head, query, rows, q);
    product(rows, q, a->d, kt, a->d, a->d, keys, p, a->tkw);
    scores(a, batch, head, query, rows, keys, p);
    weights(a, rows, keys, p, a->stats + 2 * ((batch * a->h + head) * a->tq + query), 1);
    product(rows, dy, tdy->row, vt, a->dv, a->dv, keys, dp, a->tkw);
    pack_rows(dyp, dy, tdy->row, rows, a->dv);
    add_turned(keys, p, a->tkw, dyp, rows, a->dv, dv, a->dvw);
    for (int64_t r = 0; r < rows; r++) {
      const float *restrict y = row_of(ty, batch, head, query + r), *restrict z = dy + r * tdy->row;
      float *restrict w = dp + r * a->tkw, *restrict x = p + r * a->tkw, sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < a->dv; j++) sum += y[j] * z[j];
#pragma omp simd
      for (int64_t j = 0; j < keys; j++) w[j] = x[j] * (w[j] - sum);
    }
    product(rows, dp, a->tkw, k, a->tk, keys, a->d, dq, a->dw);
    for (int64_t r = 0; r < rows; r++) {
      float *restrict to = (float *)row_of(&a->t[DQ], batch, head, query + r);
#pragma omp simd
      for (int64_t j = 0; j < a->d; j++) to[j] = dq[r * a->dw + j] * a->node->dq_scale;
    }
    pack_rows(qp, q, a->d, rows, a->d);
    add_turned(keys, dp, a->tkw, qp, rows, a->d, dk, a->dw);
  }
  for (int64_t r = 0; r < a->tk; r++) {
    float *restrict to = (float *)row_of(&a->t[DK], batch, head, r);
#pragma omp simd
    for (int64_t j = 0; j < a->d; j++) to[j] = dk[r * a->dw + j] * a->node->dk_scale;
    write_rows(&a->t[DV], batch, head, r, 1, a->dv, dv + r * a->dvw, a->dvw, one);
  }
  return at;
}

static void forward_part(void *state, size_t part) {
  Attention *a = state;
  for (int64_t k = (int64_t)part; k < a->n * a->h; k += a->parts)
    forward_head(a, (float *)(a->memory + (int64_t)part * a->each), k / a->h, k % a->h);
}
static void backward_part(void *state, size_t part) {
  Attention *a = state;
  for (int64_t k = (int64_t)part; k < a->n * a->h; k += a->parts)
    backward_head(a, (float *)(a->memory + (int64_t)part * a->each), k / a->h, k % a->h);
}

/* ---- sizes ---- */

/* The sizes of input k as [batch, heads, steps, width]; those that are known (not -1) are compared. */
static Status *sizes(Context *context, size_t k, int last, int64_t *batch, int64_t *heads,
                     int64_t *steps, int64_t *width) {
  int64_t d[4], *known[4] = {batch, last ? steps : heads, last ? heads : steps, width};
  size_t rank;
  TRY(shape(context, k, d, 4, &rank));
  if (rank != 4) return failure("attention: queries, keys and values have four axes");
  for (int i = 0; i < 4; i++) {
    if (*known[i] < 0) *known[i] = d[i];
    else if (*known[i] != d[i]) return failure("attention: the sizes of queries, keys and values do not fit");
  }
  return 0;
}
static void place(Attention *a, int tensor, int64_t steps, int64_t width) {
  Tensor *t = &a->t[tensor];
  t->last = a->node->last[tensor];
  t->batch = a->h * steps * width;
  t->head = t->last ? width : steps * width;
  t->row = t->last ? a->h * width : width;
}
static Status *masked(Attention *a, Context *context, size_t k) {
  int64_t d[4], own[4] = {1, 1, 1, 1}, step = 1;
  const int64_t wanted[4] = {a->n, a->h, a->tq, a->tk};
  size_t rank;
  TRY(shape(context, k, d, 4, &rank));
  for (size_t i = 0; i < rank; i++) own[4 - rank + i] = d[i];
  a->mask_rows = own[0] * own[1] * own[2];
  for (int i = 4; i--;) {
    if (own[i] != 1 && own[i] != wanted[i]) return failure("attention: the mask does not have the sizes of the scores");
    a->steps[i] = own[i] == 1 ? 0 : step;
    step *= own[i];
  }
  return input(context, k, (const void **)&a->mask);
}
static Status *result(Attention *a, Context *context, size_t k, int tensor, int64_t steps, int64_t width) {
  place(a, tensor, steps, width);
  const int last = a->node->last[tensor];
  const int64_t dims[4] = {a->n, last ? steps : a->h, last ? a->h : steps, width};
  return output(context, k, dims, 4, (void **)&a->t[tensor].data);
}
/* What both runs begin with: their inputs, and memory of their own. */
static Status *begin(Attention *a, Context *context, const Attend *n, size_t *next) {
  a->node = n;
  a->n = a->h = a->tq = a->tk = a->d = a->dv = -1;
  TRY(sizes(context, 0, n->last[Q], &a->n, &a->h, &a->tq, &a->d));
  TRY(sizes(context, 1, n->last[K], &a->n, &a->h, &a->tk, &a->d));
  TRY(sizes(context, 2, n->last[V], &a->n, &a->h, &a->tk, &a->dv));
  for (int t = Q; t <= V; t++) TRY(input(context, (size_t)t, (const void **)&a->t[t].data));
  place(a, Q, a->tq, a->d), place(a, K, a->tk, a->d), place(a, V, a->tk, a->dv);
  *next = 3;
  if (n->has_mask) TRY(masked(a, context, (*next)++));
  a->tkw = WHOLE(a->tk), a->dw = WHOLE(a->d), a->dvw = WHOLE(a->dv);
  a->parts = a->n * a->h < PARTS ? a->n * a->h : PARTS;
  return 0;
}
static Status *reserved(Attention *a, Context *context, size_t k, int64_t floats) {
  const int64_t rows = a->mask && a->steps[3] ? a->mask_rows : 0;
  void *memory;
  a->each = floats * 4;
  int64_t bytes = a->parts * a->each + rows * 8 + 64;
  TRY(output(context, k, &bytes, 1, &memory));
  a->ends = (int64_t *)memory;
  a->memory = (char *)(((uintptr_t)(a->ends + rows) + 63) & ~(uintptr_t)63);
  a->hides = a->node->causal;
  for (int64_t r = 0; r < rows; r++) {
    a->ends[r] = end_of(a->mask + r * a->tk, a->tk);
    a->hides |= a->ends[r] < a->tk;
  }
  return 0;
}

Status *run_attention(void *state, Context *context) {
  const Attend *n = state;
  Attention made = {0}, *a = &made;
  size_t next;
  TRY(begin(a, context, n, &next));
  TRY(result(a, context, 0, Y, a->tq, a->dv));
  if (n->keeps) {
    const int64_t dims[] = {a->n, a->h, a->tq, 2};
    TRY(output(context, 1, dims, 4, (void **)&a->stats));
  }
  const int64_t count = a->n * a->h * a->tq * a->dv;
  if (!a->tk) /* sums of nothing */
    for (int64_t j = 0; j < count; j++) a->t[Y].data[j] = 0;
  if (!count || !a->tk) a->parts = 0;
  TRY(reserved(a, context, n->keeps ? 2 : 1, forward_head(a, 0, -1, 0)));
  return parallel(context, forward_part, (size_t)a->parts, a);
}

Status *run_attention_grad(void *state, Context *context) {
  const Attend *n = state;
  Attention made = {0}, *a = &made;
  size_t next, rank;
  int64_t d[4];
  TRY(begin(a, context, n, &next));
  TRY(shape(context, next, d, 4, &rank));
  if (rank != 4 || d[0] != a->n || d[1] != a->h || d[2] != a->tq || d[3] != 2)
    return failure("attention: what the forward pass has kept has other sizes");
  TRY(input(context, next++, (const void **)&a->stats));
  for (int t = Y; t <= DY; t++, next++) {
    TRY(sizes(context, next, n->last[t], &a->n, &a->h, &a->tq, &a->dv));
    TRY(input(context, next, (const void **)&a->t[t].data));
    place(a, t, a->tq, a->dv);
  }
  TRY(result(a, context, 0, DQ, a->tq, a->d));
  TRY(result(a, context, 1, DK, a->tk, a->d));
  TRY(result(a, context, 2, DV, a->tk, a->dv));
  const int64_t queries = a->n * a->h * a->tq * a->d, keys = a->n * a->h * a->tk;
  if (!queries || !keys) { /* sums of nothing */
    for (int64_t j = 0; j < queries; j++) a->t[DQ].data[j] = 0;
    for (int64_t j = 0; j < keys * a->d; j++) a->t[DK].data[j] = 0;
    for (int64_t j = 0; j < keys * a->dv; j++) a->t[DV].data[j] = 0;
    a->parts = 0;
  }
  TRY(reserved(a, context, 3, backward_head(a, 0, -1, 0)));
  return parallel(context, backward_part, (size_t)a->parts, a);
}
#endif
