/* SPDX-License-Identifier: MIT
 *
 * sonde record: runs a command with the agent preloaded and keeps its recording whole.
 *
 * The recorder makes the file and the scratch, starts the command, waits, collects what is open,
 * and ends as the command ended: with its exit status, or by the same signal. Its own failures are
 * 125; a command that cannot be run is 126, one that is not found 127, as env(1) has it. Nothing of
 * the recorder is inherited: no descriptor, no changed signal disposition.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/common/policy_file.h"
#include "recorder/control.h"
#include "recorder/notes.h"
#include "recorder/follow.h"
#include "recorder/preload_check.h"
#include "recorder/audit_policy.h"
#include "cli/verbs.h"
#include "recorder/monitors.h"
#include "recorder/monitor/coverage.h"
#include "recorder/monitor/cpu.h"
#include "reader/reader.h"
#include "recorder/recording_file.h"

enum { RECORD_FAILED = 125, NOT_RUNNABLE = 126, NOT_FOUND = 127 };
enum {
  KEY_MALLOC = CLI_LONG_ONLY,
  KEY_LIMIT,
  KEY_SAMPLE,
  KEY_WALL,
  KEY_AUDIT,
  KEY_COVERAGE,
  KEY_TRACE,
  KEY_STALL,
  KEY_CPU,
  KEY_FOLLOW
};

#define SETTINGS_MAX 256
#define SAMPLE_BYTES (512u << 10)
#define SAMPLE_HZ    99L /* not a divisor of what programs do by the clock */
#define STALL_MS     250L

static const cli_option_t options[] = {
    {'o', "output", "FILE", "where to record; default COMMAND.PID.sonde"},
    {KEY_MALLOC, "malloc", "[MODE]",
     "all: every malloc, free and mmap with its stack; malloc: blocks alone;\n"
     "vm: regions alone; live: what is live, without history; livevm: with\n"
     "regions; sample:BYTES: blocks chosen by their bytes, one in BYTES on\n"
     "average; off: nothing until 'sonde ctl' says so"},
    {KEY_SAMPLE, "sample", "[HZ]",
     "where threads are while they use the CPU, HZ times a second (99)"},
    {KEY_WALL, "wall", "[HZ]",
     "where all threads are, blocked ones too, HZ times a second (99); nothing\n"
     "is signalled that does not run"},
    {KEY_TRACE, "trace", "[PATTERN]",
     "every call, with its times, of functions compiled with\n-finstrument-functions, or with "
     "-fpatchable-function-entry=5, or by clang\nwith -fxray-instrument; PATTERN: of these last "
     "two, and of imported functions\nand Objective-C methods, those that match: "
     "'libssl*:SSL_*,malloc',\n'-[Account *]'"},
    {KEY_STALL, "stall", "[MS]",
     "turns of event loops that take longer than MS milliseconds (250):\n"
     "what held them up, and why"},
    {KEY_AUDIT, "audit", "[POLICY]",
     "calls of sensitive functions, as POLICY says: a file, linux (the default)\nor apple; see "
     "'sonde help audit'"},
    {KEY_COVERAGE, "coverage", NULL,
     "--audit (of linux, where no policy is named), and what its hooks do not see.\nEvery system "
     "call stops the program twice, which costs what strace costs:\na check, not for every run"},
    {KEY_CPU, "cpu", "[PERCENT,SECONDS]",
     "what each thread uses of the CPUs; told of when one, or all together,\n"
     "use more than PERCENT of a CPU for SECONDS (80,60), with where it went"},
    {KEY_FOLLOW, "follow", NULL, "children too, each into a file of its own: FILE.PID.sonde"},
    {KEY_LIMIT, "limit", "SIZE", "keep the newest in a file of this size: 500M, 2G"},
    {0}};

