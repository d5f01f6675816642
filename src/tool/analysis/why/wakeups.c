/* SPDX-License-Identifier: MIT
 *
 * Rules: threads that wake up very often and do nothing then, each by itself or all together.
 */
#include <stdio.h>

#include "analysis/why/rules.h"

static const char *const timers[] = {"clock_nanosleep", "nanosleep", NULL};

static bool is_timer(const why_wait_t *wait) {
  for (const char *const *t = timers; *t; t++)
    if (!strcmp(wait->call, *t)) return true;
  return false;
}

/* Of the time in which TID was blocked, the part in timers. */
static double timer_share(const why_t *w, uint32_t tid) {
  uint64_t all = 0, timed = 0;
  for (size_t i = 0; i < w->waits.count; i++) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->tid != tid) continue;
    all += wait->to_ns - wait->from_ns;
    if (is_timer(wait)) timed += wait->to_ns - wait->from_ns;
  }
  return all ? (double)timed / (double)all : 0;
}

/* How often the thread woke up in a second, and the CPU time of each time. */
static bool wake_ups_of(const why_thread_t *t, double *rate, double *cpu_ns) {
  if (!t->switches || (double)t->seen_ns < WHY_GROWTH_NS) return false;
  *rate = (double)t->switches / (double)t->seen_ns * 1e9;
  *cpu_ns = (double)t->run_ns / (double)t->switches;
  return true;
}

/* On a busy machine a thread wakes up less often, but it asks for sleeps as short. */
static bool is_storm(const why_thread_t *t, double rate, double cpu_ns) {
  uint64_t active = t->run_ns + t->runq_ns;
  double blocked = t->seen_ns > active ? (double)(t->seen_ns - active) : 0;
  return rate >= WHY_WAKEUPS_RATE && cpu_ns <= WHY_WAKEUP_NS &&
         blocked / (double)t->switches <= WHY_SLEEP_NS;
}

/* The CPU samples of the thread, and those of them at the sleep. */
static uint64_t ticks_asleep(why_t *w, const why_thread_t *t, uint64_t *all) {
  static const char *const sleeps[] = {"clock_nanosleep",
                                       "GI___clock_nanosleep",
                                       "nanosleep",
                                       "GI___nanosleep",
                                       "usleep",
                                       "thrd_sleep",
                                       "read",
                                       "GI___libc_read",
                                       "libc_read",
                                       NULL};
  uint64_t asleep = 0;
  *all = 0;
  for (size_t i = 0; i < w->samples.count; i++) {
    const why_samples_t *s = &w->samples.items[i];
    if (s->tid != t->tid) continue;
    *all += s->ticks;
    if (why_calls_any(s->stack, sleeps)) asleep += s->ticks;
  }
  return asleep;
}

/* Whether all that the thread does is to sleep and to look: its CPU samples are in the function
 * that sleeps, at the sleep. A thread that works between short sleeps is paced. */
static bool only_sleeps(why_t *w, const why_thread_t *t) {
  enum { TICKS_LEAST = 3 };
  uint64_t all, asleep = ticks_asleep(w, t, &all);
  return all >= TICKS_LEAST && asleep * 5 >= all * 4;
}

static void describe_wake_ups(why_t *w, const why_thread_t *t, double rate, double cpu_ns,
                              findings_list_t *out) {
  why_weights_t weights = {0};
  char a[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX], thread[64];
  bool good = true;
  for (size_t i = 0; good && i < w->waits.count; i++)
    if (w->waits.items[i].tid == t->tid && is_timer(&w->waits.items[i]))
      good = why_weights_add(&weights, why_stack(w, w->waits.items[i].stack),
                             w->waits.items[i].to_ns - w->waits.items[i].from_ns + 1);
  const why_weight_t *hot = good ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  if (hot) {
    finding_t f = {.kind = WHY_WAKEUPS,
                   .score = 56,
                   .culprit = hot->function,
                   .tid = t->tid,
                   .amount = rate,
                   .unit = "wake-ups/s",
                   .section = "usage"};
    WHY_SAY(f.what, "%s sleeps and wakes up %.0f times a second in %s, with %s of work each time",
            why_thread_text(w, t->tid, thread, sizeof thread), rate,
            why_place_of(hot->example, hot->function, place), why_seconds(cpu_ns, a));
    if (*f.what == 't') *f.what = 'T';
    WHY_SAY(f.advice, "wait for the event itself, or sleep longer");
    WHY_SAY(f.evidence, "%.0f context switches a second", rate);
    findings_list_add(out, &f);
  }
  why_weights_free(&weights);
}

