/* SPDX-License-Identifier: MIT */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 30 };
static const uint64_t patience_ns = 1000000000, redraw_ns = 100000000;

/* A stream whose terminal is remembered, and its width. */
static FILE *remembered;
static unsigned remembered_columns;

void terminal_remember(FILE *out) {
  if (!terminal_is_capable(out)) return;
  remembered_columns = terminal_columns(out);
  remembered = out;
}

bool terminal_is_capable(FILE *out) {
  if (out == remembered) return true;
  const char *term = getenv("TERM");
  return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

const char *terminal_style(FILE *out, terminal_style_t style) {
  static const char *const sequences[] = {
      [TERMINAL_PLAIN] = "\033[0m", [TERMINAL_BOLD] = "\033[1m",   [TERMINAL_DIM] = "\033[2m",
      [TERMINAL_RED] = "\033[31m",  [TERMINAL_GREEN] = "\033[32m", [TERMINAL_YELLOW] = "\033[33m",
      [TERMINAL_BLUE] = "\033[34m", [TERMINAL_CYAN] = "\033[36m"};
  const char *no_color = getenv("NO_COLOR"); /* no-color.org: set and not empty */
  if ((no_color && *no_color) || !terminal_is_capable(out)) return "";
  return sequences[style];
}

unsigned terminal_columns(FILE *out) {
  struct winsize size;
  if (out == remembered) return remembered_columns;
  if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col)
    return size.ws_col;
  const char *columns = getenv("COLUMNS");
  long given = columns ? strtol(columns, NULL, 10) : 0;
  return given > 0 && given < 100000 ? (unsigned)given : 0;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool terminal_progress_due(uint64_t started_ns, uint64_t drawn_ns, uint64_t at_ns) {
  if (drawn_ns) return at_ns - drawn_ns >= redraw_ns;
  return at_ns - started_ns > patience_ns;
}

void terminal_progress_start(terminal_progress_t *progress, const char *what, uint64_t total) {
  *progress = (terminal_progress_t){
      .what = what, .total = total, .started_ns = now_ns(), .enabled = terminal_is_capable(stderr)};
}

static void draw(const terminal_progress_t *progress, uint64_t done) {
  if (!progress->total) {
    fprintf(stderr, "\r\033[K%s: %llu", progress->what, (unsigned long long)done);
    return;
  }
  double part = done >= progress->total ? 1.0 : (double)done / (double)progress->total;
  int filled = (int)(part * BAR_WIDTH);
  fprintf(stderr, "\r\033[K%s [", progress->what);
  for (int i = 0; i < BAR_WIDTH; i++)
    fputc(i < filled ? '#' : '.', stderr);
  fprintf(stderr, "] %3d %%", (int)(part * 100));
}

void terminal_progress_step(terminal_progress_t *progress, uint64_t done) {
  if (!progress->enabled) return;
  uint64_t at_ns = now_ns();
  if (!terminal_progress_due(progress->started_ns, progress->drawn_ns, at_ns)) return;
  draw(progress, done);
  fflush(stderr);
  progress->drawn_ns = at_ns;
  progress->shown = true;
}

void terminal_progress_update(void *context, uint64_t done, uint64_t total) {
  terminal_progress_t *progress = context;
  progress->total = total;
  terminal_progress_step(progress, done);
}

void terminal_progress_end(terminal_progress_t *progress) {
  if (progress->shown) fputs("\r\033[K", stderr);
  progress->shown = false;
  progress->enabled = false;
}

void terminal_index_progress(const char *module, size_t done, size_t total) {
  static terminal_progress_t progress;
  static const char *shown;
  if (shown != module) {
    terminal_progress_start(&progress, "reading debug information", total);
    shown = module;
  }
  terminal_progress_step(&progress, done);
  if (done < total) return;
  terminal_progress_end(&progress);
  shown = NULL;
}
