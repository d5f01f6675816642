/* SPDX-License-Identifier: MIT
 *
 * Audit policies: the built-in policies are valid; errors name their line; the flat form gives the
 * same categories as the policy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/audit/policy.h"

static char error[512];

static policy_t *read_text(const char *text, time_t today) {
  const policy_source_t source = {.name = "my.yaml", .text = text, .size = strlen(text)};
  return policy_read(&source, NULL, today, error, sizeof error);
}

static void builtin_policies_are_valid(void **state) {
  (void)state;
  static const char *const names[] = {"linux", "apple", "descriptors", "files", "net", "exec"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    policy_t *p = policy_read(policy_builtin(names[i]), NULL, time(NULL), error, sizeof error);
    if (!p) fail_msg("%s", error);
    audit_policy_t *flat = policy_flatten(p, "/home/me");
    assert_non_null(flat);
    assert_true(audit_policy_valid(flat, flat->size));
    assert_int_equal(flat->function_count, p->function_count);
    free(flat);
    policy_free(p);
  }
  assert_null(policy_builtin("windows"));
}

static const policy_category_t *category_of(const policy_t *p, const char *id) {
  for (size_t i = 0; i < p->category_count; i++)
    if (!strcmp(p->categories[i].id, id)) return &p->categories[i];
  return NULL;
}

/* Any two built-in policies can be extended at once; those of one's categories that both have are
 * those of the second. */
static void lists_of_policies_are_extended(void **state) {
  (void)state;
#define NAME(name) #name,
  static const char *const names[] = {POLICY_BUILTIN_TABLE(NAME)};
#undef NAME
  const size_t count = sizeof names / sizeof *names;
  for (size_t i = 0; i < count * count; i++) {
    const char *first = names[i / count], *second = names[i % count];
    char text[128];
    snprintf(text, sizeof text, "version: 1\nextends: [%s, %s]\n", first, second);
    policy_t *p = read_text(text, time(NULL));
    if (!p) fail_msg("%s", error);
    assert_int_equal(p->bases.count, 2);
    policy_t *last = policy_read(policy_builtin(second), NULL, time(NULL), error, sizeof error);
    assert_non_null(last);
    assert_true(p->category_count >= last->category_count);
    for (size_t k = 0; k < last->category_count; k++) {
      const policy_category_t *c = category_of(p, last->categories[k].id);
      assert_non_null(c);
      assert_int_equal(c->level, last->categories[k].level);
      assert_int_equal(c->function_count, last->categories[k].function_count);
    }
    policy_free(last);
    policy_free(p);
  }
}

/* A recording has the texts of all policies that its policy extends. */
static void recorded_texts_replace_the_built_in_ones(void **state) {
  (void)state;
  static const char a[] = "version: 1\nextends: none\ncategories:\n  - id: a\n"
                          "    functions: [old_one()]\n";
  static const char b[] = "version: 1\nextends: none\ncategories:\n  - id: b\n"
                          "    functions: [old_two()]\n";
  static const char text[] = "version: 1\nextends: [files, net]\n";
  const policy_source_t source = {"my.yaml", text, sizeof text - 1};
  policy_sources_t bases = {{{"its base", a, sizeof a - 1}, {"its base", b, sizeof b - 1}}, 2};
  policy_t *p = policy_read(&source, &bases, 0, error, sizeof error);
  if (!p) fail_msg("%s", error);
  assert_int_equal(p->category_count, 2);
  assert_string_equal(p->functions[0].name, "old_one");
  assert_string_equal(p->functions[1].name, "old_two");
  policy_free(p);
  bases.count = 1;
  assert_null(policy_read(&source, &bases, 0, error, sizeof error));
}

