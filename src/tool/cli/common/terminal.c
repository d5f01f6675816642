/* SPDX-License-Identifier: MIT
 *
 * Colour and progress: both only where a person looks.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

enum { BAR_WIDTH = 30 };
static const uint64_t patience_ns = 1000000000, redraw_ns = 100000000;

static bool is_capable_terminal(FILE *stream) {
  const char *term = getenv("TERM");
  return isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
}

const char *cli_style(FILE *out, cli_style_t style) {
  static const char *const sequences[] = {
      [CLI_PLAIN] = "\033[0m", [CLI_BOLD] = "\033[1m",   [CLI_DIM] = "\033[2m",
      [CLI_RED] = "\033[31m",  [CLI_GREEN] = "\033[32m", [CLI_YELLOW] = "\033[33m",
      [CLI_BLUE] = "\033[34m", [CLI_CYAN] = "\033[36m"};
  const char *no_color = getenv("NO_COLOR"); /* no-color.org: set and not empty */
  if ((no_color && *no_color) || !is_capable_terminal(out)) return "";
  return sequences[style];
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool cli_progress_due(uint64_t started_ns, uint64_t drawn_ns, uint64_t at_ns) {
  if (drawn_ns) return at_ns - drawn_ns >= redraw_ns;
  return at_ns - started_ns > patience_ns;
}

void cli_progress_start(cli_progress_t *progress, const char *what, uint64_t total) {
  *progress = (cli_progress_t){
      .what = what, .total = total, .started_ns = now_ns(), .enabled = is_capable_terminal(stderr)};
}

static void draw(const cli_progress_t *progress, uint64_t done) {
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

void cli_progress_step(cli_progress_t *progress, uint64_t done) {
  if (!progress->enabled) return;
  uint64_t at_ns = now_ns();
  if (!cli_progress_due(progress->started_ns, progress->drawn_ns, at_ns)) return;
  draw(progress, done);
  fflush(stderr);
  progress->drawn_ns = at_ns;
  progress->shown = true;
}

void cli_progress_end(cli_progress_t *progress) {
  if (progress->shown) fputs("\r\033[K", stderr);
  progress->shown = false;
  progress->enabled = false;
}

void cli_index_progress(const char *module, size_t done, size_t total) {
  static cli_progress_t progress;
  static const char *shown;
  if (shown != module) {
    cli_progress_start(&progress, "reading debug information", total);
    shown = module;
  }
  cli_progress_step(&progress, done);
  if (done < total) return;
  cli_progress_end(&progress);
  shown = NULL;
}
