/* SPDX-License-Identifier: MIT
 *
 * Compiles a policy into its flat form, and applies policies to calls.
 */
#include "analysis/audit/policy.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/policies.h"
#include "base/array.h"
#include "base/glob.h"
#include "base/parse.h"

bool policy_is_method(const char *name) {
  size_t size = strlen(name);
  const char *space = strchr(name, ' ');
  return audit_is_method(name) && name[1] == '[' && space && space > name + 2 &&
         name[size - 1] == ']' && space + 1 < name + size - 1 &&
         strcspn(name + 2, "[]()\t\"\\") == size - 3 && !strchr(space + 1, ' ');
}

bool policy_sees_text(const policy_t *policy, const policy_category_t *category) {
  for (size_t i = 0; i < category->function_count; i++)
    for (size_t a = 0; a < AUDIT_ARGUMENTS; a++)
      if (audit_is_text(policy->functions[category->functions[i]].arguments[a])) return true;
  return false;
}

const char *policy_level_word(policy_level_t level) {
  static const char *const words[] = {"note", "warning", "error"};
  return words[level];
}

const policy_source_t *policy_builtin(const char *name) {
  static const policy_source_t sources[] = {
#define BUILTIN(name) {#name, policy_##name, sizeof policy_##name - 1},
      POLICY_BUILTIN_TABLE(BUILTIN)
#undef BUILTIN
  };
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
    if (!strcmp(sources[i].name, name)) return &sources[i];
  return NULL;
}

/* ---- days and times ------------------------------------------------------------------------- */

bool policy_day(const char *text, time_t *out) {
  int64_t day;
  if (!text || !parse_day(text, &day)) return false;
  *out = (time_t)(day + 1) * 24 * 60 * 60;
  return true;
}

bool policy_window(const char *text, uint64_t *ns) {
  char *end;
  unsigned long long n = text && isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
  if (!n || n > 1000000) return false;
  if (!strcmp(end, "ms"))
    *ns = n * 1000000;
  else if (!strcmp(end, "s"))
    *ns = n * 1000000000;
  else if (!strcmp(end, "m"))
    *ns = n * 60000000000;
  else
    return false;
  return true;
}

/* ---- the flat form -------------------------------------------------------------------------- */

/* An array of the flat policy that is being compiled. */
typedef struct part {
  char *data;
  size_t size, capacity;
} part_t;

typedef struct flattening {
  part_t functions, rules, globs, strings;
  const char *home;
  bool failed;
} flattening_t;

static void append(flattening_t *f, part_t *part, const void *data, size_t size) {
  if (!size) return;
  if (size > AUDIT_POLICY_MAX || part->size + size > 2 * (size_t)AUDIT_POLICY_MAX ||
      !ARRAY_RESERVE(part->data, part->size + size, part->capacity)) {
    f->failed = true;
    return;
  }
  memcpy(part->data + part->size, data, size);
  part->size += size;
}

static uint32_t add_string(flattening_t *f, const char *before, const char *text) {
  uint32_t at = (uint32_t)f->strings.size;
  append(f, &f->strings, before, strlen(before));
  append(f, &f->strings, text, strlen(text) + 1);
  return at;
}

/* A glob that begins with ~/ is for files in the user's home folder. */
static uint32_t add_globs(flattening_t *f, const policy_texts_t *globs, uint32_t *count) {
  uint32_t first = (uint32_t)(f->globs.size / sizeof(uint32_t));
  for (size_t i = 0; i < globs->count; i++) {
    const char *glob = globs->items[i];
    bool at_home = glob[0] == '~' && (glob[1] == '/' || !glob[1]);
    uint32_t string = add_string(f, at_home ? f->home : "", glob + at_home);
    append(f, &f->globs, &string, sizeof string);
  }
  *count = (uint32_t)globs->count;
  return first;
}

static bool has_number(const policy_category_t *c, uint32_t function) {
  for (size_t i = 0; i < c->function_count; i++)
    if (c->functions[i] == function) return true;
  return false;
}

