/* SPDX-License-Identifier: MIT
 *
 * Rules: where the CPU time goes, loops that wait by spinning, wake-ups without work.
 */
#include <stdio.h>

#include "analysis/why/rules.h"

/* Weighs the ticks of all threads by own function. */
static bool weigh(const why_t *w, why_weights_t *out) {
  for (size_t i = 0; i < w->samples.count; i++)
    if (!why_weights_add(out, w->samples.items[i].stack, w->samples.items[i].ticks)) return false;
  return true;
}

/* The function in which most of the CPU time was spent, of whomever it is: the program of a package
 * has no own functions. NULL: none has most of it. */
static const why_stack_t *hottest_innermost(const why_t *w, uint64_t all, uint64_t *ticks) {
  for (size_t i = 0; i < w->samples.count; i++) {
    const why_stack_t *s = w->samples.items[i].stack;
    if (!s->count || (!s->functions[0]->known && !*s->functions[0]->path)) continue;
    *ticks = 0;
    for (size_t k = i; k < w->samples.count; k++) {
      const why_stack_t *other = w->samples.items[k].stack;
      if (other->count && why_same_function(other->functions[0], s->functions[0]))
        *ticks += w->samples.items[k].ticks;
    }
    if ((double)*ticks >= WHY_HOT_SHARE * (double)all) return s;
    if (i == 64) break; /* most ticks are in few functions */
  }
  return NULL;
}

static void add_note(const why_t *w, const why_function_t *f, const char *place, double share,
                     uint64_t all, findings_list_t *out) {
  char a[WHY_AMOUNT_MAX];
  uint64_t run = why_run_ns(w);
  finding_t note = {.kind = WHY_CPU,
                    .is_note = true,
                    .score = 20 * share,
                    .culprit = f,
                    .amount = share * (double)run / 1e9,
                    .unit = "s",
                    .section = "sample"};
  WHY_SAY(note.what, "Most of the CPU time, %.0f %% of %s, was spent in %s", 100 * share,
          why_seconds((double)run, a), place);
  WHY_SAY(note.evidence, "%.0f of %llu samples", share * (double)all, (unsigned long long)all);
  findings_list_add(out, &note);
}

/* A fact, not a fault: a program that computes is healthy. */
static void note_cpu(why_t *w, findings_list_t *out) {
  enum { SAMPLES_LEAST = 10 };
  why_weights_t weights = {0};
  char place[WHY_PLACE_MAX];
  uint64_t ticks;
  if (weigh(w, &weights) && (double)why_run_ns(w) >= WHY_NOTE_CPU_NS &&
      weights.sum >= SAMPLES_LEAST) {
    const why_weight_t *hot = why_weights_hot(&weights, WHY_HOT_SHARE);
    const why_stack_t *other = hot ? NULL : hottest_innermost(w, weights.sum, &ticks);
    if (hot)
      add_note(w, hot->function, why_place_of(hot->example, hot->function, place),
               (double)hot->total / (double)weights.sum, weights.sum, out);
    else if (other)
      add_note(w, other->functions[0], why_function_text(other->functions[0], place),
               (double)ticks / (double)weights.sum, weights.sum, out);
  }
  why_weights_free(&weights);
}

/* ---- busy loops --------------------------------------------------------------------------- */

static const char *const spin_calls[] = {"sched_yield",
                                         "pthread_yield",
                                         "thrd_yield",
                                         "poll",
                                         "ppoll",
                                         "select",
                                         "pselect",
                                         "epoll_wait",
                                         "epoll_pwait",
                                         "pthread_mutex_trylock",
                                         "mtx_trylock",
                                         "sem_trywait",
                                         "pthread_spin_lock",
                                         "pthread_spin_trylock",
                                         "pthread_rwlock_tryrdlock",
                                         "pthread_rwlock_trywrlock",
                                         "pthread_tryjoin_np",
                                         "waitpid",
                                         "wait4",
                                         "clock_gettime",
                                         "gettimeofday",
                                         "time",
                                         NULL};

