/* Convolutions of images whose channels come last, [N, *S, C], and their gradients, by primitives
   of oneDNN; filters are ONNX's, [O, C / groups, *K].

   A run is divided by its images into parts, each of which is one primitive in one thread of the
   runtime's own. How many parts there are follows from sizes alone, so that results do not depend
   on cores. Primitives are kept for the numbers of images that were run last. Memory of a run's
   own is its last output. Where `add_filter_gradient` is faster, it takes the place of primitives. */

enum { X, W, Y, TENSORS };                    /* the image, the filters, the result */
enum { CONVOLVE, INPUT_GRAD, FILTER_GRAD };   /* what is computed: Y, X or W */
#define AXES 3      /* of an image, at most */
#define RANK (AXES + 2)
#define KEPT 8      /* numbers of images for which primitives are kept */
#define WORTH 4e6   /* operations that are worth a part */
#define ALIGN(bytes) (((bytes) + 63) / 64 * 64)
static const size_t most_parts[] = {32, 32, 16}; /* of filters each part has a gradient of its own */
static const int made[] = {Y, X, W};

typedef struct { /* the primitive for so many images */
  int64_t images;
  Layout *layouts[TENSORS], *bias; /* of the operator's inputs and output */
  const Layout *filters;           /* as the primitive has them */
  Primitive *turn;                 /* from the filters' layout to the primitive's, or back; or 0 */
  size_t turned;                   /* bytes of such filters */
  size_t room, turn_room;          /* bytes of memory that the primitives need beside */
  Description *forward, *description, *turning;
  Primitive *primitive;
} Plan;

typedef struct { /* the parts of a number of images: the first `longer` have one image more */
  int64_t images;
  size_t parts, longer;
  Plan plans[2]; /* of `longer` parts, and of the others */
  int used;      /* runs that use it now, and one while it is kept */
} Division;

typedef struct { /* a node */
  int what, rank, relu, is_ours; /* is_ours: computed by `add_filter_gradient` */
  int64_t group, geometry[4][AXES]; /* strides, dilations beyond 1, padding before and after */
  int64_t image[AXES], result[AXES], channels, filters, window[AXES];
  Engine *engine;
  Options *options;
  pthread_mutex_t lock;
  Division *kept[KEPT]; /* the one that was used last comes first */
} Node;

/* ---- plans ---- */

static void drop_plan(Plan *p) {
  for (int t = 0; t < TENSORS; t++)
    if (p->layouts[t]) dnnl_memory_desc_destroy(p->layouts[t]);
  if (p->bias) dnnl_memory_desc_destroy(p->bias);
  if (p->turn) dnnl_primitive_destroy(p->turn);
  if (p->turning) dnnl_primitive_desc_destroy(p->turning);
  if (p->primitive) dnnl_primitive_destroy(p->primitive);
  if (p->description && p->description != p->forward) dnnl_primitive_desc_destroy(p->description);
  if (p->forward) dnnl_primitive_desc_destroy(p->forward);
  memset(p, 0, sizeof *p);
}
static void drop(Division *d) { /* the lock is held, or nobody else has the node */
  if (--d->used) return;
  drop_plan(&d->plans[0]);
  drop_plan(&d->plans[1]);
  free(d);
}

/* The sizes of a tensor as oneDNN has them, channels before the axes of an image. */
static int sizes_of(const Node *n, int tensor, int64_t images, int64_t *dims) {
  int rank = 0;
  if (tensor == W) {
    if (n->group > 1) dims[rank++] = n->group;
    dims[rank++] = n->filters / n->group;
    dims[rank++] = n->channels / n->group;
  } else {
    dims[rank++] = images;
    dims[rank++] = tensor == X ? n->channels : n->filters;
  }
  const int64_t *axes = tensor == W ? n->window : tensor == X ? n->image : n->result;
  for (int k = 0; k < n->rank - 2; k++) dims[rank++] = axes[k];
  return rank;
}
static int64_t elements_of(const Node *n, int tensor, int64_t images) {
  int64_t dims[RANK + 1], count = 1;
  for (int k = sizes_of(n, tensor, images, dims); k--;) count *= dims[k];
  return count;
}

