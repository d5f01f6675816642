/* SPDX-License-Identifier: MIT */
#include "report/exports/profile/source.h"

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

int profile_source_read(profile_source_t *out, reader_t *reader, bool with_times) {
  *out = (profile_source_t){.wall = {.reader = reader},
                            .times = {.reader = with_times ? reader : NULL}};
  const replay_options_t options = {.other = add_event, .other_context = out};
  int status = replay_run(&out->replay, reader, &options);
  if (status == 0 && wall_rank(&out->wall)) {
    samples_rank(&out->samples);
    profile_times_finish(&out->times, &out->wall);
    return 0;
  }
  if (status == 0) replay_free(&out->replay);
  free_events(out);
  return SONDE_ENOMEM;
}

void profile_source_free(profile_source_t *s) {
  replay_free(&s->replay);
  free_events(s);
}

double profile_source_tick_ns(const profile_source_t *s) {
  uint64_t ticks = s->samples.ticks;
  return ticks ? (double)cpu_time_sum(&s->cpu_time).sampled_ns / (double)ticks : 0;
}
