/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/message.h"
#include "recorder/control.h"
#include "recorder/follow.h"
#include "recorder/monitor/leaks_at_exit.h"
#include "recorder/monitor/budget.h"
#include "recorder/monitor/coverage.h"
#include "recorder/monitor/cpu.h"
#include "recorder/monitors.h"
#include "recorder/networks.h"
#include "recorder/notes.h"
#include "recorder/monitor/outside/agentless.h"
#include "recorder/monitor/outside/attached.h"
#include "recorder/monitor/outside/observed.h"
#include "recorder/monitor/outside/traced.h"
#include "recorder/process_facts.h"
#include "recorder/processes.h"
#include "recorder/recording_file.h"
#include "recorder/replace.h"
#include "recorder/signals.h"
#include "recorder/start/launch.h"
#include "recorder/start/plan.h"
#include "recorder/start/policy.h"
#include "target/jit/runtime.h"

/* How soon it is noticed that a process without the agent executes another program. */
#define EXEC_POLL_NS UINT64_C(100000000)
#define REFRESH_NS   UINT64_C(1000000000)

typedef struct recorder {
  const recorder_options_t *options;
  char path[PATH_MAX], settings[SETTINGS_MAX];
  output_t output;
  launch_t child;
  /* the agent's file, passed to processes that cannot see it */
  int agent_fd;
  /* the process that traces system calls; 0: none */
  pid_t tracer;
  coverage_options_t coverage;
  traced_t traced;
  /* the process that is recorded from outside, or gets the agent while it runs; NULL: a command
   * that has the agent from its start */
  observed_t *observed;
  /* it ran before, so the recorder is not its parent */
  bool is_joined;
  monitors_t monitors;
  recording_t recording;
  control_t control;
  /* how the program and its children are monitored */
  monitor_options_t monitor_options;
  /* the program executes another one without the agent */
  agentless_options_t agentless_options;
  agentless_t agentless;
  follow_t follow;
  processes_t processes;
  networks_t networks;
  leaks_at_exit_t leaks;
  /* of the command, and of the children that it has waited for */
  bool had_children;
  uint64_t children_cpu_ns, own_cpu_ns;
  uint64_t refreshed_ns, scanned_ns, noted_bytes;
  budget_t budget;
  bool has_status_line;
  sigset_t waiting;
} recorder_t;

static void print_note(const char *line) { message_note("%s", line); }

/* ---- before the command starts ------------------------------------------------------------ */

/* Whether a running process gets the agent. */
static bool needs_agent(const recorder_options_t *o) { return o->mode & ATTACHED_MODES; }

static bool create_recording(recorder_t *s, const char *command, int policy_fd) {
  const recorder_options_t *o = s->options;
  char error[PATH_MAX + 64];
  if (o->output)
    snprintf(s->path, sizeof s->path, "%s", o->output);
  else
    replace_default(s->path, sizeof s->path, command, s->child.pid);
  if (!replace_open(&s->output, s->path, !o->output, o->force, o->follow)) return false;
  uint32_t mode = o->mode;
  if (s->traced == TRACED_STATIC) mode |= RECORD_FROM_OUTSIDE;
  if (s->observed && needs_agent(o))
    mode &= ~(uint32_t)RECORD_ANY_BLOCKS; /* until the agent is complete */
  else if (s->observed)
    mode |= RECORD_FROM_OUTSIDE;
  if (recording_create_in(&s->recording, s->output.fd, s->path, (uint32_t)s->child.pid, mode,
                          o->sample_bytes, o->limit_bytes, error, sizeof error) < 0) {
    output_discard(&s->output);
    return message_fail("%s", error), false;
  }
  s->recording.keep_free_bytes = o->keep_free_bytes;
  shm_control_t *control = s->recording.control;
  control->sample_interval_ns = (uint64_t)(1000000000 / o->sample_hz);
  control->python_lines = o->python_lines;
  recording_set_tracing(&s->recording, o->mode & RECORD_CALLS);
  if (o->trace_pattern) strcpy(control->trace_pattern, o->trace_pattern);
  if (o->trace_given) strcpy(control->trace_given, o->trace_given);
  control->trace_waits = o->trace_waits;
  control->trace_filter = o->trace_filter;
  control->follows_async = o->async;
  if (o->leaks && !leaks_at_exit_begin(&s->leaks, &s->recording))
    message_note("out of memory: leaks will not be searched for");
  control->policy_fd = policy_fd;
  control->policy_size = (uint32_t)o->policy_bytes;
  return true;
}

