/* SPDX-License-Identifier: MIT
 *
 * The commands of the control socket, except `leaks` (control_leaks.c).
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/change.h"
#include "base/message.h"
#include "base/parse.h"
#include "os/os.h"
#include "recorder/control.h"
#include "recorder/follow.h"
#include "recorder/monitor/outside/agentless.h"
#include "recorder/monitor/outside/attached.h"
#include "recorder/monitor/signal_state.h"
#include "recorder/monitor/thread_file.h"
#include "recorder/process_facts.h"
#include "recorder/processes.h"
#include "record/settings.h"
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

/* Sensors of the agent cannot be switched on without it. */
static bool report_no_agent(const control_t *c, const char *sensor, FILE *reply) {
  if (!load_relaxed(&c->recording->control->from_outside) || c->is_attached) return false;
  fprintf(reply, "the program is recorded from outside, without the agent that %s needs", sensor);
  if (c->processes) fprintf(reply, "; load it with 'sonde ctl %d attach'", (int)c->pid);
  return true;
}

/* An attached agent hooks what the policy names when it is loaded. */
static bool report_no_audit(const control_t *c, FILE *reply) {
  const shm_control_t *s = c->recording->control;
  if (report_no_agent(c, "audit", reply)) return true;
  if (!load_relaxed(&s->from_outside) || s->policy_size) return false;
  fprintf(reply,
          "this recording has no policy to audit; begin it with 'sonde record -p %d --audit'",
          (int)c->pid);
  return true;
}

static void print_sampler(const shm_control_t *s, FILE *reply) {
  if (load_relaxed(&s->mode) & RECORD_SAMPLES && s->sample_interval_ns)
    fprintf(reply, "sample %" PRIu64 "\n",
            (1000000000 + s->sample_interval_ns / 2) / s->sample_interval_ns);
  else
    fprintf(reply, "sample off\n");
}

/* ---- new settings ------------------------------------------------------------------------- */

static bool is_noticed(const shm_control_t *s) {
  return load_relaxed(&s->from_outside) ||
         load_acquire(&s->request_seen) == load_relaxed(&s->request);
}

/* A signal interrupts no call of a thread that runs. */
static bool can_notify(const control_t *c, pid_t tid) {
  char text[1024];
  os_thread_t about;
  signal_state_t signals;
  return tid > 0 && thread_file_read(-1, c->pid, tid, "stat", text, sizeof text) &&
         os_parse_thread(text, &about) == 0 && about.state == 'R' &&
         signal_state_read(c->pid, tid, &signals) && !signals.is_blocked && signals.is_caught;
}

/* The program reads settings when it passes through the agent. A thread that only computes does so
 * in the handler of a signal. */
static void send_signal(const control_t *c) {
  char path[40];
  if (is_noticed(c->recording->control) || !load_acquire(&c->recording->control->takes_signals))
    return;
  snprintf(path, sizeof path, "/proc/%d/task", (int)c->pid);
  DIR *tasks = opendir(path);
  bool done = false;
  for (struct dirent *e; tasks && !done && (e = readdir(tasks));) {
    pid_t tid = (pid_t)atoi(e->d_name);
    done = can_notify(c, tid) && os_signal_process(c->pid, tid) == 0;
  }
  if (tasks) closedir(tasks);
}

void control_notify(const control_t *c) {
  __atomic_fetch_add(&c->recording->control->request, 1, __ATOMIC_ACQ_REL);
  send_signal(c);
}

/* `sonde ctl` asks again until the program has noticed, so the program is notified again. */
static void print_noticed(const control_t *c, FILE *reply) {
  send_signal(c);
  fprintf(reply, "noticed %s\n", is_noticed(c->recording->control) ? "yes" : "no");
}

