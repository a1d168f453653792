/* What is used of oneDNN 3, declared here: its shared library is found in the package
   onednn-cpu-gomp, and its headers are not needed. ONEDNN is the path of the library.

   Every function returns 0 or one of oneDNN's numbers of errors, unless it says otherwise. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

typedef struct Engine Engine;
typedef struct Stream Stream;
typedef struct Layout Layout; /* dnnl_memory_desc: sizes and strides of a tensor */
typedef struct Options Options; /* dnnl_primitive_attr */
typedef struct Description Description; /* dnnl_primitive_desc */
typedef struct Primitive Primitive;
typedef struct Memory Memory; /* a layout, and an address */
typedef struct { int32_t name; Memory *memory; } Argument;
typedef struct { int32_t major, minor, patch; } Version; /* its beginning */

enum { /* values of oneDNN's enumerations */
  CPU = 1, F32 = 3, ANY_LAYOUT = 1, IN_ORDER = 1, FORWARD = 64, DIRECT = 1, STRICT = 0, OURS = 1,
  IMAGE_LAYOUT = 129, IMAGE_GRADIENT_LAYOUT = 130, FILTER_LAYOUT = 131,
  FILTER_GRADIENT_LAYOUT = 132, RESULT_LAYOUT = 133, RESULT_GRADIENT_LAYOUT = 134,
  ROOM_LAYOUT = 136, FROM = 1, TO = 17, IMAGE = 1, IMAGE_GRADIENT = 129, RESULT = 17,
  RESULT_GRADIENT = 145, FILTER = 33, FILTER_GRADIENT = 161, BIAS = 41, ROOM = 80
};
static const char *const errors[] = {"success", "no memory", "invalid arguments",
  "there is no such primitive", "there is no other primitive", "an error at run time",
  "not required"};

#define GEOMETRY const int64_t *, const int64_t *, const int64_t *, const int64_t *
#define FUNCTIONS(is) \
  is(int, dnnl_engine_create, (Engine **, int, size_t)) \
  is(int, dnnl_engine_destroy, (Engine *)) \
  is(int, dnnl_stream_create, (Stream **, Engine *, unsigned)) \
  is(int, dnnl_stream_destroy, (Stream *)) \
  is(int, dnnl_memory_desc_create_with_strides, \
     (Layout **, int, const int64_t *, int, const int64_t *)) \
  is(int, dnnl_memory_desc_create_with_tag, (Layout **, int, const int64_t *, int, int)) \
  is(int, dnnl_memory_desc_destroy, (Layout *)) \
  is(int, dnnl_memory_desc_equal, (const Layout *, const Layout *)) /* whether they are */ \
  is(size_t, dnnl_memory_desc_get_size, (const Layout *)) /* bytes */ \
  is(int, dnnl_memory_create, (Memory **, const Layout *, Engine *, void *)) \
  is(int, dnnl_memory_destroy, (Memory *)) \
  is(int, dnnl_primitive_attr_create, (Options **)) \
  is(int, dnnl_primitive_attr_destroy, (Options *)) \
  is(int, dnnl_primitive_attr_set_scratchpad_mode, (Options *, int)) \
  is(int, dnnl_primitive_attr_set_fpmath_mode, (Options *, int)) \
  is(int, dnnl_primitive_desc_destroy, (Description *)) \
  is(const Layout *, dnnl_primitive_desc_query_md, (const Description *, int, int)) \
  is(int, dnnl_primitive_create, (Primitive **, const Description *)) \
  is(int, dnnl_primitive_destroy, (Primitive *)) \
  is(int, dnnl_primitive_execute, (const Primitive *, Stream *, int, const Argument *)) \
  is(int, dnnl_set_primitive_cache_capacity, (int)) \
  is(int, dnnl_reorder_primitive_desc_create, \
     (Description **, const Layout *, Engine *, const Layout *, Engine *, const Options *)) \
  is(int, dnnl_convolution_forward_primitive_desc_create, \
     (Description **, Engine *, int, int, const Layout *, const Layout *, const Layout *, \
      const Layout *, GEOMETRY, const Options *)) \
  is(int, dnnl_convolution_backward_data_primitive_desc_create, \
     (Description **, Engine *, int, const Layout *, const Layout *, const Layout *, GEOMETRY, \
      const Description *, const Options *)) \
  is(int, dnnl_convolution_backward_weights_primitive_desc_create, \
     (Description **, Engine *, int, const Layout *, const Layout *, const Layout *, \
      const Layout *, GEOMETRY, const Description *, const Options *)) \
  is(const Version *, dnnl_version, (void)) \
  is(int, omp_get_max_threads, (void)) \
  is(void, omp_set_num_threads, (int)) /* of the calling thread only */

#define DECLARED(type, name, arguments) static type(*name) arguments;
FUNCTIONS(DECLARED)

#define CACHED 128 /* primitives that oneDNN keeps for the whole process, to be used again */

static pthread_once_t loading = PTHREAD_ONCE_INIT;
static char why_not[512]; /* why the library is not there; empty if it is */

static void load(void) {
  /* it stays: threads that have used OpenMP may outlive the sessions */
  void *library = dlopen(ONEDNN, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    const char *text = dlerror();
    snprintf(why_not, sizeof why_not, "oneDNN cannot be loaded: %s", text ? text : ONEDNN);
    return;
  }
#define FOUND(type, name, arguments) \
  if (!(*(void **)&name = dlsym(library, #name))) { \
    snprintf(why_not, sizeof why_not, "%s has no %s", ONEDNN, #name); \
    return; \
  }
  FUNCTIONS(FOUND)
  const Version *version = dnnl_version();
  if (version->major != 3)
    snprintf(why_not, sizeof why_not, "%s is version %d of oneDNN, not 3", ONEDNN, version->major);
  else
    dnnl_set_primitive_cache_capacity(CACHED);
}

/* An error of the runtime for one of oneDNN's. */
static Status *error_of(const char *what, int number) {
  char text[160];
  const char *why = number > 0 && number < 7 ? errors[number] : "an unknown error";
  snprintf(text, sizeof text, "oneDNN: %s: %s", what, why);
  return failure(text);
}
#define DONE(what, call) \
  do { \
    int number_ = (call); \
    if (number_) return error_of(what, number_); \
  } while (0)

/* Run what follows in one thread: primitives are made for as many as OpenMP has. */
static int one_thread(void) {
  int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  return before;
}
static void as_before(int threads) {
  if (threads != 1) omp_set_num_threads(threads);
}
