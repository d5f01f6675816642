/* SPDX-License-Identifier: MIT
 *
 * Rules: sensitive calls of the program's own code that its policy does not allow.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/why/rules.h"

/* A socket of this machine: a log, a cache of names, a display. */
static bool is_local(const why_call_t *c) {
  return !strcmp(c->category, "net.connect") &&
         (strchr(c->arguments, '/') || strstr(c->arguments, "unix") || strchr(c->arguments, '@'));
}

/* Errors of the policy, and calls that leave the process unless they are mere notes, as in the
 * policies that list calls. Other warnings are for 'sonde audit'. */
static bool is_told(const why_call_t *c) {
  static const char *const categories[] = {"net.connect", "proc.exec", NULL};
  if (!strcmp(c->level, "note")) return false;
  return !strcmp(c->level, "error") || why_is_any(c->category, categories);
}

/* Equal calls with other arguments: of the same function of the program, for the same purpose. */
static uint64_t count_like(why_t *w, const why_call_t *c, bool *is_first) {
  const why_function_t *owner = why_owner(why_stack(w, c->stack));
  uint64_t count = 0;
  *is_first = true;
  for (size_t i = 0; i < w->calls.count; i++) {
    const why_call_t *other = &w->calls.items[i];
    const why_function_t *f = why_owner(why_stack(w, other->stack));
    if (strcmp(other->category, c->category) || !f || !why_same_function(f, owner)) continue;
    count += other->count;
    if (other < c) *is_first = false;
  }
  return count;
}

static void add_call(why_t *w, const why_call_t *c, findings_list_t *out) {
  const why_stack_t *s = why_stack(w, c->stack);
  char place[WHY_PLACE_MAX], title[80], a[WHY_AMOUNT_MAX];
  bool is_first;
  if (s->owner < 0 || !is_told(c) || is_local(c)) return;
  uint64_t count = count_like(w, c, &is_first);
  if (!is_first) return;
  finding_t f = {.kind = WHY_AUDIT,
                 .score = !strcmp(c->level, "error") ? 54 : 50,
                 .culprit = why_owner(s),
                 .tid = c->tid,
                 .since_ns = c->first_ns,
                 .amount = (double)count,
                 .unit = "calls",
                 .section = "audit"};
  WHY_SAY(title, "%.70s", c->title);
  if (*title >= 'A' && *title <= 'Z') *title = (char)(*title + 'a' - 'A');
  WHY_SAY(f.what, "Sensitive call: %s %s, with %s(%.120s)", why_place_text(s, place), title,
          c->function, c->arguments);
  WHY_SAY(f.advice, "remove it, or allow it in the policy with a reason");
  WHY_SAY(f.evidence, "%llu call%s, the first at %s", (unsigned long long)count,
          count == 1 ? "" : "s", why_seconds((double)c->first_ns, a));
  findings_list_add(out, &f);
}

void why_call_rules(why_t *w, findings_list_t *out) {
  enum { CALLS_TOLD = 3 };
  size_t before = out->count;
  for (size_t i = 0; i < w->calls.count && out->count < before + CALLS_TOLD; i++)
    add_call(w, &w->calls.items[i], out);
}
