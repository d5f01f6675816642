/* SPDX-License-Identifier: MIT
 *
 * Color and progress on a terminal. One thread uses these functions.
 */
#ifndef SONDE_BASE_TERMINAL_H
#define SONDE_BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum terminal_style {
  TERMINAL_PLAIN, /* ends a style */
  TERMINAL_BOLD,
  TERMINAL_DIM,
  TERMINAL_RED,
  TERMINAL_GREEN,
  TERMINAL_YELLOW,
  TERMINAL_BLUE,
  TERMINAL_CYAN,
} terminal_style_t;

/* The escape sequence that begins STYLE on OUT. Returns "" if OUT is not a terminal, TERM is
 * "dumb", or NO_COLOR is set and not empty (no-color.org). */
const char *terminal_style(FILE *out, terminal_style_t style);

/* The width of OUT in columns: of the terminal, else COLUMNS of the environment. 0: unknown. */
unsigned terminal_columns(FILE *out);

/* True if OUT is a terminal that understands escape sequences: TERM is not "dumb". */
bool terminal_is_capable(FILE *out);

/* If OUT is such a terminal, it counts as the same when OUT has become a pipe to a pager. */
void terminal_remember(FILE *out);

/* A progress bar on stderr. It appears only on a terminal and only after the work has taken more
 * than a second. It is redrawn at most ten times a second and removed at the end. */
typedef struct terminal_progress {
  const char *what;
  uint64_t total; /* 0: unknown */
  uint64_t started_ns, drawn_ns;
  bool enabled, shown;
} terminal_progress_t;

void terminal_progress_start(terminal_progress_t *progress, const char *what, uint64_t total);
void terminal_progress_step(terminal_progress_t *progress, uint64_t done);
void terminal_progress_end(terminal_progress_t *progress);

/* The same step for functions that report progress to a callback: CONTEXT is a
 * terminal_progress_t, which takes over TOTAL. */
void terminal_progress_update(void *context, uint64_t done, uint64_t total);

/* A progress bar for building a symbol index: DONE of TOTAL units of MODULE (symbol_progress_fn).
 */
void terminal_index_progress(const char *module, size_t done, size_t total);

/* Returns true if a bar that started at STARTED_NS and was last drawn at DRAWN_NS (0: never) is due
 * at NOW_NS. */
bool terminal_progress_due(uint64_t started_ns, uint64_t drawn_ns, uint64_t now_ns);

#endif