static Status *layout(const Node *n, Plan *p, int tensor) {
  int64_t dims[RANK + 1], strides[RANK + 1], step = 1;
  int rank = sizes_of(n, tensor, p->images, dims);
  if (tensor != W) step = dims[1];
  for (int k = rank; k--;) {
    if (tensor != W && k == 1) strides[k] = 1;
    else strides[k] = step, step *= dims[k];
  }
  DONE("sizes", dnnl_memory_desc_create_with_strides(&p->layouts[tensor], rank, dims, F32, strides));
  return 0;
}

/* The layout and the bytes of the memory that a primitive needs beside its arguments. */
static const Layout *room_of(const Description *d, size_t *bytes) {
  const Layout *layout = dnnl_primitive_desc_query_md(d, ROOM_LAYOUT, 0);
  *bytes = layout ? ALIGN(dnnl_memory_desc_get_size(layout)) : 0;
  return layout;
}

/* Which primitive it is; the layout of its filters is its own choice. */
static Status *describe(const Node *n, Plan *p, const Layout *w) {
  const Layout *x = p->layouts[X], *y = p->layouts[Y];
  const int64_t *strides = n->geometry[0], *dilations = n->geometry[1];
  const int64_t *before = n->geometry[2], *after = n->geometry[3];
  DONE("a convolution", dnnl_convolution_forward_primitive_desc_create(&p->forward, n->engine,
      FORWARD, DIRECT, x, w, p->bias, y, strides, dilations, before, after, n->options));
  if (n->what == CONVOLVE) p->description = p->forward;
  if (n->what == INPUT_GRAD)
    DONE("the gradient of an image", dnnl_convolution_backward_data_primitive_desc_create(
        &p->description, n->engine, DIRECT, x, w, y, strides, dilations, before, after, p->forward,
        n->options));
  if (n->what == FILTER_GRAD)
    DONE("the gradient of filters", dnnl_convolution_backward_weights_primitive_desc_create(
        &p->description, n->engine, DIRECT, x, w, 0, y, strides, dilations, before, after,
        p->forward, n->options));
  return 0;
}

/* The primitive that turns filters into the layout of a convolution, or a gradient back. */
static Status *turning(const Node *n, Plan *p) {
  const Layout *own = p->layouts[W];
  int out = n->what == FILTER_GRAD;
  p->filters = dnnl_primitive_desc_query_md(
      p->description, out ? FILTER_GRADIENT_LAYOUT : FILTER_LAYOUT, 0);
  p->turned = ALIGN(dnnl_memory_desc_get_size(p->filters));
  if (dnnl_memory_desc_equal(own, p->filters)) return 0;
  DONE("filters", dnnl_reorder_primitive_desc_create(&p->turning, out ? p->filters : own,
      n->engine, out ? own : p->filters, n->engine, n->options));
  DONE("filters", dnnl_primitive_create(&p->turn, p->turning));
  room_of(p->turning, &p->turn_room);
  return 0;
}

static Status *plan(const Node *n, Plan *p, int64_t images, int bias) {
  int64_t dims[RANK + 1];
  const int64_t one = 1;
  Layout *any = 0;
  p->images = images;
  if (n->is_ours) {
    p->turned = ALIGN((size_t)elements_of(n, W, 1) * sizeof(float));
    return 0;
  }
  for (int t = 0; t < TENSORS; t++) TRY(layout(n, p, t));
  if (bias)
    DONE("sizes", dnnl_memory_desc_create_with_strides(&p->bias, 1, &n->filters, F32, &one));
  int rank = sizes_of(n, W, images, dims);
  DONE("sizes", dnnl_memory_desc_create_with_tag(&any, rank, dims, F32, ANY_LAYOUT));
  Status *status = describe(n, p, any);
  dnnl_memory_desc_destroy(any);
  if (status) return status;
  TRY(turning(n, p));
  DONE("a convolution", dnnl_primitive_create(&p->primitive, p->description));
  room_of(p->description, &p->room);
  return 0;
}

/* ---- divisions ---- */

static size_t parts_of(const Node *n, int64_t images) {
  double work = 2.0 * (double)elements_of(n, W, 1) * (double)elements_of(n, Y, images);
  work /= (double)n->filters * WORTH;
  size_t most = most_parts[n->what], parts = 1;
  while (parts * 2 <= most && (int64_t)parts * 2 <= images && (double)parts * 2 <= work) parts *= 2;
  return parts;
}