/* The tracer closes the descriptors by which the child starts. */
static bool start_coverage(recorder_t *s) {
  if (!s->traced) return true;
  const int closed[] = {s->child.start_fd, s->child.error_fd};
  s->coverage = (coverage_options_t){.policy = s->options->policy,
                                     .policy_bytes = s->options->policy_bytes,
                                     .alone = s->traced == TRACED_STATIC};
  store_relaxed(&s->recording.control->from_outside, (uint32_t)s->coverage.alone);
  s->tracer = coverage_start(&s->recording, s->child.pid, &s->coverage, closed, 2);
  if (s->tracer > 0) return true;
  s->tracer = 0;
  if (s->traced == TRACED_GO) {
    message_note("cannot trace system calls: %s; only those of C code are recorded",
                 strerror(errno));
    return true;
  }
  notes_of_refused_tracing(errno, s->traced != TRACED_STATIC);
  return false;
}

static void make_settings(recorder_t *s, char **command) {
  bool follow = s->options->follow && s->control.fd >= 0;
  control_settings(&s->control, follow, s->settings, sizeof s->settings);
  const char *shared = s->observed ? NULL : s->settings;
  s->agentless_options.settings = shared;
  if (shared && !s->tracer) {
    agentless_open(&s->agentless, &s->agentless_options, &s->recording, &s->monitors, true);
    s->control.agentless = &s->agentless;
  }
  if (processes_start(&s->processes, &s->recording, shared, s->child.pid, s->path, command))
    s->control.processes = &s->processes;
  s->control.agent_fd = s->agent_fd;
  if (!follow || !s->control.processes) return;
  s->follow = (follow_t){.path = s->path,
                         .main = &s->control,
                         .processes = &s->processes,
                         .attaches = s->observed && needs_agent(s->options),
                         .limit_bytes = s->options->limit_bytes,
                         .keep_free_bytes = s->options->keep_free_bytes,
                         .monitor_options = &s->monitor_options,
                         .agentless = &s->agentless_options};
  s->control.follow = &s->follow;
  networks_open(&s->networks, s->recording.control->recorder_name, s->control.token);
}

/* ---- while it runs ------------------------------------------------------------------------ */

/* Processes without the agent may yet start others in their namespace. */
static void leave_networks(recorder_t *s) {
  pid_t *pids = s->networks.count ? malloc(s->processes.running.count * sizeof *pids) : NULL;
  if (!pids) return;
  processes_pids(&s->processes, pids);
  networks_keep(&s->networks, pids, s->processes.running.count);
  free(pids);
}

/* Children of a process without the agent are not announced. */
static bool searches_often(const recorder_t *s) {
  return s->control.follow && (s->processes.watched || s->observed);
}

/* A new program does not have the agent of the one before. */
static void note_executed(recorder_t *s) {
  (void)add_relaxed(&s->recording.control->exec_index, 1);
  observed_record(s->observed, &s->recording);
  if (s->control.is_attached)
    message_note("process %d executes another program, which has no agent; 'sonde ctl %d attach' "
                 "loads it again",
                 (int)s->child.pid, (int)s->child.pid);
  s->control.is_attached = false;
}

static void follow_agentless_program(recorder_t *s) {
  const process_row_t *row = processes_last(&s->processes, s->child.pid);
  if (!s->control.agentless || !agentless_poll(&s->agentless)) return;
  agentless_note(row && row->next_command ? row->next_command : "the program",
                 s->agentless_options.is_default);
  processes_record_outside(&s->processes, s->child.pid, NULL);
}

static void refresh(recorder_t *s) {
  uint64_t now = recording_now_ns(&s->recording);
  follow_agentless_program(s);
  if (s->control.follow) follow_agentless(&s->follow);
  if (searches_often(s)) processes_scan_unrecorded(&s->processes);
  if (s->control.follow && !s->observed) follow_search_agentless(&s->follow);
  if (s->control.follow && s->observed) follow_observe(&s->follow);
  if (s->observed && observed_has_executed(s->observed)) note_executed(s);
  if (now - s->refreshed_ns < REFRESH_NS) return;
  s->refreshed_ns = now;
  if (s->recording.header.state == RECORD_OPEN) {
    recording_refresh(&s->recording);
    budget_refresh(&s->budget, &s->control, s->control.follow);
  }
  notes_of_size(s->recording.control, now, &s->noted_bytes);
  s->has_status_line = notes_status(now, load_relaxed(&s->recording.control->file_end));
  if (!s->control.follow) return;
  follow_refresh(s->control.follow);
  if (now - s->scanned_ns < REFRESH_NS << load_relaxed(&s->recording.control->pace)) return;
  s->scanned_ns = now;
  processes_scan(&s->processes);
  leave_networks(s);
}

