/* SPDX-License-Identifier: MIT */
#include "cli/common/viewer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/common/browser.h"
#include "cli/linux/serve.h"
#include "recorder/preload_check.h"

/* In the private folder. */
#define PAGE_NAME "open.html"

static volatile int stop; /* a signal asked for the end */
static volatile pid_t child;

static void on_signal(int number) {
  stop = 1;
  if (child > 0)
    kill(child, number); /* of a terminal it has SIGINT already, which does not matter */
}

static void catch_signals(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaction(numbers[i], &action, NULL);
}

/* NULL: none is installed. */
static const char *program_of(const viewer_t *v) {
  char path[PATH_MAX];
  for (size_t i = 0; i < sizeof v->programs / sizeof *v->programs; i++)
    if (v->programs[i] && preload_find(v->programs[i], path, sizeof path)) return v->programs[i];
  return NULL;
}

/* The programs are made with Qt, which can do without a display (QT_QPA_PLATFORM=offscreen). */
static bool can_show(void) { return browser_has_display() || getenv("QT_QPA_PLATFORM"); }

static bool is_ready(const viewer_t *v) {
  if (v->origin || (program_of(v) && can_show())) return true;
  if (program_of(v)) {
    message_fail("%s needs a display, and there is none (DISPLAY); write the file with 'sonde "
                 "export --as %s'",
                 program_of(v), v->format);
    return false;
  }
  message_fail("%s is not installed; install the package %s, or write the file with 'sonde export "
               "--as %s'",
               v->programs[0], v->package, v->format);
  return false;
}

/* ---- programs ------------------------------------------------------------------------------ */

static int run_program(const char *program, const char *path) {
  char *const arguments[] = {(char *)program, (char *)path, NULL};
  int status;
  if (stop) return CLI_DONE;
  fflush(stdout);
  child = fork();
  if (child < 0) return message_fail("%s cannot be started: %s", program, strerror(errno));
  if (child == 0) {
    execvp(program, arguments);
    _exit(127);
  }
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return message_fail("%s is lost: %s", program, strerror(errno));
  child = 0;
  if (stop || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return CLI_DONE;
  if (WIFSIGNALED(status))
    return message_fail("%s was ended by signal %d", program, WTERMSIG(status));
  return message_fail("%s ended with status %d", program, WEXITSTATUS(status));
}

/* ---- pages --------------------------------------------------------------------------------- */

/* As encodeURIComponent does for the characters of a URL. */
static void escape(const char *url, char *out) {
  for (; *url; url++)
    if (strchr(":/", *url))
      out += sprintf(out, "%%%02X", *url);
    else
      *out++ = *url;
  *out = 0;
}

/* Other users can see the arguments of a browser. So it gets a private file that leads to URL. */
static bool open_privately(const char *url, const char *folder) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof path, "%s/" PAGE_NAME, folder);
  FILE *file = n < (int)sizeof path ? fopen(path, "w") : NULL;
  if (!file) return false;
  fprintf(file,
          "<!doctype html><title>sonde</title>"
          "<meta http-equiv=\"refresh\" content=\"0;url=%s\"><a href=\"%s\">%s</a>\n",
          url, url, url);
  return fclose(file) == 0 && browser_open(path);
}

static int show_page(const viewer_t *v, const char *path, const char *folder) {
  char url[1024], escaped[512];
  serve_t serve = {.origin = v->origin,
                   .name = "profile.json",
                   .is_gzip = v->is_gzip,
                   .file = open(path, O_RDONLY | O_CLOEXEC)};
  if (serve.file < 0) return message_fail("'%s' cannot be read: %s", path, strerror(errno));
  if (!serve_start(&serve)) {
    close(serve.file);
    return message_fail("no server can be started on 127.0.0.1: %s", strerror(errno));
  }
  escape(serve.url, escaped);
  snprintf(url, sizeof url, "%s%s%s", v->origin, v->before_escaped, escaped);
  printf("%s\n", url);
  fflush(stdout);
  if (!open_privately(url, folder))
    message_note("no browser can be opened here; open the address above in one on this machine");
  message_note("the file is served on %s until Ctrl-C, or an hour after the last request",
               serve.host);
  serve_run(&serve, &stop);
  close(serve.file);
  return CLI_DONE;
}

/* ---- files --------------------------------------------------------------------------------- */

/* FOLDER is private and empty; the caller removes it. */
static int show_from(const viewer_t *v, const char *output, viewer_write_fn *write, void *context,
                     const char *folder) {
  char path[PATH_MAX];
  const char *program = program_of(v);
  if (output)
    snprintf(path, sizeof path, "%s", output);
  else
    snprintf(path, sizeof path, "%s/run%s", folder, v->suffix);
  int status = write(context, path);
  if (status == CLI_DONE)
    status = program ? run_program(program, path) : show_page(v, path, folder);
  if (!output) unlink(path);
  return status;
}

int viewer_show(const viewer_t *v, const char *output, viewer_write_fn *write, void *context) {
  char folder[PATH_MAX - 64], page[PATH_MAX];
  const char *above = getenv("TMPDIR");
  if (!is_ready(v)) return CLI_FAILED;
  snprintf(folder, sizeof folder, "%s/sonde-XXXXXX", above && *above ? above : "/tmp");
  if (!mkdtemp(folder)) return message_fail("'%s' cannot be made: %s", folder, strerror(errno));
  catch_signals();
  int status = show_from(v, output, write, context, folder);
  snprintf(page, sizeof page, "%s/" PAGE_NAME, folder);
  unlink(page);
  rmdir(folder);
  return status;
}
