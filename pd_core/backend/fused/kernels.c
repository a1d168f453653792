/* What the generated functions of groups call, and what runs a group. */

/* A part of a loop: buffers, sizes, the rounds from lo to hi, and which part it is. */
typedef void Rounds(void *const *p, const int64_t *n, int64_t lo, int64_t hi, int64_t part);

/* The first index that is out of range, and the number of places that it chooses from. */
typedef struct { int32_t is_there; int64_t index, n; } Outside;

/* An index counted from the beginning; one that is out of range is noted. */
INLINE int64_t in_range(int64_t index, int64_t n, void *bad) {
  const int64_t place = index + (index < 0 ? n : 0);
  if (place < 0 || place >= n || n > 0x7fffffff) {
    Outside *outside = bad;
    if (!__atomic_exchange_n(&outside->is_there, 1, __ATOMIC_RELAXED))
      outside->index = index, outside->n = n;
    return 0;
  }
  return place;
}

/* The larger and the smaller of two values, NaN if one is */
#define CHOOSE(type) \
  INLINE type larger_##type(type a, type b) { return a > b || a != a ? a : b; } \
  INLINE type smaller_##type(type a, type b) { return a < b || a != a ? a : b; }
CHOOSE(float)
CHOOSE(double)
CHOOSE(int32_t)
CHOOSE(int64_t)

/* Products: of matrices, in matrices.c, of few rows and a matrix, in few_rows.c, and of a matrix and a
   vector, in vectors.c */
void turned(float *restrict c, int64_t cm, const float *restrict a, int64_t am, int64_t ak,
            const float *restrict b, int64_t bk, int64_t bn, int64_t m, int64_t n, int64_t k,
            float alpha, float *restrict room);
void few(float *restrict c, int64_t cm, const float *restrict a, int64_t am, int64_t ak,
         const float *restrict b, int64_t bk, int64_t m, int64_t n, int64_t k, float alpha);
void vectors(float *restrict c, int64_t cm, const float *restrict a, int64_t am,
             const float *restrict b, int64_t bk, int64_t m, int64_t k, float alpha);

/* n values of each part become one each; `count` is of how many elements. Sums are of doubles, and
   rounded once. Those that a program needs are parts of its library. */
typedef void Combine(void *to, const void *from, int64_t n, int64_t parts, int64_t count);
#define COMBINED(name, type, wide, start, fold, last) \
  __attribute__((weak)) void name(void *to, const void *from, int64_t n, int64_t parts, int64_t count) { \
    type *y = to; \
    const wide *x = from; \
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
#define DEFINE_combine_pick_1 COMBINED(combine_pick_1, float, double, -0.0, s + v, s)
#define DEFINE_combine_sum_1 COMBINED(combine_sum_1, float, double, 0, s + v, s)
#define DEFINE_combine_sum_11 COMBINED(combine_sum_11, double, double, 0, s + v, s)
#define DEFINE_combine_mean_1 COMBINED(combine_mean_1, float, double, 0, s + v, s / (double)(count ? count : 1))
#define DEFINE_combine_mean_11 COMBINED(combine_mean_11, double, double, 0, s + v, s / (double)(count ? count : 1))
#define DEFINE_combine_max_1 COMBINED(combine_max_1, float, float, -INFINITY, v > s || v != v ? v : s, s)
#define DEFINE_combine_max_11 COMBINED(combine_max_11, double, double, -INFINITY, v > s || v != v ? v : s, s)
#define DEFINE_combine_min_1 COMBINED(combine_min_1, float, float, INFINITY, v < s || v != v ? v : s, s)
#define DEFINE_combine_min_11 COMBINED(combine_min_11, double, double, INFINITY, v < s || v != v ? v : s, s)

/* A group. Its plan are numbers that plans.py writes: what is done, and with which buffers and
   sizes. A buffer is an input or an output by its number, ERRORS and up for those that note an index which is
   out of range, or a place in the memory of the
   group's own, counted down from -1. A size is its number in the order in which they become known. */
enum { SHAPE, NAME, SIZE, EQUAL, ROUNDS, PLACE, OUTPUT, MEMORY, REPEAT, CALL, COMBINE, END };
enum { ERRORS = 1 << 30 };
typedef void Any(void);
typedef struct {
  const char *title;
  const int64_t *plan;
  Any *const *functions; /* of type Rounds or Combine */
  int inputs, buffers, sizes, calls, places, checks; /* checks: indices that may be out of range */
} Group;
Status *run_group(void *group, Context *context);

#ifdef BASE

#define GRAIN 20000.0 /* operations on elements that are worth the help of another thread */
#define MOST 16       /* parts */

/* How many rounds a part has: it follows from sizes alone. Rounds of one element come in blocks. */
static int64_t step_of(int64_t count, double work, int64_t block) {
  if (work < GRAIN || count < 2) return count > 0 ? count : 1;
  double wanted = work / (GRAIN / 2);
  int64_t parts = wanted > MOST ? MOST : (int64_t)wanted, step = (count + parts - 1) / parts;
  return (step + block - 1) / block * block;
}
#define ALIGNED(bytes) (((bytes) + 63) / 64 * 64) /* for memory that lies behind other memory */
static int64_t parts_of(int64_t count, int64_t step) { return (count + step - 1) / step; }

/* A call: its rounds, how many a part has, and the number of its first part among those of all. */
typedef struct {
  Rounds *rounds;
  void *const *p;
  const int64_t *n;
  int64_t count, step, first;
} Job;
typedef struct { const Job *jobs; int64_t count; } Jobs;

static void job(void *state, size_t k) {
  const Jobs *all = state;
  int64_t low = 0, high = all->count;
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    if (all->jobs[middle].first <= (int64_t)k) low = middle;
    else high = middle;
  }
  const Job *j = all->jobs + low;
  int64_t part = (int64_t)k - j->first, lo = part * j->step, hi = lo + j->step;
  j->rounds(j->p, j->n, lo, hi < j->count ? hi : j->count, part);
}
/* Calls of which none reads what another one writes; `work` is that of all. */
static Status *spread(Context *context, const Job *jobs, int64_t count, int64_t parts, double work) {
  Jobs all = {jobs, count};
  if (work >= GRAIN) return parallel(context, job, (size_t)parts, &all);
  for (int64_t k = 0; k < parts; k++) job(&all, (size_t)k);
  return 0;
}