static Status *divide(const Node *n, int64_t images, int bias, Division **result) {
  Division *d = *result = calloc(1, sizeof *d);
  if (!d) return failure("oneDNN: no memory for a convolution");
  d->used = 1, d->images = images, d->parts = parts_of(n, images);
  d->longer = (size_t)(images % (int64_t)d->parts);
  int64_t each = images / (int64_t)d->parts;
  int before = one_thread();
  Status *status = plan(n, &d->plans[1], each, bias);
  if (!status && d->longer) status = plan(n, &d->plans[0], each + 1, bias);
  if (!status && d->longer && n->what == FILTER_GRAD && !n->is_ours &&
      !dnnl_memory_desc_equal(d->plans[0].filters, d->plans[1].filters)) {
    drop_plan(&d->plans[0]); /* gradients in two layouts, which have no sum */
    drop_plan(&d->plans[1]);
    d->parts = 1, d->longer = 0;
    status = plan(n, &d->plans[1], images, bias);
  }
  as_before(before);
  if (status) drop(d);
  return status;
}

/* The division of so many images, which `leave` gives back. */
static Status *enter(Node *n, int64_t images, int bias, Division **result) {
  Status *status = 0;
  int k = 0;
  pthread_mutex_lock(&n->lock);
  while (k < KEPT && n->kept[k] && n->kept[k]->images != images) k++;
  Division *d = k < KEPT ? n->kept[k] : 0;
  if (!d) {
    status = divide(n, images, bias, &d);
    if (!status && k == KEPT) drop(n->kept[--k]);
  }
  if (!status) {
    memmove(n->kept + 1, n->kept, (size_t)k * sizeof *n->kept);
    n->kept[0] = *result = d;
    d->used++;
  }
  pthread_mutex_unlock(&n->lock);
  return status;
}
static void leave(Node *n, Division *d) {
  pthread_mutex_lock(&n->lock);
  drop(d);
  pthread_mutex_unlock(&n->lock);
}

/* ---- runs ---- */

typedef struct {
  const Node *node;
  const Division *division;
  char *data[TENSORS], *bias;
  char *filters[2]; /* in the layout of each plan's primitive */
  char *room;       /* of the parts, `each` bytes for one: its gradient of filters comes first */
  size_t each, gradient;
  int error; /* one of oneDNN's */
} Run;

/* Add an argument to those of a primitive. */
static int add(Argument *a, int *count, int name, const Layout *layout, Engine *engine, void *data) {
  a[*count].name = name;
  return dnnl_memory_create(&a[(*count)++].memory, layout, engine, data);
}
static void remove_all(Argument *a, int count) {
  while (count--)
    if (a[count].memory) dnnl_memory_destroy(a[count].memory);
}

/* The first image of part k, and how many it has. */
static int64_t images_of(const Division *d, size_t k, int64_t *first) {
  const int shorter = k >= d->longer;
  *first = (int64_t)k * d->plans[shorter].images + (shorter ? (int64_t)d->longer : 0);
  return d->plans[shorter].images;
}

