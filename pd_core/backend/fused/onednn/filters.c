/* The gradient of filters, of images whose channels come last: dw [*K, C, O], for each place in the
   window the product of the image, transposed, and the gradient of the result. It is added to. With
   FILTERS this is what computes it, else its declaration.

   With AVX2 oneDNN's own takes 1.1 to 1.5 times as long, but for few channels, windows of one place
   and gradients that do not fit in the second cache; with AVX-512 nothing was measured. */
#include <stdint.h>

#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
#define FILTERS_FROM 12 /* channels */
#else
#define FILTERS_FROM INT64_MAX
#endif
#define FILTERS_MULTIPLE 16 /* of the filters; the number of channels is even */
#define FILTERS_MOST (1 << 17) /* elements */

typedef struct { /* along height and width: sizes, and steps of elements of the image */
  int64_t image[2], result[2], window[2], strides[2], dilations[2], before[2], channels, filters;
} Window;

void add_filter_gradient(const Window *w, int64_t images, const float *restrict x,
                         const float *restrict dy, float *restrict dw);

#ifdef FILTERS
#define DEPTH 128 /* pixels of the result, which stay in the first cache for all places */
typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));

typedef struct { /* the pixels that one place of the window meets */
  int64_t lines, pixels, x_line, x_pixel, dy_line, channels, filters;
} Span;

/* dw of so many channels and 16 filters, which stay in registers. */
static inline __attribute__((always_inline)) void tile(const int rows, const Span *s,
                                                       const float *restrict x,
                                                       const float *restrict dy,
                                                       float *restrict dw) {
  Eight sum[6][2];
  for (int r = 0; r < rows; r++)
    for (int t = 0; t < 2; t++) sum[r][t] = ((Eight *)(dw + r * s->filters))[t];
  for (int64_t i = 0; i < s->lines; i++) {
    const float *a = x + i * s->x_line, *b = dy + i * s->dy_line;
    for (int64_t j = 0; j < s->pixels; j++, a += s->x_pixel, b += s->filters)
      for (int r = 0; r < rows; r++)
        for (int t = 0; t < 2; t++) sum[r][t] += a[r] * ((const Eight *)b)[t];
  }
  for (int r = 0; r < rows; r++)
    for (int t = 0; t < 2; t++) ((Eight *)(dw + r * s->filters))[t] = sum[r][t];
}
static void six(const Span *s, const float *x, const float *dy, float *dw) { tile(6, s, x, dy, dw); }
static void four(const Span *s, const float *x, const float *dy, float *dw) { tile(4, s, x, dy, dw); }
static void two(const Span *s, const float *x, const float *dy, float *dw) { tile(2, s, x, dy, dw); }

/* The elements of a result from `from` to `to`, of which place k of the window meets the image. */
static int met(const Window *w, int axis, int64_t k, int64_t *from, int64_t *to) {
  const int64_t step = w->strides[axis], at = k * w->dilations[axis] - w->before[axis];
  const int64_t first = at < 0 ? (-at + step - 1) / step : 0;
  const int64_t end = at < w->image[axis] ? (w->image[axis] - 1 - at) / step + 1 : 0;
  if (*from < first) *from = first;
  if (*to > end) *to = end;
  return *from < *to;
}

/* Of the lines of a result from `top` to `bottom`, and the channels from c and filters from o. */
static void add_block(const Window *w, int64_t top, int64_t bottom, int64_t c, int64_t o,
                      void (*add)(const Span *, const float *, const float *, float *),
                      const float *restrict x, const float *restrict dy, float *restrict dw) {
  for (int64_t k = 0; k < w->window[0]; k++) {
    int64_t i = top, end = bottom;
    if (!met(w, 0, k, &i, &end)) continue;
    for (int64_t l = 0; l < w->window[1]; l++) {
      int64_t j = 0, last = w->result[1];
      if (!met(w, 1, l, &j, &last)) continue;
      const int64_t line = w->image[1] * w->channels;
      const int64_t row = i * w->strides[0] + k * w->dilations[0] - w->before[0];
      const int64_t column = j * w->strides[1] + l * w->dilations[1] - w->before[1];
      const Span s = {end - i, last - j, w->strides[0] * line, w->strides[1] * w->channels,
                      w->result[1] * w->filters, w->channels, w->filters};
      add(&s, x + row * line + column * w->channels + c,
          dy + (i * w->result[1] + j) * w->filters + o,
          dw + ((k * w->window[1] + l) * w->channels + c) * w->filters + o);
    }
  }
}

void add_filter_gradient(const Window *w, int64_t images, const float *restrict x,
                         const float *restrict dy, float *restrict dw) {
  const int64_t lines = w->result[1] < DEPTH ? DEPTH / w->result[1] : 1;
  for (; images--; x += w->image[0] * w->image[1] * w->channels,
                   dy += w->result[0] * w->result[1] * w->filters)
    for (int64_t top = 0; top < w->result[0]; top += lines) {
      const int64_t bottom = top + lines < w->result[0] ? top + lines : w->result[0];
      for (int64_t o = 0; o < w->filters; o += FILTERS_MULTIPLE)
        for (int64_t c = 0, rows; c < w->channels; c += rows) {
          const int64_t left = w->channels - c;
          rows = left >= 6 && left != 8 ? 6 : left >= 4 ? 4 : 2; /* two take as long as four */
          add_block(w, top, bottom, c, o, rows == 6 ? six : rows == 4 ? four : two, x, dy, dw);
        }
    }
}
#endif
