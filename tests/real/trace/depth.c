/* SPDX-License-Identifier: MIT
 *
 * How deep the stack is inside three nested calls, as three unwinders see it: libgcc's, the C
 * library's, libunwind. With an argument the program then waits there for a debugger, its process
 * id said.
 */
#define UNW_LOCAL_ONLY
#include <execinfo.h>
#include <libunwind.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#define KEEP __attribute__((noinline))

int depth_inner(int wait);

#ifdef OUTER
int main(int argc, char **argv) {
  (void)argv;
  return depth_inner(argc > 1) < 0;
}
#else
static volatile int sink;

__attribute__((no_instrument_function)) static _Unwind_Reason_Code count(struct _Unwind_Context *c,
                                                                         void *n) {
  (void)c;
  ++*(int *)n;
  return _URC_NO_REASON;
}

/* Frames, and those of them that are the tracer's. */
__attribute__((no_instrument_function)) static int by_libunwind(int *own) {
  unw_context_t context;
  unw_cursor_t cursor;
  int n = 0;
  char name[256];
  unw_word_t offset;
  unw_getcontext(&context);
  unw_init_local(&cursor, &context);
  do {
    n++;
    if (unw_get_proc_name(&cursor, name, sizeof name, &offset) == 0)
      *own += !strcmp(name, "sonde_trampoline");
  } while (unw_step(&cursor) > 0);
  return n;
}

KEEP static int depth_probe(int wait) {
  void *pcs[64];
  int by_libgcc = 0, own = 0;
  _Unwind_Backtrace(count, &by_libgcc);
  int by_libc = backtrace(pcs, 64), unw = by_libunwind(&own);
  printf("%d %d %d %d %d\n", (int)getpid(), by_libgcc, by_libc, unw, own);
  fflush(stdout);
  if (wait) sleep(30);
  return by_libgcc;
}
KEEP static int middle(int wait) { return depth_probe(wait) + sink; }
KEEP int depth_inner(int wait) { return middle(wait) + sink; }
#endif
