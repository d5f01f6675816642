/* SPDX-License-Identifier: MIT
 *
 * sonde audit: policies, apart from the recordings made under them.
 *
 *   check POLICY      is it understood, and what does it ask for?
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/policy.h"
#include "cli/cli.h"
#include "cli/policy_file.h"
#include "cli/verbs.h"

static const cli_usage_t usage = {
    .verb = "audit",
    .arguments = "check [POLICY]",
    .about = "Checks an audit policy, a YAML file as docs/policy.md describes it, or one of those\n"
             "that ship inside: linux, apple. Says what it asks for, or in which line it is wrong\n"
             "and what to do (exit 2).",
    .examples = {{"sonde audit check", "what is audited when no policy is named"},
                 {"sonde audit check privacy.yaml", "is it understood?"}}};

static const char *argument_word(uint8_t kind) {
  static const char *const words[] = {
#define ARGUMENT_WORD(name, value, text) text,
      AUDIT_ARGUMENT_TABLE(ARGUMENT_WORD)
#undef ARGUMENT_WORD
  };
  return words[kind];
}

static void print_function(const policy_function_t *f) {
  int last = AUDIT_ARGUMENTS;
  while (last && f->arguments[last - 1] == AUDIT_SKIP)
    last--;
  printf("    %s%s%s(", f->library, *f->library ? ":" : "", f->name);
  for (int i = 0; i < last; i++)
    printf("%s%s", i ? ", " : "", argument_word(f->arguments[i]));
  printf(")\n");
}

static void print_texts(const char *what, const texts_t *texts) {
  if (texts->count) printf("    %s", what);
  for (size_t i = 0; i < texts->count; i++)
    printf(" %s", texts->items[i]);
  if (texts->count) printf("\n");
}

static void print_category(const policy_t *p, const policy_category_t *c) {
  printf("%s%s%s  %s, %s%s\n", cli_style(stdout, CLI_BOLD), c->id, cli_style(stdout, CLI_PLAIN),
         policy_level_word(c->level), c->title, c->enabled ? "" : " (switched off)");
  for (size_t i = 0; i < c->function_count; i++)
    print_function(&p->functions[c->functions[i]]);
  for (size_t i = 0; i < c->methods.count; i++)
    printf("    %s\n", c->methods.items[i]);
  print_texts("only", &c->match);
  print_texts("but not", &c->except);
}

static int check(const char *name) {
  policy_t *policy = policy_file_read(name, time(NULL), NULL);
  if (!policy) return CLI_FAILED;
  for (size_t i = 0; i < policy->category_count; i++) {
    print_category(policy, &policy->categories[i]);
  }
  printf("\n%zu categories, %zu functions, %zu allowances, %zu limits, %zu phases: understood\n",
         policy->category_count, policy->function_count, policy->allowance_count,
         policy->limit_count, policy->phase_count);
  policy_free(policy);
  return CLI_DONE;
}

int verb_audit(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  int key;
  while ((key = cli_next(&parser)) > 0) {
  }
  if (key < 0) return parser.status;
  if (parser.rest_count < 1 || strcmp(parser.rest[0], "check"))
    return cli_wrong_use(&usage, "say what to do: check");
  if (parser.rest_count > 2) return cli_wrong_use(&usage, "check takes one policy");
  return check(parser.rest_count == 2 ? parser.rest[1] : "linux");
}