/* A wrong policy and the start of its error message. */
static const struct {
  const char *text, *message;
} mistakes[] = {
    {"", "my.yaml:1: the policy is empty"},
    {"version: 2\n", "my.yaml:1: this sonde reads only 'version: 1'"},
    {"version: 1\ncategoris: []\n", "my.yaml:2: unknown key 'categoris'; the keys here are: "},
    {"version: 1\nextends: windows\n", "my.yaml:2: 'extends' is none, or a built-in policy or a "},
    {"version: 1\nextends: [net, windows]\n", "my.yaml:2: 'extends' is none, or a built-in "},
    {"version: 1\nextends: [net, none]\n", "my.yaml:2: 'extends' is none, or a built-in policy "},
    {"version: 1\nextends: {net: files}\n", "my.yaml:2: 'extends' is none, or a built-in policy "},
    {"version: 1\ncategories:\n  - id: a\n    functions: [getenvv(text)]\n",
     "my.yaml:4: the C library has no function 'getenvv': correct the name, or name its library, "
     "as in 'libfoo.so*:getenvv()'"},
    {"version: 1\ncategories:\n  - id: a\n    functions:\n      - getenv(string)\n",
     "my.yaml:5: 'getenv': an argument is one of -, text, path, number, process, flags, address, "
     "strings, hashed-text, hashed-path, hashed-address, hashed-strings"},
    {"version: 1\ncategories:\n  - id: a\n    functions: [getenv(text]\n",
     "my.yaml:4: 'getenv': ',' or ')' is missing after an argument"},
    {"version: 1\ncategories: [\n", "my.yaml:3: this is not YAML: "},
    {"version: 1\ncategories:\n  - id: a\n    functions: ['getenv(path)']\n",
     "my.yaml:4: 'getenv' has other arguments at linux:"},
    {"version: 1\ncategories:\n  - id: ''\n    functions: [getpid()]\n",
     "my.yaml:3: 'id' is empty"},
    {"version: 1\ncategories:\n  - id: a\n    functions: [getpid()]\n  - id: a\n    functions: "
     "[getppid()]\n",
     "my.yaml:5: the category 'a' is given twice"},
    {"version: 1\n---\nversion: 1\n", "my.yaml:3: a second document begins here"},
    {"version: 1\n---\nversion: [\n", "my.yaml:4: this is not YAML: "},
    {"version: 1\nphases:\n  - before: x\n    deny: []\n", "my.yaml:4: 'deny' is empty"},
    {"version: 1\nowners:\n  - library: ''\n    name: x\n", "my.yaml:3: 'library' is empty"},
    {"version: 1\nallow:\n  - category: net.*\n    reason: ''\n", "my.yaml:4: 'reason' is empty"},
    {"version: 1\ncategories:\n  - id: a\n", "my.yaml:3: the category 'a' has no functions"},
    {"version: 1\ncategories:\n  - id: a\n    functions: [getpid()]\n    match: [x]\n",
     "my.yaml:5: no function of 'a' records a text or path that 'match' could match"},
    {"version: 1\ncategories:\n  - id: a\n    methods: ['-[A b]']\n    except: [x]\n",
     "my.yaml:5: no function of 'a' records a text or path that 'except' could match"},
    {"version: 1\ncategories:\n  - id: a\n    level: high\n    functions: [getpid()]\n",
     "my.yaml:4: 'level' is note, warning or error"},
    {"version: 1\nallow:\n  - category: env.secrets\n    reason: x\n",
     "my.yaml:3: there is no category 'env.secrets'; 'sonde audit check' lists them all"},
    {"version: 1\nallow:\n  - category: env.secret\n", "my.yaml:3: 'reason' is missing here"},
    {"version: 1\nallow:\n  - category: env.secret\n    function: getenvv\n    reason: x\n",
     "my.yaml:4: 'env.secret' has no function 'getenvv'; 'sonde audit check' lists them all"},
    {"version: 1\nallow:\n  - category: env.*\n    reason: x\n    function: connect\n",
     "my.yaml:5: 'env.*' has no function 'connect'"},
    {"version: 1\nallow:\n  - category: env.secret\n    reason: x\n    expires: 2026-02-30\n",
     "my.yaml:5: 'expires' is a day, 2027-01-31"},
    {"version: 1\nallow:\n  - category: env.secret\n    reason: x\n    expires: 2001-09-08\n",
     "my.yaml:5: this allowance expired on 2001-09-08: review the calls, then set a later day or "
     "remove it"},
    {"version: 1\nlimits:\n  - category: env.secret\n    calls: 5\n    window: 10\n",
     "my.yaml:5: 'window' is a time: 200ms, 10s, 5m"},
    {"version: 1\nlimits:\n  - category: env.secret\n    calls: many\n    window: 10s\n",
     "my.yaml:4: 'calls' takes a number from 1 to 1000000"},
    {"version: 1\nphases:\n  - before: consent\n", "my.yaml:3: 'deny' is missing here"},
    {"version: 1\nversion: 1\n", "my.yaml:2: 'version' is given twice"},
    {"[1, 2]", "my.yaml:1: a policy consists of 'key: value'"},
};

