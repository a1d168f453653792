/* Custom operators of ONNX Runtime in C, without its headers.

   OrtApi is a table of functions that versions only append to: functions are called by their place
   in the table of version 18. Every function here that may fail returns a Status: 0, or the
   runtime's error, which an operator returns as it is. Nothing aborts, nothing prints.

   A source alone has operators as rows of a table `static Op ops[]` made by OPERATOR(...), and
   registers them by REGISTER("domain") at its end. Of a library of several parts, which are compiled
   by themselves, one has all of this for the others, BASE; they are PART, and only declare it. */
#define INLINE static inline __attribute__((always_inline, unused))
#define UNUSED __attribute__((unused))
#if defined(PART) || defined(BASE)
#define SHARED
#else
#define SHARED UNUSED static
#endif
#define TRY(call) do { Status *status_ = (call); if (status_) return status_; } while (0)
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#define CALLED __stdcall
#else
#define EXPORT __attribute__((visibility("default")))
#define CALLED
#endif
#ifdef OWN_THREADS
#include <pthread.h>
#endif
typedef struct Status Status;   /* OrtStatus; 0 is success */
typedef struct Context Context; /* OrtKernelContext: one run of an operator */
typedef struct Info Info;       /* OrtKernelInfo: the node of an operator, with its attributes */

/* An operator of a library of several parts. */
typedef struct {
  const char *title;
  __SIZE_TYPE__ n_inputs, n_outputs;
  const unsigned char *types;        /* ONNX's numbers: of inputs, then of outputs */
  Status *(*run)(void *, Context *); /* of what is given, and a run; by several threads at once */
  const void *given;
  int waits; /* for one or more values of any types, its last input, of which nothing is read */
} Row;

#if defined(PART) || defined(BASE)
/* What headers declare, which take longer to read than most parts to compile. */
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT32_TYPE__ uint32_t;
#define INT64_C(number) ((int64_t)number##LL)
#define INT64_MIN (-__INT64_MAX__ - 1)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
float fabsf(float), sqrtf(float), floorf(float), ceilf(float), rintf(float), copysignf(float, float);
double fabs(double), sqrt(double), floor(double), ceil(double), rint(double), copysign(double, double);
double exp(double), log(double), tanh(double), erf(double);
void *malloc(size_t), free(void *), *memcpy(void *, const void *, size_t);
int snprintf(char *, size_t, const char *, ...);
#pragma GCC visibility push(hidden) /* all that follows is in the library itself */

#else
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#endif

#ifdef PART
Status *failure(const char *text);
Status *input(Context *context, size_t k, const void **data);
Status *shape(Context *context, size_t k, int64_t *dims, size_t most, size_t *rank);
Status *output(Context *context, size_t k, const int64_t *dims, size_t rank, void **data);
Status *parallel(Context *context, void (*part)(void *, size_t), size_t parts, void *state);
Status *add_rows(void *options, const void *base, const char *name, void **domain, void **ops,
                 const Row *rows, size_t count);

/* The function that the runtime looks for in a library, with a table `static const Row rows[]`. */
#define REGISTER(name) \
  EXPORT Status *CALLED RegisterCustomOps(void *options, const void *base) { \
    static void *domain, *ops; \
    return add_rows(options, base, name, &domain, &ops, rows, sizeof rows / sizeof *rows); \
  }
#else
enum { /* places in OrtApi */
  AT_CREATE_STATUS = 0, AT_DOMAIN = 26, AT_DOMAIN_ADD = 27, AT_ADD_DOMAIN = 28, AT_DATA = 51,
  AT_RANK = 61, AT_DIMS = 62, AT_SHAPE = 65, AT_FLOAT = 85, AT_INT = 86, AT_STRING = 87,
  AT_INPUTS = 88, AT_OUTPUTS = 89, AT_INPUT = 90, AT_OUTPUT = 91, AT_RELEASE_STATUS = 93,
  AT_RELEASE_SHAPE = 99, AT_RELEASE_DOMAIN = 101, AT_FLOATS = 162, AT_INTS = 163, AT_PARALLEL = 274
};
enum { FAILED = 1, INVALID_ARGUMENT = 2 }; /* OrtErrorCode */

static void *const *api;
#define CALL(place, ...) ((Status *(CALLED *)(__VA_ARGS__))api[place])

/* An error with a text of ours. */
SHARED Status *failure(const char *text) {
  return CALL(AT_CREATE_STATUS, int, const char *)(INVALID_ARGUMENT, text);
}

/* ---- inputs and outputs of a run ---- */

