/* SPDX-License-Identifier: MIT
 *
 * Children of the recorded program, recorded to files of their own (sonde record --follow).
 *
 * The settings then name the recorder's socket as well, and they and the preload stay in the
 * environment, so that a child that executes a program, by whatever call, has them; a call that
 * hands on an environment of its own is given them back (exec.c). A child asks the recorder for a
 * recording of its own: at its start when it has executed a program, at its first event when it was
 * forked. A forked child has the tables of its parent and records them first. A vfork child shares
 * its parent's memory, and what it does until it executes is its parent's.
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

/* What stands behind the first COUNT colons; NULL when there are not so many. */
static const char *behind_colons(const char *text, int count) {
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

bool follow_in(const char *settings) { return behind_colons(settings, 4) != NULL; }
bool follow_is_on(void) { return recorder_name[0] != 0; }

/* Asks for a recording of this process. */
static bool ask(char *own, uint64_t room) {
  char answer[SETTINGS_MAX];
  ssize_t n = os_socket_request(recorder_name, "follow\n", answer, sizeof answer - 1);
  static const char good[] = "ok\nsettings ";
  if (n <= (ssize_t)sizeof good || memcmp(answer, good, sizeof good - 1) != 0) return false;
  uint64_t size = (uint64_t)n - (sizeof good - 1);
  return copy(own, answer + sizeof good - 1, size - 1, room); /* without the newline */
}

/* What its parent allocated is the child's too, and was not recorded here: as if recording had been
 * switched on late. */
static void say_late(void) {
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
  if (!ask(own, sizeof own)) return false;
  sensor_after_fork();
  if (writer_start(own) != 0) return false;
  definitions_write_all();
  writer_process();
  say_late();
  sensor_restart();
  return true;
}

bool follow_settings(const char *settings, char *own, uint64_t room) {
  const char *pid = behind_colons(settings, 3), *name = behind_colons(settings, 4);
  if (name && copy(recorder_name, name, length(name), sizeof recorder_name)) writer_on_fork = join;
  if (!pid || decimal_read(&pid) == (uint64_t)os_pid())
    return copy(own, settings, length(settings), room);
  return follow_is_on() && ask(own, room);
}
