/* SPDX-License-Identifier: MIT */
#include "sensor/audit/policy.h"

#include <string.h>

#include "base/glob.h"
#include "base/text.h"

static bool array_within(uint32_t at, uint64_t count, uint64_t each, uint64_t size) {
  return at % 4 == 0 && at >= sizeof(audit_policy_t) && at + count * each <= size;
}

static const uint32_t *globs_of(const audit_policy_t *p) {
  return (const uint32_t *)((const char *)p + p->globs);
}

static bool function_valid(const audit_policy_t *p, const audit_function_t *f) {
  if (f->name >= p->strings_size || f->library >= p->strings_size) return false;
  if ((uint64_t)f->first_rule + f->rules > p->rule_count) return false;
  if (f->text > AUDIT_ARGUMENTS) return false;
  for (int i = 0; i < AUDIT_ARGUMENTS; i++)
    if (f->arguments[i] >= AUDIT_ARGUMENT_KINDS) return false;
  return f->text == AUDIT_ARGUMENTS || audit_is_text(f->arguments[f->text]);
}

static bool rule_valid(const audit_policy_t *p, const audit_rule_t *r) {
  return (uint64_t)r->first_glob + r->globs <= p->glob_count &&
         (uint64_t)r->first_exception + r->exceptions <= p->glob_count;
}

bool audit_policy_valid(const void *policy, uint64_t size) {
  const audit_policy_t *p = policy;
  if (size < sizeof *p || size > AUDIT_POLICY_MAX || p->magic != AUDIT_POLICY_MAGIC) return false;
  if (p->size != size || (uintptr_t)policy % 4) return false;
  if (!array_within(p->functions, p->function_count, sizeof(audit_function_t), size) ||
      !array_within(p->rules, p->rule_count, sizeof(audit_rule_t), size) ||
      !array_within(p->globs, p->glob_count, sizeof(uint32_t), size) ||
      !array_within(p->strings, p->strings_size, 1, size) || !p->strings_size ||
      *audit_string(p, p->strings_size - 1) || audit_depth(p) > AUDIT_DEPTH_MAX)
    return false;
  for (uint32_t i = 0; i < p->function_count; i++)
    if (!function_valid(p, &audit_functions(p)[i])) return false;
  for (uint32_t i = 0; i < p->rule_count; i++)
    if (!rule_valid(p, &audit_rules(p)[i])) return false;
  for (uint32_t i = 0; i < p->glob_count; i++)
    if (globs_of(p)[i] >= p->strings_size) return false;
  return true;
}

void audit_own_path(char *text, uint64_t pid) {
  static const char proc[] = "/proc/", self[] = "self";
  const char *rest = text_after(text, proc);
  if (!rest || decimal_read(&rest) != pid || (*rest && *rest != '/')) return;
  char *name = text + sizeof proc - 1, *end = name + sizeof self - 1;
  memmove(end, rest, text_length(rest) + 1);
  memcpy(name, self, sizeof self - 1);
}

static bool any(const audit_policy_t *p, uint32_t first, uint32_t count, const char *text) {
  for (uint32_t i = first; i < first + count; i++)
    if (glob_matches(audit_string(p, globs_of(p)[i]), text)) return true;
  return false;
}

bool audit_rule_holds(const audit_policy_t *p, const audit_rule_t *r, const char *text) {
  if (r->globs && !any(p, r->first_glob, r->globs, text)) return false;
  return !any(p, r->first_exception, r->exceptions, text);
}

bool audit_wants(const audit_policy_t *p, const audit_function_t *f, const char *text) {
  for (uint32_t i = f->first_rule; i < f->first_rule + f->rules; i++)
    if (audit_rule_holds(p, &audit_rules(p)[i], text)) return true;
  return false;
}
