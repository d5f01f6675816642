/* SPDX-License-Identifier: MIT
 *
 * The commands of the control socket, except `leaks` (control_leaks.c).
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

static bool report_error(FILE *reply, int status) {
  if (status >= 0) return false;
  fprintf(reply, status == SONDE_EIO ? "cannot write the recording" : "%s", sonde_strerror(status));
  return true;
}

static bool report_stopped(const control_t *c, FILE *reply) {
  uint32_t reason = load_acquire(&c->recording->control->stop_reason);
  if (c->recording->header.state != RECORD_OPEN) {
    fprintf(reply, "the program has ended");
    return true;
  }
  if (reason) fprintf(reply, "recording has stopped: %s", record_stop_text(reason));
  return reason != 0;
}

static void print_sampler(const shm_control_t *s, FILE *reply) {
  if (load_relaxed(&s->mode) & RECORD_SAMPLES && s->sample_interval_ns)
    fprintf(reply, "sample %" PRIu64 "\n",
            (1000000000 + s->sample_interval_ns / 2) / s->sample_interval_ns);
  else
    fprintf(reply, "sample off\n");
}

bool control_status(control_t *c, const char *argument, FILE *reply) {
  (void)argument;
  char text[40];
  const shm_control_t *s = c->recording->control;
  fprintf(reply, "pid %d\nrecording %s\nseconds %.3f\n", (int)c->pid, c->path,
          (double)recording_now_ns(c->recording) / 1e9);
  fprintf(reply, "malloc %s\n", control_malloc_text(load_relaxed(&s->mode), s->sample_bytes, text));
  print_sampler(s, reply);
  fprintf(reply, "trace %s\n", load_relaxed(&s->trace_generation) & 1 ? "on" : "off");
  fprintf(reply, "bytes %" PRIu64 "\nprograms %" PRIu32 "\n", load_relaxed(&s->file_end),
          load_relaxed(&s->exec_index));
  fprintf(reply, "lost_events %" PRIu64 "\nlost_stacks %" PRIu64 "\nunknown_frees %" PRIu64 "\n",
          load_relaxed(&s->lost_events), load_relaxed(&s->lost_stacks),
          load_relaxed(&s->unknown_frees));
  if (s->stop_reason) fprintf(reply, "stopped %s\n", record_stop_text(s->stop_reason));
  return true;
}

static bool switch_mode(control_t *c, uint32_t kinds, uint32_t wanted, uint64_t sample_bytes,
                        FILE *reply) {
  if (report_stopped(c, reply)) return false;
  uint32_t mode = load_relaxed(&c->recording->control->mode);
  return !report_error(reply,
                       recording_set_mode(c->recording, (mode & ~kinds) | wanted, sample_bytes));
}

bool control_malloc(control_t *c, const char *argument, FILE *reply) {
  uint32_t mode;
  uint64_t sample_bytes = c->recording->control->sample_bytes;
  if (!control_parse_malloc(argument, &mode, &sample_bytes)) {
    fprintf(reply, "malloc takes all, malloc, vm, live, livevm, sample:BYTES or off");
    return false;
  }
  if (!switch_mode(c, SENSOR_MODE_malloc, mode, sample_bytes, reply)) return false;
  fprintf(reply, "malloc %s\n", argument);
  return true;
}

bool control_sample(control_t *c, const char *argument, FILE *reply) {
  shm_control_t *s = c->recording->control;
  long hz = 0;
  bool off = !strcmp(argument, "off");
  if (!off && !parse_number(argument, 1, HZ_MAX, &hz)) {
    fprintf(reply, "sample takes a number from 1 to %d, or off", HZ_MAX);
    return false;
  }
  if (!off) store_relaxed(&s->sample_interval_ns, (uint64_t)(1000000000 / hz));
  if (!switch_mode(c, SENSOR_MODE_sample, off ? 0 : SENSOR_MODE_sample, s->sample_bytes, reply))
    return false;
  __atomic_fetch_add(&s->request, 1, __ATOMIC_ACQ_REL);
  print_sampler(s, reply);
  return true;
}

bool control_trace(control_t *c, const char *argument, FILE *reply) {
  bool on = !strcmp(argument, "on");
  if (!on && strcmp(argument, "off")) {
    fprintf(reply, "trace takes on or off");
    return false;
  }
  if (!switch_mode(c, SENSOR_MODE_trace, on ? SENSOR_MODE_trace : 0,
                   c->recording->control->sample_bytes, reply))
    return false;
  recording_set_tracing(c->recording, on);
  fprintf(reply, "trace %s\n", argument);
  return true;
}

/* Sent by the program when its hooks are installed (sonde/audit.h). */
bool control_audit(control_t *c, const char *argument, FILE *reply) {
  bool on = !strcmp(argument, "on");
  if (!on && strcmp(argument, "off")) {
    fprintf(reply, "audit takes on or off");
    return false;
  }
  if (!switch_mode(c, SENSOR_MODE_audit, on ? SENSOR_MODE_audit : 0,
                   c->recording->control->sample_bytes, reply))
    return false;
  fprintf(reply, "audit %s\n", argument);
  return true;
}

bool control_snapshot(control_t *c, const char *argument, FILE *reply) {
  (void)argument;
  uint64_t blocks;
  if (report_stopped(c, reply)) return false;
  bool mapped = recording_checkpoint(c->recording) == 0;
  int status = recording_snapshot(c->recording, SNAPSHOT_REQUESTED, &blocks);
  if (status == SONDE_EINVAL && mapped) {
    fprintf(reply, "regions written\n");
    return true;
  }
  if (status == SONDE_EINVAL) {
    fprintf(reply, "snapshots are for the modes live and livevm; in other modes the recording "
                   "has every event");
    return false;
  }
  if (report_error(reply, status)) return false;
  recording_refresh(c->recording);
  fprintf(reply, "blocks %" PRIu64 "\nseconds %.6f\n", blocks,
          (double)recording_now_ns(c->recording) / 1e9);
  return true;
}

bool control_mark(control_t *c, const char *argument, FILE *reply) {
  double seconds = (double)recording_now_ns(c->recording) / 1e9;
  if (report_stopped(c, reply) || report_error(reply, recording_add_marker(c->recording, argument)))
    return false;
  fprintf(reply, "seconds %.6f\n", seconds);
  return true;
}

bool control_stop(control_t *c, const char *argument, FILE *reply) {
  (void)argument;
  if (report_stopped(c, reply)) return false;
  if (!switch_mode(c, UINT32_MAX, 0, 0, reply)) return false;
  recording_set_tracing(c->recording, false);
  recording_stop(c->recording);
  fprintf(reply, "bytes %" PRIu64 "\n", load_relaxed(&c->recording->control->file_end));
  return true;
}

/* Sent by the agent in a child of the program: creates a recording of that child. */
bool control_follow(control_t *c, const char *argument, FILE *reply) {
  char settings[128], error[PATH_MAX + 64] = "";
  (void)argument;
  if (!c->follow) {
    fprintf(reply, "children are not recorded; record with 'sonde record --follow'");
    return false;
  }
  if (!follow_child(c->follow, c->client_pid, settings, sizeof settings, error, sizeof error)) {
    fprintf(reply, "%s", error);
    return false;
  }
  fprintf(reply, "settings %s\n", settings);
  return true;
}