static const cli_usage_t usage = {
    .verb = "record",
    .arguments = "[--] COMMAND…",
    .about = "Runs COMMAND and records what it does, and from where. The command need not be\n"
             "built for it. With no sensor named: --sample --stall --malloc=sample:512K, cheap\n"
             "enough to leave on. Ends with the command's own exit status; 125 when\n"
             "recording itself fails, 126 and 127 when the command cannot be run or found, 2\n"
             "when a policy is not understood: then nothing is run.",
    .options = options,
    .examples = {
        {"sonde record -- python3 script.py", "records into python3.PID.sonde"},
        {"sonde record -o run.sonde -- ls", "into a file of this name"},
        {"sonde record --wall -- ./server", "where its threads spend their time, waits too"},
        {"sonde record --trace -- ./program", "every call in an instrumented program"},
        {"sonde record --trace='libz*:*' -- python3 script.py",
         "and every call of a library's functions"}}};

/* As message_fail, of what WHAT says of WHOM. */
static int fail(const char *whom, const char *what) {
  (void)message_fail("%s %s", whom, what);
  return RECORD_FAILED;
}

/* libsonde-agent.so beside the command: ../lib from bin, in the build as when installed. */
static bool find_agent(char *out, size_t size) {
  char self[PATH_MAX], resolved[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return false;
  self[n] = 0;
  char *slash = strrchr(self, '/');
  if (!slash) return false;
  *slash = 0;
  static const char *const places[] = {"../lib", "../lib64", "."};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/libsonde-agent.so", self, places[i]);
    if (realpath(path, resolved) && snprintf(out, size, "%s", resolved) < (int)size) return true;
  }
  return false;
}

/* ---- the command -------------------------------------------------------------------------- */

typedef struct child {
  bool traced; /* its system calls will be watched */
  pid_t pid;
  int go;    /* a byte here starts it, an end of file ends it */
  int error; /* errno of the exec that failed comes from here */
} child_t;

static void set_environment(const char *agent, const char *settings) {
  const char *others = getenv("LD_PRELOAD");
  char *preload;
  if (asprintf(&preload, "%s%s%s", agent, others && *others ? ":" : "", others ? others : "") < 0)
    _exit(RECORD_FAILED);
  setenv("LD_PRELOAD", preload, 1);
  setenv("SONDE_RECORD", settings, 1);
}

/* In the child: waits for the settings, whose file carries the child's pid in its name. */
static _Noreturn void run_command(char **command, int go, int error_fd, const char *agent,
                                  bool traced) {
  char settings[SETTINGS_MAX];
  size_t n = 0;
  if (traced) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* until the settings come: for Yama */
  for (ssize_t r; n < sizeof settings - 1; n += (size_t)r) {
    r = read(go, settings + n, sizeof settings - 1 - n);
    if (r < 0 && errno == EINTR)
      r = 0;
    else if (r <= 0)
      break;
  }
  settings[n] = 0;
  if (traced) prctl(PR_SET_PTRACER, 0);
  if (!n) _exit(RECORD_FAILED);
  set_environment(agent, settings);
  execvp(command[0], command);
  int error = errno;
  while (write(error_fd, &error, sizeof error) < 0 && errno == EINTR) {
  }
  _exit(error == ENOENT ? NOT_FOUND : NOT_RUNNABLE);
}

static bool start_child(child_t *child, char **command, const char *agent) {
  int go[2], error[2];
  if (pipe2(go, O_CLOEXEC) < 0) return false;
  if (pipe2(error, O_CLOEXEC) < 0) {
    close(go[0]);
    close(go[1]);
    return false;
  }
  child->pid = fork();
  if (child->pid == 0) {
    close(go[1]);
    close(error[0]);
    run_command(command, go[0], error[1], agent, child->traced);
  }
  close(go[0]);
  close(error[1]);
  child->go = go[1];
  child->error = error[0];
  return child->pid > 0;
}

/* ---- signals ------------------------------------------------------------------------------ */

static volatile sig_atomic_t child_pid;

/* A terminal sends these to the command as well; others are passed on. */
static void pass_on(int signal_number) {
  if (child_pid > 0) kill((pid_t)child_pid, signal_number);
}

static void on_child(int signal_number) { (void)signal_number; }

