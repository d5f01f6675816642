/* SPDX-License-Identifier: MIT
 *
 * Symbolizes the stacks of a target and prints them as text or JSON.
 */
#ifndef SONDE_REPORT_STACKS_STACKS_H
#define SONDE_REPORT_STACKS_STACKS_H

#include <json-c/json.h>
#include <stdio.h>

#include "base/language.h"
#include "symbol/symbol.h"
#include "symbol/system.h"
#include "target/target.h"

/* A symbolized pc. The functions are innermost first; all but the last were inlined. */
typedef struct named {
  uint64_t pc;
  bool exact;
  const module_t *module; /* NULL: the pc is in no image */
  language_t language;    /* not native: a function of an interpreter; `module` is NULL */
  const char *source;     /* without a module: the file with the name, or NULL */
  uint64_t offset;        /* link address, if has_offset */
  bool has_offset;
  bool system;               /* of a system image (symbol/system.h) */
  symbol_frame_t *functions; /* owned by the symbolizer */
  int count;
  char *demangled; /* the name of generated code; NULL: it is no linker name */
  const char *why; /* why it has no name; static text */
} symbolized_pc_t;

typedef struct stack_symbolizer stack_symbolizer_t;

typedef struct stack_symbolizer_options {
  bool no_lines;
  const system_rules_t *system; /* owned by the caller; NULL: the default rules */
  const char *const *debug_dirs, *const *sysroots; /* as in symbol_options_t */
  symbol_progress_fn *progress;                    /* while a symbol index is built; may be NULL */
} stack_symbolizer_options_t;

stack_symbolizer_t *stack_symbolizer_new(target_t *target,
                                         const stack_symbolizer_options_t *options);
void stack_symbolizer_free(stack_symbolizer_t *symbolizer);

/* Symbolizes FRAME, once for each pc. NULL: out of memory. The result is valid until the symbolizer
 * is freed. */
const symbolized_pc_t *stack_symbolizer_lookup(stack_symbolizer_t *symbolizer,
                                               const frame_t *frame);

/* Writes the name of the variable at ADDRESS to OUT (symbol_variable). False: it has none. */
bool stack_symbolizer_variable(stack_symbolizer_t *symbolizer, uint64_t address, char *out,
                               size_t size);

/* The file with the debug information of MODULE; NULL: none. */
const char *stack_symbolizer_debug_path(stack_symbolizer_t *symbolizer, const module_t *module);

typedef struct tail_frames tail_frames_t;

typedef struct stacks_view {
  target_t *target;
  stack_symbolizer_t *symbolizer;
  tail_frames_t *tail_frames; /* NULL: do not reconstruct tail calls */
  bool app_only;              /* omit the frames of system images */
  bool native;                /* show the frames of an interpreter, and goroutines of the runtime */
  bool full_names;            /* whatever the width of the terminal */
  const struct goroutines *goroutines; /* NULL: none were read */
} stacks_view_t;

void stacks_text(FILE *out, const stacks_view_t *view);
void stacks_json(FILE *out, const stacks_view_t *view);

/* Prints the frames of THREAD, and how its stack ends. */
void stacks_frames_text(FILE *out, const stacks_view_t *view, const thread_t *thread);

/* Appends the frames of THREAD to the JSON array FRAMES. */
void stacks_frames_json(json_object *frames, const stacks_view_t *view, const thread_t *thread);

/* "app", "system" or "library", which is neither the program nor system; RULES may be NULL. */
const char *stacks_role(const target_t *target, const system_rules_t *rules,
                        const module_t *module);

/* "sleeping", "running", …; NULL: unknown. */
const char *stacks_state_word(char state);

/* Describes what THREAD waits for: "epoll_wait(fd 5, anon_inode:[eventpoll])". Empty if it is in no
 * system call. */
void stacks_wait_text(const thread_t *thread, char *out, size_t size);

#endif