static void end_status_line(recorder_t *s) {
  if (s->has_status_line) notes_status_end();
  s->has_status_line = false;
}

/* Until the next refresh, unless something happens. */
static uint64_t refresh_pause_ns(const recorder_t *s) {
  uint64_t pause_ns = searches_often(s) ? PROCESSES_SCAN_MS * UINT64_C(1000000)
                      : s->observed     ? EXEC_POLL_NS
                                        : REFRESH_NS;
  pause_ns <<= load_relaxed(&s->recording.control->pace);
  if (pause_ns > REFRESH_NS) pause_ns = REFRESH_NS;
  if (s->control.agentless) pause_ns = agentless_time_left_ns(&s->agentless, pause_ns);
  if (s->control.follow) pause_ns = follow_agentless_left_ns(&s->follow, pause_ns);
  return s->observed ? observed_time_left_ns(s->observed, pause_ns) : pause_ns;
}

/* Waits until a request comes or a process ends, at most a second. */
static void serve(recorder_t *s) {
  follow_t *follow = s->control.follow;
  size_t followed = follow ? 2 * follow->count : 0, watched = follow ? s->processes.watched : 0;
  uint64_t limit_ns = monitors_run_when_due(&s->monitors, refresh_pause_ns(s));
  const struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000),
                                 .tv_nsec = (long)(limit_ns % 1000000000)};
  struct pollfd fds[2 + 2 * FOLLOWED_MAX + PROCESSES_WATCHED_MAX + NETWORKS_POLLS];
  struct pollfd *networks = fds + 1 + followed + watched;
  fds[0] = (struct pollfd){.fd = s->control.fd, .events = POLLIN};
  if (follow) follow_poll(follow, fds + 1);
  if (watched) processes_poll(&s->processes, fds + 1 + followed);
  size_t listening = follow ? networks_poll(&s->networks, networks) : 0;
  size_t count = 1 + followed + watched + listening;
  if (s->observed) fds[count++] = (struct pollfd){.fd = s->observed->pidfd, .events = POLLIN};
  int ready = ppoll(fds, count, &limit, &s->waiting);
  if (ready > 0 && follow) follow_serve(follow, fds + 1);
  if (ready > 0) processes_serve(&s->processes, fds + 1 + followed, watched);
  if (ready > 0 && fds[0].revents) control_serve(&s->control);
  for (size_t i = 1; ready > 0 && i < listening; i++)
    if (networks[i].revents) control_serve_on(&s->control, networks[i].fd);
  if (ready > 0 && listening && networks[0].revents) networks_answer(&s->networks);
  refresh(s);
}

/* Any thread may reap a stop of a traced child, and those belong to the thread that stopped it
 * (target/stop/stop.h). So waitid looks for an end before wait4 reaps it. */
static bool has_ended(pid_t pid) {
  siginfo_t info = {.si_pid = 0};
  if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno != EINTR;
  bool ended =
      info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
  return info.si_pid == pid && ended;
}

static bool is_over(const recorder_t *s) {
  if (!s->is_joined) return has_ended(s->child.pid);
  return s->control.is_over || observed_is_over(s->observed);
}

static void wait_for_end(recorder_t *s) {
  while (!is_over(s))
    serve(s);
}

static uint64_t time_ns(struct timeval t) {
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_usec * 1000;
}

/* The status of a process that is not a child of the recorder, and that may run on. */
static int leave(recorder_t *s) {
  const shm_control_t *control = s->recording.control;
  bool ended = observed_has_ended(s->observed);
  if (ended) processes_end(&s->processes, s->child.pid, true, 0, control->threads.process_ns);
  return (int)(ended ? RECORD_STATUS_UNKNOWN : RECORD_STATUS_RUNNING);
}