/* What one try to connect consists of. */
static const char *const tries[] = {"connect", "socket", "close", NULL};

/* The name of the spinning call of CALLS, as the program called it: the outermost of its names. */
static const char *spin_call_of(const why_stack_t *s, const char *const *calls) {
  const char *found = NULL;
  for (int i = 0; i < s->owner; i++) {
    const char *name = s->functions[i]->name + strspn(s->functions[i]->name, "_");
    for (const char *const *c = calls; *c; c++)
      if (!strcmp(name, *c)) found = *c;
  }
  return found;
}

static const char *spin_advice(const char *call) {
  static const char *const polls[] = {"poll",       "ppoll",       "select", "pselect",
                                      "epoll_wait", "epoll_pwait", NULL};
  if (!strcmp(call, "connect")) return "pause before the next try, for longer each time";
  return why_is_any(call, polls) ? "handle what it reports, and use no timeout of 0"
                                 : "wait with a condition variable, or with a timeout";
}

/* A thread that spends its time in CALLS. NEEDED: one of them that must be there; NULL: none, and
 * the finding names the call of the most frequent stack. */
static void judge_spin(why_t *w, const why_thread_t *t, const char *const *calls,
                       const char *needed, findings_list_t *out) {
  why_weights_t spins = {0};
  const char *call = needed;
  uint64_t all = 0, seen = 0, most = 0, first = UINT64_MAX;
  bool good = true;
  for (size_t i = 0; i < w->samples.count && good; i++) {
    const why_samples_t *s = &w->samples.items[i];
    if (s->tid != t->tid) continue;
    all += s->ticks;
    const char *spin = spin_call_of(s->stack, calls);
    if (!spin) continue;
    if (!needed && s->ticks > most) {
      call = spin;
      most = s->ticks;
    }
    if (needed && !strcmp(spin, needed)) seen += s->ticks;
    if (s->first_ns < first) first = s->first_ns;
    good = why_weights_add(&spins, s->stack, s->ticks);
  }
  const why_weight_t *hot = why_weights_hot(&spins, WHY_HOT_SHARE);
  if (needed && (double)seen < WHY_TRY_SHARE * (double)all) good = false;
  if (good && hot && (double)spins.sum >= WHY_SPIN_SHARE * (double)all) {
    char place[WHY_PLACE_MAX], a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], thread[64];
    finding_t f = {.kind = WHY_BUSY_LOOP,
                   .score = 80,
                   .culprit = hot->function,
                   .tid = t->tid,
                   .since_ns = first,
                   .amount = (double)t->run_ns / 1e9,
                   .unit = "s",
                   .section = "sample"};
    WHY_SAY(f.what, "Busy loop: %s calls %s again and again in %s and used %s of CPU in %s",
            why_thread_text(w, t->tid, thread, sizeof thread), call,
            why_place_of(hot->example, hot->function, place), why_seconds((double)t->run_ns, a),
            why_seconds((double)t->seen_ns, b));
    WHY_SAY(f.advice, "%s", spin_advice(call));
    WHY_SAY(f.evidence, "%llu of %llu samples of the thread are in %s",
            (unsigned long long)spins.sum, (unsigned long long)all, call);
    findings_list_add(out, &f);
  }
  why_weights_free(&spins);
}

/* ---- loops that read a variable ----------------------------------------------------------- */

/* Whether the innermost function is the load of an atomic variable, inlined into the program. */
static bool is_atomic_load(const why_stack_t *s) {
  if (s->owner < 1) return false;
  const char *name = s->functions[0]->name;
  bool is_atomic = strstr(name, "std::atomic") || strstr(name, "std::__atomic_base");
  return is_atomic && (strstr(name, "::load(") || strstr(name, "::test("));
}

