/* SPDX-License-Identifier: MIT
 *
 * Rule: a program that does nothing and where it waits. A note: servers wait, too.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/futex_calls.h"
#include "analysis/why/rules.h"

/* What a futex is used for, by the function that the program called. */
static const char *purpose_of(const why_stack_t *s, const why_wait_t *wait) {
  if (wait->is_lock) return "a lock";
  const futex_wait_t *called = NULL;
  for (int i = 0; i < s->count && i != s->owner; i++) {
    const futex_wait_t *each = futex_wait_of_function(s->functions[i].name);
    if (each) called = each;
  }
  if (called) return called->kind;
  return *wait->call ? wait->call : "the kernel";
}

/* The last wait of TID, and since when it lasts. */
static const why_wait_t *last_of(const why_t *w, uint32_t tid, uint64_t *since_ns) {
  const why_wait_t *last = NULL;
  for (size_t i = w->waits.count; i-- > 0;) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->tid != tid) continue;
    if (last && (wait->stack != last->stack || wait->address != last->address)) break;
    if (!last) last = wait;
    *since_ns = wait->from_ns;
  }
  return last;
}

/* The thread that joins others says less than these. */
static const why_wait_t *telling_wait(why_t *w, uint64_t *since_ns) {
  static const char *const joins[] = {"pthread_join", "pthread_clockjoin_ex", "thrd_join", NULL};
  const why_wait_t *best = NULL;
  bool best_joins = false;
  for (size_t i = 0; i < w->threads.count; i++) {
    uint64_t since = 0;
    const why_wait_t *last = last_of(w, w->threads.items[i].tid, &since);
    if (!last || why_stack(w, last->stack)->owner < 0) continue;
    bool is_join = why_calls_any(why_stack(w, last->stack), joins);
    if (best && (is_join || !best_joins)) continue;
    best = last;
    best_joins = is_join;
    *since_ns = since;
  }
  return best;
}

void why_blocked_rules(why_t *w, findings_list_t *out) {
  uint64_t run = 0, since = 0;
  for (size_t i = 0; i < w->threads.count; i++)
    run += w->threads.items[i].run_ns;
  if (!w->has_waits || (!w->is_core && (double)run > WHY_IDLE_SHARE * (double)w->duration_ns))
    return;
  const why_wait_t *wait = telling_wait(w, &since);
  uint64_t lasted = wait ? wait->to_ns - since : 0;
  if (!wait || (!w->is_core && (double)lasted < WHY_IDLE_LASTED * (double)w->duration_ns)) return;
  char place[WHY_PLACE_MAX], thread[64], a[WHY_AMOUNT_MAX];
  const why_stack_t *s = why_stack(w, wait->stack);
  finding_t f = {.kind = WHY_BLOCKED,
                 .is_note = true,
                 .score = 15,
                 .culprit = why_owner(s),
                 .tid = wait->tid,
                 .since_ns = since,
                 .amount = (double)lasted / 1e9,
                 .unit = "s",
                 .section = "waits"};
  bool has_file = *wait->what && *wait->what != '?';
  WHY_SAY(f.what, "The program waits: %s for %s%s%.80s, in %s",
          why_thread_text(w, wait->tid, thread, sizeof thread), purpose_of(s, wait),
          has_file ? " on " : "", has_file ? wait->what : "", why_place_text(s, place));
  WHY_SAY(f.evidence, "blocked for %s", why_seconds((double)lasted, a));
  findings_list_add(out, &f);
}
