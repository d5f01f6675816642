/* SPDX-License-Identifier: MIT
 *
 * What `sonde ctl` can ask for, as the recorder does it.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "base/parse.h"
#include "recorder/control.h"
#include "recorder/follow.h"
#include "sensor/sensor_table.h"
#include "sonde/status.h"

#define HZ_MAX 1000

static bool refused(FILE *answer, int status) {
  if (status >= 0) return false;
  fprintf(answer, status == SONDE_EIO ? "the recording could not be written" : "%s",
          sonde_strerror(status));
  return true;
}

static bool stopped(const control_t *c, FILE *answer) {
  uint32_t reason = load_acquire(&c->recording->control->stop_reason);
  if (c->recording->header.state != RECORD_OPEN) {
    fprintf(answer, "the program has ended");
    return true;
  }
  if (reason) fprintf(answer, "recording has stopped: %s", record_stop_text(reason));
  return reason != 0;
}

static void put_sampler(const shm_control_t *s, FILE *answer) {
  if (load_relaxed(&s->mode) & RECORD_SAMPLES && s->sample_interval_ns)
    fprintf(answer, "sample %" PRIu64 "\n",
            (1000000000 + s->sample_interval_ns / 2) / s->sample_interval_ns);
  else
    fprintf(answer, "sample off\n");
}

bool control_status(control_t *c, const char *argument, FILE *answer) {
  (void)argument;
  char text[40];
  const shm_control_t *s = c->recording->control;
  fprintf(answer, "pid %d\nrecording %s\nseconds %.3f\n", (int)c->pid, c->path,
          (double)recording_now_ns(c->recording) / 1e9);
  fprintf(answer, "malloc %s\n",
          control_malloc_text(load_relaxed(&s->mode), s->sample_bytes, text));
  put_sampler(s, answer);
  fprintf(answer, "trace %s\n", load_relaxed(&s->trace_generation) & 1 ? "on" : "off");
  fprintf(answer, "bytes %" PRIu64 "\nprograms %" PRIu32 "\n", load_relaxed(&s->file_end),
          load_relaxed(&s->exec_index));
  fprintf(answer, "lost_events %" PRIu64 "\nlost_stacks %" PRIu64 "\nunknown_frees %" PRIu64 "\n",
          load_relaxed(&s->lost_events), load_relaxed(&s->lost_stacks),
          load_relaxed(&s->unknown_frees));
  if (s->stop_reason) fprintf(answer, "stopped %s\n", record_stop_text(s->stop_reason));
  return true;
}

static bool switch_mode(control_t *c, uint32_t kinds, uint32_t wanted, uint64_t sample_bytes,
                        FILE *answer) {
  if (stopped(c, answer)) return false;
  uint32_t mode = load_relaxed(&c->recording->control->mode);
  return !refused(answer, recording_set_mode(c->recording, (mode & ~kinds) | wanted, sample_bytes));
}

bool control_malloc(control_t *c, const char *argument, FILE *answer) {
  uint32_t mode;
  uint64_t sample_bytes = c->recording->control->sample_bytes;
  if (!control_parse_malloc(argument, &mode, &sample_bytes)) {
    fprintf(answer, "malloc takes all, malloc, vm, live, livevm, sample:BYTES or off");
    return false;
  }
  if (!switch_mode(c, SENSOR_MODE_malloc, mode, sample_bytes, answer)) return false;
  fprintf(answer, "malloc %s\n", argument);
  return true;
}

bool control_sample(control_t *c, const char *argument, FILE *answer) {
  shm_control_t *s = c->recording->control;
  long hz = 0;
  bool off = !strcmp(argument, "off");
  if (!off && !parse_number(argument, 1, HZ_MAX, &hz)) {
    fprintf(answer, "sample takes a number from 1 to %d, or off", HZ_MAX);
    return false;
  }
  if (!off) store_relaxed(&s->sample_interval_ns, (uint64_t)(1000000000 / hz));
  if (!switch_mode(c, SENSOR_MODE_sample, off ? 0 : SENSOR_MODE_sample, s->sample_bytes, answer))
    return false;
  __atomic_fetch_add(&s->request, 1, __ATOMIC_ACQ_REL);
  put_sampler(s, answer);
  return true;
}

bool control_trace(control_t *c, const char *argument, FILE *answer) {
  bool on = !strcmp(argument, "on");
  if (!on && strcmp(argument, "off")) {
    fprintf(answer, "trace takes on or off");
    return false;
  }
  if (!switch_mode(c, SENSOR_MODE_trace, on ? SENSOR_MODE_trace : 0,
                   c->recording->control->sample_bytes, answer))
    return false;
  recording_set_tracing(c->recording, on);
  fprintf(answer, "trace %s\n", argument);
  return true;
}

/* Asked by the program, whose hooks are set by then: sonde/audit.h. */
bool control_audit(control_t *c, const char *argument, FILE *answer) {
  bool on = !strcmp(argument, "on");
  if (!on && strcmp(argument, "off")) {
    fprintf(answer, "audit takes on or off");
    return false;
  }
  if (!switch_mode(c, SENSOR_MODE_audit, on ? SENSOR_MODE_audit : 0,
                   c->recording->control->sample_bytes, answer))
    return false;
  fprintf(answer, "audit %s\n", argument);
  return true;
}

bool control_snapshot(control_t *c, const char *argument, FILE *answer) {
  (void)argument;
  uint64_t blocks;
  if (stopped(c, answer)) return false;
  bool mapped = recording_checkpoint(c->recording) == 0;
  int status = recording_snapshot(c->recording, SNAPSHOT_REQUESTED, &blocks);
  if (status == SONDE_EINVAL && mapped) {
    fprintf(answer, "regions written\n");
    return true;
  }
  if (status == SONDE_EINVAL) {
    fprintf(answer, "a snapshot is of the modes live and livevm; of the others the recording has "
                    "every moment");
    return false;
  }
  if (refused(answer, status)) return false;
  recording_refresh(c->recording);
  fprintf(answer, "blocks %" PRIu64 "\nseconds %.6f\n", blocks,
          (double)recording_now_ns(c->recording) / 1e9);
  return true;
}

bool control_mark(control_t *c, const char *argument, FILE *answer) {
  double seconds = (double)recording_now_ns(c->recording) / 1e9;
  if (stopped(c, answer) || refused(answer, recording_add_marker(c->recording, argument)))
    return false;
  fprintf(answer, "seconds %.6f\n", seconds);
  return true;
}

bool control_stop(control_t *c, const char *argument, FILE *answer) {
  (void)argument;
  if (stopped(c, answer)) return false;
  if (!switch_mode(c, UINT32_MAX, 0, 0, answer)) return false;
  recording_set_tracing(c->recording, false);
  recording_stop(c->recording);
  fprintf(answer, "bytes %" PRIu64 "\n", load_relaxed(&c->recording->control->file_end));
  return true;
}

/* Asked by the agent in a child of the program: a recording for that child. */
bool control_follow(control_t *c, const char *argument, FILE *answer) {
  char settings[128], error[PATH_MAX + 64] = "";
  (void)argument;
  if (!c->follow) {
    fprintf(answer, "children are not recorded: 'sonde record --follow'");
    return false;
  }
  if (!follow_child(c->follow, c->client_pid, settings, sizeof settings, error, sizeof error)) {
    fprintf(answer, "%s", error);
    return false;
  }
  fprintf(answer, "settings %s\n", settings);
  return true;
}