static int run_plan(Run *r, size_t k, Stream *stream) {
  static const int names[][TENSORS] = {{IMAGE, FILTER, RESULT},
    {IMAGE_GRADIENT, FILTER, RESULT_GRADIENT}, {IMAGE, FILTER_GRADIENT, RESULT_GRADIENT}};
  const Node *n = r->node;
  const Division *d = r->division;
  const int shorter = k >= d->longer;
  const Plan *p = &d->plans[shorter];
  int64_t first;
  images_of(d, k, &first);
  char *room = r->room + k * r->each;
  Argument a[TENSORS + 2] = {{0, 0}};
  int count = 0, error = 0;
  for (int t = 0; t < TENSORS && !error; t++) {
    char *data = n->what == FILTER_GRAD ? room : r->filters[shorter];
    if (t != W) data = r->data[t] + first * elements_of(n, t, 1) * (int64_t)sizeof(float);
    error = add(a, &count, names[n->what][t], t == W ? p->filters : p->layouts[t], n->engine, data);
  }
  if (!error && p->bias) error = add(a, &count, BIAS, p->bias, n->engine, r->bias);
  if (!error && p->room) {
    size_t bytes;
    const Layout *layout = room_of(p->description, &bytes);
    error = add(a, &count, ROOM, layout, n->engine, room + r->gradient);
  }
  if (!error) error = dnnl_primitive_execute(p->primitive, stream, count, a);
  remove_all(a, count);
  if (!error && n->relu) { /* oneDNN's own makes NaN 0 */
    float *y = (float *)r->data[Y] + first * elements_of(n, Y, 1);
    const int64_t elements = elements_of(n, Y, p->images);
#pragma omp simd
    for (int64_t j = 0; j < elements; j++) y[j] = y[j] < 0 ? 0 : y[j];
  }
  return error;
}
static void add_ours(Run *r, size_t k) {
  const Node *n = r->node;
  int64_t first, images = images_of(r->division, k, &first);
  const float *x = (const float *)r->data[X] + first * elements_of(n, X, 1);
  const float *dy = (const float *)r->data[Y] + first * elements_of(n, Y, 1);
  float *dw = (float *)(r->room + k * r->each);
  Window w = {.channels = n->channels, .filters = n->filters};
  for (int axis = 0; axis < 2; axis++) {
    w.image[axis] = n->image[axis], w.result[axis] = n->result[axis];
    w.window[axis] = n->window[axis], w.strides[axis] = n->geometry[0][axis];
    w.dilations[axis] = n->geometry[1][axis] + 1, w.before[axis] = n->geometry[2][axis];
  }
  memset(dw, 0, (size_t)elements_of(n, W, 1) * sizeof(float));
  add_filter_gradient(&w, images, x, dy, dw);
}
/* A gradient [*K, C, O] as [O, C, *K]. */
static void turn_ours(const Node *n, const float *from, float *to) {
  const int64_t places = n->window[0] * n->window[1], channels = n->channels;
  for (int64_t k = 0; k < places * channels; k++)
    for (int64_t o = 0; o < n->filters; o++)
      to[(o * channels + k % channels) * places + k / channels] = from[k * n->filters + o];
}

static void run_part(void *state, size_t k) {
  Run *r = state;
  if (r->node->is_ours) {
    add_ours(r, k);
    return;
  }
  Stream *stream = 0;
  int before = one_thread(), error = dnnl_stream_create(&stream, r->node->engine, IN_ORDER);
  if (!error) error = run_plan(r, k, stream);
  if (stream) dnnl_stream_destroy(stream);
  as_before(before);
  if (error) __atomic_store_n(&r->error, error, __ATOMIC_RELAXED);
}

#define SUMMED 4096 /* elements that are worth a part */
static void sum_part(void *state, size_t k) { /* of gradients, in the order of their parts */
  Run *r = state;
  size_t count = r->gradient / sizeof(float), lo = k * SUMMED;
  size_t hi = lo + SUMMED < count ? lo + SUMMED : count;
  float *total = (float *)r->room;
  for (size_t part = 1; part < r->division->parts; part++) {
    const float *x = (const float *)(r->room + part * r->each);
#pragma omp simd
    for (size_t j = lo; j < hi; j++) total[j] += x[j];
  }
}

/* Turn all filters, into the primitive's layout or from it. */
static int turn(const Node *n, const Plan *p, void *from, void *to, void *room) {
  const int out = n->what == FILTER_GRAD;
  Stream *stream = 0;
  Argument a[3] = {{0, 0}};
  int count = 0, before = one_thread();
  int error = dnnl_stream_create(&stream, n->engine, IN_ORDER);
  if (!error) error = add(a, &count, FROM, out ? p->filters : p->layouts[W], n->engine, from);
  if (!error) error = add(a, &count, TO, out ? p->layouts[W] : p->filters, n->engine, to);
  if (!error && p->turn_room) {
    size_t bytes;
    const Layout *layout = room_of(p->turning, &bytes);
    error = add(a, &count, ROOM, layout, n->engine, room);
  }
  if (!error) error = dnnl_primitive_execute(p->turn, stream, count, a);
  remove_all(a, count);
  if (stream) dnnl_stream_destroy(stream);
  as_before(before);
  return error;
}

/* The bytes of a run: filters for each plan, then the memory of each part. Behind it is
   that of what turns filters, which may have the parts' before they run. */
