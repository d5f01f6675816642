/* SPDX-License-Identifier: MIT
 *
 * The table of the verbs, and the help about them.
 */
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#include <sys/resource.h>
#endif

#include "base/room.h"
#include "cli/cli.h"
#include "cli/common/check_output.h"
#include "cli/common/help_json.h"

typedef enum group {
#define GROUP_NAME(group, title) GROUP_##group,
  CLI_GROUP_TABLE(GROUP_NAME)
#undef GROUP_NAME
} group_t;

static const char *const titles[] = {
#define GROUP_TITLE(group, title) title,
    CLI_GROUP_TABLE(GROUP_TITLE)
#undef GROUP_TITLE
};

typedef struct verb {
  const char *name;
  group_t group;
  const char *summary;
  int (*run)(int argc, char **argv);
} verb_t;

static const verb_t verbs[] = {
#define VERB_ENTRY(name, group, summary) {#name, GROUP_##group, summary, verb_##name},
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
  const char *bold = terminal_style(out, TERMINAL_BOLD),
             *plain = terminal_style(out, TERMINAL_PLAIN);
  fprintf(out, "sonde records who calls what in running programs, and reports it.\n"
               "usage: sonde VERB [options] [--] [arguments]\n");
  for (int i = 0; i < VERB_COUNT; i++) {
    if (!i || verbs[i].group != verbs[i - 1].group)
      fprintf(out, "\n%s%s%s\n", bold, titles[verbs[i].group], plain);
    fprintf(out, "  %s%-10s%s %s\n", bold, verbs[i].name, plain, verbs[i].summary);
  }
  fprintf(out,
          "\nBegin with 'sonde record -- COMMAND'. 'sonde help VERB' shows options, examples.\n"
          "Exit status: 0 success, 1 a failed check, 2 an error; 'record': the command's.\n");
}

/* Adds what the verb's own --help would print. */
static void add_usage(const cli_usage_t *usage, void *verb) { help_json_add(verb, usage); }

static void keep_usage(const cli_usage_t *usage, void *kept) {
  *(const cli_usage_t **)kept = usage;
}

static int ask_for_help(const verb_t *verb) {
  char name[16], help[] = "--help";
  char *argv[] = {name, help, NULL};
  snprintf(name, sizeof name, "%s", verb->name);
  message_set_verb(verb->name);
  return verb->run(2, argv);
}

static int print_part_help(const verb_t *verb, const char *word) {
  const cli_usage_t *usage = NULL;
  const char *names[CLI_MAX_OPTIONS];
  int count = 0;
  cli_take_usage(keep_usage, &usage);
  int status = ask_for_help(verb);
  cli_take_usage(NULL, NULL);
  if (!usage) return status;
  if (!usage->parts) return message_fail("no help of '%s'; see 'sonde help %s'", word, verb->name);
  const cli_part_t *part = cli_find_part(usage, word);
  if (part) {
    cli_print_help(usage, part);
    return CLI_DONE;
  }
  for (part = usage->parts; part->name && count < CLI_MAX_OPTIONS; part++)
    names[count++] = part->name;
  const char *nearest = suggest_nearest(word, names, count);
  if (nearest) return message_fail("no '%s'; did you mean '%s'?", word, nearest);
  return message_fail("no '%s'; 'sonde help %s' lists the %s", word, verb->name, usage->parts_are);
}

static int print_help_json(void) {
  json_object *o = json_new_object(), *list = json_new_array();
  int status = CLI_DONE;
  json_add_text(o, "version", SONDE_VERSION);
  for (int i = 0; i < VERB_COUNT && status == CLI_DONE; i++) {
    json_object *verb = json_new_object();
    json_add_text(verb, "name", verbs[i].name);
    json_add_text(verb, "group", titles[verbs[i].group]);
    json_add_text(verb, "summary", verbs[i].summary);
    cli_take_usage(add_usage, verb);
    status = ask_for_help(&verbs[i]);
    json_append(list, verb);
  }
  cli_take_usage(NULL, NULL);
  json_add(o, "verbs", list);
  if (status == CLI_DONE) printf("%s\n", json_print(o, JSON_STYLE));
  json_object_put(o);
  return status;
}

int verb_help(int argc, char **argv) {
  enum { KEY_JSON = CLI_LONG_ONLY };
  static const cli_option_t options[] = {
      {KEY_JSON, "json", NULL, "print all verbs with their options as JSON (docs/json.md)"}, {0}};
  static const cli_usage_t usage = {
      .verb = "help",
      .arguments = "[VERB [WORD]]",
      .about = "Lists the verbs, or prints the options and examples of VERB. WORD is a command, a "
               "section or a question of VERB.",
      .options = options,
      .examples = {{"sonde help record", "print the options of record"},
                   {"sonde help audit check", "print the help of 'sonde audit check'"},
                   {"sonde help report stalls", "tell what this section of a report shows"}}};
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  bool json = false;
  int key;
  while ((key = cli_next(&parser)) > 0)
    json |= key == KEY_JSON;
  if (key < 0) return parser.status;
  if (json) return print_help_json();
  if (parser.rest_count > 2)
    return message_fail("takes a verb and a word; 'sonde --help' lists the verbs");
  if (!parser.rest_count) {
    list_verbs(stdout);
    return CLI_DONE;
  }
  const verb_t *verb = find_verb(parser.rest[0]);
  if (!verb) return unknown_verb(parser.rest[0]);
  return parser.rest[1] ? print_part_help(verb, parser.rest[1]) : ask_for_help(verb);
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
  room_need_stack();
  return verb->run(argc - 1, argv + 1);
}

/* glibc reserves 64 MB of address space for the allocations of each thread. With ulimit -v, no
 * space may be left for the others. */
static void share_arena(void) {
#if defined(__GLIBC__)
  struct rlimit space;
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    (void)mallopt(M_ARENA_MAX, 1);
#endif
}

int verbs_run(int argc, char **argv) {
  share_arena();
  return check_output(run(argc, argv));
}