/* The elements of input k; `data` is 0 for an input that was left out. */
SHARED Status *input(Context *context, size_t k, const void **data) {
  void *value = 0;
  *data = 0;
  TRY(CALL(AT_INPUT, Context *, size_t, void **)(context, k, &value));
  return value ? CALL(AT_DATA, void *, const void **)(value, data) : 0;
}

/* The sizes of input k, and how many they are; at most `most`. */
SHARED Status *shape(Context *context, size_t k, int64_t *dims, size_t most, size_t *rank) {
  void *value = 0, *info = 0;
  TRY(CALL(AT_INPUT, Context *, size_t, void **)(context, k, &value));
  if (!value) return failure("an input is missing");
  TRY(CALL(AT_SHAPE, void *, void **)(value, &info));
  Status *status = CALL(AT_RANK, void *, size_t *)(info, rank);
  if (!status)
    status = *rank > most ? failure("an input has too many axes")
                          : CALL(AT_DIMS, void *, int64_t *, size_t)(info, dims, *rank);
  ((void(CALLED *)(void *))api[AT_RELEASE_SHAPE])(info);
  return status;
}

/* Memory for output k of these sizes. */
SHARED Status *output(Context *context, size_t k, const int64_t *dims, size_t rank, void **data) {
  void *value = 0;
  *data = 0;
  TRY(CALL(AT_OUTPUT, Context *, size_t, const int64_t *, size_t, void **)(
      context, k, dims, rank, &value));
  return value ? CALL(AT_DATA, void *, void **)(value, data) : failure("no memory for an output");
}

#ifdef OWN_THREADS /* parts of `parallel` on new threads: ThreadSanitizer sees where these begin and end,
                      but not how those of the runtime wait for each other */
typedef struct {
  void (*part)(void *, size_t);
  void *state;
  size_t first, parts;
} OwnThread;
static void *run_own_thread(void *own) {
  OwnThread *o = own;
  for (size_t k = o->first; k < o->parts; k += OWN_THREADS) o->part(o->state, k);
  return 0;
}
static Status *run_own_threads(void (*part)(void *, size_t), size_t parts, void *state) {
  pthread_t thread[OWN_THREADS];
  OwnThread own[OWN_THREADS];
  size_t count = 0;
  for (; count < OWN_THREADS && count < parts; count++) {
    own[count] = (OwnThread){part, state, count, parts};
    if (pthread_create(&thread[count], 0, run_own_thread, &own[count])) __builtin_trap();
  }
  while (count--) pthread_join(thread[count], 0);
  return 0;
}
#endif

/* part(state, 0) to part(state, parts - 1), on the threads of the session, the caller among them.
   How many parts there are must follow from sizes alone, so that results do not depend on cores. */
SHARED Status *parallel(Context *context, void (*part)(void *, size_t), size_t parts, void *state) {
  if (parts < 2) {
    if (parts) part(state, 0);
    return 0;
  }
#ifdef OWN_THREADS
  return run_own_threads(part, parts, state);
#endif
  return CALL(AT_PARALLEL, Context *, void (*)(void *, size_t), size_t, size_t, void *)(
      context, part, parts, 0, state);
}

/* ---- attributes of a node, read when its kernel is opened ---- */

UNUSED static Status *attribute_int(const Info *info, const char *name, int64_t *value) {
  return CALL(AT_INT, const Info *, const char *, int64_t *)(info, name, value);
}
UNUSED static Status *attribute_float(const Info *info, const char *name, float *value) {
  return CALL(AT_FLOAT, const Info *, const char *, float *)(info, name, value);
}
/* `count` is the room in `values` before, and the number of values after. */
UNUSED static Status *attribute_ints(const Info *info, const char *name, int64_t *values, size_t *count) {
  return CALL(AT_INTS, const Info *, const char *, int64_t *, size_t *)(info, name, values, count);
}
/* `size` is the room in `text` before, and the length with its final 0 after. */
UNUSED static Status *attribute_string(const Info *info, const char *name, char *text, size_t *size) {
  return CALL(AT_STRING, const Info *, const char *, char *, size_t *)(info, name, text, size);
}

/* ---- operators ---- */

