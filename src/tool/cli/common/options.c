/* SPDX-License-Identifier: MIT
 *
 * Parses options with getopt_long, from the verb's table; suggests similar names.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { KEY_HELP = 'h' };

int cli_wrong_use(const cli_usage_t *usage, const char *format, ...) {
  char tail[64];
  snprintf(tail, sizeof tail, "; see 'sonde help %s'", usage->verb);
  va_list arguments;
  va_start(arguments, format);
  message_print(format, arguments, tail);
  va_end(arguments);
  return CLI_FAILED;
}

/* ---- similar words ------------------------------------------------------------------------- */

enum { WORD_MAX = 32 };

static int min_of(int a, int b) { return a < b ? a : b; }

/* Letters to add, remove, change or swap (optimal string alignment). */
static int distance(const char *a, const char *b) {
  int a_length = (int)strlen(a), b_length = (int)strlen(b);
  int cost[WORD_MAX + 1][WORD_MAX + 1];
  if (a_length > WORD_MAX || b_length > WORD_MAX) return WORD_MAX;
  for (int i = 0; i <= a_length; i++)
    for (int j = 0; j <= b_length; j++) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      int changed = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = min_of(changed, 1 + min_of(cost[i - 1][j], cost[i][j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = min_of(cost[i][j], 1 + cost[i - 2][j - 2]);
    }
  return cost[a_length][b_length];
}

const char *suggest_nearest(const char *word, const char *const *words, int count) {
  size_t length = strlen(word);
  const char *best = NULL;
  /* At most a third of the letters may differ. */
  int best_distance = (int)(length < 4 ? 1 : length / 3) + 1;
  for (int i = 0; i < count; i++) {
    int d = length >= 2 && strncmp(word, words[i], length) == 0 ? 0 : distance(word, words[i]);
    if (d < best_distance) {
      best_distance = d;
      best = words[i];
    }
  }
  return best;
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool is_short(int key) { return key < CLI_LONG_ONLY && isgraph(key); }

static bool value_is_optional(const cli_option_t *option) {
  return option->value && option->value[0] == '[';
}

static cli_parser_t start_parser(const cli_usage_t *usage, int argc, char **argv, bool stop) {
  optind = 0; /* glibc and musl: reset */
  opterr = 0;
  return (cli_parser_t){.usage = usage, .argc = argc, .argv = argv, .stop_at_command = stop};
}

cli_parser_t cli_parser(const cli_usage_t *usage, int argc, char **argv) {
  return start_parser(usage, argc, argv, false);
}

cli_parser_t cli_parser_for_command(const cli_usage_t *usage, int argc, char **argv) {
  return start_parser(usage, argc, argv, true);
}

/* The two tables for getopt_long. LETTERS has space for three characters an option. */
static void fill_tables(const cli_parser_t *parser, struct option *longs, char *letters) {
  if (parser->stop_at_command) *letters++ = '+';
  *letters++ = ':'; /* report a missing value as ':' */
  const cli_option_t *option = parser->usage->options;
  for (; option && option->key; option++) {
    if (option->key == CLI_GROUP_KEY) continue;
    int has = !option->value              ? no_argument
              : value_is_optional(option) ? optional_argument
                                          : required_argument;
    *longs++ = (struct option){option->name, has, NULL, option->key};
    if (!is_short(option->key)) continue;
    *letters++ = (char)option->key;
    if (has != no_argument) *letters++ = ':';
    if (has == optional_argument) *letters++ = ':';
  }
  *longs++ = (struct option){"help", no_argument, NULL, KEY_HELP};
  *longs = (struct option){0};
  *letters++ = KEY_HELP;
  *letters = 0;
}

/* Prints an error for the argument that getopt_long rejected; returns -1. */
static int reject(cli_parser_t *parser, int key) {
  const cli_usage_t *usage = parser->usage;
  const char *word = optind > 0 && optind <= parser->argc ? parser->argv[optind - 1] : "";
  if (key == ':') {
    parser->status = cli_wrong_use(usage, "option '%s' needs a value", word);
    return -1;
  }
  if (word[0] == '-' && word[1] == '-') {
    const char *names[CLI_MAX_OPTIONS];
    int count = 0;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (const cli_option_t *o = usage->options; o && o->key; o++) {
      if (o->key == CLI_GROUP_KEY) continue;
      names[count++] = o->name;
      if (strcmp(name, o->name) == 0) {
        parser->status = cli_wrong_use(usage, "option '--%s' takes no value", name);
        return -1;
      }
    }
    const char *nearest = suggest_nearest(name, names, count);
    parser->status = nearest ? message_fail("no option '%s'; did you mean '--%s'?", word, nearest)
                             : cli_wrong_use(usage, "no option '%s'", word);
    return -1;
  }
  parser->status = cli_wrong_use(usage, "no option '-%c'", optopt);
  return -1;
}

/* The part of the verb that an argument names, or NULL. */
static const cli_part_t *part_of(const cli_parser_t *parser) {
  for (int i = 1; i < parser->argc; i++) {
    const cli_part_t *part = cli_find_part(parser->usage, parser->argv[i]);
    if (part) return part;
  }
  return NULL;
}

int cli_next(cli_parser_t *parser) {
  struct option longs[CLI_MAX_OPTIONS + 2];
  char letters[3 * CLI_MAX_OPTIONS + 8];
  fill_tables(parser, longs, letters);
  int key = getopt_long(parser->argc, parser->argv, letters, longs, NULL);
  parser->value = optarg;
  if (key == KEY_HELP) {
    cli_print_help(parser->usage, part_of(parser));
    parser->status = CLI_DONE;
    return -1;
  }
  if (key == '?' || key == ':') return reject(parser, key);
  if (key == -1) {
    parser->rest = parser->argv + optind;
    parser->rest_count = parser->argc - optind;
    return 0;
  }
  return key;
}
