/* SPDX-License-Identifier: MIT
 *
 * Names in the process: sonde_name and glibc's backtrace_symbols on the same addresses; the cost of
 * a lookup as the symbol table grows (logarithmic for a search, linear for a scan); and the text of
 * a stack from the cache and without it.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "image/name.h"
#include "sonde/name.h"
#include "sonde/stack.h"
#include "capture/stack_text.h"

#define ROUNDS 11
#define PCS    256

static void fail(const char *what) {
  fprintf(stderr, "names_bench: %s\n", what);
  exit(1);
}

static uint32_t next_random(void) {
  static uint32_t state = 2463534242u;
  state ^= state << 13;
  state ^= state >> 17;
  return state ^= state << 5;
}

/* ---- beside backtrace_symbols ---------------------------------------------------------------- */

static double time_sonde(void *const *pcs, int rounds) {
  sonde_name_t name;
  uint64_t start = bench_now_ns();
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < PCS; i++)
      sonde_name((uintptr_t)pcs[i], 0, &name);
  return (double)(bench_now_ns() - start) / (rounds * PCS);
}

static double time_glibc(void *const *pcs) {
  uint64_t start = bench_now_ns();
  char **text = backtrace_symbols(pcs, PCS);
  double taken = (double)(bench_now_ns() - start) / PCS;
  free(text);
  return taken;
}

/* Random addresses of the executable segment that contains INSIDE. */
static void pick(uintptr_t inside, void **pcs, int count) {
  sonde_image_t image;
  if (sonde_image_of_pc(inside, &image) != 0) fail("no image");
  for (int i = 0; i < count;) {
    const sonde_segment_t *s = &image.segments[next_random() % image.segment_count];
    if (s->flags & SONDE_SEGMENT_EXECUTE) pcs[i++] = (void *)(s->address + next_random() % s->size);
  }
}

static void beside_glibc(void) {
  void *pcs[PCS];
  double sonde[ROUNDS], glibc[ROUNDS];
  pick((uintptr_t)qsort, pcs, PCS / 2);
  pick((uintptr_t)beside_glibc, pcs + PCS / 2, PCS / 2);
  time_sonde(pcs, 1);
  time_glibc(pcs);
  for (int r = 0; r < ROUNDS; r++) {
    sonde[r] = time_sonde(pcs, 200);
    glibc[r] = time_glibc(pcs);
  }
  double a = bench_median(sonde, ROUNDS), b = bench_median(glibc, ROUNDS);
  printf("random addresses of libc and of this program, for one\n");
  printf("  sonde_name         %8.1f ns   1/%.0f of backtrace_symbols\n", a, b / a);
  printf("  backtrace_symbols  %8.1f ns\n", b);
}

/* ---- as tables grow -------------------------------------------------------------------------- */

static void table_of(int symbols, const char *folder) {
  char command[700], path[200];
  snprintf(path, sizeof path, "%s/%d.so", folder, symbols);
  snprintf(command, sizeof command,
           "awk 'BEGIN{print \".section .note.GNU-stack\\n.text\\n.globl first\\nfirst: "
           "nop\";for(i=0;i<%d;i++)printf \".type "
           "a_function_with_a_name_%%d,@function\\na_function_with_a_name_%%d: .zero 32\\n.size "
           "a_function_with_a_name_%%d,.-a_function_with_a_name_%%d\\n\",i,i,i,i}' | "
           "cc -shared -x assembler - -o %s",
           symbols, path);
  if (system(command) != 0) fail("cannot build a library");
  void *handle = dlopen(path, RTLD_NOW), *pcs[PCS];
  if (!handle) fail(dlerror());
  pick((uintptr_t)dlsym(handle, "first"), pcs, PCS);
  uint64_t before = name_index_bytes(), start = bench_now_ns();
  sonde_name_t name;
  sonde_name((uintptr_t)pcs[0], 0, &name);
  double first = (double)(bench_now_ns() - start) / 1e6, warm[ROUNDS];
  for (int r = 0; r < ROUNDS; r++)
    warm[r] = time_sonde(pcs, 200);
  printf("  %7d symbols  %8.1f ns   first name %.2f ms, index %.1f MB\n", symbols,
         bench_median(warm, ROUNDS), first, (double)(name_index_bytes() - before) / 1e6);
  dlclose(handle);
  unlink(path);
}

static void as_tables_grow(void) {
  char folder[] = "/tmp/sonde-bench-XXXXXX";
  if (!mkdtemp(folder)) fail("no folder");
  printf("sonde_name, random addresses of one library\n");
  table_of(1000, folder);
  table_of(10000, folder);
  table_of(100000, folder);
  rmdir(folder);
}

/* ---- the named stack ------------------------------------------------------------------------- */

__attribute__((noinline)) static uint32_t descend(int depth) {
  uint32_t id = 0;
  if (depth)
    id = descend(depth - 1);
  else
    sonde_stack_id(&id);
  __asm__ volatile("" : "+r"(id));
  return id;
}

static void named_stack(int depth) {
  char text[16384];
  double kept[ROUNDS], afresh[ROUNDS];
  uint32_t id = descend(depth);
  int length = sonde_stack_text(id, 0, text, sizeof text);
  for (int r = 0; r < ROUNDS; r++) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < 10000; i++)
      sonde_stack_text(id, 0, text, sizeof text);
    kept[r] = (double)(bench_now_ns() - start) / 10000;
    start = bench_now_ns();
    for (int i = 0; i < 1000; i++)
      stack_text_make(id, 0, text, sizeof text);
    afresh[r] = (double)(bench_now_ns() - start) / 1000;
  }
  double a = bench_median(kept, ROUNDS), b = bench_median(afresh, ROUNDS);
  printf("the named stack, depth %d, %d bytes of text\n", depth + 4, length);
  printf("  seen before        %8.1f ns   1/%.0f of naming it\n", a, b / a);
  printf("  named afresh       %8.1f ns\n", b);
}

int main(void) {
  beside_glibc();
  as_tables_grow();
  named_stack(6);
  named_stack(26);
  named_stack(96);
  return 0;
}
