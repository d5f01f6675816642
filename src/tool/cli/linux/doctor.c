/* SPDX-License-Identifier: MIT
 *
 * sonde doctor: reports what works on this machine and on a process, what does not, and the command
 * that fixes it. sonde tries everything and concludes nothing from versions: it reads, stops and
 * resumes a child.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/linux/doctor.h"
#include "cli/verbs.h"
#include "sonde/status.h"
#include "target/access.h"
#include "target/perf_ticks.h"
#include "target/target.h"

enum { KEY_JSON = CLI_LONG_ONLY };

static const cli_option_t options[] = {
    NAMING_RULE_OPTIONS, {KEY_JSON, "json", NULL, "as JSON (docs/json.md)"}, {0}};

static const cli_usage_t usage = {
    .verb = "doctor",
    .arguments = "[PID]",
    .about = "Checks what works on this machine and, with PID, on that process. For what does\n"
             "not work, prints the command that fixes it. The exit status is 1 if something\n"
             "is missing.",
    .options = options,
    .examples = {{"sonde doctor", "check access to processes, and debug files"},
                 {"sonde doctor 1234", "also check process 1234 and its loaded images"}}};

/* ---- findings ----------------------------------------------------------------------------- */

bool doctor_add(doctor_t *doctor, verdict_t verdict, const char *fix, const char *format, ...) {
  if (doctor->count == DOCTOR_FINDINGS_MAX) return false;
  finding_t *finding = &doctor->findings[doctor->count++];
  finding->verdict = verdict;
  va_list list;
  va_start(list, format);
  vsnprintf(finding->text, sizeof finding->text, format, list);
  va_end(list);
  snprintf(finding->fix, sizeof finding->fix, "%s", fix ? fix : "");
  return true;
}

void doctor_add_missing(doctor_t *doctor, const char *fix, const char *what, const char *cause) {
  if (strstr(cause, "out of memory") || strstr(cause, strerror(ENOMEM)))
    doctor->no_memory = true;
  else
    doctor_add(doctor, VERDICT_MISSING, fix, "%s%s", what, cause);
}

/* ---- the machine -------------------------------------------------------------------------- */

/* Starts a child that only waits. */
static pid_t start_child(void) {
  pid_t child = fork();
  if (child == 0) {
    while (true)
      pause();
  }
  return child;
}

/* CHILD is what fork returned: -1 names all processes to kill(2) and waitpid(2). */
static bool is_started(doctor_t *doctor, pid_t child) {
  if (child < 0)
    doctor_add_missing(doctor, NULL, "cannot start a child process: ", strerror(errno));
  return child > 0;
}

static bool is_asleep(pid_t pid) {
  char path[32], text[256] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  const char *name_ends = strrchr(text, ')'); /* proc(5): the state follows the name */
  return name_ends && !strncmp(name_ends, ") S", 3);
}

/* Why THREAD, NULL if there is none, has no complete stack. An image that cannot be opened has no
 * unwind rules. */
static const char *cause_of(const target_t *target, const thread_t *thread,
                            const problem_t *problem) {
  const char *no_memory = sonde_strerror(SONDE_ENOMEM);
  for (size_t i = 0; target && i < target->modules.count; i++)
    if (target->modules.items[i].problem == no_memory) return no_memory;
  return thread && thread->reason ? thread->reason : problem->text;
}

