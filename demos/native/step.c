/* Train on a device, in C: runs a step that pd.export_step wrote, and keeps its state in a file.

     step FOLDER STEPS

   FOLDER has step.onnx and initial.onnx, written with `initial=`. The state is read from
   FOLDER/state.safetensors if there is one, and written there at the end: the next call goes on.
   Exit codes: 1 for an error of the runtime or of a file, 2 for wrong arguments, 3 for a state that
   is another step's, 4 for one that is damaged. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { FAILED = 1, USAGE = 2, STALE = 3, DAMAGED = 4 };

static const OrtApi *ort;

static void quit(int code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fputc('\n', stderr);
  exit(code);
}

static void check(OrtStatus *status) {
  if (status) quit(FAILED, "ONNX Runtime: %s", ort->GetErrorMessage(status));
}

static void *room(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) quit(FAILED, "no memory");
  return memory;
}

/* A step: its session, and a value for each input, fed by the caller or part of the state. */
typedef struct {
  OrtEnv *env;
  OrtSession *session;
  OrtAllocator *allocator;
  char *digest; /* which states fit: a hash of the operators, and of the types of the state */
  size_t n_inputs, n_outputs;
  char **inputs, **outputs;   /* names */
  OrtValue **values;          /* of the inputs */
  unsigned char *is_state;    /* of the inputs */
  ptrdiff_t *next;            /* of each output: the input that it is in the next run; -1 for a loss */
} Step;

/* ---- JSON, as far as metadata and headers need it ---- */

/* What follows "name": in a JSON object, or 0. */
static const char *entry(const char *json, const char *name) {
  size_t size = strlen(name);
  for (const char *at = json; (at = strstr(at, name)); at++) {
    const char *end = at + size;
    if (at == json || at[-1] != '"' || *end != '"') continue;
    end += 1 + strspn(end + 1, " \t\r\n");
    if (*end == ':') return end + 1 + strspn(end + 1, " \t\r\n");
  }
  return 0;
}

static int is_string(const char *json, const char *text) {
  size_t size = strlen(text);
  return json && json[0] == '"' && !strncmp(json + 1, text, size) && json[1 + size] == '"';
}

/* ---- loading ---- */

static OrtSession *load_model(Step *s, const char *path) {
  OrtSessionOptions *options;
  OrtSession *session;
  check(ort->CreateSessionOptions(&options));
  check(ort->CreateSession(s->env, path, options, &session));
  ort->ReleaseSessionOptions(options);
  return session;
}

static char *metadata(Step *s, const char *key) {
  OrtModelMetadata *data;
  char *text = 0;
  check(ort->SessionGetModelMetadata(s->session, &data));
  check(ort->ModelMetadataLookupCustomMetadataMap(data, s->allocator, key, &text));
  ort->ReleaseModelMetadata(data);
  if (!text) quit(FAILED, "the model has no metadata '%s': it is no step of pd.export_step", key);
  return text;
}

/* The input of this name, or -1. */
static ptrdiff_t input_of(const Step *s, const char *name) {
  for (size_t k = 0; k < s->n_inputs; k++)
    if (!strcmp(s->inputs[k], name)) return (ptrdiff_t)k;
  return -1;
}

/* Begin anew: the outputs of the model without inputs are the state. */
static void begin(Step *s, const char *initial) {
  OrtSession *session = load_model(s, initial);
  size_t count;
  check(ort->SessionGetOutputCount(session, &count));
  char **names = room(count, sizeof *names);
  OrtValue **values = room(count, sizeof *values);
  for (size_t k = 0; k < count; k++)
    check(ort->SessionGetOutputName(session, k, s->allocator, &names[k]));
  check(ort->Run(session, 0, 0, 0, 0, (const char *const *)names, count, values));
  for (size_t k = 0; k < count; k++) {
    ptrdiff_t place = input_of(s, names[k]);
    if (place < 0) quit(FAILED, "%s: '%s' is no input of the step", initial, names[k]);
    s->values[place] = values[k];
    s->is_state[place] = 1;
    check(ort->AllocatorFree(s->allocator, names[k]));
  }
  free(names);
  free(values);
  ort->ReleaseSession(session);
}

static void open_step(Step *s, const char *model, const char *initial) {
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "step", &s->env));
  check(ort->GetAllocatorWithDefaultOptions(&s->allocator));
  s->session = load_model(s, model);
  check(ort->SessionGetInputCount(s->session, &s->n_inputs));
  check(ort->SessionGetOutputCount(s->session, &s->n_outputs));
  s->inputs = room(s->n_inputs, sizeof *s->inputs);
  s->values = room(s->n_inputs, sizeof *s->values);
  s->is_state = room(s->n_inputs, sizeof *s->is_state);
  s->outputs = room(s->n_outputs, sizeof *s->outputs);
  s->next = room(s->n_outputs, sizeof *s->next);
  for (size_t k = 0; k < s->n_inputs; k++)
    check(ort->SessionGetInputName(s->session, k, s->allocator, &s->inputs[k]));
  for (size_t k = 0; k < s->n_outputs; k++)
    check(ort->SessionGetOutputName(s->session, k, s->allocator, &s->outputs[k]));

  s->digest = metadata(s, "pd.digest");
  char *state = metadata(s, "pd.state"); /* {output: input} */
  if (strchr(state, '\\')) quit(FAILED, "names of the state have to be ASCII without quotes");
  for (size_t j = 0; j < s->n_outputs; j++) {
    const char *input = entry(state, s->outputs[j]);
    s->next[j] = -1;
    for (size_t k = 0; input && k < s->n_inputs; k++)
      if (is_string(input, s->inputs[k])) s->next[j] = (ptrdiff_t)k;
  }
  check(ort->AllocatorFree(s->allocator, state));
  begin(s, initial);
}

