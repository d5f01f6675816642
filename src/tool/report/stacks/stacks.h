/* SPDX-License-Identifier: MIT
 *
 * The stacks of a target with their names, as text and as JSON.
 */
#ifndef SONDE_REPORT_STACKS_STACKS_H
#define SONDE_REPORT_STACKS_STACKS_H

#include <stdio.h>

#include "symbol/symbol.h"
#include "symbol/system.h"
#include "target/target.h"

/* What is known of one pc. The functions are innermost first; all but the last were inlined. */
typedef struct named {
  uint64_t pc;
  bool exact;
  const module_t *module; /* NULL when no image stands behind the pc */
  const char *source; /* without a module: the file that gave the name, NULL when there is none */
  uint64_t offset;    /* in the module, as linked; when its image is ready */
  bool has_offset;
  bool system;               /* not the app's (symbol/system.h) */
  symbol_frame_t *functions; /* owned by the symbolizer */
  int count;
  const char *why; /* it has no name; static words */
} symbolized_pc_t;

typedef struct stack_symbolizer stack_symbolizer_t;

typedef struct stack_symbolizer_options {
  bool no_lines;
  const system_rules_t *system; /* kept by the caller; NULL: the default rules */
  symbol_progress_fn *progress; /* of building a symbol index; may be NULL */
} stack_symbolizer_options_t;

stack_symbolizer_t *stack_symbolizer_new(target_t *target,
                                         const stack_symbolizer_options_t *options);
void stack_symbolizer_free(stack_symbolizer_t *symbolizer);

/* The name of FRAME; the same answer for the same pc. NULL when there is no memory. Valid until the
 * symbolizer is freed. */
const symbolized_pc_t *stack_symbolizer_lookup(stack_symbolizer_t *symbolizer,
                                               const frame_t *frame);

/* The file whose debug information names MODULE; NULL when there is none. */
const char *stack_symbolizer_debug_path(stack_symbolizer_t *symbolizer, const module_t *module);

typedef struct tail_frames tail_frames_t;

typedef struct stacks_view {
  target_t *target;
  stack_symbolizer_t *symbolizer;
  tail_frames_t *tail_frames; /* NULL: frames that tail calls left out are not looked for */
  bool app_only;              /* leave out the frames of system images */
} stacks_view_t;

void stacks_text(FILE *out, const stacks_view_t *view);
void stacks_json(FILE *out, const stacks_view_t *view);

/* "app", "system" or "library": whose code it is. */
const char *stacks_role(const target_t *target, const module_t *module);

/* "sleeping", "running", …; NULL when the state is not known. */
const char *stacks_state_word(char state);

/* What the thread waits for, in words, e.g. "epoll_wait(fd 5, anon_inode:[eventpoll])". Empty when
 * it is in no system call. */
void stacks_wait_text(const thread_t *thread, char *out, size_t size);

#endif
