/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/outside/attached.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/attach_block.h"
#include "attach/attach.h"
#include "attach/copy.h"
#include "base/message.h"
#include "recorder/monitor/monitor_thread.h"
#include "recorder/monitor/outside/dormant.h"
#include "recorder/start/launch.h"

/* The agent needs a few milliseconds, but may wait for a thread that is in it. */
#define START_LIMIT_MS 10000u
#define STOP_LIMIT_MS  10000u
/* Threads that wait in the agent, for example in a call of dlclose, have this time to leave. */
#define LEAVE_MS 2000u
/* How often the end is tried. */
#define END_TRIES    5
#define END_AGAIN_US 200000u

typedef struct work {
  pid_t pid;
  bool (*step)(attach_t *attach, struct work *work);
  char agent[PATH_MAX];
  const char *settings;
  problem_t *problem;
  bool good;
  /* of an unload, good or not: the agent does nothing any more */
  bool is_stopped;
  /* of a copy */
  int exchange_fd;
  pid_t reaped_as;
  int done; /* an event descriptor */
  /* of a load */
  uint64_t start, size;
} work_t;

static bool load(attach_t *attach, work_t *w) {
  problem_t problem;
  bool is_new;
  if (!attach_load(attach, w->agent, &is_new, w->problem)) return false;
  (void)attach_image(attach, &w->start, &w->size);
  if (attach_run(attach, ATTACH_START, w->settings, START_LIMIT_MS, w->problem)) return true;
  /* Another recorder may use one that was there. */
  if (is_new && !attach_unload(attach, LEAVE_MS, &problem)) message_note("%s", problem.text);
  return false;
}

static bool unload(attach_t *attach, work_t *w) {
  w->is_stopped = attach_find(attach, w->agent, w->problem) &&
                  attach_run(attach, ATTACH_STOP, NULL, STOP_LIMIT_MS, w->problem);
  return w->is_stopped && !attach_must_stay(attach, w->problem) &&
         attach_unload(attach, LEAVE_MS, w->problem);
}

static bool copy(attach_t *attach, work_t *w) {
  return attach_find(attach, w->agent, w->problem) &&
         copy_make(attach, w->exchange_fd, &w->reaped_as, w->problem);
}

static bool reap(attach_t *attach, work_t *w) {
  return copy_reap(attach, w->reaped_as, w->problem);
}

static void *work(void *argument) {
  work_t *w = argument;
  const uint64_t one = 1;
  attach_t *attach = attach_open(w->pid, w->problem);
  w->good = attach && w->step(attach, w);
  attach_close(attach);
  (void)!write(w->done, &one, sizeof one);
  return NULL;
}

/* Runs STEP in a thread and serves the socket until it is done. */
static bool run(control_t *control, work_t *w) {
  pthread_t thread;
  if (!launch_find_attached(w->agent, sizeof w->agent)) {
    problem_set(w->problem, "libsonde-attached.so is missing beside the command; install it");
    return false;
  }
  w->done = eventfd(0, EFD_CLOEXEC);
  if (w->done < 0 || !monitor_thread_create(&thread, work, w)) {
    problem_set(w->problem, "cannot start a thread: %s", strerror(errno));
    if (w->done >= 0) close(w->done);
    return false;
  }
  control_t *listener = control->listener ? control->listener : control;
  struct pollfd fds[] = {{.fd = w->done, .events = POLLIN}, {.fd = listener->fd, .events = POLLIN}};
  while (poll(fds, 2, -1) < 0 || !fds[0].revents)
    if (fds[1].revents) control_serve(listener);
  (void)pthread_join(thread, NULL);
  close(w->done);
  return w->good;
}

bool attached_load(control_t *control, const char *settings, problem_t *problem) {
  if (dormant_is_in(control->pid)) return dormant_wake(control, settings, problem);
  work_t w = {.pid = control->pid, .step = load, .settings = settings, .problem = problem};
  bool good = run(control, &w);
  control->agent_start = w.start;
  control->agent_size = w.size;
  return good;
}

attached_left_t attached_unload(control_t *control, problem_t *problem) {
  if (dormant_is_in(control->pid))
    return dormant_rest(control, problem) ? ATTACHED_LEFT : ATTACHED_WORKS;
  work_t w = {.pid = control->pid, .step = unload, .problem = problem};
  if (run(control, &w)) return ATTACHED_LEFT;
  return w.is_stopped ? ATTACHED_ASLEEP : ATTACHED_WORKS;
}

/* The agent's thread opens the exchange by its number. */
bool attached_copy(control_t *control, int exchange_fd, pid_t *reaped_as, problem_t *problem) {
  *reaped_as = 0;
  if (dormant_is_in(control->pid)) {
    problem_set(problem,
                "leaks cannot be searched for in process %d: sonde would stop its threads, "
                "and a dormant agent is used without that right",
                control->pid);
    return false;
  }
  work_t w = {.pid = control->pid, .step = copy, .exchange_fd = exchange_fd, .problem = problem};
  control->recording->control->leaks_fd = exchange_fd;
  bool good = run(control, &w);
  *reaped_as = w.reaped_as;
  return good;
}

void attached_reap(control_t *control, pid_t reaped_as) {
  problem_t problem;
  work_t w = {.pid = control->pid, .step = reap, .reaped_as = reaped_as, .problem = &problem};
  if (reaped_as && !run(control, &w) && kill(control->pid, 0) == 0)
    message_note("%s", problem.text);
}

bool attached_begin(control_t *control, uint32_t mode, uint64_t sample_bytes, problem_t *problem) {
  char settings[SETTINGS_MAX];
  control_settings(control, false, settings, sizeof settings);
  if (!attached_load(control, settings, problem)) return false;
  control->is_attached = true;
  if (recording_set_mode(control->recording, mode, sample_bytes) == 0) return true;
  attached_end(control);
  problem_set(problem, "the recording cannot be written");
  return false;
}

/* A thread may get no CPU time for seconds, and there may be none to interrupt for a moment. */
void attached_end(control_t *control) {
  problem_t problem;
  attached_left_t left = ATTACHED_WORKS;
  if (!control->is_attached) return;
  (void)recording_set_mode(control->recording, 0, 0);
  recording_set_tracing(control->recording, false);
  for (int i = 0; i < END_TRIES && left == ATTACHED_WORKS && kill(control->pid, 0) == 0; i++) {
    if (i) usleep(END_AGAIN_US);
    left = attached_unload(control, &problem);
  }
  control->is_attached = left == ATTACHED_WORKS;
  if (left != ATTACHED_LEFT && kill(control->pid, 0) == 0) message_note("%s", problem.text);
}