static void handle_signals(void) {
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
  static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
    sigaction(passed[i], &action, NULL);
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ended, NULL);
  signal(SIGCHLD, on_child);
}

/* Ends as the command did. */
static int end_as(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  int signal_number = WTERMSIG(status);
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  fflush(NULL);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
  return 128 + signal_number;
}

/* ---- recording ---------------------------------------------------------------------------- */

static void default_path(char *out, size_t size, const char *command, pid_t pid) {
  const char *slash = strrchr(command, '/');
  snprintf(out, size, "%s.%d.sonde", slash ? slash + 1 : command, (int)pid);
}

/* Waits for a second or until somebody asks, or a child that is followed ends. */
static void serve(control_t *control, const sigset_t *mask) {
  const struct timespec second = {.tv_sec = 1};
  follow_t *follow = control->follow;
  nfds_t count = 1 + (follow ? 2 * follow->count : 0);
  struct pollfd fds[1 + 2 * FOLLOWED_MAX];
  fds[0] = (struct pollfd){.fd = control->fd, .events = POLLIN};
  if (follow) follow_poll(follow, fds + 1);
  int ready = ppoll(fds, count, &second, mask);
  if (ready > 0 && follow) follow_serve(follow, fds + 1);
  if (ready > 0 && fds[0].revents) control_serve(control);
  if (ready) return;
  if (control->recording->header.state == RECORD_OPEN) recording_refresh(control->recording);
  if (follow) follow_refresh(follow);
}

/* Takes the end of PID and nothing else: a stop of it is for the thread of ours that has asked for
 * it (target/stop.h), and any thread of a process may take what is told of a child. */
static bool take_end(pid_t pid, int *status) {
  siginfo_t info = {.si_pid = 0};
  if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno != EINTR;
  bool ended =
      info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
  return info.si_pid == pid && ended && waitpid(pid, status, WNOHANG) == pid;
}

/* SIGCHLD is let in while this waits and nowhere else, so an end is never missed. */
static void wait_for(control_t *control, pid_t pid, int *status) {
  sigset_t all_but_child;
  sigprocmask(SIG_SETMASK, NULL, &all_but_child);
  sigdelset(&all_but_child, SIGCHLD);
  while (!take_end(pid, status))
    serve(control, &all_but_child);
}

/* The program has ended; those of its children that are recorded may go on. */
static void wait_for_children(control_t *control, const char *settings) {
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  if (!control->follow) return;
  for (bool said = false; control->follow->count || follow_remains(settings); said = true) {
    if (!said) message_note("the command has ended; children of it are still being recorded");
    serve(control, &mask);
  }
}

/* Of a process that replaced its program by another, once or more. */
static void tell_programs(const recording_t *r, const char *path) {
  uint32_t programs = r->header.exec_count;
  if (programs > 1)
    message_note(
        "the process ran %u programs in turn; all are in '%s': the audit is of all, the rest "
        "of the report of the last one or of '--program N'",
        programs, path);
}

static void tell(const recording_t *r, const char *path, int finished) {
  const record_header_t *h = &r->header;
  notes_print(r->control);
  if (!h->exec_count)
    message_note("the command never loaded the agent, so nothing was recorded; "
                 "'sonde doctor' tells why");
  else if (h->stop_reason)
    message_note("recording stopped before the end: %s; '%s' holds what came before",
                 record_stop_text(h->stop_reason), path);
  else if (finished < 0)
    message_note("the end of '%s' could not be written", path);
  else
    message_note("recorded into '%s'; 'sonde report %s' reads it", path, path);
  tell_programs(r, path);
  if (h->lost_events)
    message_note("%llu events were lost for want of memory or of room in the file",
                 (unsigned long long)h->lost_events);
}

/* Compiles the audit policy NAME for the recorder. */
static bool read_policy(const char *name) {
  size_t size;
  audit_policy_t *flat = policy_file_compile(name, &size);
  return flat && record_audit_keep(flat, size);
}

