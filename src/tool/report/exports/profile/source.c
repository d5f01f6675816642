/* SPDX-License-Identifier: MIT */
#include "report/exports/profile/source.h"

#include <stdlib.h>

#include "reader/resume.h"
#include "sonde/status.h"

static bool add_event(void *context, const record_event_t *e) {
  profile_source_t *s = context;
  if (s->times.reader && !profile_times_add(&s->times, e)) return false;
  if (e->kind == EVENT_SAMPLE) return samples_add(&s->samples, e);
  return cpu_time_add(&s->cpu_time, e) && wall_add(&s->wall, e);
}

static void free_events(profile_source_t *s) {
  samples_free(&s->samples);
  cpu_time_free(&s->cpu_time);
  wall_free(&s->wall);
  profile_times_free(&s->times);
}

/* OUT has the readers. */
static int read_events(profile_source_t *out, const replay_options_t *options) {
  int status = replay_run(&out->replay, out->reader, options);
  if (status == 0 && wall_rank(&out->wall)) {
    samples_rank(&out->samples);
    out->sampled_ns = cpu_time_sum(&out->cpu_time).sampled_ns;
    profile_times_finish(&out->times, &out->wall);
    return 0;
  }
  if (status == 0) replay_free(&out->replay);
  free_events(out);
  return SONDE_ENOMEM;
}

int profile_source_read(profile_source_t *out, reader_t *reader, bool with_times) {
  *out = (profile_source_t){.reader = reader,
                            .wall = {.reader = reader},
                            .times = {.reader = with_times ? reader : NULL}};
  const replay_options_t options = {.other = add_event, .other_context = out};
  return read_events(out, &options);
}

/* ---- parts -------------------------------------------------------------------------------- */

int profile_source_read_part(profile_source_t *out, reader_t *reader, profile_carry_t *carry) {
  *out = (profile_source_t){.reader = reader,
                            .wall = {.reader = reader},
                            .cpu_time = carry->cpu_time,
                            .sampled_before_ns = carry->sampled_ns};
  carry->cpu_time = (cpu_time_t){0};
  const replay_options_t options = {.other = add_event,
                                    .other_context = out,
                                    .carried = carry->blocks,
                                    .carried_count = carry->block_count};
  return read_events(out, &options);
}

/* The live blocks, with recorded ids of stacks. NULL: out of memory. */
static live_block_t *copy_blocks(const profile_source_t *s) {
  const live_set_t *set = &s->replay.blocks;
  live_block_t *out = malloc((set->count + 1) * sizeof *out);
  size_t count = 0;
  size_t at = 0;
  for (const live_block_t *block; out && (block = live_set_next(set, &at));) {
    out[count] = *block;
    uint32_t stack = s->replay.stacks[out[count].stack].stack;
    out[count++].stack = resume_recorded_stack(s->reader, stack);
  }
  return out;
}

bool profile_source_carry(profile_source_t *s, profile_carry_t *carry) {
  if (s->samples.ticks) carry->sampled_ns = s->sampled_ns;
  carry->cpu_time = s->cpu_time;
  s->cpu_time = (cpu_time_t){0};
  live_block_t *blocks = copy_blocks(s);
  if (!blocks) return false;
  free(carry->blocks);
  carry->blocks = blocks;
  carry->block_count = s->replay.blocks.count;
  return true;
}

void profile_carry_free(profile_carry_t *carry) {
  cpu_time_free(&carry->cpu_time);
  free(carry->blocks);
  *carry = (profile_carry_t){0};
}

void profile_source_free(profile_source_t *s) {
  replay_free(&s->replay);
  free_events(s);
}

portions_t profile_source_sample_times(const profile_source_t *s) {
  uint64_t ticks = s->samples.ticks, before_ns = s->sampled_before_ns;
  bool is_known = ticks && s->sampled_ns > before_ns;
  return (portions_t){.amount = is_known ? s->sampled_ns - before_ns : 0, .counts = ticks};
}
