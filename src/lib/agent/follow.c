/* SPDX-License-Identifier: MIT
 *
 * Children of the recorded program, recorded to files of their own (sonde record --follow).
 *
 * With --follow the settings also name the recorder's socket. The settings and the preload stay in
 * the environment, so a child that executes a program has them. If a call of exec passes another
 * environment, they are added to it (exec.c). A child requests its own recording from the recorder:
 * at its start if it has executed a program; if it was forked, in the C library's fork, which calls
 * the handlers below. A child that was forked by a system call does so at its first event. A forked
 * child has its parent's stack tables and records them first. A vfork child shares its parent's
 * memory: its events before exec are recorded as its parent's.
 */
#include "agent/agent.h"

#include <errno.h>
#include <string.h>

#include "agent/seccomp.h"
#include "base/text.h"
#include "os/os.h"
#include "record/definitions.h"
#include "record/writer.h"
#include "record/extended.h"
#include "sensor/sensor.h"

static settings_t recorder; /* from the environment; zeros: none */

static bool copy(char *out, const char *from, uint64_t size, uint64_t room) {
  if (size + 1 > room) return false;
  memcpy(out, from, size);
  out[size] = 0;
  return true;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* The socket for calls from another network namespace. A program that closes all descriptors closes
 * it, too, and may use its number again. */
static struct {
  int fd;
  os_file_id_t id;
} calls = {.fd = -1};

/* Connects it while the recorder can be reached; a forked child has its parent's. */
static void open_calls(void) {
  char name[SHM_SOCKET_MAX + sizeof SETTINGS_CALLS];
  *text_append(text_append(name, recorder.socket), SETTINGS_CALLS) = 0;
  calls.fd = os_socket_calls(name);
  if (!os_file_id(calls.fd, &calls.id)) calls.fd = -1;
}

static bool calls_are_open(void) {
  os_file_id_t id;
  return os_file_id(calls.fd, &id) && id.device == calls.id.device && id.inode == calls.id.inode;
}

/* Sends REQUEST to the recorder and reads its answer. In another network namespace the recorder has
 * to bind its socket first: each attempt waits 2 ms, and all at most two seconds. */
static ssize_t request(const char *text, char *answer, size_t size) {
  const uint32_t never = 0;
  ssize_t n = settings_request(recorder.socket, recorder.token, text, answer, size);
  if (n != -ECONNREFUSED || !calls_are_open() || os_socket_call(calls.fd, recorder.token) < 0)
    return n;
  for (int attempts = 1000; attempts > 0 && n == -ECONNREFUSED; attempts--) {
    (void)os_futex_wait(&never, 0, 2000000);
    n = settings_request(recorder.socket, recorder.token, text, answer, size);
  }
  return n;
}

bool follow_in(const char *text) {
  settings_t settings;
  return settings_read(text, &settings) && settings.follow;
}

bool follow_is_on(void) { return recorder.follow; }

bool follow_notify(const char *text) {
  char answer[64];
  return request(text, answer, sizeof answer) >= 0;
}

int follow_open_agent(void) {
  return settings_descriptor(recorder.socket, recorder.token, SETTINGS_AGENT);
}

/* Requests a recording of this process. */
static bool request_recording(char *own, uint64_t room) {
  char reply[SETTINGS_MAX];
  ssize_t n = request("follow", reply, sizeof reply - 1);
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

/* In a forked child. */
static bool join(void) {
  char own[SETTINGS_MAX];
  writer_global_t *g = writer_global;
  if (g->fork_tried) return false;
  g->fork_tried = true;
  if (!request_recording(own, sizeof own)) return false;
  sensor_after_fork();
  if (writer_start(own) != 0) return false;
  seccomp_attached();
  definitions_write_all();
  writer_process();
  record_late_start();
  thread_started();
  sensor_restart();
  return true;
}

static void before_fork(void) { sensor_fork(true); }
static void after_fork(void) { sensor_fork(false); }

static void in_child(void) {
  if (writer_global && !writer_global->control) (void)join();
}

/* pthread_atfork(3), under the name that glibc exports; its fourth argument is unused elsewhere. */
void follow_forks(void) {
  uint64_t atfork = os_libc_symbol("__register_atfork");
  if (!atfork) atfork = os_libc_symbol("pthread_atfork");
  if (!atfork || !follow_is_on()) return;
  typedef void handler_t(void);
  int (*add)(handler_t *, handler_t *, handler_t *, void *) =
      (int (*)(handler_t *, handler_t *, handler_t *, void *))(uintptr_t)atfork;
  (void)add(before_fork, after_fork, in_child, NULL);
}

/* True if this process is in the pid namespace of the recorder, which is a part of the socket's
 * name (recorder/control.c). */
static bool in_recorders_namespace(void) {
  char link[40];
  const char *own, *at = recorder.socket;
  for (int slashes = 0; *at && slashes < 2; at++)
    slashes += *at == '/';
  if (os_read_link("/proc/self/ns/pid", link, sizeof link) < 0) return false;
  own = text_after(link, "pid:[");
  return own && decimal_read(&own) == decimal_read(&at);
}

/* Whether the recording of the settings is that of this process, which has executed a program. */
static bool is_recorded_process(void) {
  if (!recorder.pid) return true;
  return recorder.pid == (uint32_t)os_pid() && (!recorder.follow || in_recorders_namespace());
}

bool follow_settings(const char *text, char *own, uint64_t room) {
  if (!settings_read(text, &recorder)) return false;
  if (recorder.follow) {
    writer_on_fork = join;
    open_calls();
  }
  if (is_recorded_process()) return copy(own, text, text_length(text), room);
  return follow_is_on() && request_recording(own, room);
}