typedef struct Op { /* OrtCustomOp of version 18, and what is ours behind it */
  uint32_t version;
  void *create;
  const char *(CALLED *name)(const struct Op *);
  const char *(CALLED *provider)(const struct Op *);
  int(CALLED *input_type)(const struct Op *, size_t);
  size_t(CALLED *inputs)(const struct Op *);
  int(CALLED *output_type)(const struct Op *, size_t);
  size_t(CALLED *outputs)(const struct Op *);
  void *compute;
  void(CALLED *destroy)(void *);
  int(CALLED *input_kind)(const struct Op *, size_t);
  int(CALLED *output_kind)(const struct Op *, size_t);
  int(CALLED *memory)(const struct Op *, size_t);
  int(CALLED *variadic[4])(const struct Op *);
  Status *(CALLED *create_kernel)(const struct Op *, void *, const Info *, void **);
  Status *(CALLED *compute_kernel)(void *, Context *);
  void *infer_shapes;
  int(CALLED *first_version)(const struct Op *);
  int(CALLED *last_version)(const struct Op *);
  size_t(CALLED *may_in_place)(int **, int **); /* input k may have the memory of output k */
  void(CALLED *release_in_place)(int *, int *);
  size_t(CALLED *alias)(int **, int **);
  void(CALLED *release_alias)(int *, int *);

  const char *title;
  size_t n_inputs, n_outputs;
  const unsigned char *types;            /* ONNX's numbers: of inputs, then of outputs */
  Status *(*open)(const Info *, void **); /* makes the state of a node; 0 without state */
  void (*close)(void *);                 /* frees it */
  Status *(*run)(void *, Context *);     /* may be called by several threads at once */
  const void *given;                     /* the state of a node without `open` */
} Op;

typedef struct { const Op *op; void *state; } Kernel;

static const char *CALLED op_name(const Op *op) { return op->title; }
static const char *CALLED op_provider(const Op *op) { (void)op; return 0; }
static int CALLED op_input_type(const Op *op, size_t k) { return op->types[k]; }
static int CALLED op_output_type(const Op *op, size_t k) { return op->types[op->n_inputs + k]; }
static size_t CALLED op_inputs(const Op *op) { return op->n_inputs; }
static size_t CALLED op_outputs(const Op *op) { return op->n_outputs; }
static int CALLED op_zero(const Op *op, size_t k) { (void)op; (void)k; return 0; }
static int CALLED op_none(const Op *op) { (void)op; return 0; }
static int CALLED op_first(const Op *op) { (void)op; return 1; }
static int CALLED op_last(const Op *op) { (void)op; return 0x7fffffff; }
static Status *CALLED op_create(const Op *op, void *table, const Info *info, void **kernel) {
  Kernel *made = malloc(sizeof *made);
  (void)table;
  *kernel = 0;
  if (!made) return failure("no memory for a kernel");
  made->op = op, made->state = (void *)op->given;
  Status *status = op->open ? op->open(info, &made->state) : 0;
  if (status) free(made);
  else *kernel = made;
  return status;
}
static void CALLED op_destroy(void *kernel) {
  Kernel *made = kernel;
  if (!made) return;
  if (made->op->close) made->op->close(made->state);
  free(made);
}
static Status *CALLED op_compute(void *kernel, Context *context) {
  Kernel *made = kernel;
  return made->op->run(made->state, context);
}

/* For operators whose last input is one or more of any types, of which nothing is read. */
UNUSED static int CALLED op_kind_last(const Op *op, size_t k) { return k + 1 == op->n_inputs ? 2 : 0; }
UNUSED static int CALLED op_one(const Op *op) { (void)op; return 1; }

/* A row of `ops`; in_place and release may be 0. */
#define OPERATOR_OF(kind, arity, title, n_inputs, n_outputs, types, open, close, run, in_place, release) \
  {18, 0, op_name, op_provider, op_input_type, op_inputs, op_output_type, op_outputs, 0, op_destroy, \
   kind, op_zero, op_zero, {arity, op_none, op_none, op_none}, op_create, op_compute, 0, \
   op_first, op_last, in_place, release, 0, 0, title, n_inputs, n_outputs, types, open, close, run, 0}
#define OPERATOR_IN_PLACE(...) OPERATOR_OF(op_zero, op_none, __VA_ARGS__)
#define OPERATOR_WAITING(...) OPERATOR_OF(op_kind_last, op_one, __VA_ARGS__)
#define OPERATOR(title, n_inputs, n_outputs, types, open, close, run) \
  OPERATOR_IN_PLACE(title, n_inputs, n_outputs, types, open, close, run, 0, 0)

typedef struct { void *const *(CALLED *get)(uint32_t); } ApiBase;

/* Let sessions with these options have operators; `domain` is 0 before the first time. The runtime
   keeps pointers into both as long as the library is loaded. */
