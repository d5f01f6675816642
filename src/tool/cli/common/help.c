/* SPDX-License-Identifier: MIT
 *
 * Prints the help of a verb, or of one of its parts, from the verb's tables.
 */
#include <ctype.h>
#include <string.h>

#include "base/wrap.h"
#include "cli/cli.h"
#include "cli/common/pager.h"

enum { LINE_COLUMNS = 80, HEAD_BYTES = 96, HEAD_COLUMNS = 28 };

static void (*taker)(const cli_usage_t *usage, void *context);
static void *taker_context;

void cli_take_usage(void (*take)(const cli_usage_t *usage, void *context), void *context) {
  taker = take;
  taker_context = context;
}

void cli_print_wrapped(const char *text, int indent) {
  wrap_print(stdout, text, (wrap_t){(size_t)indent, (size_t)indent, LINE_COLUMNS, WRAP_ALL_LINES});
}

/* "-c, --core FILE" or "    --sample[=HZ]" into OUT. The words of a value are left to the help. */
static void option_head(const cli_option_t *option, char *out, size_t size) {
  char letter[8] = "    ";
  const char *value = option->value;
  if (option->key < CLI_LONG_ONLY && isgraph(option->key))
    snprintf(letter, sizeof letter, "-%c, ", option->key);
  if (!value)
    snprintf(out, size, "%s--%s", letter, option->name);
  else if (value[0] == '[')
    snprintf(out, size, "%s--%s[=%.*s]", letter, option->name, (int)strcspn(value + 1, ":]"),
             value + 1);
  else
    snprintf(out, size, "%s--%s %.*s", letter, option->name, (int)strcspn(value, ":"), value);
}

static void print_option(const cli_option_t *option, int width) {
  char head[HEAD_BYTES];
  if (option->key == CLI_GROUP_KEY) {
    printf("\n%s:\n", option->name);
    return;
  }
  option_head(option, head, sizeof head);
  if ((int)strlen(head) > width)
    printf("  %s\n%*s", head, width + 4, "");
  else
    printf("  %-*s  ", width, head);
  cli_print_wrapped(option->help, width + 4);
}

const cli_part_t *cli_find_part(const cli_usage_t *usage, const char *word) {
  size_t size = strcspn(word, "=");
  for (const cli_part_t *part = usage->parts; part && part->name; part++)
    if (strncmp(part->name, word, size) == 0 && !part->name[size]) return part;
  return NULL;
}

/* TEXT has no characters of several bytes but "…", which is as wide as one. */
static int columns_of(const char *text) {
  int columns = 0;
  for (; *text; text++)
    columns += ((unsigned char)*text & 0xc0) != 0x80;
  return columns;
}

static void print_parts(const cli_usage_t *usage) {
  int width = 0, bytes = (int)strlen(usage->parts_are) - 1;
  for (const cli_part_t *part = usage->parts; part->name; part++)
    if (columns_of(part->form) > width) width = columns_of(part->form);
  printf("\n%s:\n", usage->parts_are);
  for (const cli_part_t *part = usage->parts; part->name; part++) {
    printf("  %s%*s  ", part->form, width - columns_of(part->form), "");
    cli_print_wrapped(part->summary, width + 4);
  }
  printf("'sonde help %s ", usage->verb);
  for (int i = 0; i < bytes; i++)
    putchar(toupper((unsigned char)usage->parts_are[i]));
  printf("' shows more about one of them.\n");
}

static bool is_listed(const char *names, const char *name) {
  size_t size = strlen(name);
  for (const char *at = names; at && (at = strstr(at, name)); at += size)
    if ((at == names || at[-1] == ' ') && (at[size] == ' ' || !at[size])) return true;
  return false;
}

static int head_width(const cli_option_t *options) {
  int width = (int)strlen("-h, --help");
  for (const cli_option_t *o = options; o && o->key; o++) {
    char head[HEAD_BYTES];
    if (o->key == CLI_GROUP_KEY) continue;
    option_head(o, head, sizeof head);
    int needed = (int)strlen(head);
    if (needed > width && needed <= HEAD_COLUMNS) width = needed;
  }
  return width;
}

static void print_synopsis(const char *verb, const char *options, const char *before,
                           const char *arguments) {
  char synopsis[192];
  snprintf(synopsis, sizeof synopsis, "sonde %s%s%s%s%s%s", verb, options, before ? " " : "",
           before ? before : "", arguments ? " " : "", arguments ? arguments : "");
  printf("usage: ");
  cli_print_wrapped(synopsis, 7);
  putchar('\n');
}

static void print_examples(const cli_example_t *examples, int most) {
  if (examples[0].command) printf("\nexamples:\n");
  for (int i = 0; i < most && examples[i].command; i++)
    printf("  %s\n      %s\n", examples[i].command, examples[i].does);
}

static void print_part_help(const cli_usage_t *usage, const cli_part_t *part) {
  int width = 0, others = 0;
  print_synopsis(usage->verb, usage->options ? " [options]" : "", usage->before_part, part->form);
  cli_print_wrapped(part->about, 0);
  for (const cli_option_t *o = usage->options; o && o->key; o++) {
    char head[HEAD_BYTES];
    if (o->key == CLI_GROUP_KEY || !is_listed(part->options, o->name)) continue;
    option_head(o, head, sizeof head);
    if ((int)strlen(head) > width) width = (int)strlen(head);
  }
  if (width) printf("\noptions:\n");
  for (const cli_option_t *o = usage->options; o && o->key; o++)
    if (o->key != CLI_GROUP_KEY && is_listed(part->options, o->name))
      print_option(o, width);
    else
      others += o->key != CLI_GROUP_KEY;
  if (others) printf("\n'sonde help %s' lists all options.\n", usage->verb);
  print_examples(part->examples, CLI_MAX_PART_EXAMPLES);
}

static void print_verb_help(const cli_usage_t *usage) {
  static const cli_option_t help = {'h', "help", NULL, "print this help"};
  const cli_option_t *option = usage->options;
  print_synopsis(usage->verb, " [options]", NULL, usage->arguments);
  cli_print_wrapped(usage->about, 0);
  if (usage->parts) print_parts(usage);
  if (!option || option->key != CLI_GROUP_KEY) printf("\noptions:\n");
  int width = head_width(option);
  for (; option && option->key; option++)
    print_option(option, width);
  print_option(&help, width);
  print_examples(usage->examples, CLI_MAX_EXAMPLES);
}

void cli_print_help(const cli_usage_t *usage, const cli_part_t *part) {
  if (taker) {
    taker(usage, taker_context);
    return;
  }
  pager_start();
  if (part)
    print_part_help(usage, part);
  else
    print_verb_help(usage);
}