/* What to record. */
typedef struct wanted {
  const char *output; /* NULL: named after the command */
  uint32_t mode;
  bool chosen; /* --malloc was named, be it off */
  bool follow;
  uint64_t sample_bytes, limit_bytes;
  long sample_hz, wall_hz, stall_ms; /* wall_hz 0: running threads alone */
  bool cpu, coverage;
  cpu_rules_t cpu_rules;
  const char *imports; /* the pattern of imported functions to trace; NULL or empty: none */
} wanted_t;

/* What became of functions that were left room for a tracer. */
static void tell_code(const shm_control_t *c) {
  if (c->code_why[0]) message_note("no function of the program's own is traced: %s", c->code_why);
  if (c->code_refused)
    message_note("the code of %u images could not be changed: their functions are not traced",
                 c->code_refused);
  if (c->code_small)
    message_note(
        "%u functions have too little room at their entry, or none that could be found, and "
        "are not traced: -fpatchable-function-entry=5 is enough",
        c->code_small);
}

/* What became of --trace=PATTERN. */
static void tell_imports(const shm_control_t *c) {
  if (!c->trace_pattern[0]) return;
  if (c->imports_refused[0])
    message_note("no imported function is traced: %s", c->imports_refused);
  else if (!c->imports_timed && !c->imports_called && !c->code_patched && !c->methods_timed)
    message_note("no function or method that can be traced matches '%s'; see 'sonde help record'",
                 c->trace_pattern);
  if (c->imports_left)
    message_note("%u functions that follow no usual calling convention are not traced",
                 c->imports_left);
  if (c->code_unnamed)
    message_note(
        "%u functions with room for a tracer have no name that the pattern could match: the "
        "program "
        "is stripped",
        c->code_unnamed);
  if (c->messages_left)
    message_note("%u messages to methods that were made at run time are not recorded",
                 c->messages_left);
  if (c->imports_over)
    message_note("%u functions more matched than can be traced at once", c->imports_over);
}

static void note_line(const char *line) { message_note("%s", line); }

/* One recording: of the command, and with --follow of its children. */
typedef struct one_recording {
  const wanted_t *wanted;
  char path[PATH_MAX], settings[SETTINGS_MAX];
  child_t child;
  pid_t tracer; /* of --coverage; 0: none */
  recording_t recording;
  control_t control;
  monitors_t watches;
  follow_t follow;
} one_recording_t;

static bool create_recording(one_recording_t *s, const char *command) {
  const wanted_t *w = s->wanted;
  char error[PATH_MAX + 64];
  if (w->output)
    snprintf(s->path, sizeof s->path, "%s", w->output);
  else
    default_path(s->path, sizeof s->path, command, s->child.pid);
  if (recording_create(&s->recording, s->path, (uint32_t)s->child.pid, w->mode, w->sample_bytes,
                       w->limit_bytes, error, sizeof error) < 0) {
    (void)fail("the recording", error);
    return false;
  }
  s->recording.control->sample_interval_ns = (uint64_t)(1000000000 / w->sample_hz);
  recording_trace(&s->recording, w->mode & RECORD_CALLS);
  if (w->imports) strcpy(s->recording.control->trace_pattern, w->imports);
  record_audit_offer(&s->recording);
  return true;
}

/* The child has not begun, and will not. */
static int give_up(one_recording_t *s) {
  close(s->child.go);
  waitpid(s->child.pid, NULL, 0);
  return RECORD_FAILED;
}

static bool watch_system_calls(one_recording_t *s) {
  if (s->wanted->coverage)
    s->tracer =
        record_audit_watch(&s->recording, s->child.pid, (int[]){s->child.go, s->child.error}, 2);
  return s->tracer >= 0;
}

/* What the agent is told. */
static void make_settings(one_recording_t *s) {
  recording_settings(&s->recording, s->settings, sizeof s->settings);
  if (!s->wanted->follow || s->control.fd < 0) return;
  char name[CONTROL_NAME_MAX];
  control_name(&s->control, name);
  s->follow = (follow_t){.path = s->path,
                         .main = &s->control,
                         .limit_bytes = s->wanted->limit_bytes,
                         .watches = &s->watches};
  s->control.follow = &s->follow;
  size_t n = strlen(s->settings);
  snprintf(s->settings + n, sizeof s->settings - n, ":%s", name);
}

