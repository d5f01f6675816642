/* SPDX-License-Identifier: MIT
 *
 * What all verbs of the command share: options with their help, and one-line error messages.
 *
 * A verb is a file cli/NAME.c with the function `int verb_NAME(int argc, char **argv)`, and a line
 * in cli/verbs.h. argv[0] is the verb's name. The function returns the exit status: CLI_DONE,
 * CLI_FINDING or CLI_FAILED. A minimal verb:
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
 *       return parser.status;             // --help was printed, or an error
 *     char **rest = parser.rest;          // parser.rest_count arguments, then NULL
 *     …
 *   }
 *
 * Data goes to stdout, everything else to stderr. One thread uses these functions.
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
  CLI_FAILED = 2,  /* wrong use or failure; stderr has one line that says why */
};

/* ---- options ------------------------------------------------------------------------------- */

/* An option. A printable KEY is also the short option; keys of long options begin at CLI_LONG_ONLY.
 * VALUE is NULL for a switch, "FILE" for a required value, and "[HZ]" for an optional value
 * (--sample or --sample=50). A value that is one of several words lists them: "WHAT:peak|leaked".
 * CLI_GROUP is an entry that begins a group of options. A table ends with {0}.
 *
 * The tables are the source of `sonde help VERB`, of the man pages and of the completions
 * (cmake/manual.py reads `sonde help --json`). */
typedef struct cli_option {
  int key;
  const char *name;
  const char *value;
  const char *help;
} cli_option_t;

enum {
  CLI_LONG_ONLY = 256,
  CLI_GROUP_KEY = 1 << 30,
  CLI_MAX_OPTIONS = 48,
  CLI_MAX_EXAMPLES = 8,
  CLI_MAX_PART_EXAMPLES = 4,
};

#define CLI_GROUP(title)                                                                           \
  { CLI_GROUP_KEY, title, NULL, NULL }

typedef struct cli_example {
  const char *command;
  const char *does;
} cli_example_t;

/* A word that selects what the verb does: 'check' of `sonde audit check`. `sonde help VERB NAME`
 * and
 * --help after the word print its help. A table ends with {0}. */
typedef struct cli_part {
  const char *name;
  const char *form;    /* the name with its arguments: "malloc=MODE", "check [POLICY]" */
  const char *summary; /* for the list of parts: a phrase without a full stop */
  const char *about;   /* full sentences */
  const char *options; /* names of the verb's options for this part alone; NULL for none */
  cli_example_t examples[CLI_MAX_PART_EXAMPLES];
} cli_part_t;

/* What `sonde help VERB` prints. Every verb also has --help. */
typedef struct cli_usage {
  const char *verb;
  const char *arguments;       /* "PID", "[--] COMMAND…", "FILE [SECTION]"; NULL for none */
  const char *words;           /* that arguments can be, between spaces; NULL: the parts' names */
  const char *about;           /* full sentences, lines of at most 80 columns */
  const cli_option_t *options; /* NULL for none */
  const cli_part_t *parts;     /* NULL for none */
  const char *parts_are;       /* "commands", "sections" */
  const char *before_part;     /* the argument before a part: "PID"; NULL for none */
  cli_example_t examples[CLI_MAX_EXAMPLES];
} cli_usage_t;

typedef struct cli_parser {
  const char *value; /* out: the value of the current option, or NULL */
  char **rest;       /* out, after the last option: the other arguments */
  int rest_count;
  int status; /* out, after cli_next returned -1: the exit status of the verb */
  const cli_usage_t *usage;
  int argc;
  char **argv;
  bool stop_at_command;
} cli_parser_t;

cli_parser_t cli_parser(const cli_usage_t *usage, int argc, char **argv);

/* For verbs that run a command: options end at the first other argument, so the command keeps its
 * own options. */
cli_parser_t cli_parser_for_command(const cli_usage_t *usage, int argc, char **argv);

/* Returns the key of the next option; 0 after the last, when REST is set; -1 if the verb must
 * return STATUS, after help or an error was printed. */
int cli_next(cli_parser_t *parser);

/* ---- help ---------------------------------------------------------------------------------- */

/* Prints what `sonde help VERB` prints, or `sonde help VERB PART`. PART is NULL or one of USAGE's.
 */
void cli_print_help(const cli_usage_t *usage, const cli_part_t *part);

/* The part that WORD names, which may have a value: "malloc=live". NULL: none. */
const cli_part_t *cli_find_part(const cli_usage_t *usage, const char *word);

/* Until it is called with NULL, --help passes the verb's usage to TAKE and prints nothing. */
void cli_take_usage(void (*take)(const cli_usage_t *usage, void *context), void *context);

/* Prints TEXT with breaks between words at 80 columns. The first line begins in column INDENT,
 * where the others are indented to. */
void cli_print_wrapped(const char *text, int indent);

/* ---- wrong use ----------------------------------------------------------------------------- */

/* Prints an error that refers to the verb's help; returns CLI_FAILED. */
int cli_wrong_use(const cli_usage_t *usage, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The most similar of COUNT words: one that begins with WORD, or with few letters missing, added,
 * changed or swapped. NULL: none is similar. */
const char *suggest_nearest(const char *word, const char *const *words, int count);

#endif
