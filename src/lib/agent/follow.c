/* SPDX-License-Identifier: MIT
 *
 * Children of the recorded program, recorded to files of their own (sonde record --follow).
 *
 * The settings then also name the recorder's socket. They and the preload stay in the environment,
 * so a child that executes a program by any call has them; a call with another environment gets
 * them added (exec.c). A child requests its own recording from the recorder: at its start if it has
 * executed a program, at its first event if it was forked. A forked child has its parent's stack
 * tables and records them first. A vfork child shares its parent's memory: its events before exec
 * are recorded as its parent's.
 */
#include "agent/agent.h"

#include <string.h>

#include "base/text.h"
#include "os/os.h"
#include "record/definitions.h"
#include "record/writer.h"
#include "record/extended.h"
#include "sensor/sensor.h"

#define SETTINGS_MAX 256u

static char recorder_name[SETTINGS_MAX]; /* of its socket; "": children are not followed */

/* The text behind the first COUNT colons; NULL if there are fewer. */
static const char *after_colons(const char *text, int count) {
  for (; count; text++) {
    if (!*text) return NULL;
    count -= *text == ':';
  }
  return text;
}

static uint64_t length(const char *text) {
  uint64_t n = 0;
  while (text[n])
    n++;
  return n;
}

static bool copy(char *out, const char *from, uint64_t size, uint64_t room) {
  if (size + 1 > room) return false;
  memcpy(out, from, size);
  out[size] = 0;
  return true;
}

bool follow_in(const char *settings) { return after_colons(settings, 4) != NULL; }
bool follow_is_on(void) { return recorder_name[0] != 0; }

/* Requests a recording of this process. */
static bool request_recording(char *own, uint64_t room) {
  char reply[SETTINGS_MAX];
  ssize_t n = os_socket_request(recorder_name, "follow\n", reply, sizeof reply - 1);
  static const char good[] = "ok\nsettings ";
  if (n <= (ssize_t)sizeof good || memcmp(reply, good, sizeof good - 1) != 0) return false;
  uint64_t size = (uint64_t)n - (sizeof good - 1);
  return copy(own, reply + sizeof good - 1, size - 1, room); /* without the newline */
}

/* The parent's blocks are the child's too, and are not recorded here: as after a late start. */
static void record_late_start(void) {
  uint32_t mode = load_relaxed(&writer_global->control->mode);
  stream_t *s = writer_enter(mode);
  if (!s) return;
  for (int on = 0; on < 2; on++) {
    extended_body_t b;
    b.used = 0;
    extended_number(&b, on ? mode : 0);
    extended_number(&b, s->writer->control->sample_bytes);
    (void)extended_put(s, EXTENDED_MODE, writer_now(s->writer), &b);
  }
  writer_leave(s);
}

/* The first event of a forked child. */
static bool join(void) {
  char own[SETTINGS_MAX];
  writer_global_t *g = writer_global;
  if (g->fork_tried) return false;
  g->fork_tried = true;
  if (!request_recording(own, sizeof own)) return false;
  sensor_after_fork();
  if (writer_start(own) != 0) return false;
  definitions_write_all();
  writer_process();
  record_late_start();
  sensor_restart();
  return true;
}

bool follow_settings(const char *settings, char *own, uint64_t room) {
  const char *pid = after_colons(settings, 3), *name = after_colons(settings, 4);
  if (name && copy(recorder_name, name, length(name), sizeof recorder_name)) writer_on_fork = join;
  if (!pid || decimal_read(&pid) == (uint64_t)os_pid())
    return copy(own, settings, length(settings), room);
  return follow_is_on() && request_recording(own, room);
}
