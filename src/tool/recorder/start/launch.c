/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/start/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/elf/sanitizer.h"
#include "recorder/preload_check.h"
#include "recorder/recorder.h"

/* They are in a folder of their own when installed, and in ../lib from the build's bin. */
bool launch_find_library(const char *name, char *out, size_t size) {
  char self[PATH_MAX], resolved[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return false;
  self[n] = 0;
  char *slash = strrchr(self, '/');
  if (!slash) return false;
  *slash = 0;
  static const char *const places[] = {SONDE_AGENT_FOLDER, "../lib", "."};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", self, places[i], name);
    if (realpath(path, resolved) && snprintf(out, size, "%s", resolved) < (int)size) return true;
  }
  return false;
}

bool launch_find_agent(char *out, size_t size) {
  return launch_find_library("libsonde-agent.so", out, size);
}

bool launch_find_attached(char *out, size_t size) {
  return launch_find_library("libsonde-attached.so", out, size);
}

/* ---- in the child ------------------------------------------------------------------------- */

/* Sets LD_PRELOAD: the runtime of the program's sanitizer, the agent, then the user's preloads. */
static bool set_environment(const char *command, const char *agent, const char *settings) {
  const char *others = getenv("LD_PRELOAD");
  char *preload, path[PATH_MAX], name[SANITIZER_NAME_MAX];
  if (!others) others = "";
  bool needs = preload_find(command, path, sizeof path) && sanitizer_of_program(path, name);
  const char *runtime = needs ? name : sanitizer_in_list(others);
  int n = runtime ? (int)strcspn(runtime, ": ") : 0;
  return asprintf(&preload, "%.*s%s%s%s%s", n, n ? runtime : "", n ? ":" : "", agent,
                  *others ? ":" : "", others) >= 0 &&
         setenv("LD_PRELOAD", preload, 1) == 0 && setenv("SONDE_RECORD", settings, 1) == 0;
}

static size_t read_settings(int fd, char *out, size_t size) {
  size_t n = 0;
  while (n < size - 1) {
    ssize_t r = read(fd, out + n, size - 1 - n);
    if (r < 0 && errno == EINTR) continue;
    if (r <= 0) break;
    n += (size_t)r;
  }
  out[n] = 0;
  return n;
}

/* Executes COMMAND where it was found before: execvp tries every folder of PATH by a system call.
 */
static void execute(char **command) {
  char path[PATH_MAX];
  if (preload_find(command[0], path, sizeof path)) execv(path, command);
  execvp(command[0], command);
}

static _Noreturn void run_command(char **command, int start_fd, int error_fd, const char *agent,
                                  launch_tracing_t tracing) {
  char settings[SETTINGS_MAX];
  const unsigned long recorder = (unsigned long)getppid();
  if (tracing.system_calls) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  size_t n = read_settings(start_fd, settings, sizeof settings);
  if (tracing.system_calls || tracing.functions)
    prctl(PR_SET_PTRACER, tracing.functions ? recorder : 0ul);
  if (!n) _exit(RECORDER_FAILED);
  if (!agent || set_environment(command[0], agent, settings)) execute(command);
  int error = errno;
  while (write(error_fd, &error, sizeof error) < 0 && errno == EINTR) {
  }
  _exit(error == ENOENT ? RECORDER_NOT_FOUND : RECORDER_NOT_RUNNABLE);
}

/* ---- in the recorder ---------------------------------------------------------------------- */

bool launch_fork(launch_t *launch, char **command, const char *agent, launch_tracing_t tracing) {
  int start[2], error[2];
  if (pipe2(start, O_CLOEXEC) < 0) return false;
  if (pipe2(error, O_CLOEXEC) < 0) {
    close(start[0]);
    close(start[1]);
    return false;
  }
  launch->pid = fork();
  if (launch->pid == 0) {
    close(start[1]);
    close(error[0]);
    run_command(command, start[0], error[1], agent, tracing);
  }
  close(start[0]);
  close(error[1]);
  launch->start_fd = start[1];
  launch->error_fd = error[0];
  return launch->pid > 0;
}

void launch_hold(launch_t *launch) { hold_begin(&launch->hold, launch->pid, true); }

void launch_release(launch_t *launch) { hold_release(&launch->hold); }

int launch_start(launch_t *launch, const char *settings) {
  int error = write(launch->start_fd, settings, strlen(settings)) < 0 ? errno : 0;
  close(launch->start_fd);
  if (error) return error; /* the child ends without settings */
  (void)hold_wait(&launch->hold);
  return read(launch->error_fd, &error, sizeof error) == sizeof error ? error : 0;
}

void launch_cancel(launch_t *launch) {
  close(launch->start_fd);
  waitpid(launch->pid, NULL, 0);
}