/* A loop of one line that loads an atomic variable: all samples are in this line. */
static void judge_atomic(why_t *w, const why_thread_t *t, findings_list_t *out) {
  const why_stack_t *loads = NULL;
  uint64_t all = 0, there = 0, load = 0, first = UINT64_MAX;
  for (size_t i = 0; i < w->samples.count && !loads; i++)
    if (w->samples.items[i].tid == t->tid && is_atomic_load(w->samples.items[i].stack))
      loads = w->samples.items[i].stack;
  const why_function_t *owner = loads ? why_owner(loads) : NULL;
  for (size_t i = 0; owner && i < w->samples.count; i++) {
    const why_samples_t *s = &w->samples.items[i];
    if (s->tid != t->tid) continue;
    const why_function_t *f = why_owner(s->stack);
    all += s->ticks;
    if (!f || !why_same_function(f, owner) || f->line != owner->line) continue;
    there += s->ticks;
    if (is_atomic_load(s->stack)) load += s->ticks;
    if (s->first_ns < first) first = s->first_ns;
  }
  if (!owner || !owner->line || (double)there < WHY_SPIN_SHARE * (double)all ||
      (double)load < WHY_ATOMIC_SHARE * (double)there)
    return;
  char place[WHY_PLACE_MAX], a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], thread[64];
  finding_t f = {.kind = WHY_BUSY_LOOP,
                 .score = 78,
                 .culprit = owner,
                 .tid = t->tid,
                 .since_ns = first,
                 .amount = (double)t->run_ns / 1e9,
                 .unit = "s",
                 .section = "sample"};
  WHY_SAY(f.what,
          "Busy loop: %s reads an atomic variable again and again in %s and used %s of CPU in %s",
          why_thread_text(w, t->tid, thread, sizeof thread), why_place_of(loads, owner, place),
          why_seconds((double)t->run_ns, a), why_seconds((double)t->seen_ns, b));
  WHY_SAY(f.advice, "wait with a condition variable, or with std::atomic::wait");
  WHY_SAY(f.evidence, "%llu of %llu samples of the thread are in this line",
          (unsigned long long)there, (unsigned long long)all);
  findings_list_add(out, &f);
}

static void find_spins(why_t *w, findings_list_t *out) {
  for (size_t i = 0; i < w->threads.count; i++) {
    const why_thread_t *t = &w->threads.items[i];
    uint64_t active = t->run_ns + t->runq_ns;
    if (t->ticks >= 10 && (double)t->run_ns >= WHY_BUSY_NS &&
        (double)active >= WHY_BUSY_SHARE * (double)t->seen_ns) {
      judge_spin(w, t, spin_calls, NULL, out);
      judge_spin(w, t, tries, tries[0], out);
      judge_atomic(w, t, out);
    }
  }
}

/* ---- too few processors ------------------------------------------------------------------- */

/* The threads want to run, and something else runs most of the time. A note: the program has no
 * fault. A limit of the cgroup is a finding of its own (resources.c). */
static void note_queued(const why_t *w, findings_list_t *out) {
  double run = (double)why_run_ns(w), queued = (double)w->queued_ns;
  if (queued < WHY_QUEUED_NS || queued < WHY_QUEUED_SHARE * (run + queued)) return;
  char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX];
  finding_t note = {.kind = WHY_QUEUED,
                    .is_note = true,
                    .score = 45,
                    .amount = queued / 1e9,
                    .unit = "s",
                    .section = "sample"};
  WHY_SAY(note.what, "The program waited %s for a CPU, and ran for %s", why_seconds(queued, a),
          why_seconds(run, b));
  bool crowds = run > WHY_CROWD_SHARE * (double)w->duration_ns;
  WHY_SAY(note.advice, "%slook for other programs that use the processors, with top(1)",
          crowds ? "use fewer threads, and " : "");
  WHY_SAY(note.evidence, "%zu %s in %s", w->threads.count,
          w->threads.count == 1 ? "thread" : "threads", why_seconds((double)w->duration_ns, a));
  findings_list_add(out, &note);
}

void why_cpu_rules(why_t *w, findings_list_t *out) {
  note_queued(w, out);
  if (!w->has_ticks) return;
  note_cpu(w, out);
  find_spins(w, out);
}
