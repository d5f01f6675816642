/* SPDX-License-Identifier: MIT
 *
 * Options of a verb, read with getopt_long; --help is made from the same table. Wrong use is one
 * line and exit 2.
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

/* ---- help ---------------------------------------------------------------------------------- */

static int option_count(const cli_usage_t *usage) {
  int count = 0;
  while (usage->options && usage->options[count].key)
    count++;
  return count;
}

static bool is_short(int key) { return key < CLI_LONG_ONLY && isgraph(key); }

static bool value_is_optional(const cli_option_t *option) {
  return option->value && option->value[0] == '[';
}

/* "-c, --core FILE" or "    --sample[=HZ]" into OUT. */
static void option_head(const cli_option_t *option, char *out, size_t size) {
  char letter[8] = "    ";
  if (is_short(option->key)) snprintf(letter, sizeof letter, "-%c, ", option->key);
  if (!option->value)
    snprintf(out, size, "%s--%s", letter, option->name);
  else if (value_is_optional(option))
    snprintf(out, size, "%s--%s[=%s", letter, option->name, option->value + 1);
  else
    snprintf(out, size, "%s--%s %s", letter, option->name, option->value);
}

static void print_option(const cli_option_t *option, int width) {
  char head[96];
  option_head(option, head, sizeof head);
  printf("  %-*s  ", width, head);
  /* A line break in the text continues under the text. */
  for (const char *c = option->help; *c; c++) {
    putchar(*c);
    if (*c == '\n') printf("%*s", width + 4, "");
  }
  putchar('\n');
}

static void print_help(const cli_usage_t *usage) {
  static const cli_option_t help = {KEY_HELP, "help", NULL, "this text"};
  printf("usage: sonde %s [options]%s%s\n\n%s\n\noptions:\n", usage->verb,
         usage->arguments ? " " : "", usage->arguments ? usage->arguments : "", usage->about);
  int count = option_count(usage), width = (int)strlen("-h, --help");
  for (int i = 0; i < count; i++) {
    char head[96];
    option_head(&usage->options[i], head, sizeof head);
    if ((int)strlen(head) > width) width = (int)strlen(head);
  }
  for (int i = 0; i < count; i++)
    print_option(&usage->options[i], width);
  print_option(&help, width);
  if (usage->examples[0].command) printf("\nexamples:\n");
  for (int i = 0; i < CLI_MAX_EXAMPLES && usage->examples[i].command; i++)
    printf("  %s\n      %s\n", usage->examples[i].command, usage->examples[i].does);
}

/* ---- reading ------------------------------------------------------------------------------- */

static cli_parser_t start_parser(const cli_usage_t *usage, int argc, char **argv, bool stop) {
  optind = 0; /* glibc and musl: forget the verb before */
  opterr = 0;
  return (cli_parser_t){.usage = usage, .argc = argc, .argv = argv, .stop_at_command = stop};
}

cli_parser_t cli_parser(const cli_usage_t *usage, int argc, char **argv) {
  return start_parser(usage, argc, argv, false);
}

cli_parser_t cli_parser_for_command(const cli_usage_t *usage, int argc, char **argv) {
  return start_parser(usage, argc, argv, true);
}

/* The two tables that getopt_long wants. LETTERS has room for three characters an option. */
static void fill_tables(const cli_parser_t *parser, struct option *longs, char *letters) {
  if (parser->stop_at_command) *letters++ = '+';
  *letters++ = ':'; /* a missing value is told apart from an unknown option */
  int count = option_count(parser->usage);
  for (int i = 0; i < count; i++) {
    const cli_option_t *option = &parser->usage->options[i];
    int has = !option->value              ? no_argument
              : value_is_optional(option) ? optional_argument
                                          : required_argument;
    longs[i] = (struct option){option->name, has, NULL, option->key};
    if (!is_short(option->key)) continue;
    *letters++ = (char)option->key;
    if (has != no_argument) *letters++ = ':';
    if (has == optional_argument) *letters++ = ':';
  }
  longs[count] = (struct option){"help", no_argument, NULL, KEY_HELP};
  longs[count + 1] = (struct option){0};
  *letters++ = KEY_HELP;
  *letters = 0;
}

/* The word on the command line that getopt_long did not accept, for the message. */
static int refuse(cli_parser_t *parser, int verdict) {
  const cli_usage_t *usage = parser->usage;
  const char *word = optind > 0 && optind <= parser->argc ? parser->argv[optind - 1] : "";
  if (verdict == ':') {
    parser->status = cli_wrong_use(usage, "option '%s' needs a value", word);
    return -1;
  }
  if (word[0] == '-' && word[1] == '-') {
    const char *names[CLI_MAX_OPTIONS];
    int count = option_count(usage);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (int i = 0; i < count; i++) {
      names[i] = usage->options[i].name;
      if (strcmp(name, names[i]) == 0) {
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

int cli_next(cli_parser_t *parser) {
  struct option longs[CLI_MAX_OPTIONS + 2];
  char letters[3 * CLI_MAX_OPTIONS + 8];
  fill_tables(parser, longs, letters);
  int key = getopt_long(parser->argc, parser->argv, letters, longs, NULL);
  parser->value = optarg;
  if (key == KEY_HELP) {
    print_help(parser->usage);
    parser->status = CLI_DONE;
    return -1;
  }
  if (key == '?' || key == ':') return refuse(parser, key);
  if (key == -1) {
    parser->rest = parser->argv + optind;
    parser->rest_count = parser->argc - optind;
    return 0;
  }
  return key;
}
