/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "top/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "recorder/defaults.h"
#include "recorder/recorder.h"
#include "recorder/recording_file.h"
#include "report/report.h"
#include "sensor/sensor_table.h"

/* What is shown of the command's output, and how much a recording without a name may hold. */
enum { TAIL_BYTES = 64 << 10, LIMIT_BYTES = 32 << 20, PATIENCE_MS = 3000, WAIT_MS = 10 };

/* ---- in the recorder's process ------------------------------------------------------------ */

typedef struct started {
  int fd;
  bool is_quiet; /* the recording will not be kept, so notes about it are of no use */
} started_t;

static void announce(void *context, pid_t pid) {
  const started_t *started = context;
  while (write(started->fd, &pid, sizeof pid) < 0 && errno == EINTR) {
  }
  close(started->fd);
  int nowhere = started->is_quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
}

/* Standard output is top's own, even if it is no terminal. */
static void redirect(const top_run_t *run) {
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), output = fileno(run->output);
  if (nothing >= 0 && isatty(STDIN_FILENO)) dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  if (isatty(STDERR_FILENO)) dup2(output, STDERR_FILENO);
}

/* With a recording to keep: the sensors of `sonde record`. Else only what top shows. */
static _Noreturn void record(const top_run_t *run, char **command, int fd) {
  bool kept = !*run->folder;
  started_t started = {fd, !kept};
  recorder_options_t options = {.output = run->path,
                                .keep_free_bytes = RECORDING_KEEP_DEFAULT,
                                .mode = RECORD_SAMPLED_BLOCKS |
                                        (kept ? RECORD_SAMPLES | RECORD_STALLS : 0),
                                .limit_bytes = kept ? 0 : LIMIT_BYTES,
                                .sample_bytes = DEFAULT_SAMPLE_BYTES,
                                .sample_hz = DEFAULT_SAMPLE_HZ,
                                .stall_ms = DEFAULT_STALL_MS,
                                .started = announce,
                                .started_context = &started};
  setpgid(0, 0);                    /* Ctrl-C is for top, which then ends the command */
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* as does a kill of top */
  redirect(run);
  int status = recorder_run(command, &options);
  fflush(NULL);
  _exit(status);
}

/* ---- in top ------------------------------------------------------------------------------- */

static bool choose_path(top_run_t *run, const char *output) {
  if (output) {
    char *folder = *output == '/' ? strdup("") : getcwd(NULL, 0);
    snprintf(run->path, sizeof run->path, "%s%s%s", folder ? folder : "",
             folder && *folder ? "/" : "", output);
    free(folder);
    return true;
  }
  const char *folder = getenv("TMPDIR");
  snprintf(run->folder, sizeof run->folder, "%s/sonde-top.XXXXXX",
           folder && *folder == '/' ? folder : "/tmp");
  if (!mkdtemp(run->folder)) {
    (void)message_fail("cannot create a folder in %s: %s", run->folder, strerror(errno));
    run->folder[0] = 0;
    return false;
  }
  snprintf(run->path, sizeof run->path, "%s/sonde", run->folder);
  return true;
}

/* Prints the end of what the command wrote. */
static void print_output(top_run_t *run) {
  char text[4096];
  if (fseek(run->output, 0, SEEK_END) != 0) return;
  long size = ftell(run->output);
  if (size > TAIL_BYTES) fprintf(stderr, "… the last %d KB of the output:\n", TAIL_BYTES >> 10);
  if (fseek(run->output, size > TAIL_BYTES ? size - TAIL_BYTES : 0, SEEK_SET) != 0) return;
  for (size_t n; (n = fread(text, 1, sizeof text, run->output)) > 0;)
    fwrite(text, 1, n, stderr);
}

static void clean_up(top_run_t *run) {
  if (run->output) fclose(run->output);
  run->output = NULL;
  if (!*run->folder) return;
  unlink(run->path);
  rmdir(run->folder);
}

/* The command's pid; 0: it could not be started. */
static pid_t receive(int fd) {
  pid_t pid = 0;
  ssize_t n;
  while ((n = read(fd, &pid, sizeof pid)) < 0 && errno == EINTR) {
  }
  return n == sizeof pid ? pid : 0;
}

bool top_run_start(top_run_t *run, char **command, const char *output) {
  int fds[2];
  *run = (top_run_t){0};
  if (!choose_path(run, output)) return false;
  run->output = tmpfile();
  if (!run->output || pipe2(fds, O_CLOEXEC) < 0) {
    (void)message_fail("cannot create a temporary file: %s", strerror(errno));
    clean_up(run);
    return false;
  }
  run->recorder = fork();
  if (run->recorder == 0) record(run, command, fds[1]);
  close(fds[1]);
  run->program = run->recorder > 0 ? receive(fds[0]) : 0;
  close(fds[0]);
  if (run->program) return true;
  if (run->recorder > 0) waitpid(run->recorder, NULL, 0);
  print_output(run);
  clean_up(run);
  return false;
}

static void note_end(top_run_t *run, int status) {
  run->has_ended = true;
  run->status = status;
}

bool top_run_ended(top_run_t *run, char *out, size_t size) {
  int status;
  if (!run->has_ended && waitpid(run->recorder, &status, WNOHANG) == run->recorder)
    note_end(run, status);
  if (!run->has_ended) return false;
  if (WIFSIGNALED(run->status))
    snprintf(out, size, "the program was ended by %s",
             report_signal_name((uint64_t)WTERMSIG(run->status)));
  else
    snprintf(out, size, "the program ended with status %d", WEXITSTATUS(run->status));
  return true;
}

uint64_t top_run_cpu_ns(const top_run_t *run) {
  clockid_t clock;
  struct timespec used;
  if (run->recorder <= 0 || run->has_ended || clock_getcpuclockid(run->recorder, &clock) != 0 ||
      clock_gettime(clock, &used) != 0)
    return 0;
  return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

void top_run_end(top_run_t *run) {
  char text[96];
  const struct timespec moment = {.tv_nsec = WAIT_MS * 1000000};
  if (!top_run_ended(run, text, sizeof text)) kill(run->recorder, SIGTERM);
  for (int ms = 0; ms < PATIENCE_MS && !top_run_ended(run, text, sizeof text); ms += WAIT_MS)
    nanosleep(&moment, NULL);
  print_output(run);
  if (!run->has_ended) message_note("process %d ignores SIGTERM and still runs", (int)run->program);
  clean_up(run);
}