static void errors_name_their_line(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    if (read_text(mistakes[i].text, 1000000000)) fail_msg("accepted: %s", mistakes[i].text);
    if (strncmp(error, mistakes[i].message, strlen(mistakes[i].message)))
      fail_msg("message  %s\nexpected %s", error, mistakes[i].message);
  }
}

static void apple_functions_need_not_exist(void **state) {
  (void)state;
  policy_t *p = read_text("version: 1\nextends: apple\ncategories:\n  - id: a\n"
                          "    functions: [mach_absolute_time(), stat$INODE64(path)]\n",
                          time(NULL));
  if (!p) fail_msg("%s", error);
  policy_free(p);
}

static void list_of_expanding_aliases_is_rejected(void **state) {
  (void)state;
  char text[2048] = "version: 1\nfunctions:\n  a0: &a0 [getpid()]\n";
  for (int i = 1; i < 12; i++) {
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "  a%d: &a%d [*a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1,
             i - 1, i - 1, i - 1);
  }
  strcat(text, "categories:\n  - id: a\n    functions: [*a11]\n");
  assert_null(read_text(text, 0));
}

static uint32_t function_named(const policy_t *p, const char *name) {
  for (uint32_t i = 0; i < p->function_count; i++)
    if (!strcmp(p->functions[i].name, name)) return i;
  fail_msg("no function %s", name);
  return 0;
}

static bool says(const policy_t *p, const audit_policy_t *flat, const char *function,
                 const char *text, const char *category) {
  uint32_t found[16];
  uint32_t number = function_named(p, function);
  size_t n = policy_categories(flat, number, text, found, 16);
  assert_int_equal(n > 0, audit_wants(flat, &audit_functions(flat)[number], text));
  for (size_t i = 0; i < n; i++)
    if (!strcmp(p->categories[found[i]].id, category)) return true;
  return false;
}

static void flat_form_equals_the_policy(void **state) {
  (void)state;
  policy_t *p = policy_read(policy_builtin("linux"), NULL, 0, error, sizeof error);
  assert_non_null(p);
  audit_policy_t *flat = policy_flatten(p, "/home/me");
  assert_true(says(p, flat, "open", "/home/me/.ssh/id_ed25519", "file.secret"));
  assert_false(says(p, flat, "open", "/home/you/.ssh/id_ed25519", "file.secret"));
  assert_true(says(p, flat, "fopen64", "/etc/shadow", "file.secret"));
  assert_true(says(p, flat, "open", "/proc/4711/maps", "proc.list"));
  assert_false(says(p, flat, "open", "/proc/self/maps", "proc.list"));
  assert_true(says(p, flat, "getenv", "GITHUB_TOKEN", "env.secret"));
  assert_false(says(p, flat, "getenv", "HOME", "env.secret"));
  assert_true(says(p, flat, "connect", "", "net.connect"));
  free(flat);
  policy_free(p);
}