/* ---- a run ---- */

/* Feed an array, whose memory stays the caller's. */
static void feed(Step *s, const char *name, void *data, size_t bytes, const int64_t *shape, size_t rank,
                 ONNXTensorElementDataType type) {
  OrtMemoryInfo *memory;
  ptrdiff_t k = input_of(s, name);
  if (k < 0 || s->is_state[k]) quit(FAILED, "the step takes no '%s'", name);
  if (s->values[k]) ort->ReleaseValue(s->values[k]);
  check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  check(ort->CreateTensorWithDataAsOrtValue(memory, data, bytes, shape, rank, type, &s->values[k]));
  ort->ReleaseMemoryInfo(memory);
}

/* One step: the state is that after it. Returns the first value that the step fetches, its loss. */
static float run(Step *s) {
  float loss = NAN;
  OrtValue **results = room(s->n_outputs, sizeof *results);
  for (size_t k = 0; k < s->n_inputs; k++)
    if (!s->values[k]) quit(FAILED, "the step needs '%s'", s->inputs[k]);
  check(ort->Run(s->session, 0, (const char *const *)s->inputs, (const OrtValue *const *)s->values,
                 s->n_inputs, (const char *const *)s->outputs, s->n_outputs, results));
  for (size_t j = s->n_outputs; j-- > 0;) {
    if (s->next[j] >= 0) {
      ort->ReleaseValue(s->values[s->next[j]]);
      s->values[s->next[j]] = results[j];
    } else {
      float *number;
      check(ort->GetTensorMutableData(results[j], (void **)&number));
      loss = *number;
      ort->ReleaseValue(results[j]);
    }
  }
  free(results);
  return loss;
}

/* ---- the state in a file, of the format safetensors ---- */

typedef struct { const char *type; size_t bytes; } Kind;

static const Kind kinds[] = { /* by ONNX's numbers of types */
  {0, 0}, {"F32", 4}, {"U8", 1}, {"I8", 1}, {"U16", 2}, {"I16", 2}, {"I32", 4}, {"I64", 8},
  {0, 0}, {"BOOL", 1}, {"F16", 2}, {"F64", 8}, {"U32", 4}, {"U64", 8}
};

/* The memory of a value, its size, and its type and shape as JSON. */
static void *memory_of(OrtValue *value, size_t *bytes, char *text, size_t most) {
  OrtTensorTypeAndShapeInfo *info;
  ONNXTensorElementDataType type;
  size_t rank, count;
  int64_t shape[16] = {0};
  void *data;
  check(ort->GetTensorTypeAndShape(value, &info));
  check(ort->GetTensorElementType(info, &type));
  check(ort->GetTensorShapeElementCount(info, &count));
  check(ort->GetDimensionsCount(info, &rank));
  if (rank > 16) quit(FAILED, "a state has more than 16 axes");
  check(ort->GetDimensions(info, shape, rank));
  ort->ReleaseTensorTypeAndShapeInfo(info);
  if ((size_t)type >= sizeof kinds / sizeof *kinds || !kinds[type].type)
    quit(FAILED, "a state is of type %d, which has no place in the file", (int)type);
  check(ort->GetTensorMutableData(value, &data));
  *bytes = count * kinds[type].bytes;
  int at = snprintf(text, most, "\"dtype\":\"%s\",\"shape\":[", kinds[type].type);
  for (size_t k = 0; k < rank; k++)
    at += snprintf(text + at, most - (size_t)at, k ? ",%lld" : "%lld", (long long)shape[k]);
  snprintf(text + at, most - (size_t)at, "]");
  return data;
}