static int64_t memory_of(const Node *n, const Division *d, Run *r) {
  size_t filters = 0, turning = 0;
  r->gradient = r->each = 0;
  for (int k = 0; k < 2; k++) {
    const Plan *p = &d->plans[k];
    if (p->room > r->each) r->each = p->room;
    if (p->turn_room > turning) turning = p->turn_room;
    if (n->what == FILTER_GRAD && p->turned > r->gradient) r->gradient = p->turned;
    if (n->what != FILTER_GRAD && p->turn) filters += p->turned;
  }
  r->each += r->gradient;
  return (int64_t)(filters + d->parts * r->each + turning);
}

static Status *compute(Node *n, const Division *d, Run *r, Context *context) {
  const int of_filters = n->what == FILTER_GRAD;
  const int64_t bytes = memory_of(n, d, r) + 64;
  void *memory;
  TRY(output(context, 1, &bytes, 1, &memory));
  r->room = (char *)(((uintptr_t)memory + 63) / 64 * 64);
  for (int k = 0; k < 2 && !of_filters; k++) {
    r->filters[k] = r->data[W];
    if (!d->plans[k].turn) continue;
    r->filters[k] = r->room, r->room += d->plans[k].turned;
    DONE("filters", turn(n, &d->plans[k], r->data[W], r->filters[k], r->room));
  }
  TRY(parallel(context, run_part, d->parts, r));
  DONE("a convolution", r->error);
  if (!of_filters) return 0;
  TRY(parallel(context, sum_part, (r->gradient / sizeof(float) + SUMMED - 1) / SUMMED, r));
  char *behind = r->room + d->parts * r->each;
  if (n->is_ours) turn_ours(n, (const float *)r->room, (float *)r->data[W]);
  else if (d->plans[1].turn) DONE("filters", turn(n, &d->plans[1], r->room, r->data[W], behind));
  else memcpy(r->data[W], r->room, (size_t)elements_of(n, W, 1) * sizeof(float));
  return 0;
}

/* The sizes of a tensor of the operator; those of an image have channels last. */
static void dims_of(const Node *n, int tensor, int64_t images, int64_t *dims) {
  if (tensor == W) {
    dims[0] = n->filters, dims[1] = n->channels / n->group;
    memcpy(dims + 2, n->window, sizeof n->window);
  } else {
    dims[0] = images, dims[n->rank - 1] = tensor == X ? n->channels : n->filters;
    memcpy(dims + 1, tensor == X ? n->image : n->result, (size_t)(n->rank - 2) * sizeof *dims);
  }
}

/* An input has the sizes that the node was made for; `images` is their number. */
static Status *checked(const Node *n, Context *context, size_t k, int tensor, int64_t *images) {
  int64_t dims[RANK], wanted[RANK];
  size_t rank;
  TRY(shape(context, k, dims, RANK, &rank));
  int fits = (int)rank == n->rank;
  if (fits) {
    if (tensor != W && *images < 0) *images = dims[0];
    dims_of(n, tensor, *images, wanted);
    fits = !memcmp(dims, wanted, rank * sizeof *dims);
  }
  return fits ? 0 : failure("oneDNN: an input does not have the sizes that it was compiled for");
}

static Status *run(void *state, Context *context) {
  static const int inputs[][2] = {{X, W}, {W, Y}, {X, Y}};
  Node *n = state;
  Run r = {.node = n};
  const int output_tensor = made[n->what];
  int64_t images = -1, dims[RANK];
  size_t given = 0;
  for (size_t k = 0; k < 2; k++) {
    TRY(checked(n, context, k, inputs[n->what][k], &images));
    TRY(input(context, k, (const void **)&r.data[inputs[n->what][k]]));
  }
  TRY(CALL(AT_INPUTS, Context *, size_t *)(context, &given));
  if (given > 2) {
    size_t rank;
    TRY(shape(context, 2, dims, 1, &rank));
    if (rank != 1 || dims[0] != n->filters)
      return failure("oneDNN: a bias does not have an element for each filter");
    TRY(input(context, 2, (const void **)&r.bias));
  }
  dims_of(n, output_tensor, images, dims);
  TRY(output(context, 0, dims, (size_t)n->rank, (void **)&r.data[output_tensor]));
  if (!images) {
    void *none;
    if (output_tensor == W)
      memset(r.data[W], 0, (size_t)elements_of(n, W, 1) * sizeof(float));
    return output(context, 1, &images, 1, &none);
  }
  Division *d = 0;
  TRY(enter(n, images, r.bias != 0, &d));
  r.division = d;
  Status *status = compute(n, d, &r, context);
  leave(n, d);
  return status;
}