/* Lets the child go. Returns 0, or the errno of the exec that failed. */
static int let_go(one_recording_t *s) {
  int error = 0;
  if (write(s->child.go, s->settings, strlen(s->settings)) < 0) kill(s->child.pid, SIGKILL);
  close(s->child.go);
  return read(s->child.error, &error, sizeof error) == sizeof error ? error : 0;
}

/* Looks at the program from outside until it has ended; returns its status. */
static int watch(one_recording_t *s) {
  int status = 0;
  const cpu_options_t cpu = {s->wanted->cpu_rules, note_line};
  watching_t watching;
  monitors_start(&s->watches, &s->recording, s->wanted->mode & RECORD_STALLS, &watching);
  cpu_monitor_t *cpu_monitor = s->wanted->cpu ? cpu_monitor_start(&s->recording, &cpu) : NULL;
  wait_for(&s->control, s->child.pid, &status);
  monitors_stop(&watching, status);
  cpu_monitor_stop(cpu_monitor);
  if (s->tracer && !coverage_finish(s->tracer))
    message_note("what watched the system calls was ended: their coverage is not known");
  return status;
}

static void finish(one_recording_t *s, int status) {
  tell_code(s->recording.control);
  tell_imports(s->recording.control);
  int finished = recording_finish(&s->recording, status);
  tell(&s->recording, s->path, finished);
  wait_for_children(&s->control, s->settings);
}

static int not_run(one_recording_t *s, const char *command, int error) {
  int status;
  wait_for(&s->control, s->child.pid, &status);
  if (s->tracer) (void)coverage_finish(s->tracer);
  unlink(s->path);
  (void)message_fail("'%s' cannot be run: %s", command, strerror(error));
  return error == ENOENT ? NOT_FOUND : NOT_RUNNABLE;
}

static int record(char **command, const wanted_t *wanted, const char *agent) {
  one_recording_t s = {.wanted = wanted, .child.traced = wanted->coverage};
  s.watches =
      (monitors_t){.stalls = {(uint64_t)wanted->stall_ms * 1000000, note_line},
                   .wall_ns = wanted->wall_hz ? (uint64_t)(1000000000 / wanted->wall_hz) : 0};
  if (!start_child(&s.child, command, agent)) return fail("cannot fork:", strerror(errno));
  signal(SIGXFSZ, SIG_IGN); /* a limit of the shell's is a full disk to us */
  if (!create_recording(&s, command[0])) return give_up(&s);
  if (!watch_system_calls(&s)) {
    unlink(s.path);
    recording_release(&s.recording);
    return give_up(&s);
  }
  child_pid = s.child.pid;
  handle_signals();
  control_open(&s.control, &s.recording, s.path, s.child.pid);
  make_settings(&s);
  int error = let_go(&s), status = 0;
  int answer = error ? not_run(&s, command[0], error) : 0;
  if (!error) {
    status = watch(&s);
    finish(&s, status);
  }
  control_close(&s.control);
  recording_release(&s.recording);
  return error ? answer : end_as(status);
}

static bool parse_malloc(const char *value, wanted_t *wanted) {
  uint32_t mode;
  if (!control_parse_malloc(value ? value : "all", &mode, &wanted->sample_bytes)) return false;
  wanted->mode = (wanted->mode & ~(RECORD_ANY_BLOCKS | RECORD_MAPPINGS)) | mode;
  wanted->chosen = true;
  return true;
}

/* 80,60 */
static bool parse_cpu(const char *text, cpu_rules_t *out) {
  char *end;
  double percent = strtod(text, &end);
  if (end == text || *end != ',' || !(percent >= 1 && percent <= 100000)) return false;
  long seconds;
  if (!parse_number(end + 1, 1, 86400, &seconds)) return false;
  *out = (cpu_rules_t){percent / 100, (uint64_t)seconds * 1000000000u};
  return true;
}