/* An error that names a group, and an input of it unless k is negative. */
static Status *refused(const Group *g, int64_t k, const char *why) {
  char text[240];
  if (k < 0) snprintf(text, sizeof text, "%s: %s", g->title, why);
  else snprintf(text, sizeof text, "%s: input %d %s", g->title, (int)k, why);
  return failure(text);
}
static Status *other_sizes(const Group *g, int64_t k) {
  return refused(g, k, "does not have the sizes that it was compiled for");
}
/* The runtime's words for an index that is outside, and whose it is; 0 if there is none. */
static Status *out_of_range(const Group *g, const Outside *bad) {
  char text[160];
  for (int64_t k = 0; k < g->checks; k++)
    if (bad[k].is_there) {
      snprintf(text, sizeof text,
               "check %d: out of data bounds, idx=%lld must be within the inclusive range [%lld, %lld]",
               (int)k, (long long)bad[k].index, -(long long)bad[k].n, (long long)bad[k].n - 1);
      return refused(g, -1, text);
    }
  return 0;
}

Status *run_group(void *group, Context *context) {
  const Group *g = group;
  void *b[g->buffers + 1], *memory = 0;
  int64_t v[g->sizes + 1], count[g->calls + 1], step[g->calls + 1], parts[g->calls + 1];
  int64_t place[g->places + 1], total = 0, k = 0, d[16];
  double work[g->calls + 1];
  size_t rank = 0;
  int sizes = 0, calls = 0, places = 0;
  Outside bad[g->checks + 1];
  for (int64_t c = 0; c < g->checks; c++) bad[c] = (Outside){0, 0, 0};
  /* a loop: where its steps begin, their number and that of this one; what it moves */
  const int64_t *first_step = 0, *moved = 0, *states = 0;
  int64_t steps = 0, at = 0;
  int known = 0;
  void *other[g->buffers + 1]; /* memory for the next states */
#define BUFFER(at) ((at) >= ERRORS ? (void *)&bad[(at) - ERRORS] : (at) >= 0 ? b[at] : (void *)((char *)memory + place[-1 - (at)]))
  for (int j = 0; j < g->inputs; j++) TRY(input(context, (size_t)j, (const void **)&b[j]));
  for (const int64_t *x = g->plan;;) switch (*x++) {
    case SHAPE: /* input, rank */
      k = *x++;
      TRY(shape(context, (size_t)k, d, 16, &rank));
      if ((int64_t)rank != *x++) return other_sizes(g, k);
      break;
    case NAME: /* axis of the last shape: it is a new size */
      v[sizes++] = d[*x++];
      break;
    case SIZE: { /* number, how many factors, sizes: their product is a new size */
      int64_t made = *x++;
      for (int64_t more = *x++; more; more--) made *= v[*x++];
      v[sizes++] = made;
      break;
    }
    case EQUAL: /* axis of the last shape, size */
      if (d[x[0]] != v[x[1]]) return other_sizes(g, k);
      x += 2;
      break;
    case ROUNDS: { /* size, block, how many terms, (sixteenths of operations, size) of each */
      int64_t block = x[1], more = x[2];
      count[calls] = v[*x], work[calls] = 0;
      for (x += 3; more; more--, x += 2) work[calls] += (double)x[0] / 16 * (double)v[x[1]];
      step[calls] = step_of(count[calls], work[calls], block);
      parts[calls] = parts_of(count[calls], step[calls]);
      calls++;
      break;
    }
    case PLACE: { /* elements, bytes of each, the call of whose parts each has its own, or -1 */
      int64_t bytes = v[x[0]] * x[1] * (x[2] < 0 ? 1 : parts[x[2]]);
      place[places++] = total;
      total += ALIGNED(bytes);
      x += 3;
      break;
    }
    case OUTPUT: { /* output, rank, sizes */
      int64_t j = *x++, axes = *x++;
      for (int64_t a = 0; a < axes; a++) d[a] = v[*x++];
      TRY(output(context, (size_t)j, d, (size_t)axes, &b[g->inputs + j]));
      break;
    }
    case MEMORY: /* output */
      TRY(output(context, (size_t)*x++, &total, 1, &memory));
      break;
    case REPEAT: /* steps, how many are moved and how many states, (buffer, elements, bytes of each,
                    whether the last come first) and (old, new, other, elements, bytes of each) */
      steps = v[x[0]], moved = x + 3, states = moved + 4 * x[1];
      first_step = states + 5 * x[2], known = sizes;
      for (const int64_t *s = states; s < first_step; s += 5) {
        void *own = BUFFER(s[1]), *second = BUFFER(s[2]);
        if (!steps && v[s[3]]) memcpy(own, b[s[0]], (size_t)(v[s[3]] * s[4]));
        b[s[1]] = steps % 2 ? own : second; /* the last step writes to the output */
        other[s[1]] = steps % 2 ? second : own;
      }
      if (!steps) return 0;
      for (const int64_t *m = moved; m < states; m += 4)
        if (m[3]) b[m[0]] = (char *)b[m[0]] + (steps - 1) * v[m[1]] * m[2];
      x = first_step;
      break;
    case CALL: { /* how many calls, buffers and sizes of all; of each: function, call, how many
                    buffers, they, how many sizes, they */
      const int64_t jobs = x[0];
      void *p[x[1] + 1], **buffer = p;
      int64_t n[x[2] + 1], *number = n, first = 0;
      double sum = 0;
      Job made[jobs];
      x += 3;
      for (int64_t j = 0; j < jobs; j++) {
        int64_t function = *x++, call = *x++;
        made[j] = (Job){(Rounds *)g->functions[function], buffer, number, count[call], step[call], first};
        first += parts[call], sum += work[call];
        for (int64_t more = *x++; more; more--, x++) *buffer++ = BUFFER(*x);
        for (int64_t more = *x++; more; more--) *number++ = v[*x++];
      }
      TRY(spread(context, made, jobs, first, sum));
      TRY(out_of_range(g, bad));
      break;
    }
    case COMBINE: { /* function, where to, where from, elements, call, count */
      void *to = BUFFER(x[1]), *from = BUFFER(x[2]);
      ((Combine *)g->functions[x[0]])(to, from, v[x[3]], parts[x[4]], v[x[5]]);
      x += 6;
      break;
    }
    default: /* the end */
      if (++at >= steps) return 0;
      for (const int64_t *m = moved; m < states; m += 4)
        b[m[0]] = (char *)b[m[0]] + (m[3] ? -1 : 1) * v[m[1]] * m[2];
      for (const int64_t *s = states; s < first_step; s += 5) {
        void *written = b[s[1]];
        b[s[0]] = written, b[s[1]] = other[s[1]], other[s[1]] = written;
      }
      x = first_step, sizes = known;
  }
}
#endif
