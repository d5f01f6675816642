/* SPDX-License-Identifier: MIT
 *
 * Finds the verb, runs it, and checks that its output was written.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/verbs.h"

typedef struct verb {
  const char *name;
  const char *summary;
  int (*run)(int argc, char **argv);
} verb_t;

static const verb_t verbs[] = {
#define VERB_ENTRY(name, summary) {#name, summary, verb_##name},
    CLI_VERB_TABLE(VERB_ENTRY)
#undef VERB_ENTRY
};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static const verb_t *find_verb(const char *name) {
  for (int i = 0; i < VERB_COUNT; i++)
    if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
  return NULL;
}

static int unknown_verb(const char *name) {
  const char *names[VERB_COUNT];
  for (int i = 0; i < VERB_COUNT; i++)
    names[i] = verbs[i].name;
  const char *nearest = suggest_nearest(name, names, VERB_COUNT);
  if (nearest) return message_fail("no verb '%s'; did you mean 'sonde %s'?", name, nearest);
  return message_fail("no verb '%s'; 'sonde --help' lists them", name);
}

static void list_verbs(FILE *out) {
  fprintf(out, "sonde records who calls what in running programs, and reports it.\n\n"
               "usage: sonde VERB [options] [--] [arguments]\n\nverbs:\n");
  for (int i = 0; i < VERB_COUNT; i++)
    fprintf(out, "  %s%-10s%s %s\n", terminal_style(out, TERMINAL_BOLD), verbs[i].name,
            terminal_style(out, TERMINAL_PLAIN), verbs[i].summary);
  fprintf(out, "\nRun 'sonde help VERB' for options and examples.\n"
               "Exit status: 0 success, 1 a check failed, 2 wrong use or failure.\n");
}

int verb_help(int argc, char **argv) {
  if (argc > 2) return message_fail("takes one verb; 'sonde --help' lists the verbs");
  if (argc < 2 || argv[1][0] == '-') {
    list_verbs(stdout);
    return CLI_DONE;
  }
  const verb_t *verb = find_verb(argv[1]);
  if (!verb) return unknown_verb(argv[1]);
  if (verb->run == verb_help) {
    list_verbs(stdout);
    return CLI_DONE;
  }
  char help[] = "--help";
  char *verb_argv[] = {argv[1], help, NULL};
  message_set_verb(verb->name);
  return verb->run(2, verb_argv);
}

static int run(int argc, char **argv) {
  if (argc < 2) {
    list_verbs(stderr);
    return CLI_FAILED;
  }
  const char *first = argv[1];
  if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
    list_verbs(stdout);
    return CLI_DONE;
  }
  if (strcmp(first, "--version") == 0) {
    printf("sonde %s\n", SONDE_VERSION);
    return CLI_DONE;
  }
  if (first[0] == '-')
    return message_fail("no option '%s' before the verb; 'sonde --help' shows the usage", first);
  const verb_t *verb = find_verb(first);
  if (!verb) return unknown_verb(first);
  message_set_verb(verb->name);
  return verb->run(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
  int status = run(argc, argv);
  /* A full disk or a closed stdout is detected here at the latest: truncated output must not look
   * complete. */
  errno = 0;
  bool failed = ferror(stdout) != 0;
  if (fclose(stdout) != 0 || failed)
    return message_fail("cannot write the output: %s", strerror(errno ? errno : EIO));
  return status;
}