static void own_process_is_self(void **state) {
  static const char *const paths[][2] = {
      {"/proc/4711/maps", "/proc/self/maps"},   {"/proc/4711", "/proc/self"},
      {"/proc/47110/maps", "/proc/47110/maps"}, {"/proc/471/maps", "/proc/471/maps"},
      {"/proc/4711x", "/proc/4711x"},           {"/proc/", "/proc/"},
      {"/x/proc/4711", "/x/proc/4711"},         {"", ""}};
  (void)state;
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    char text[AUDIT_TEXT_SIZE];
    strcpy(text, paths[i][0]);
    audit_own_path(text, 4711);
    assert_string_equal(text, paths[i][1]);
  }
  char longest[AUDIT_TEXT_SIZE] = "/proc/1/";
  memset(longest + 8, 'x', AUDIT_TEXT_MAX - 8);
  audit_own_path(longest, 1);
  assert_int_equal(strlen(longest), AUDIT_TEXT_SIZE - 1);
}

static void user_category_replaces_builtin(void **state) {
  (void)state;
  policy_t *p = read_text("version: 1\n"
                          "categories:\n"
                          "  - id: env.secret\n"
                          "    functions: [getenv(text)]\n"
                          "    match: [MINE_*]\n"
                          "    except: [MINE_NOT_*]\n"
                          "  - id: net.connect\n"
                          "    enabled: false\n"
                          "allow:\n"
                          "  - category: env.*\n"
                          "    owner: libmine.so\n"
                          "    match: [MINE_TOO]\n"
                          "    reason: known\n"
                          "    expires: 2030-01-01\n",
                          1000000000);
  if (!p) fail_msg("%s", error);
  audit_policy_t *flat = policy_flatten(p, "/root");
  assert_true(says(p, flat, "getenv", "MINE_1", "env.secret"));
  assert_false(says(p, flat, "getenv", "MINE_NOT_1", "env.secret"));
  assert_false(says(p, flat, "getenv", "GITHUB_TOKEN", "env.secret"));
  assert_false(says(p, flat, "connect", "", "net.connect"));
  assert_non_null(policy_allows(p, "env.secret", "getenv", "libmine.so", "MINE_TOO", 1700000000));
  assert_null(policy_allows(p, "env.secret", "getenv", "libmine.so", "MINE_TOO", 1900000000));
  assert_null(policy_allows(p, "env.secret", "getenv", "libyours.so", "MINE_TOO", 1700000000));
  free(flat);
  policy_free(p);
}

static void damage_is_detected(void **state) {
  (void)state;
  policy_t *p = policy_read(policy_builtin("linux"), NULL, 0, error, sizeof error);
  audit_policy_t *flat = policy_flatten(p, "/root");
  uint32_t size = flat->size;
  uint32_t *words = malloc(size);
  assert_false(audit_policy_valid(flat, size - 4));
  assert_false(audit_policy_valid(flat, 8));
  for (uint32_t at = 0; at < size / 4; at++) {
    memcpy(words, flat, size);
    words[at] ^= 0x40000000;
    const audit_policy_t *bad = (const audit_policy_t *)words;
    if (!audit_policy_valid(bad, size)) continue;
    for (uint32_t i = 0; i < bad->function_count; i++) /* accepted values are in bounds */
      audit_wants(bad, &audit_functions(bad)[i], "/etc/shadow");
  }
  free(words);
  free(flat);
  policy_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(builtin_policies_are_valid),
      cmocka_unit_test(lists_of_policies_are_extended),
      cmocka_unit_test(recorded_texts_replace_the_built_in_ones),
      cmocka_unit_test(errors_name_their_line),
      cmocka_unit_test(apple_functions_need_not_exist),
      cmocka_unit_test(list_of_expanding_aliases_is_rejected),
      cmocka_unit_test(flat_form_equals_the_policy),
      cmocka_unit_test(own_process_is_self),
      cmocka_unit_test(user_category_replaces_builtin),
      cmocka_unit_test(damage_is_detected),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