UNUSED static Status *add_to(void *options, const ApiBase *base, const char *name, void **domain,
                             const Op *ops, size_t count) {
  api = base->get(18);
  if (!api) return 0; /* an older runtime: its sessions will miss the operators, and say so */
  if (!*domain) {
    void *made = 0;
    TRY(CALL(AT_DOMAIN, const char *, void **)(name, &made));
    for (size_t k = 0; k < count; k++) {
      Status *status = CALL(AT_DOMAIN_ADD, void *, const Op *)(made, &ops[k]);
      if (status) {
        ((void(CALLED *)(void *))api[AT_RELEASE_DOMAIN])(made);
        return status;
      }
    }
    *domain = made;
  }
  return CALL(AT_ADD_DOMAIN, void *, void *)(options, *domain);
}

/* The same with operators for rows. */
SHARED Status *add_rows(void *options, const void *base, const char *name, void **domain, void **ops,
                        const Row *rows, size_t count) {
  if (!*ops) {
    Op *made = malloc((count ? count : 1) * sizeof *made);
    api = ((const ApiBase *)base)->get(18);
    if (!made) return api ? failure("no memory for operators") : 0;
    for (size_t k = 0; k < count; k++) {
      const Row *r = &rows[k];
      if (r->waits) made[k] = (Op)OPERATOR_WAITING(r->title, r->n_inputs, r->n_outputs, r->types, 0, 0, r->run, 0, 0);
      else made[k] = (Op)OPERATOR(r->title, r->n_inputs, r->n_outputs, r->types, 0, 0, r->run);
      made[k].given = r->given;
    }
    *ops = made;
  }
  return add_to(options, base, name, domain, *ops, count);
}

/* The function that the runtime looks for in a library of operators. */
#define REGISTER(name) \
  EXPORT Status *CALLED RegisterCustomOps(void *options, const ApiBase *base) { \
    static void *domain; \
    return add_to(options, base, name, &domain, ops, sizeof ops / sizeof *ops); \
  }
#endif /* PART */

/* ---- functions that compilers vectorize ---- */

/* a * b + c, rounded once where the processor does so */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__AVX512F__)
#define MULTIPLY_ADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

typedef union { float f; uint32_t u; int32_t i; } Bits;
INLINE float bits_float(uint32_t u) { Bits b; b.u = u; return b.f; }

/* exp: x = n log 2 + r, a polynomial of degree 7 for exp r, scaled twice so that results may be
   denormal; within 2 units in the last place. Polynomials are sums of pairs of terms (Estrin): their
   products wait for each other less. */
#define EXP(x) \
  float shifted = MULTIPLY_ADD(x, 1.44269504f, 12582912.f), n = shifted - 12582912.f; \
  float r = MULTIPLY_ADD(n, -0.693145751953125f, x); \
  r = MULTIPLY_ADD(n, -1.42860682030941723212e-6f, r); \
  float z = r * r, p = MULTIPLY_ADD(1.98412698e-4f, r, 1.38888889e-3f); \
  p = MULTIPLY_ADD(p, z, MULTIPLY_ADD(8.33333333e-3f, r, 4.16666667e-2f)); \
  p = MULTIPLY_ADD(p, z, MULTIPLY_ADD(1.66666667e-1f, r, 0.5f)); \
  p = MULTIPLY_ADD(p, z, r) + 1.f; \
  Bits b; \
  b.f = shifted; \
  int32_t power = (int32_t)(b.u - 0x4b400000u);
INLINE float f_exp(float x) {
  float c = x > 89.f ? 89.f : x;
  c = c < -104.f ? -104.f : c;
  EXP(c)
  int32_t half = power >> 1;
  return p * bits_float((uint32_t)(half + 127) << 23) * bits_float((uint32_t)(power - half + 127) << 23);
}
INLINE float f_exp_near(float x) { /* of -87 to 88 */
  EXP(x)
  return p * bits_float((uint32_t)(power + 127) << 23);
}
INLINE float f_exp_below(float x) { /* of what is not positive: one of the factors is a constant */
  float c = x < -104.f ? -104.f : x;
  EXP(c)
  return p * bits_float((uint32_t)(power + 64 + 127) << 23) * 0x1p-64f;
}

#define LOG(m, n) \
  float z = m * m, p = 7.0376836292e-2f; \
  p = MULTIPLY_ADD(p, m, -1.1514610310e-1f); \
  p = MULTIPLY_ADD(p, m, 1.1676998740e-1f); \
  p = MULTIPLY_ADD(p, m, -1.2420140846e-1f); \
  p = MULTIPLY_ADD(p, m, 1.4249322787e-1f); \
  p = MULTIPLY_ADD(p, m, -1.6668057665e-1f); \
  p = MULTIPLY_ADD(p, m, 2.0000714765e-1f); \
  p = MULTIPLY_ADD(p, m, -2.4999993993e-1f); \
  p = MULTIPLY_ADD(p, m, 3.3333331174e-1f); \
  float y = p * m * z; \
  y = MULTIPLY_ADD(n, -2.12194440e-4f, y); \
  y = MULTIPLY_ADD(z, -0.5f, y); \
  y = MULTIPLY_ADD(n, 0.693359375f, m + y);