static void check_child(doctor_t *doctor) {
  pid_t child = start_child();
  if (!is_started(doctor, child)) return;
  problem_t problem = {{0}};
  stacks_options_t quiet = {.depth = STACKS_DEPTH_DEFAULT, .touch = TOUCH_NONE};
  for (int i = 0; i < 2000 && !is_asleep(child); i++)
    usleep(1000);
  target_t *target = target_open_process(child, &problem);
  bool read = target && stacks_capture(target, &quiet, &problem);
  const thread_t *thread = read ? &target->threads[0] : NULL;
  if (read && thread->ending == ENDING_COMPLETE)
    doctor_add(doctor, VERDICT_GOOD, NULL, "waiting threads can be read without a stop");
  else
    doctor_add_missing(doctor, NULL,
                       "cannot read a waiting child process: ", cause_of(target, thread, &problem));
  target_close(target);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

/* A thread that runs must be stopped, which needs ptrace: so this tries it on a child that spins.
 */
static void check_stop(doctor_t *doctor) {
  pid_t child = fork();
  if (child == 0)
    while (true)
      __asm__ volatile("" ::: "memory");
  if (!is_started(doctor, child)) return;
  problem_t problem = {{0}};
  stacks_options_t plain = {.depth = STACKS_DEPTH_DEFAULT};
  target_t *target = target_open_process(child, &problem);
  bool read = target && stacks_capture(target, &plain, &problem);
  const thread_t *thread = read ? &target->threads[0] : NULL;
  if (read && thread->frame_count > 0)
    doctor_add(doctor, VERDICT_GOOD, NULL, "running threads can be stopped and read (%.3f ms here)",
               (double)thread->stopped_ns / 1e6);
  else
    doctor_add_missing(doctor, "docker run --cap-add SYS_PTRACE …",
                       "cannot stop a running child process: ", cause_of(target, thread, &problem));
  target_close(target);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

/* `sonde record -p` and `sonde top` then need no stop. */
static void check_ticks(doctor_t *doctor) {
  enum { INTERVAL_NS = 10000000 };
  perf_ticks_t ticks;
  if (perf_ticks_open(&ticks, getpid(), INTERVAL_NS)) {
    doctor_add(doctor, VERDICT_GOOD, NULL, "the kernel samples running threads");
    perf_ticks_close(&ticks);
  } else {
    doctor_add(
        doctor, VERDICT_LIMITED,
        "sudo sysctl kernel.perf_event_paranoid=2; in a container --cap-add PERFMON",
        "the kernel does not sample running threads (perf_event_open: %s): 'sonde record -p' "
        "stops them for some microseconds",
        strerror(errno));
  }
}

static void check_yama(doctor_t *doctor) {
  int scope = access_yama_scope();
  if (geteuid() == 0 || scope <= 0) {
    doctor_add(doctor, VERDICT_GOOD, NULL, "other processes of %s can be read",
               geteuid() == 0 ? "every user" : "this user");
    return;
  }
  doctor_add(doctor, VERDICT_MISSING, "sudo sysctl kernel.yama.ptrace_scope=0",
             "only children can be read: Yama restricts ptrace (scope %d)", scope);
}

static bool has_entries(const char *path) {
  DIR *directory = opendir(path);
  struct dirent *entry;
  bool any = false;
  while (directory && !any && (entry = readdir(directory)))
    any = entry->d_name[0] != '.';
  if (directory) closedir(directory);
  return any;
}

static void check_debug_files(doctor_t *doctor) {
  errno = 0;
  bool installed = has_entries("/usr/lib/debug/.build-id");
  if (!installed && errno == ENOMEM) {
    doctor->no_memory = true;
    return;
  }
  const char *urls = getenv("DEBUGINFOD_URLS");
  bool enabled = urls && urls[0];
#if !defined(SONDE_HAVE_DEBUGINFOD)
  enabled = false;
#endif
  if (installed)
    doctor_add(doctor, VERDICT_GOOD, NULL, "debug files are installed in /usr/lib/debug");
  if (enabled) doctor_add(doctor, VERDICT_GOOD, NULL, "debuginfod is enabled: %s", urls);
  if (!installed && !enabled)
    doctor_add(doctor, VERDICT_LIMITED, "export DEBUGINFOD_URLS=https://debuginfod.elfutils.org/",
               "no debug files: stripped libraries have few names and no lines");
}

/* ---- the verb ----------------------------------------------------------------------------- */

static void print_findings(FILE *out, const doctor_t *doctor) {
  static const struct {
    const char *word;
    terminal_style_t style;
  } verdicts[] = {
      {"good", TERMINAL_GREEN}, {"limited", TERMINAL_YELLOW}, {"missing", TERMINAL_RED}};
  for (size_t i = 0; i < doctor->count; i++) {
    const finding_t *finding = &doctor->findings[i];
    fprintf(out, "%s%-8s%s %s\n", terminal_style(out, verdicts[finding->verdict].style),
            verdicts[finding->verdict].word, terminal_style(out, TERMINAL_PLAIN), finding->text);
    if (finding->fix[0])
      fprintf(out, "         fix:  %s%s%s\n", terminal_style(out, TERMINAL_BOLD), finding->fix,
              terminal_style(out, TERMINAL_PLAIN));
  }
}

static void print(const doctor_t *doctor, bool json) {
  if (json) {
    doctor_json(stdout, doctor);
    return;
  }
  print_findings(stdout, doctor);
  if (doctor->target) doctor_images_text(stdout, doctor);
}

static bool is_missing(const doctor_t *doctor) {
  for (size_t i = 0; i < doctor->count; i++)
    if (doctor->findings[i].verdict == VERDICT_MISSING) return true;
  return false;
}

int verb_doctor(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  bool json = false;
  long pid = 0;
  naming_t naming = {0};
  const char *wrong;
  int key;
  while ((key = cli_next(&parser)) > 0)
    if (!naming_take(&naming, key, parser.value, &wrong))
      json = true;
    else if (wrong)
      return cli_wrong_use(&usage, "%s", wrong);
  if (key < 0) return parser.status;
  if (parser.rest_count > 1) return cli_wrong_use(&usage, "takes at most one PID");
  if (parser.rest_count == 1 && !parse_number(parser.rest[0], 1, INT32_MAX, &pid))
    return cli_wrong_use(&usage, "'%s' is not a process id", parser.rest[0]);
  static doctor_t doctor;
  doctor.rules = naming.options.system;
  check_child(&doctor);
  check_stop(&doctor);
  check_ticks(&doctor);
  check_yama(&doctor);
  check_debug_files(&doctor);
  int status = CLI_DONE;
  problem_t problem = {{0}};
  if (pid > 0 && !doctor_process(&doctor, (pid_t)pid, &problem))
    status = message_fail("%s", problem.text);
  else
    print(&doctor, json);
  if (status == CLI_DONE && doctor.no_memory)
    status = message_fail("out of memory: not everything could be checked");
  if (status == CLI_DONE && is_missing(&doctor)) status = CLI_FINDING;
  doctor_free(&doctor);
  naming_free(&naming);
  return status;
}