static bool find_wake_ups(why_t *w, findings_list_t *out) {
  const why_thread_t *worst = NULL;
  double rate, cpu_ns, most = 0;
  for (size_t i = 0; i < w->threads.count; i++) {
    const why_thread_t *t = &w->threads.items[i];
    if (!wake_ups_of(t, &rate, &cpu_ns) || !is_storm(t, rate, cpu_ns) || rate <= most) continue;
    if (timer_share(w, t->tid) < WHY_TIMER_SHARE || !only_sleeps(w, t)) continue;
    worst = t;
    most = rate;
  }
  if (worst && wake_ups_of(worst, &rate, &cpu_ns)) describe_wake_ups(w, worst, rate, cpu_ns, out);
  return worst != NULL;
}

/* ---- many threads ------------------------------------------------------------------------- */

/* The sum over the threads that mostly sleep, each for some milliseconds at most. */
typedef struct group {
  why_weights_t places;
  unsigned threads;
  uint64_t switches;
  double rate, run_ns, ticks, asleep;
} group_t;

static bool add_to_group(why_t *w, const why_thread_t *t, group_t *g) {
  double rate, cpu_ns;
  if (!wake_ups_of(t, &rate, &cpu_ns) || rate * WHY_GROUP_SLEEP_NS < 1e9 ||
      cpu_ns > WHY_WAKEUP_NS || timer_share(w, t->tid) < WHY_TIMER_SHARE)
    return true;
  uint64_t all, asleep = ticks_asleep(w, t, &all);
  g->threads++;
  g->switches += t->switches;
  g->rate += rate;
  g->run_ns += (double)t->run_ns;
  g->ticks += (double)all;
  g->asleep += (double)asleep;
  for (size_t i = 0; i < w->waits.count; i++) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->tid != t->tid || !is_timer(wait)) continue;
    if (!why_weights_add(&g->places, why_stack(w, wait->stack), wait->to_ns - wait->from_ns + 1))
      return false;
  }
  return true;
}

static void describe_group(const group_t *g, const why_weight_t *hot, findings_list_t *out) {
  char a[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX];
  finding_t f = {.kind = WHY_WAKEUPS,
                 .score = 55,
                 .culprit = hot->function,
                 .amount = g->rate,
                 .unit = "wake-ups/s",
                 .section = "usage"};
  WHY_SAY(f.what,
          "%u threads sleep and wake up %.0f times a second in %s, with %s of work each time",
          g->threads, g->rate, why_place_of(hot->example, hot->function, place),
          why_seconds(g->run_ns / (double)g->switches, a));
  WHY_SAY(f.advice, "wait for the event itself, or sleep longer");
  WHY_SAY(f.evidence, "%llu context switches, %s of CPU time", (unsigned long long)g->switches,
          why_seconds(g->run_ns, a));
  findings_list_add(out, &f);
}

/* Each thread sleeps for a time that is not short, but there are many of them. */
static void find_group(why_t *w, findings_list_t *out) {
  enum { THREADS_LEAST = 4 };
  group_t g = {0};
  bool good = true;
  for (size_t i = 0; good && i < w->threads.count; i++)
    good = add_to_group(w, &w->threads.items[i], &g);
  const why_weight_t *hot = good ? why_weights_hot(&g.places, WHY_SPIN_SHARE) : NULL;
  if (hot && g.threads >= THREADS_LEAST && g.rate >= WHY_GROUP_RATE &&
      g.asleep >= WHY_SPIN_SHARE * g.ticks)
    describe_group(&g, hot, out);
  why_weights_free(&g.places);
}

void why_wakeup_rules(why_t *w, findings_list_t *out) {
  if (w->has_waits && !find_wake_ups(w, out)) find_group(w, out);
}