/* Reaps the command, which has ended, and reads what it and its children used. */
static int reap(recorder_t *s) {
  process_facts_t facts = {0}; /* the kernel shows them until the process is reaped */
  (void)process_facts_read(s->child.pid, &facts);
  const shm_control_t *control = s->recording.control;
  processes_end(&s->processes, s->child.pid, control->exec_index,
                s->recording.agentless_program ? 0 : control->executing, facts.cpu_ns);
  struct rusage all = {0};
  int status = 0;
  while (wait4(s->child.pid, &status, 0, &all) < 0 && errno == EINTR) {
  }
  uint64_t all_ns = time_ns(all.ru_utime) + time_ns(all.ru_stime);
  s->had_children = facts.children_faults > 0;
  s->own_cpu_ns = facts.cpu_ns;
  s->children_cpu_ns = all_ns > facts.cpu_ns ? all_ns - facts.cpu_ns : 0;
  return status;
}

static void wait_for_children(recorder_t *s) {
  if (!s->control.follow) return;
  for (bool noted = false; s->follow.count || follow_remains(s->settings); noted = true) {
    if (!noted) message_note("the command has ended; its children are still being recorded");
    serve(s);
  }
  end_status_line(s);
}

/* Lets a command run that is recorded from outside and is stopped at its first instruction. */
static void release(recorder_t *s) {
  monitors_begin(&s->monitors);
  launch_release(&s->child);
}