static void add_function(flattening_t *f, const policy_t *p, uint32_t number) {
  const policy_function_t *from = &p->functions[number];
  audit_function_t function = {.text = AUDIT_ARGUMENTS};
  function.name = add_string(f, "", from->name);
  function.library = add_string(f, "", from->library);
  memcpy(function.arguments, from->arguments, sizeof function.arguments);
  for (uint8_t i = AUDIT_ARGUMENTS; i-- > 0;)
    if (audit_is_text(from->arguments[i])) function.text = i;
  function.first_rule = (uint32_t)(f->rules.size / sizeof(audit_rule_t));
  for (uint32_t c = 0; c < p->category_count; c++) {
    const policy_category_t *category = &p->categories[c];
    if (!category->enabled || !has_number(category, number)) continue;
    audit_rule_t rule = {.category = c};
    rule.first_glob = add_globs(f, &category->match, &rule.globs);
    rule.first_exception = add_globs(f, &category->except, &rule.exceptions);
    append(f, &f->rules, &rule, sizeof rule);
    function.rules++;
    if (!rule.globs && !rule.exceptions) function.always = 1;
  }
  append(f, &f->functions, &function, sizeof function);
}

static uint32_t copy_part(char *out, uint32_t at, const part_t *part) {
  if (part->size) memcpy(out + at, part->data, part->size);
  return at + (((uint32_t)part->size + 3) & ~UINT32_C(3));
}

void policy_limit_depth(audit_policy_t *flat, uint32_t depth) {
  memcpy(flat + 1, &depth, sizeof depth); /* audit_depth */
}

static audit_policy_t *join(const flattening_t *f, uint32_t depth) {
  size_t size = sizeof(audit_policy_t) + sizeof depth + f->functions.size + f->rules.size +
                f->globs.size + ((f->strings.size + 3) & ~(size_t)3);
  if (f->failed || size > AUDIT_POLICY_MAX) return NULL;
  audit_policy_t *flat = calloc(1, size);
  if (!flat) return NULL;
  flat->magic = AUDIT_POLICY_MAGIC;
  flat->size = (uint32_t)size;
  policy_limit_depth(flat, depth);
  flat->functions = sizeof *flat + sizeof depth;
  flat->function_count = (uint32_t)(f->functions.size / sizeof(audit_function_t));
  flat->rules = copy_part((char *)flat, flat->functions, &f->functions);
  flat->rule_count = (uint32_t)(f->rules.size / sizeof(audit_rule_t));
  flat->globs = copy_part((char *)flat, flat->rules, &f->rules);
  flat->glob_count = (uint32_t)(f->globs.size / sizeof(uint32_t));
  flat->strings = copy_part((char *)flat, flat->globs, &f->globs);
  flat->strings_size = (uint32_t)f->strings.size;
  copy_part((char *)flat, flat->strings, &f->strings);
  return flat;
}

audit_policy_t *policy_flatten(const policy_t *p, const char *home) {
  flattening_t f = {.home = home};
  add_string(&f, "", "");
  for (uint32_t i = 0; i < p->function_count; i++)
    add_function(&f, p, i);
  audit_policy_t *flat = join(&f, (uint32_t)p->depth);
  free(f.functions.data);
  free(f.rules.data);
  free(f.globs.data);
  free(f.strings.data);
  return flat;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

size_t policy_categories(const audit_policy_t *flat, uint32_t function, const char *text,
                         uint32_t *out, size_t max) {
  size_t count = 0;
  if (function >= flat->function_count) return 0;
  const audit_function_t *f = &audit_functions(flat)[function];
  for (uint32_t i = f->first_rule; i < f->first_rule + f->rules && count < max; i++) {
    const audit_rule_t *rule = &audit_rules(flat)[i];
    if (audit_rule_holds(flat, rule, text)) out[count++] = rule->category;
  }
  return count;
}

static bool has_function(const policy_t *p, const policy_category_t *c, const char *glob) {
  for (size_t i = 0; i < c->function_count; i++)
    if (glob_matches(glob, p->functions[c->functions[i]].name)) return true;
  return false;
}

bool policy_has_function(const policy_t *p, const char *category, const char *function) {
  bool off = true;
  for (size_t i = 0; i < p->category_count; i++) {
    const policy_category_t *c = &p->categories[i];
    if (!glob_matches(category, c->id) || !c->enabled) continue;
    if (has_function(p, c, function)) return true;
    off = false;
  }
  return off;
}

static bool any_glob(const policy_texts_t *globs, const char *text) {
  for (size_t i = 0; i < globs->count; i++)
    if (glob_matches(globs->items[i], text)) return true;
  return !globs->count;
}

const policy_allowance_t *policy_allows(const policy_t *p, const char *category,
                                        const char *function, const char *owner, const char *text,
                                        time_t now) {
  for (size_t i = 0; i < p->allowance_count; i++) {
    const policy_allowance_t *a = &p->allowances[i];
    if (a->expires && a->expires <= now) continue;
    if (glob_matches(a->category, category) && glob_matches(a->function, function) &&
        glob_matches(a->owner, owner) && any_glob(&a->match, text))
      return a;
  }
  return NULL;
}
