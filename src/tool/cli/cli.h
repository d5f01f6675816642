/* SPDX-License-Identifier: MIT
 *
 * What a verb of the command is, and what all verbs share: options with their help, one-line
 * failures, colour and progress.
 *
 * A verb is one file, cli/NAME.c, with one function `int verb_NAME(int argc, char **argv)`, and one
 * line in cli/verbs.h. argv[0] is the verb's name. It returns the exit status: CLI_DONE,
 * CLI_FINDING or CLI_FAILED. A minimal one:
 *
 *   static const cli_option_t options[] = {
 *     {'c', "core", "FILE", "read a core dump instead of a live process"},
 *     {KEY_DEPTH, "depth", "N", "show at most N frames a thread"},
 *     {0}};
 *   static const cli_usage_t usage = {
 *     .verb = "stacks", .arguments = "PID", .about = "Shows every thread's stack now.",
 *     .options = options,
 *     .examples = {{"sonde stacks 1234", "every thread of process 1234"}}};
 *
 *   int verb_stacks(int argc, char **argv) {
 *     cli_parser_t parser = cli_parser(&usage, argc, argv);
 *     int key;
 *     while ((key = cli_next(&parser)) > 0)
 *       switch (key) {
 *       case 'c': core = parser.value; break;
 *       case KEY_DEPTH:
 *         if (!parse_number(parser.value, 1, 4096, &depth))
 *           return cli_wrong_use(&usage, "--depth takes a number from 1 to 4096");
 *         break;
 *       }
 *     if (key < 0)
 *       return parser.status;             // --help was asked for and shown, or one line was said
 *     char **rest = parser.rest;          // NULL-terminated; parser.rest_count of them
 *     …
 *   }
 *
 * Data goes to stdout, everything else to stderr. Only one thread uses these functions.
 */
#ifndef SONDE_CLI_CLI_H
#define SONDE_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/message.h"
#include "base/parse.h"
#include "base/terminal.h"

/* ---- exit statuses ------------------------------------------------------------------------- */

enum {
  CLI_DONE = 0,
  CLI_FINDING = 1, /* a gate failed, a difference was found */
  CLI_FAILED = 2,  /* wrong use, or it could not be done; one line on stderr said why */
};

/* ---- options ------------------------------------------------------------------------------- */

/* One option. A KEY that is a printable character is also the short option; long-only options take
 * keys from CLI_LONG_ONLY up. VALUE is NULL for a switch, "FILE" for an option that must have a
 * value, "[HZ]" for one that may (--sample or --sample=50). A table ends with {0}. */
typedef struct cli_option {
  int key;
  const char *name;
  const char *value;
  const char *help;
} cli_option_t;

enum { CLI_LONG_ONLY = 256, CLI_MAX_OPTIONS = 48, CLI_MAX_EXAMPLES = 8 };

typedef struct cli_example {
  const char *command;
  const char *does;
} cli_example_t;

/* Everything that `sonde help VERB` shows; --help is added to every verb's options. */
typedef struct cli_usage {
  const char *verb;
  const char *arguments;       /* "PID", "[--] COMMAND…", "FILE [SECTION]"; NULL for none */
  const char *about;           /* full sentences, lines broken at 80 columns */
  const cli_option_t *options; /* NULL for none */
  cli_example_t examples[CLI_MAX_EXAMPLES];
} cli_usage_t;

typedef struct cli_parser {
  const char *value; /* out: value of the option just read, NULL when it has none */
  char **rest;       /* out, after the last option: the arguments that are no options */
  int rest_count;
  int status; /* out, after cli_next said -1: what the verb returns */
  const cli_usage_t *usage;
  int argc;
  char **argv;
  bool stop_at_command;
} cli_parser_t;

cli_parser_t cli_parser(const cli_usage_t *usage, int argc, char **argv);

/* As above, for verbs that run a command: reading options ends at the first argument that is none,
 * so that the command's own options are left to it. */
cli_parser_t cli_parser_for_command(const cli_usage_t *usage, int argc, char **argv);

/* The next option's key; 0 when there are no more, and REST is set; -1 when the verb is to return
 * STATUS at once, everything having been said. */
int cli_next(cli_parser_t *parser);

/* ---- one line, exit 2 ---------------------------------------------------------------------- */

/* Prints a message_fail line that points to the verb's help; returns CLI_FAILED. */
int cli_wrong_use(const cli_usage_t *usage, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Of COUNT words the one nearest to WORD (missing, added, changed or swapped letters; or the one
 * that it begins), NULL when none is near. */
const char *suggest_nearest(const char *word, const char *const *words, int count);

#endif
