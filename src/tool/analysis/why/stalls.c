/* SPDX-License-Identifier: MIT
 *
 * Rules: event loops that were blocked, by what, in which function.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/why/rules.h"

/* How a cause continues the sentence "the event loop was blocked for 310 ms"; NULL: not the
 * program's fault, or not known. */
static const char *cause_text(const char *cause) {
  static const char *const texts[][2] = {
      {"cpu", "by computing"},
      {"kernel", "by work of the kernel"},
      {"page-faults", "by page faults"},
      {"disk-faults", "by pages that came from the disk"},
      {"lock", "by a lock"},
      {"deadlock", "by a deadlock"},
      {"uninterruptible", "by the disk"},
      {"blocked", "by a blocking call"},
      {"mixed", "by several causes"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!strcmp(texts[i][0], cause)) return texts[i][1];
  return NULL;
}

static const char *advice_of(const char *cause) {
  if (!strcmp(cause, "lock")) return "do not wait for this lock in the loop, or hold it shorter";
  if (!strcmp(cause, "cpu")) return "move the work to another thread, or do it in parts";
  return "move the call to another thread, or use a form that does not block";
}

static void add_stall(why_t *w, const why_stalls_t *s, findings_list_t *out) {
  const char *cause = cause_text(s->cause);
  char place[WHY_PLACE_MAX];
  char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], where[WHY_PLACE_MAX],
      call[WHY_PLACE_MAX + 40] = "", times[64] = "";
  if (!cause || !s->function || (double)s->longest_ns < WHY_STALL_NS) return;
  double share = (double)s->total_ns / (double)(w->duration_ns ? w->duration_ns : 1);
  finding_t f = {.kind = WHY_STALL,
                 .score = 55 + 30 * (share > 1 ? 1 : share),
                 .culprit = s->function,
                 .tid = s->tid,
                 .since_ns = s->first_ns,
                 .amount = (double)s->longest_ns / 1e9,
                 .unit = "s",
                 .section = "stalls"};
  if (*s->call && strcmp(s->cause, "cpu") && strcmp(s->call, "futex"))
    (void)snprintf(call, sizeof call, " (%s%s%.200s)", s->call, *s->what ? " on " : "", s->what);
  const why_stack_t *owner = why_stack(w, s->owner_stack);
  bool is_gil = !strcmp(s->cause, "lock") && !strcmp(s->what, "GIL");
  if (is_gil) cause = "by the GIL";
  if (!strcmp(s->cause, "lock") && owner->owner >= 0)
    (void)snprintf(call, sizeof call, " that is held in %s", why_place_text(owner, place));
  if (s->count > 1)
    (void)snprintf(times, sizeof times, "%llu times, at most ", (unsigned long long)s->count);
  WHY_SAY(f.what, "The event loop was blocked %s%s, %s%s, in %s", s->count > 1 ? times : "for ",
          why_seconds((double)s->longest_ns, a), cause, call,
          why_place_of(why_stack(w, s->stack), s->function, where));
  WHY_SAY(f.advice, "%s",
          is_gil ? "move the other thread's work to a process, or to C code that releases the GIL"
                 : advice_of(s->cause));
  WHY_SAY(f.evidence, "%llu stall%s, %s in all", (unsigned long long)s->count,
          s->count == 1 ? "" : "s", why_seconds((double)s->total_ns, b));
  findings_list_add(out, &f);
}

void why_stall_rules(why_t *w, findings_list_t *out) {
  for (size_t i = 0; i < w->stalls.count; i++)
    add_stall(w, &w->stalls.items[i], out);
}
