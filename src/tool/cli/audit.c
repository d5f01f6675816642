/* SPDX-License-Identifier: MIT
 *
 * sonde audit: audit policies and baselines.
 *
 *   check POLICY      prints what a policy audits, or the line with an error
 *   compile POLICY    writes its flat form, for a program that audits itself
 *   baseline FILE     prints the findings of a recording, to compare with later
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/audit/policy.h"
#include "base/output.h"
#include "cli/common/audit_recording.h"
#include "cli/common/naming.h"
#include "cli/cli.h"
#include "cli/common/policy_file.h"
#include "cli/verbs.h"
#include "report/json.h"

static const cli_option_t options[] = {{'o', "output", "FILE", "compile: the file to write"},
                                       CLI_GROUP("baseline"),
                                       NAMING_FILE_OPTIONS,
                                       NAMING_RULE_OPTIONS,
                                       {0}};

static const cli_part_t parts[] = {
    {.name = "check",
     .form = "check [POLICY]",
     .summary = "print what a policy audits, or the line with an error",
     .about = "Prints the categories and functions of POLICY. If a line is wrong, prints that line "
              "and how to fix it, and exits with status 2. POLICY is a YAML file (docs/policy.md) "
              "or one of the built-in policies: linux (the default), apple, files, net, exec, "
              "descriptors.",
     .examples = {{"sonde audit check", "show the default policy"},
                  {"sonde audit check privacy.yaml", "check a policy before it is used"}}},
    {.name = "compile",
     .form = "compile POLICY -o FILE",
     .summary = "write a policy for a program that audits itself",
     .about = "Writes POLICY to FILE in the form that sonde_audit_start takes (sonde/audit.h).",
     .options = "output",
     .examples = {{"sonde audit compile privacy.yaml -o privacy.aud", "for sonde_audit_start"}}},
    {.name = "baseline",
     .form = "baseline FILE",
     .summary = "print the findings of a recording, to compare later ones with",
     .about = "Prints the sensitive calls of the recording FILE as JSON. 'sonde diff' compares the "
              "output with a later recording, and exits with status 1 if that has calls that "
              "the baseline does not have.",
     .options = "debug-dir sysroot system app",
     .examples = {{"sonde audit baseline run.sonde > known.json", "accept the present findings"},
                  {"sonde diff known.json new.sonde", "fail if a build makes new calls"}}},
    {0}};

static const cli_usage_t usage = {
    .verb = "audit",
    .arguments = "check [POLICY] | compile POLICY -o FILE | baseline FILE",
    .options = options,
    .parts = parts,
    .parts_are = "commands",
    .about = "Checks and compiles audit policies, and writes baselines. 'sonde record --audit' "
             "records the calls that a policy names.",
    .examples = {{"sonde audit check", "show the default policy"},
                 {"sonde audit check privacy.yaml", "check a policy"},
                 {"sonde audit compile privacy.yaml -o privacy.aud", "for a program's own audit"},
                 {"sonde audit baseline run.sonde > known.json", "accept the present findings"},
                 {"sonde diff known.json new.sonde", "fail if a build makes new calls"}}};

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
  if (audit_is_method(f->name)) {
    printf("    %s\n", f->name);
    return;
  }
  printf("    %s%s%s(", f->library, *f->library ? ":" : "", f->name);
  for (int i = 0; i < last; i++)
    printf("%s%s", i ? ", " : "", argument_word(f->arguments[i]));
  printf(")\n");
}

static void print_texts(const char *what, const policy_texts_t *texts) {
  if (texts->count) printf("    %s", what);
  for (size_t i = 0; i < texts->count; i++)
    printf(" %s", texts->items[i]);
  if (texts->count) printf("\n");
}

static void print_category(const policy_t *p, const policy_category_t *c) {
  printf("%s%s%s  %s, %s%s\n", terminal_style(stdout, TERMINAL_BOLD), c->id,
         terminal_style(stdout, TERMINAL_PLAIN), policy_level_word(c->level), c->title,
         c->enabled ? "" : " (disabled)");
  for (size_t i = 0; i < c->function_count; i++)
    print_function(&p->functions[c->functions[i]]);
  print_texts("only", &c->match);
  print_texts("but not", &c->except);
}

static int check(const char *name) {
  policy_t *policy = policy_file_read(name, time(NULL), NULL);
  if (!policy) return CLI_FAILED;
  for (size_t i = 0; i < policy->category_count; i++) {
    print_category(policy, &policy->categories[i]);
  }
  printf("\n%zu categories, %zu functions, %zu allowances, %zu limits, %zu phases: valid\n",
         policy->category_count, policy->function_count, policy->allowance_count,
         policy->limit_count, policy->phase_count);
  policy_free(policy);
  return CLI_DONE;
}

static int compile(const char *name, const char *path) {
  size_t size;
  audit_policy_t *flat = policy_file_compile(name, &size);
  if (!flat) return CLI_FAILED;
  output_t output;
  FILE *out = output_open_stream(&output, path, false, 0666);
  int status = CLI_FAILED;
  if (out) {
    (void)fwrite(flat, 1, size, out);
    status = output_close_stream(&output, out, CLI_DONE);
  }
  free(flat);
  return status;
}

static int baseline(const char *path, const frame_names_options_t *naming) {
  audit_recording_t r;
  int status = CLI_FAILED;
  if (audit_recording_open(&r, path, naming, 0)) {
    json_object *o = baseline_json(&r.findings);
    status = o ? CLI_DONE : message_fail("out of memory");
    if (o) printf("%s\n", json_print(o, JSON_STYLE | JSON_C_TO_STRING_PRETTY));
    json_object_put(o);
  }
  audit_recording_close(&r);
  return status;
}

int verb_audit(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  const char *output = NULL, *wrong;
  naming_t naming = {0};
  int key;
  while ((key = cli_next(&parser)) > 0)
    if (key == 'o')
      output = parser.value;
    else if (naming_take(&naming, key, parser.value, &wrong) && wrong)
      return cli_wrong_use(&usage, "%s", wrong);
  if (key < 0) return parser.status;
  char **rest = parser.rest;
  const char *what = parser.rest_count ? rest[0] : "";
  if (output && strcmp(what, "compile"))
    return cli_wrong_use(&usage, "'--output' applies to compile; check and baseline write to "
                                 "standard output");
  if (!strcmp(what, "check") && parser.rest_count <= 2) return check(rest[1] ? rest[1] : "linux");
  if (!strcmp(what, "compile") && parser.rest_count == 2 && output) return compile(rest[1], output);
  if (!strcmp(what, "baseline") && parser.rest_count == 2)
    return baseline(rest[1], &naming.options);
  return cli_wrong_use(&usage, "takes check [POLICY], compile POLICY -o FILE or baseline FILE");
}