/* log: x = 2^e m with m in [sqrt(1/2), sqrt 2), and Cephes' polynomial for log m. */
INLINE float f_log(float x) {
  int tiny = x < 1.17549435e-38f;
  Bits b;
  b.f = tiny ? x * 8388608.f : x;
  int32_t e = (b.i >> 23) - (tiny ? 149 : 126);
  b.i = (b.i & 0x007fffff) | 0x3f000000;
  float m = b.f;
  int low = m < 0.707106781f;
  float n = (float)(e - low);
  m = (low ? m + m : m) - 1.f;
  LOG(m, n)
  y = x == INFINITY ? INFINITY : y;
  return x > 0.f ? y : (x == 0.f ? -INFINITY : NAN);
}

/* tanh: a rational function, odd over even; x itself where it is small, and 1 where it rounds to 1 within
   2 units in the last place: the slope at infinity is 0. */
INLINE float f_tanh(float x) {
  float c = x > 7.90531110763549805f ? 7.90531110763549805f : x;
  c = c < -7.90531110763549805f ? -7.90531110763549805f : c;
  float z = c * c, p = -2.76076847742355e-16f, q = 1.19825839466702e-06f;
  p = MULTIPLY_ADD(p, z, 2.00018790482477e-13f);
  p = MULTIPLY_ADD(p, z, -8.60467152213735e-11f);
  p = MULTIPLY_ADD(p, z, 5.12229709037114e-08f);
  p = MULTIPLY_ADD(p, z, 1.48572235717979e-05f);
  p = MULTIPLY_ADD(p, z, 6.37261928875436e-04f);
  p = MULTIPLY_ADD(p, z, 4.89352455891786e-03f);
  q = MULTIPLY_ADD(q, z, 1.18534705686654e-04f);
  q = MULTIPLY_ADD(q, z, 2.26843463243900e-03f);
  q = MULTIPLY_ADD(q, z, 4.89352518554385e-03f);
  float y = fabsf(x) < 4e-4f ? x : c * p / q;
  return fabsf(x) > 8.3f ? copysignf(1.f, x) : y;
}

INLINE float f_sigmoid(float x) { /* exp of what is not positive: it does not overflow */
  float e = f_exp_below(-fabsf(x));
  return (x > 0.f ? 1.f : e) / (1.f + e);
}

/* log(1 + e) for e of 0 to 1: the polynomial is of e itself, or of (1 + e) / 2 - 1, neither of which
   has lost a bit */
INLINE float f_softplus(float x) {
  float e = f_exp_below(-fabsf(x));
  int high = e > 0.414213562f;
  float m = high ? 0.5f * (e - 1.f) : e, n = high ? 1.f : 0.f;
  LOG(m, n)
  return (x > 0.f ? x : 0.f) + y;
}

/* erf: an odd polynomial up to 1; beyond, 1 - erfc x with a polynomial for log erfc x. Both were
   fitted by least squares on Chebyshev nodes. */
INLINE float f_erf(float x) {
  float t = fabsf(x), z = x * x;
  float p = MULTIPLY_ADD(7.847259257687256e-05f, z, -0.0008008189033716917f), w = z * z;
  p = MULTIPLY_ADD(p, w, MULTIPLY_ADD(0.005188099108636379f, z, -0.026853691786527634f));
  p = MULTIPLY_ADD(p, w, MULTIPLY_ADD(0.1128358244895935f, z, -0.3761262595653534f));
  p = MULTIPLY_ADD(p, z, 0.1283791065216064f);
  t = t > 4.f ? 4.f : t;
  float s = t * t, q = MULTIPLY_ADD(2.1790321625303477e-05f, t, -0.0004426076775416732f);
  q = MULTIPLY_ADD(q, s, MULTIPLY_ADD(0.004211114253848791f, t, -0.02522662840783596f));
  q = MULTIPLY_ADD(q, s, MULTIPLY_ADD(0.10844884812831879f, t, 0.6331905722618103f));
  q = MULTIPLY_ADD(q, s, MULTIPLY_ADD(1.1295939683914185f, t, -0.00019147849525325f));
  float far = 1.f - f_exp_near(-q);
  return fabsf(x) > 1.f ? copysignf(far, x) : MULTIPLY_ADD(p, x, x);
}
INLINE float f_gelu(float x) { return 0.5f * x * (1.f + f_erf(x * 0.707106781f)); }
