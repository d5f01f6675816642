/* SPDX-License-Identifier: MIT
 *
 * Applies the user's globs, then the main executable, then the default rules. See system.h.
 */
#include "symbol/system.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "image/path.h"

typedef struct rule {
  char *glob;
  bool is_system;
} system_rule_t;

struct system_rules {
  system_rule_t *rules;
  size_t count, capacity;
};

system_rules_t *system_rules_new(void) { return calloc(1, sizeof(system_rules_t)); }

void system_rules_free(system_rules_t *rules) {
  if (!rules) return;
  for (size_t i = 0; i < rules->count; i++)
    free(rules->rules[i].glob);
  free(rules->rules);
  free(rules);
}

bool system_rules_add(system_rules_t *rules, const char *glob, bool is_system) {
  if (!ARRAY_GROW(rules->rules, rules->count, rules->capacity)) return false;
  system_rule_t rule = {strdup(glob), is_system};
  if (!rule.glob) return false;
  rules->rules[rules->count++] = rule;
  return true;
}

system_verdict_t system_verdict(const system_rules_t *rules, const char *path) {
  for (size_t i = rules ? rules->count : 0; i-- > 0;)
    if (path_matches(path, rules->rules[i].glob))
      return rules->rules[i].is_system ? SYSTEM_YES : SYSTEM_NO;
  return SYSTEM_UNDECIDED;
}

bool system_is(const system_rules_t *rules, const char *exe, const char *path) {
  system_verdict_t verdict = system_verdict(rules, path);
  if (verdict != SYSTEM_UNDECIDED) return verdict == SYSTEM_YES;
  if (exe && !strcmp(exe, path)) return false;
  return !strcmp(path, "[vdso]") || path_is_system(path, exe);
}