bool control_status(control_t *c, const char *argument, FILE *reply) {
  (void)argument;
  char text[40];
  const shm_control_t *s = c->recording->control;
  fprintf(reply, "pid %d\nrecording %s\nseconds %.3f\n", (int)c->pid, c->path,
          (double)recording_now_ns(c->recording) / 1e9);
  fprintf(reply, "malloc %s\n",
          control_malloc_text(recording_applied_mode(c->recording, load_relaxed(&s->mode)),
                              s->sample_bytes, text));
  print_sampler(s, reply);
  if (load_relaxed(&s->pace)) fprintf(reply, "slowed 1/%u\n", 1u << load_relaxed(&s->pace));
  fprintf(reply, "trace %s\n", load_relaxed(&s->trace_generation) & 1 ? "on" : "off");
  print_noticed(c, reply);
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
  if (mode && report_no_agent(c, "malloc", reply)) return false;
  store_relaxed(&c->recording->control->pace, 0);
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
  store_relaxed(&s->pace, 0);
  if (!off) store_relaxed(&s->sample_interval_ns, (uint64_t)(1000000000 / hz));
  if (!switch_mode(c, SENSOR_MODE_sample, off ? 0 : SENSOR_MODE_sample, s->sample_bytes, reply))
    return false;
  control_notify(c);
  print_sampler(s, reply);
  return true;
}

bool control_trace(control_t *c, const char *argument, FILE *reply) {
  bool on = !strcmp(argument, "on");
  if (!on && strcmp(argument, "off")) {
    fprintf(reply, "trace takes on or off");
    return false;
  }
  if (on && report_no_agent(c, "trace", reply)) return false;
  if (!switch_mode(c, SENSOR_MODE_trace, on ? SENSOR_MODE_trace : 0,
                   c->recording->control->sample_bytes, reply))
    return false;
  recording_set_tracing(c->recording, on);
  send_signal(c);
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
  if (on && report_no_audit(c, reply)) return false;
  if (!switch_mode(c, SENSOR_MODE_audit, on ? SENSOR_MODE_audit : 0,
                   c->recording->control->sample_bytes, reply))
    return false;
  fprintf(reply, "audit %s\n", argument);
  return true;
}

/* The agent may send requests meanwhile, which are served inside this one. */
bool control_attach(control_t *c, const char *argument, FILE *reply) {
  char settings[SETTINGS_MAX];
  problem_t problem;
  (void)argument;
  if (report_stopped(c, reply)) return false;
  if (!load_relaxed(&c->recording->control->from_outside) || c->is_attached) {
    fprintf(reply, "the agent is in the program already");
    return false;
  }
  if (!c->processes) {
    fprintf(reply,
            "process %d is recorded as a child of another one (--follow); end that recording, "
            "then run 'sonde record -p %d --malloc'",
            (int)c->pid, (int)c->pid);
    return false;
  }
  control_settings(c, false, settings, sizeof settings);
  c->is_attached = attached_load(c, settings, &problem);
  c->passed = -1;
  fprintf(reply, "%s", c->is_attached ? "agent attached\n" : problem.text);
  return c->is_attached;
}

bool control_detach(control_t *c, const char *argument, FILE *reply) {
  problem_t problem;
  (void)argument;
  if (!c->is_attached) {
    fprintf(reply, "there is no agent that was attached to the program");
    return false;
  }
  if (!switch_mode(c, ATTACHED_MODES, 0, 0, reply)) return false;
  recording_set_tracing(c->recording, false);
  attached_left_t left = attached_unload(c, &problem);
  c->passed = -1;
  c->is_attached = left == ATTACHED_WORKS;
  if (c->is_attached) fprintf(reply, "%s", problem.text);
  if (!c->is_attached)
    fprintf(reply, "%s\n", left == ATTACHED_LEFT ? "agent detached" : problem.text);
  return !c->is_attached;
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
  bool ends = load_relaxed(&c->recording->control->from_outside) && c->processes && !c->has_command;
  if (!ends) {
    if (!switch_mode(c, UINT32_MAX, 0, 0, reply)) return false;
    recording_set_tracing(c->recording, false);
    recording_stop(c->recording);
  }
  c->is_over = ends; /* the recorder has no command to wait for */
  fprintf(reply, "bytes %" PRIu64 "\n", load_relaxed(&c->recording->control->file_end));
  return true;
}

/* ---- sent by the agent ---------------------------------------------------------------------- */

/* Creates a recording of a child of the program. The program itself asks if it cannot know that it
 * is the program (agent/follow.c). */