/* Monitors the program until it ends; returns its wait status. */
static int monitor(recorder_t *s) {
  const recorder_options_t *o = s->options;
  const cpu_options_t cpu = {o->cpu_rules, print_note};
  monitors_new(&s->monitors, &s->recording, o->mode & RECORD_STALLS, &s->monitor_options);
  cpu_monitor_t *cpu_monitor = o->cpu ? cpu_monitor_start(&s->recording, &cpu) : NULL;
  if (s->observed && !s->is_joined) release(s);
  monitors_run_wall(&s->monitors);
  wait_for_end(s);
  end_status_line(s);
  cpu_monitor_stop(cpu_monitor);
  monitors_end_time(&s->monitors);
  int status = s->is_joined ? leave(s) : reap(s);
  monitors_stop(&s->monitors, status);
  if (s->tracer && s->is_joined) coverage_leave(s->tracer);
  if (s->tracer && !coverage_finish(s->tracer))
    message_note("the tracer of system calls was killed: the coverage is unknown");
  return status;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int report_not_run(recorder_t *s, const char *command, int error) {
  wait_for_end(s);
  (void)reap(s);
  if (s->tracer) (void)coverage_finish(s->tracer);
  output_discard(&s->output);
  (void)message_fail("cannot run '%s': %s", command, strerror(error));
  return error == ENOENT ? RECORDER_NOT_FOUND : RECORDER_NOT_RUNNABLE;
}

static void list_processes(recorder_t *s, bool is_kept) {
  if (s->control.follow) {
    size_t unrecorded;
    processes_scan(&s->processes);
    size_t count = processes_write(&s->processes, &unrecorded);
    processes_print_unrecorded(&s->processes);
    if (count == 1 || !is_kept) return;
    message_note("%zu of %zu processes are recorded; 'sonde report %s processes' lists them",
                 count - unrecorded, count, s->path);
  } else if (s->had_children) {
    (void)recording_add_children(&s->recording, s->own_cpu_ns, s->children_cpu_ns);
    notes_of_children(s->options->mode & RECORD_AUDIT, s->traced >= TRACED_GO, s->own_cpu_ns,
                      s->children_cpu_ns);
  }
}

/* The copy of the command that is searched ends here: it must not pass for a child that remains. */
static void search_leaks(recorder_t *s) {
  uint64_t size = 0;
  int32_t error = 0;
  if (!s->options->leaks) return;
  leaks_exchange_t *exchange = leaks_at_exit_open(&s->leaks, &size, &error);
  s->options->search(&s->recording, s->path, exchange, size, error);
  leaks_at_exit_end(&s->leaks);
}

static void tell_start(const recorder_t *s) {
  const recorder_options_t *o = s->options;
  if (o->started) o->started(o->started_context, s->child.pid);
  if (o->created) o->created(o->created_context, s->path);
}

static int run(recorder_t *s, char **command_line) {
  const char *command = command_line[0];
  bool is_kept = false;
  signals_forward(s->child.pid, &s->waiting);
  control_open(&s->control, &s->recording, s->path, s->child.pid);
  s->control.has_command = true;
  make_settings(s, command_line);
  int error = launch_start(&s->child, s->settings), status = 0, result = 0;
  if (error) {
    result = report_not_run(s, command, error);
  } else {
    (void)output_commit(&s->output);
    recording_refresh(&s->recording); /* more time has passed: the clocks are known better */
    tell_start(s);
    if (s->observed) observed_begin(s->observed, &s->recording);
    leaks_at_exit_watch(&s->leaks);
    status = monitor(s);
    notes_of_trace(s->recording.control);
    leaks_at_exit_keep(&s->leaks);
    int finished = recording_finish(&s->recording, status);
    search_leaks(s);
    is_kept = notes_of_recording(&s->recording, s->path, finished, s->control.follow,
                                 processes_last(&s->processes, s->child.pid));
    if (s->observed) observed_close(s->observed);
    wait_for_children(s);
    list_processes(s, is_kept);
  }
  leaks_at_exit_end(&s->leaks);
  processes_free(&s->processes);
  if (s->control.follow) networks_close(&s->networks);
  control_close(&s->control);
  recording_release(&s->recording);
  if (s->options->ended) s->options->ended(s->options->ended_context, s->path);
  return error ? result : signals_end_as(status);
}

static int cancel(recorder_t *s) {
  launch_cancel(&s->child);
  return RECORDER_FAILED;
}

static int fail(const char *subject, const char *problem) {
  (void)message_fail("%s %s", subject, problem);
  return RECORDER_FAILED;
}

static void set_monitor_options(recorder_t *s) {
  const recorder_options_t *o = s->options;
  s->budget.permille = o->budget_permille;
  s->monitor_options =
      (monitor_options_t){.stalls = {(uint64_t)o->stall_ms * 1000000, print_note},
                          .wall_interval_ns = o->wall_hz ? (uint64_t)(1000000000 / o->wall_hz) : 0};
  s->agentless_options = plan_agentless(o);
  s->agentless_options.monitors.stalls.note = print_note;
  s->agentless_options.with_agent = &s->monitor_options;
}

/* The child, which has not executed the command yet, is recorded from outside. */
static bool observe_child(recorder_t *s, observed_t *observed) {
  problem_t problem;
  if (!observed_open(observed, s->child.pid, 0, true, &problem))
    return message_fail("%s", problem.text), false;
  s->observed = observed;
  launch_hold(&s->child);
  return true;
}

/* Creates the recording of the child, which waits, and runs the command. */
static int record_child(recorder_t *s, char **command, int policy_fd) {
  if (!create_recording(s, command[0], policy_fd)) return cancel(s);
  if (start_coverage(s)) return run(s, command);
  output_discard(&s->output);
  recording_release(&s->recording);
  return cancel(s);
}

int recorder_run(char **command, const recorder_options_t *options) {
  char agent[PATH_MAX], refusal[400];
  int policy_fd = -1;
  plan_t plan;
  observed_t observed = {.pidfd = -1};
  const recorder_options_t *o = &plan.options;
  int agent_fd = launch_find_agent(agent, sizeof agent) ? open(agent, O_RDONLY | O_CLOEXEC) : -1;
  if (agent_fd < 0)
    return fail("libsonde-agent.so", "is missing beside the command; build or install it");
  if (!plan_make(&plan, command[0], options, refusal, sizeof refusal))
    return fail(command[0], refusal);
  void (*inherited)(int) = signal(SIGXFSZ, SIG_IGN); /* ulimit -f then causes EFBIG */
  if (o->policy && (policy_fd = policy_share(o->policy, o->policy_bytes)) < 0)
    return fail("cannot share the policy:", errno == EFBIG
                                                ? "the limit on file size is too small (ulimit -f)"
                                                : strerror(errno));
  (void)signal(SIGXFSZ, inherited); /* for the program */
  recorder_t s = {.options = o, .agent_fd = agent_fd, .traced = plan.traced};
  set_monitor_options(&s);
  if (plan.has_agent) notes_of_address_space();
  if (o->jit && !jit_runtimes_set()) return fail("cannot set the environment:", strerror(errno));
  const launch_tracing_t tracing = {plan.traced != TRACED_NONE, o->mode & RECORD_CALLS};
  if (!launch_fork(&s.child, command, plan.has_agent ? agent : NULL, tracing))
    return fail("cannot fork:", strerror(errno));
  (void)signal(SIGXFSZ, SIG_IGN);
  if (plan.is_observed && !observe_child(&s, &observed)) return cancel(&s);
  int status = record_child(&s, command, policy_fd);
  observed_close(&observed);
  return status;
}

/* ---- a running process -------------------------------------------------------------------- */

/* Copies the process at the end of the recording. Returns the number by which it reaps the copy; 0:
 * there is none. */
static pid_t copy_process(recorder_t *s) {
  problem_t problem;
  pid_t copy = 0;
  if (!s->leaks.exchange || !s->control.is_attached || observed_has_ended(s->observed)) return 0;
  leaks_at_exit_watch(&s->leaks);
  if (!attached_copy(&s->control, s->leaks.fd, &copy, &problem)) message_note("%s", problem.text);
  leaks_at_exit_keep(&s->leaks); /* before the end of the agent switches the mode */
  return copy;
}

/* Loads the agent, and traces system calls if that is requested. */
static bool attach(recorder_t *s, problem_t *problem) {
  const recorder_options_t *o = s->options;
  s->recording.control->audit.watched = o->coverage; /* before the agent hooks functions */
  if (!attached_begin(&s->control, o->mode, o->sample_bytes, problem)) return false;
  s->coverage = (coverage_options_t){.policy = o->policy, .policy_bytes = o->policy_bytes};
  return !o->coverage || traced_begin(&s->control, &s->coverage, &s->tracer, problem);
}

static void observe(recorder_t *s, bool attached) {
  observed_begin(s->observed, &s->recording);
  (void)output_commit(&s->output);
  message_note("recording process %d (%s) %s; Ctrl-C ends the recording", (int)s->child.pid,
               s->observed->name, attached ? "with the agent in it" : "from outside");
  tell_start(s);
  int status = monitor(s);
  notes_of_trace(s->recording.control);
  pid_t copy = copy_process(s);
  attached_end(&s->control);
  int finished = recording_finish(&s->recording, status);
  search_leaks(s);
  leaks_at_exit_end(&s->leaks);
  attached_reap(&s->control, copy);
  bool is_kept = notes_of_recording(&s->recording, s->path, finished, s->control.follow, NULL);
  if (s->control.follow) follow_leave(&s->follow);
  list_processes(s, is_kept);
}

/* Returns 0, or MESSAGE_FAILED after a message. */
static int record_observed(recorder_t *s) {
  char command[PATH_MAX], *words[] = {command, NULL};
  bool attaches = needs_agent(s->options);
  problem_t problem;
  control_open(&s->control, &s->recording, s->path, s->child.pid);
  process_facts_command(s->child.pid, command, sizeof command);
  make_settings(s, words);
  bool good = !attaches || attach(s, &problem);
  if (good) {
    observe(s, attaches);
  } else {
    output_discard(&s->output);
    (void)message_fail("cannot attach to process %d: %s", (int)s->child.pid, problem.text);
  }
  leaks_at_exit_end(&s->leaks);
  processes_free(&s->processes);
  if (s->control.follow) networks_close(&s->networks);
  control_close(&s->control);
  recording_release(&s->recording);
  if (good && s->options->ended) s->options->ended(s->options->ended_context, s->path);
  return good ? 0 : MESSAGE_FAILED;
}

int recorder_observe(pid_t pid, long seconds, const recorder_options_t *o) {
  problem_t problem;
  observed_t observed;
  char *reply = NULL;
  bool failed;
  if (control_request(pid, "status", &reply, &failed) == 0) {
    free(reply);
    return message_fail("process %d is being recorded; 'sonde ctl %d' controls that recording",
                        (int)pid, (int)pid);
  }
  bool reads_memory = (o->mode & ~ATTACHED_MODES) != 0;
  if (!observed_open(&observed, pid, seconds, reads_memory, &problem))
    return message_fail("%s", problem.text);
  recorder_t s = {.options = o,
                  .agent_fd = -1,
                  .child = {.pid = pid},
                  .observed = &observed,
                  .is_joined = true};
  set_monitor_options(&s);
  observed_take_signals(&s.waiting);
  (void)signal(SIGXFSZ, SIG_IGN);
  int policy_fd = o->policy ? policy_share(o->policy, o->policy_bytes) : -1;
  if (o->policy && policy_fd < 0)
    return message_fail("cannot share the policy: %s", strerror(errno));
  bool created = create_recording(&s, observed.name, policy_fd);
  int status = created ? record_observed(&s) : MESSAGE_FAILED;
  observed_close(&observed);
  return status;
}
