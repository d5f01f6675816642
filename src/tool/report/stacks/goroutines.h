/* SPDX-License-Identifier: MIT
 *
 * The goroutines of a Go program, from the memory of its runtime: id, state, why it waits, and its
 * stack. The debug information of the program has the places of the runtime's data, so nothing
 * depends on the version of Go. No thread is stopped.
 */
#ifndef SONDE_REPORT_STACKS_GOROUTINES_H
#define SONDE_REPORT_STACKS_GOROUTINES_H

#include <json-c/json.h>

#include "report/stacks/stacks.h"

typedef struct goroutine {
  uint64_t id;
  /* "waiting", "runnable", …: static text */
  const char *state;
  /* why it waits, in the runtime's words: "chan receive"; "": it does not, or unknown */
  char wait[48];
  /* runs on this thread, which has its stack; 0: none */
  pid_t tid;
  /* of the goroutine that created it, and of its function; 0: unknown */
  uint64_t created_pc, start_pc;
  /* of the runtime itself: the garbage collector's workers and such */
  bool is_system;
  /* only frames, their count, ending and reason */
  thread_t stack;
} goroutine_t;

typedef struct goroutines {
  /* not a Go program: false */
  bool is_go;
  /* why the goroutines are not known; static text; NULL: they are */
  const char *problem;
  goroutine_t *items; /* by id */
  size_t count;
  /* beyond the limit */
  uint64_t left_out;
} goroutines_t;

/* Reads the goroutines of TARGET, whose threads were captured; at most DEPTH frames each. */
void goroutines_read(goroutines_t *out, target_t *target, stack_symbolizer_t *symbolizer,
                     uint32_t depth);
void goroutines_free(goroutines_t *goroutines);

void goroutines_text(FILE *out, const stacks_view_t *view, const goroutines_t *goroutines);

/* Writes them as the JSON array "goroutines", after a comma. Nothing if it is no Go program. */
void goroutines_json(FILE *out, const stacks_view_t *view, const goroutines_t *goroutines);

#endif