bool control_follow(control_t *c, const char *argument, FILE *reply) {
  char settings[SETTINGS_MAX], error[PATH_MAX + 64] = "";
  (void)argument;
  if (!c->follow) {
    fprintf(reply, "children are not recorded; record with 'sonde record --follow'");
    return false;
  }
  if (c->client_pid == c->pid) {
    control_settings(c, true, settings, sizeof settings);
  } else if (!follow_child(c->follow, c->client_pid, settings, sizeof settings, error,
                           sizeof error)) {
    fprintf(reply, "%s", error);
    return false;
  }
  fprintf(reply, "settings %s\n", settings);
  return true;
}

/* Passes a descriptor of the process's own recording, or the agent's file, to a process that cannot
 * open it through /proc. */
bool control_descriptor(control_t *c, const char *argument, FILE *reply) {
  const shm_control_t *s = c->recording->control;
  unsigned long wanted = strtoul(argument, NULL, 10);
  const int fds[] = {c->recording->shm_fd, c->recording->file_fd, c->recording->live_fd,
                     s->policy_fd, s->leaks_fd};
  if (wanted == SETTINGS_AGENT) c->passed = c->agent_fd;
  for (size_t i = 0; i < sizeof fds / sizeof *fds && c->client_pid == c->pid; i++)
    if (fds[i] >= 0 && wanted == (unsigned long)fds[i]) c->passed = fds[i];
  if (c->passed < 0) fprintf(reply, "no such descriptor of this process");
  return c->passed >= 0;
}

/* "change ADDRESS COUNT": makes changes of the program's code while all its threads are stopped. */
bool control_change(control_t *c, const char *argument, FILE *reply) {
  problem_t problem;
  change_result_t result;
  uint64_t address = 0;
  uint32_t count = 0;
  if (c->client_pid != c->pid || sscanf(argument, "%" SCNu64 " %" SCNu32, &address, &count) != 2) {
    fprintf(reply, "only the agent of the program changes its code");
    return false;
  }
  if (!change_code(c->pid, address, count, &result, &problem)) {
    fprintf(reply, "%s", problem.text);
    return false;
  }
  return true;
}

/* "reachable FILE" or "unreachable FILE": whether the agent's file can be opened there. */
static const char *why_not(pid_t viewer, const char *argument, const char **file) {
  static const char words[2][14] = {"reachable ", "unreachable "};
  bool hidden = !strncmp(argument, words[1], strlen(words[1]));
  *file = argument + strlen(words[hidden]);
  const char *why = process_facts_why_file(viewer, *file);
  return why || !hidden ? why : "the agent's file is not visible to it";
}

static bool is_announcement(const char *argument) {
  return !strncmp(argument, "reachable ", 10) || !strncmp(argument, "unreachable ", 12);
}

/* The process PID executes a statically linked program, which may be recorded from outside. */
static void announce(const control_t *c, pid_t pid, bool is_known) {
  if (pid == c->pid && c->agentless)
    agentless_announce(c->agentless, is_known);
  else if (c->follow)
    follow_announce(c->follow, pid, is_known);
}

bool control_executes(control_t *c, const char *argument, FILE *reply) {
  const char *file;
  (void)reply;
  if (!c->processes || !is_announcement(argument)) return false;
  const char *why = why_not(c->client_pid, argument, &file);
  processes_execute(c->processes, c->client_pid, file, why);
  if (why == process_facts_statically) announce(c, c->client_pid, false);
  return true;
}

/* The child may have requested its recording already. */
bool control_spawned(control_t *c, const char *argument, FILE *reply) {
  char *rest;
  const char *file;
  (void)reply;
  pid_t pid = (pid_t)strtol(argument, &rest, 10);
  if (!c->processes || *rest != ' ' || !is_announcement(rest + 1)) return false;
  pid = process_facts_of_namespace(c->client_pid, pid);
  const char *why = why_not(c->client_pid, rest + 1, &file);
  if (pid > 0) processes_spawn(c->processes, pid, c->client_pid, file, why);
  if (pid > 0 && why == process_facts_statically) announce(c, pid, true);
  return true;
}

bool control_stays(control_t *c, const char *argument, FILE *reply) {
  (void)argument;
  (void)reply;
  if (c->processes) processes_stay(c->processes, c->client_pid);
  if (c->client_pid == c->pid && c->agentless)
    agentless_stay(c->agentless);
  else if (c->follow)
    follow_stay(c->follow, c->client_pid);
  return true;
}