/* Takes one option; what is wrong with it, or NULL; "" when a policy is not understood, which has
 * been said. */
static const char *take_option(wanted_t *w, int key, const char *value) {
  switch (key) {
  case 'o': w->output = value; break;
  case KEY_MALLOC:
    if (parse_malloc(value, w)) break;
    return "--malloc takes all, malloc, vm, live, livevm, off or sample:512K (a size)";
  case KEY_SAMPLE:
    w->mode |= RECORD_SAMPLES;
    if (!value || parse_number(value, 1, 1000, &w->sample_hz)) break;
    return "--sample takes a number from 1 to 1000";
  case KEY_WALL:
    w->mode |= RECORD_SAMPLES;
    w->wall_hz = SAMPLE_HZ;
    if (!value || parse_number(value, 1, 1000, &w->wall_hz)) break;
    return "--wall takes a number from 1 to 1000";
  case KEY_TRACE:
    w->mode |= RECORD_CALLS;
    w->imports = value ? value : "";
    if (strlen(w->imports) < sizeof((shm_control_t *)0)->trace_pattern) break;
    return "--trace takes a pattern of at most 511 bytes";
  case KEY_CPU:
    w->mode |= RECORD_SAMPLES;
    w->cpu = true;
    if (!value || parse_cpu(value, &w->cpu_rules)) break;
    return "--cpu takes a percentage of one CPU and seconds: 80,60";
  case KEY_STALL:
    w->mode |= RECORD_STALLS;
    if (!value || parse_number(value, 50, 3600000, &w->stall_ms)) break;
    return "--stall takes milliseconds, from 50 up";
  case KEY_AUDIT:
    w->mode |= RECORD_AUDIT;
    if (read_policy(value ? value : "linux")) break;
    return "";
  case KEY_COVERAGE: w->coverage = true; break;
  case KEY_FOLLOW: w->follow = true; break;
  case KEY_LIMIT:
    if (parse_size(value, &w->limit_bytes)) break;
    return "--limit takes a size such as 500M";
  }
  return NULL;
}

/* What follows from what was named, and from nothing being named. */
static bool complete(wanted_t *w) {
  if (!w->chosen && !w->mode) {
    w->mode = RECORD_SAMPLES | RECORD_SAMPLED_BLOCKS | RECORD_STALLS;
    w->sample_bytes = SAMPLE_BYTES;
  }
  if (!w->coverage || w->mode & RECORD_AUDIT) return true;
  w->mode |= RECORD_AUDIT;
  return read_policy("linux");
}

int verb_record(int argc, char **argv) {
  cli_parser_t parser = cli_parser_for_command(&usage, argc, argv);
  wanted_t wanted = {
      .sample_hz = SAMPLE_HZ, .stall_ms = STALL_MS, .cpu_rules = {0.8, UINT64_C(60000000000)}};
  int key;
  while ((key = cli_next(&parser)) > 0) {
    const char *wrong = take_option(&wanted, key, parser.value);
    if (wrong && *wrong) (void)cli_wrong_use(&usage, "%s", wrong);
    if (wrong) return *wrong ? RECORD_FAILED : CLI_FAILED;
  }
  if (key < 0) return parser.status == CLI_FAILED ? RECORD_FAILED : parser.status;
  if (!parser.rest_count) {
    (void)cli_wrong_use(&usage, "no command to run");
    return RECORD_FAILED;
  }
  if (!complete(&wanted)) return RECORD_FAILED;
  char agent[PATH_MAX], refusal[256];
  if (!find_agent(agent, sizeof agent))
    return fail("libsonde-agent.so", "is not beside the command: build or install it");
  if (!preload_check(parser.rest[0], refusal, sizeof refusal)) return fail(parser.rest[0], refusal);
  if (wanted.mode & RECORD_AUDIT && !wanted.coverage && preload_check_is_go(parser.rest[0]))
    message_note("%s is written in Go, which makes system calls itself: the audit sees calls of C "
                 "alone, --coverage lists the others",
                 parser.rest[0]);
  return record(parser.rest, &wanted, agent);
}