/* Write the state, under another name at first: a crash leaves the file that was there. */
static void save(const Step *s, const char *path) {
  char text[512], partial[4096];
  size_t end = 0, bytes, length = 256 + strlen(s->digest), at;
  for (size_t k = 0; k < s->n_inputs; k++) length += s->is_state[k] ? 600 + strlen(s->inputs[k]) : 0;
  char *header = room(length + 8, 1);
  at = (size_t)sprintf(header, "{\"__metadata__\":{\"pd.digest\":\"%s\"}", s->digest);
  for (size_t k = 0; k < s->n_inputs; k++) {
    if (!s->is_state[k]) continue;
    memory_of(s->values[k], &bytes, text, sizeof text);
    at += (size_t)sprintf(header + at, ",\"%s\":{%s,\"data_offsets\":[%zu,%zu]}", s->inputs[k], text,
                          end, end + bytes);
    end += bytes;
  }
  header[at++] = '}';
  while (at % 8) header[at++] = ' ';

  if (snprintf(partial, sizeof partial, "%s.partial", path) >= (int)sizeof partial)
    quit(FAILED, "the path %s is too long", path);
  FILE *file = fopen(partial, "wb");
  if (!file) quit(FAILED, "%s cannot be written", partial);
  unsigned char size[8];
  for (int k = 0; k < 8; k++) size[k] = (unsigned char)((uint64_t)at >> 8 * k);
  int written = fwrite(size, 1, 8, file) == 8 && fwrite(header, 1, at, file) == at;
  for (size_t k = 0; written && k < s->n_inputs; k++) {
    if (!s->is_state[k]) continue;
    void *data = memory_of(s->values[k], &bytes, text, sizeof text);
    written = fwrite(data, 1, bytes, file) == bytes;
  }
  written = !fclose(file) && written;
  if (!written || rename(partial, path)) quit(FAILED, "%s cannot be written", path);
  free(header);
}

/* Read a state that `save`, or TrainingStep of demos/js, wrote. Returns 0 if there is no file. */
static int load(Step *s, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file), length = 0;
  rewind(file);
  unsigned char *bytes = room(size + 1, 1);
  if (fread(bytes, 1, size, file) != size) quit(FAILED, "%s cannot be read", path);
  fclose(file);

  for (int k = 7; k >= 0 && size >= 8; k--) length = length << 8 | bytes[k];
  if (size < 8 || length > size - 8) quit(DAMAGED, "%s is damaged: it is cut off", path);
  char *header = room(length + 1, 1);
  memcpy(header, bytes + 8, length);
  const unsigned char *arrays = bytes + 8 + length;
  size -= 8 + length;
  if (!is_string(entry(header, "pd.digest"), s->digest))
    quit(STALE, "%s is stale: it is the state of another step", path);
  for (int copying = 0; copying < 2; copying++) { /* all is checked before anything is changed */
    for (size_t k = 0; k < s->n_inputs; k++) {
      if (!s->is_state[k]) continue;
      char text[512], *rest = 0;
      size_t expected, begin = 0, end = 0;
      void *data = memory_of(s->values[k], &expected, text, sizeof text);
      const char *at = entry(header, s->inputs[k]);
      if (at) at = entry(at, "data_offsets");
      if (at && *at == '[') begin = strtoull(at + 1, &rest, 10);
      if (rest && *(rest += strspn(rest, " ")) == ',') end = strtoull(rest + 1, &rest, 10);
      if (!rest || end > size || begin > end || end - begin != expected)
        quit(DAMAGED, "%s is damaged: '%s' is not whole", path, s->inputs[k]);
      if (copying) memcpy(data, arrays + begin, expected);
    }
  }
  free(header);
  free(bytes);
  return 1;
}

static void close_step(Step *s) {
  for (size_t k = 0; k < s->n_inputs; k++) {
    if (s->values[k]) ort->ReleaseValue(s->values[k]);
    check(ort->AllocatorFree(s->allocator, s->inputs[k]));
  }
  for (size_t k = 0; k < s->n_outputs; k++) check(ort->AllocatorFree(s->allocator, s->outputs[k]));
  check(ort->AllocatorFree(s->allocator, s->digest));
  free(s->inputs), free(s->values), free(s->is_state), free(s->outputs), free(s->next);
  ort->ReleaseSession(s->session);
  ort->ReleaseEnv(s->env);
}

/* ---- the program ---- */

enum { SAMPLES = 32, FEATURES = 8 };

int main(int count, char **words) {
  Step step = {0};
  char model[4096], initial[4096], state[4096];
  int steps = count == 3 ? atoi(words[2]) : 0;
  if (steps < 1 || strlen(words[1]) > 4000) quit(USAGE, "usage: step FOLDER STEPS");
  snprintf(model, sizeof model, "%s/step.onnx", words[1]);
  snprintf(initial, sizeof initial, "%s/initial.onnx", words[1]);
  snprintf(state, sizeof state, "%s/state.safetensors", words[1]);

  ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (!ort) quit(FAILED, "this ONNX Runtime is older than %d", ORT_API_VERSION);
  open_step(&step, model, initial);
  fprintf(stderr, load(&step, state) ? "going on\n" : "beginning\n");

  float x[SAMPLES][FEATURES]; /* in the place of what the device has measured */
  int64_t label[SAMPLES], shape[] = {SAMPLES, FEATURES};
  for (int i = 0; i < SAMPLES; i++) {
    for (int k = 0; k < FEATURES; k++) x[i][k] = (float)sin(0.37 * (i * FEATURES + k));
    label[i] = i % 3;
  }
  feed(&step, "x", x, sizeof x, shape, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  feed(&step, "label", label, sizeof label, shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
  for (int k = 0; k < steps; k++) printf("%.9g\n", run(&step));

  save(&step, state);
  close_step(&step);
  return 0;
}
