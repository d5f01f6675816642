/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "cli/linux/record_push.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/message.h"
#include "base/parse.h"

extern char **environ;

/* What is not pushed in this time after the end can be pushed later. */
#define RETRY "10s"
#define EVERY "60s"

/* sonde push FILE --to URL --every … --retry … --timeout …, and two words for each label */
enum { WORDS_MAX = 12 + 2 * RECORD_PUSH_LABELS_MAX };

static record_push_t *current;

/* ---- the process -------------------------------------------------------------------------- */

static void set_words(const record_push_t *p, const char *path, const char *words[WORDS_MAX + 1]) {
  const char *const fixed[] = {"sonde",  "push",    "--to", p->url,      "--every",
                               p->every, "--retry", RETRY,  "--timeout", RETRY};
  size_t count = sizeof fixed / sizeof *fixed;
  memcpy(words, fixed, sizeof fixed);
  for (int i = 0; i < p->label_count; i++) {
    words[count++] = "--label";
    words[count++] = p->labels[i];
  }
  words[count++] = "--";
  words[count++] = path;
  words[count] = NULL;
}

/* Its own process group: Ctrl-C is for the program. SIGTERM, which asks for the last push, waits
 * until the sender takes it; its other signals are those of a new command. What it prints goes to
 * stderr, because stdout is the program's. */
static int spawn(record_push_t *p, const char *path) {
  const char *words[WORDS_MAX + 1];
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t blocked, all;
  set_words(p, path, words);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigfillset(&all);
  int error = posix_spawn_file_actions_init(&files);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) error = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  if (!error) {
    (void)posix_spawnattr_setsigmask(&attributes, &blocked);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    error = posix_spawn(&p->sender, "/proc/self/exe", &files, &attributes,
                        (char *const *)(uintptr_t)words, environ);
    (void)posix_spawnattr_destroy(&attributes);
  }
  (void)posix_spawn_file_actions_destroy(&files);
  return error;
}

static void start(void *context, const char *path) {
  record_push_t *p = context;
  int error = spawn(p, path);
  if (!error) return;
  p->sender = 0;
  message_note("cannot start 'sonde push': %s; push the recording later", strerror(error));
}

/* ---- the end ------------------------------------------------------------------------------ */

/* The user does not want to wait for the last push. */
static void abandon(int number) {
  kill(current->sender, SIGKILL);
  (void)signal(number, SIG_DFL);
  (void)raise(number);
}

/* The recorder ignores and forwards signals; the user can interrupt this. */
static void finish(void *context, const char *path) {
  (void)path;
  record_push_t *p = current = context;
  if (!p->sender) return;
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  (void)signal(SIGINT, abandon);
  (void)signal(SIGTERM, abandon);
  (void)kill(p->sender, SIGTERM);
  sigprocmask(SIG_UNBLOCK, &both, NULL);
  while (waitpid(p->sender, NULL, 0) < 0 && errno == EINTR) {
  }
}

/* ---- options ------------------------------------------------------------------------------ */

const char *record_push_prepare(record_push_t *p, recorder_options_t *options) {
  double every_ns = 0;
  if (!p->url)
    return p->every || p->label_count ? "--push-every and --push-label need --push" : NULL;
  if (!p->every) p->every = EVERY;
  if (!parse_duration(p->every, &every_ns) || every_ns < 1e9)
    return "--push-every takes a duration such as 60s, from 1s";
  const char *wrong = record_push_check(p);
  if (wrong) return wrong;
  options->created = start;
  options->ended = finish;
  options->created_context = options->ended_context = p;
  return NULL;
}