/* ---- nodes ---- */

static void close_node(void *state) {
  Node *n = state;
  for (int k = 0; k < KEPT; k++)
    if (n->kept[k]) drop(n->kept[k]);
  if (n->options) dnnl_primitive_attr_destroy(n->options);
  if (n->engine) dnnl_engine_destroy(n->engine);
  pthread_mutex_destroy(&n->lock);
  free(n);
}

static Status *ints(const Info *info, const char *name, int64_t *values, size_t count) {
  size_t found = count;
  TRY(attribute_ints(info, name, values, &found));
  return found == count ? 0 : failure("oneDNN: a convolution with attributes that do not fit");
}
static Status *read_node(Node *n, const Info *info) {
  int64_t rank, relu = 0, pads[2 * AXES];
  TRY(attribute_int(info, "rank", &rank));
  if (rank < 3 || rank > RANK) return failure("oneDNN: images have 1 to 3 axes");
  const size_t axes = (size_t)rank - 2;
  n->rank = (int)rank;
  if (n->what == CONVOLVE) TRY(attribute_int(info, "relu", &relu));
  n->relu = relu != 0;
  TRY(attribute_int(info, "group", &n->group));
  TRY(attribute_int(info, "channels", &n->channels));
  TRY(attribute_int(info, "filters", &n->filters));
  TRY(ints(info, "image", n->image, axes));
  TRY(ints(info, "result", n->result, axes));
  TRY(ints(info, "window", n->window, axes));
  TRY(ints(info, "strides", n->geometry[0], axes));
  TRY(ints(info, "dilations", n->geometry[1], axes));
  TRY(ints(info, "pads", pads, 2 * axes));
  if (n->group < 1 || n->channels % n->group || n->filters % n->group)
    return failure("oneDNN: channels and filters are no multiples of the groups");
  for (size_t k = 0; k < axes; k++) {
    n->geometry[1][k] -= 1;
    n->geometry[2][k] = pads[k], n->geometry[3][k] = pads[axes + k];
  }
  n->is_ours = n->what == FILTER_GRAD && axes == 2 && n->group == 1 &&
               n->channels >= FILTERS_FROM && n->channels % 2 == 0 &&
               n->filters % FILTERS_MULTIPLE == 0 && n->window[0] * n->window[1] > 1 &&
               elements_of(n, W, 1) <= FILTERS_MOST;
  return 0;
}
static Status *open_node(int what, const Info *info, void **state) {
  pthread_once(&loading, load);
  if (*why_not) return failure(why_not);
  Node *n = calloc(1, sizeof *n);
  if (!n) return failure("oneDNN: no memory for a convolution");
  n->what = what;
  pthread_mutex_init(&n->lock, 0);
  Status *status = read_node(n, info);
  int error = status ? 0 : dnnl_engine_create(&n->engine, CPU, 0);
  if (!status && !error) error = dnnl_primitive_attr_create(&n->options);
  if (n->options && !error) error = dnnl_primitive_attr_set_scratchpad_mode(n->options, OURS);
  if (n->options && !error) error = dnnl_primitive_attr_set_fpmath_mode(n->options, STRICT);
  if (error) status = error_of("a convolution", error);
  if (status) close_node(n);
  else *state = n;
  return status;
}
#define OPEN(name, what) \
  static Status *name(const Info *info, void **state) { return open_node(what, info, state); }
OPEN(open_convolve, CONVOLVE)
OPEN(open_input_grad, INPUT_GRAD)
OPEN(open_filter_grad, FILTER_GRAD)

static const unsigned char kinds[] = {1, 1, 1, 2}, with_bias[] = {1, 1, 1, 1, 2};
static Op ops[] = {
  OPERATOR("ConvLast", 2, 2, kinds, open_convolve, close_node, run),
  OPERATOR("ConvLastBias", 3, 2, with_bias, open_convolve, close_node, run),
  OPERATOR("ConvLastInputGrad", 2, 2, kinds, open_input_grad, close_node, run),
  OPERATOR("ConvLastFilterGrad", 2, 2, kinds, open_filter_grad, close_node, run)};
REGISTER("pd.onednn")
