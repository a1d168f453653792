/* A library for LD_PRELOAD: each tensor of ONNX Runtime ends where a page ends, and the next page cannot be
   read or written; after it is freed neither can its own. Accesses beyond end the process, those of
   code without a sanitizer too. Tensors are the memory that it asks `new` for with an alignment. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096
#define ALIGNED 16 /* as malloc's: with 64, up to 60 bytes behind a tensor would not be seen */

void *_ZnwmSt11align_val_t(size_t size, size_t alignment) {
  (void)alignment;
  const size_t whole = (size + PAGE - 1) / PAGE * PAGE;
  char *first = mmap(0, whole + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (first == MAP_FAILED) abort();
  *(size_t *)first = whole;
  if (mprotect(first + PAGE + whole, PAGE, PROT_NONE)) abort();
  return (void *)((uintptr_t)(first + PAGE + whole - size) & ~(uintptr_t)(ALIGNED - 1));
}
void _ZdlPvSt11align_val_t(void *memory, size_t alignment) {
  (void)alignment;
  if (!memory) return;
  char *first = (char *)((uintptr_t)memory & ~(uintptr_t)(PAGE - 1)) - PAGE;
  munmap(first, *(size_t *)first + 2 * PAGE);
}
void _ZdlPvmSt11align_val_t(void *memory, size_t size, size_t alignment) {
  (void)size;
  _ZdlPvSt11align_val_t(memory, alignment);
}
