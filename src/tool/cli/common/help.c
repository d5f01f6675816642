/* SPDX-License-Identifier: MIT
 *
 * Prints the help of a verb from its table of options.
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

void cli_print_help(const cli_usage_t *usage) {
  static const cli_option_t help = {'h', "help", NULL, "print this help"};
  const cli_option_t *option = usage->options;
  if (taker) {
    taker(usage, taker_context);
    return;
  }
  char synopsis[160];
  pager_start();
  snprintf(synopsis, sizeof synopsis, "sonde %s [options]%s%s", usage->verb,
           usage->arguments ? " " : "", usage->arguments ? usage->arguments : "");
  printf("usage: ");
  cli_print_wrapped(synopsis, 7);
  putchar('\n');
  cli_print_wrapped(usage->about, 0);
  if (!option || option->key != CLI_GROUP_KEY) printf("\noptions:\n");
  int width = head_width(option);
  for (; option && option->key; option++)
    print_option(option, width);
  print_option(&help, width);
  if (usage->examples[0].command) printf("\nexamples:\n");
  for (int i = 0; i < CLI_MAX_EXAMPLES && usage->examples[i].command; i++)
    printf("  %s\n      %s\n", usage->examples[i].command, usage->examples[i].does);
}
