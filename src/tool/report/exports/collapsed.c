/* SPDX-License-Identifier: MIT */
#include "report/exports/collapsed.h"

#include <inttypes.h>

#include "report/exports/name.h"

enum { DEPTH_MAX = 4096 };

/* Semicolons and newlines separate functions and stacks, so names must not contain them. */
static void put_name(const char *name, FILE *out) {
  for (; *name; name++)
    fputc(*name == ';' ? ':' : *name == '\n' ? ' ' : *name, out);
}

static void put_stack(frame_names_t *names, bool full, uint32_t stack, uint64_t weight, FILE *out) {
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
  fprintf(out, " %" PRIu64 "\n", weight);
}

void collapsed_write(frame_names_t *names, const replay_t *replay, const samples_t *samples,
                     measure_t measure, bool full, FILE *out) {
  if (measure == MEASURE_COUNT)
    for (size_t i = 0; i < samples->stack_count; i++)
      put_stack(names, full, samples->stacks[i].stack, samples->stacks[i].ticks, out);
  else
    for (size_t i = 0; i < replay->stack_count; i++) {
      int64_t weight = measure_of(&replay->stacks[i], measure);
      if (weight > 0) put_stack(names, full, replay->stacks[i].stack, (uint64_t)weight, out);
    }
}
