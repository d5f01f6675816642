/* SPDX-License-Identifier: MIT */
#include "report/exports/collapsed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/exports/name.h"

enum { DEPTH_MAX = 4096 };

/* Semicolons and newlines separate functions and stacks, so names must not contain them. */
static void put_name(const char *name, FILE *out) {
  for (; *name; name++)
    fputc(*name == ';' ? ':' : *name == '\n' ? ' ' : *name, out);
}

/* INNERMOST: a frame that the stack does not have, or NULL. */
static void put_stack(frame_names_t *names, bool full, uint32_t stack, const char *innermost,
                      uint64_t weight, FILE *out) {
  static const record_frame_t *frames[DEPTH_MAX];
  char text[REPORT_NAME_MAX];
  const frame_name_t *found;
  int depth = frame_names_frames(names, stack, frames, DEPTH_MAX);
  if (depth <= 0) fprintf(out, "[unknown]");
  if (depth > DEPTH_MAX) depth = DEPTH_MAX;
  for (int i = depth; i-- > 0;)
    for (int k = frame_names_of_frame(names, frames[i], &found); k-- > 0;) {
      put_name(export_name(&found[k], full, text), out);
      if (i || k) fputc(';', out);
    }
  if (innermost) {
    fputc(';', out);
    put_name(innermost, out);
  }
  fprintf(out, " %" PRIu64 "\n", weight);
}

void collapsed_write(frame_names_t *names, const replay_t *replay, const samples_t *samples,
                     measure_t measure, bool full, FILE *out) {
  if (measure == MEASURE_COUNT)
    for (size_t i = 0; i < samples->stack_count; i++)
      put_stack(names, full, samples->stacks[i].stack, NULL, samples->stacks[i].ticks, out);
  else
    for (size_t i = 0; i < replay->stack_count; i++) {
      int64_t weight = measure_of(&replay->stacks[i], measure);
      if (weight > 0) put_stack(names, full, replay->stacks[i].stack, NULL, (uint64_t)weight, out);
    }
}

/* ---- times -------------------------------------------------------------------------------- */

typedef struct line {
  const profile_time_t *of; /* one of the equal ones */
  uint64_t ns;
} line_t;

/* Threads and phases are not told apart. */
static int by_stack_and_cause(const profile_time_t *a, const profile_time_t *b) {
  if (a->stack != b->stack) return a->stack < b->stack ? -1 : 1;
  if (!a->call || !b->call) return (a->call != NULL) - (b->call != NULL);
  int calls = strcmp(a->call, b->call);
  return calls ? calls : strcmp(a->what, b->what);
}

static int by_place(const void *left, const void *right) {
  return by_stack_and_cause(((const line_t *)left)->of, ((const line_t *)right)->of);
}

static int by_weight(const void *left, const void *right) {
  const line_t *a = left, *b = right;
  if (a->ns != b->ns) return a->ns > b->ns ? -1 : 1;
  return by_place(left, right);
}

/* Joins equal lines, which are neighbors. Returns how many are left. */
static size_t join(line_t *lines, size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (kept && by_place(&lines[kept - 1], &lines[i]) == 0)
      lines[kept - 1].ns += lines[i].ns;
    else
      lines[kept++] = lines[i];
  return kept;
}

static void put_line(frame_names_t *names, bool full, const line_t *line, FILE *out) {
  char wait[352];
  const profile_time_t *s = line->of;
  if (s->call)
    snprintf(wait, sizeof wait, "[wait%s%s%s%s]", *s->call || *s->what ? ": " : "", s->call,
             *s->call && *s->what ? " " : "", s->what);
  put_stack(names, full, s->stack, s->call ? wait : NULL, line->ns, out);
}

bool collapsed_write_times(frame_names_t *names, const profile_times_t *times, portions_t cpu,
                           bool full, FILE *out) {
  line_t *lines = malloc((times->count + 1) * sizeof *lines);
  size_t count = 0;
  if (!lines) return false;
  for (size_t i = 0; i < times->count; i++) {
    const profile_time_t *s = &times->items[i];
    uint64_t ns = s->call ? s->wait_ns : portions_next(&cpu, s->samples);
    if (ns) lines[count++] = (line_t){s, ns};
  }
  qsort(lines, count, sizeof *lines, by_place);
  count = join(lines, count);
  qsort(lines, count, sizeof *lines, by_weight);
  for (size_t i = 0; i < count; i++)
    put_line(names, full, &lines[i], out);
  free(lines);
  return true;
}
