/* SPDX-License-Identifier: MIT
 *
 * Rules: a program that does nothing and where it waits. A note, because servers wait, too; a fault
 * if nobody can end the wait. Children that ended and that nobody waited for.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/futex_calls.h"
#include "analysis/why/rules.h"

/* What a futex is used for, by the function that the program called. */
static const char *purpose_of(why_t *w, const why_stack_t *s, const why_wait_t *wait) {
  if (wait->is_lock) return "a lock";
  const futex_wait_t *called = NULL;
  for (int i = 0; i < s->count && i != s->place; i++) {
    const futex_wait_t *each = futex_wait_of_function(s->functions[i]->name);
    if (each) called = each;
  }
  if (called) return called->kind;
  return *wait->call ? why_called(w, wait) : "the kernel";
}

static bool is_lock(why_t *w, const why_wait_t *wait) {
  return !strcmp(purpose_of(w, why_stack(w, wait->stack), wait), "a lock");
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
  static const char *const joins[] = {"pthread_join", "pthread_clockjoin_ex", "thrd_join",
                                      "Thread.join" /* Python */, NULL};
  const why_wait_t *best = NULL;
  bool best_joins = false;
  for (size_t i = 0; i < w->threads.count; i++) {
    uint64_t since = 0;
    const why_wait_t *last = last_of(w, w->threads.items[i].tid, &since);
    if (!last || why_stack(w, last->stack)->place < 0) continue;
    bool is_join = why_calls_any(why_stack(w, last->stack), joins);
    if (best && (is_join || !best_joins)) continue;
    best = last;
    best_joins = is_join;
    *since_ns = since;
  }
  return best;
}

/* Another thread that waits for another lock; NULL: none. */
static const why_wait_t *other_lock(why_t *w, const why_wait_t *known) {
  for (size_t i = 0; i < w->threads.count; i++) {
    uint64_t since = 0;
    const why_wait_t *last = last_of(w, w->threads.items[i].tid, &since);
    if (last && last->tid != known->tid && last->address != known->address &&
        why_stack(w, last->stack)->place >= 0 && is_lock(w, last))
      return last;
  }
  return NULL;
}

/* ---- where others wait ---- */

#define PLACES_MAX 16

/* A place where threads wait: the last wait of one of them. */
typedef struct waiting_place {
  const why_wait_t *wait;
  uint32_t threads;
} waiting_place_t;

/* Counts WAIT in PLACES, of which COUNT are used. Returns the new count. */
static int count_at(why_t *w, waiting_place_t places[PLACES_MAX], int count,
                    const why_wait_t *wait) {
  const why_function_t *place = why_place(why_stack(w, wait->stack));
  int i = 0;
  while (i < count && !why_same_function(why_place(why_stack(w, places[i].wait->stack)), place))
    i++;
  if (i == PLACES_MAX) return count;
  if (i == count) places[count++] = (waiting_place_t){wait, 0};
  places[i].threads++;
  return count;
}

/* Of the threads that waited for LEAST_NS until the end, where most wait, other than in TOLD. */
static waiting_place_t elsewhere(why_t *w, const why_wait_t *told, uint64_t least_ns) {
  waiting_place_t places[PLACES_MAX] = {{told, 0}}, most = {NULL, 0};
  int count = 1;
  for (size_t i = 0; i < w->threads.count; i++) {
    uint64_t since = 0;
    const why_wait_t *last = last_of(w, w->threads.items[i].tid, &since);
    if (last && last->to_ns - since >= least_ns && why_stack(w, last->stack)->place >= 0)
      count = count_at(w, places, count, last);
  }
  for (int i = 1; i < count; i++)
    if (places[i].threads > most.threads) most = places[i];
  return most;
}

/* "; 3 threads wait for a condition in take_job (workers.c:13)"; empty if none does. */
static void describe_others(why_t *w, const why_wait_t *told, uint64_t least_ns, char *out,
                            size_t size) {
  char place[WHY_PLACE_MAX], thread[64];
  waiting_place_t others = elsewhere(w, told, least_ns);
  if (!others.threads) return;
  const why_stack_t *s = why_stack(w, others.wait->stack);
  if (others.threads == 1)
    why_thread_text(w, others.wait->tid, thread, sizeof thread);
  else
    (void)snprintf(thread, sizeof thread, "%u threads", others.threads);
  (void)snprintf(out, size, "; %s wait%s for %s in %s", thread, others.threads == 1 ? "s" : "",
                 purpose_of(w, s, others.wait), why_place_text(s, place));
}

/* What nobody can end, behind the place of the wait; the advice. */
static void describe_hang(why_t *w, const why_wait_t *wait, bool has_file, char *what, size_t size,
                          finding_t *f) {
  char place[WHY_PLACE_MAX], thread[64];
  const why_wait_t *other = is_lock(w, wait) ? other_lock(w, wait) : NULL;
  if (has_file) {
    snprintf(what, size, "; only the program itself can write to it");
    WHY_SAY(f->advice, "close the writing end before the read");
  } else if (other) {
    why_thread_text(w, other->tid, thread, sizeof thread);
    snprintf(what, size,
             "; %s waits for another one in %s; no thread is left that could release them", thread,
             why_place_text(why_stack(w, other->stack), place));
    WHY_SAY(f->advice, "take these locks in one order everywhere");
  } else if (is_lock(w, wait)) {
    snprintf(what, size, ", and no thread is left that could release it");
    WHY_SAY(f->advice, "release the lock on every path, and do not take it twice");
  } else {
    snprintf(what, size, ", and no thread is left that could wake it");
    WHY_SAY(f->advice, "test the condition before the wait, and notify after each change");
  }
}

static void find_zombies(why_t *w, findings_list_t *out) {
  static const char *const starts[] = {"fork",  "vfork",        "_Fork",  "clone", "posix_spawn",
                                       "popen", "posix_spawnp", "system", NULL};
  if ((double)w->zombies < WHY_ZOMBIES_LEAST) return;
  char name[WHY_NAME_MAX];
  const why_function_t *starter = why_only_caller(w, starts);
  finding_t f = {.kind = WHY_ZOMBIES,
                 .score = 70,
                 .culprit = starter,
                 .amount = w->zombies,
                 .unit = "processes"};
  WHY_SAY(f.what,
          "%u child processes have ended and stay as zombies, because the program has not waited "
          "for them%s%s",
          w->zombies, starter ? "; of its functions, only this one starts processes: " : "",
          starter ? why_function_text(starter, name) : "");
  WHY_SAY(f.advice, "call waitpid for each child, or ignore SIGCHLD");
  WHY_SAY(f.evidence, "children in state Z, at the start and at the end");
  findings_list_add(out, &f);
}

/* ---- a loop that waits in several places ---- */

/* Places of one thread, with the time that it waited there. */
typedef struct loop {
  const why_wait_t *places[PLACES_MAX];
  uint64_t ns[PLACES_MAX];
  int count;
  uint64_t all_ns;
  why_weights_t weights; /* by the program's functions */
} loop_t;

static void add_place(loop_t *loop, const why_wait_t *wait) {
  int i = 0;
  while (i < loop->count && loop->places[i]->stack != wait->stack)
    i++;
  if (i == PLACES_MAX) return;
  if (i == loop->count) loop->places[loop->count++] = wait;
  loop->ns[i] += wait->to_ns - wait->from_ns;
}

static loop_t loop_of(why_t *w, uint32_t tid) {
  loop_t loop = {.count = 0};
  for (size_t i = 0; i < w->waits.count; i++) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->tid != tid) continue;
    loop.all_ns += wait->to_ns - wait->from_ns;
    if (why_stack(w, wait->stack)->place >= 0) add_place(&loop, wait);
  }
  return loop;
}

static const why_wait_t *longest_of(const loop_t *loop) {
  int longest = 0;
  for (int i = 1; i < loop->count; i++)
    if (loop->ns[i] > loop->ns[longest]) longest = i;
  return loop->places[longest];
}

static void describe_loop(why_t *w, loop_t *loop, findings_list_t *out) {
  char place[WHY_PLACE_MAX], thread[64], a[WHY_AMOUNT_MAX];
  bool good = true;
  for (int i = 0; i < loop->count && good; i++)
    good = why_weights_add(&loop->weights, why_stack(w, loop->places[i]->stack), loop->ns[i]);
  const why_wait_t *longest = longest_of(loop);
  const why_stack_t *s = why_stack(w, longest->stack);
  const why_weight_t *hot = why_weights_hot(&loop->weights, WHY_HOT_SHARE);
  finding_t f = {.kind = WHY_BLOCKED,
                 .is_note = true,
                 .score = 15,
                 .culprit = hot ? hot->function : why_place(s),
                 .tid = longest->tid,
                 .amount = (double)loop->all_ns / 1e9,
                 .unit = "s",
                 .section = "waits"};
  WHY_SAY(f.what, "The program waits: %s again and again, mostly for %s, in %s",
          why_thread_text(w, f.tid, thread, sizeof thread), purpose_of(w, s, longest),
          hot ? why_place_of(hot->example, hot->function, place) : why_place_text(s, place));
  WHY_SAY(f.evidence, "blocked for %s in all", why_seconds((double)loop->all_ns, a));
  if (good) findings_list_add(out, &f);
}

/* A loop that tries something, and waits before the next try: no wait lasts long. Of the first
 * threads, the one that waited longest stands for the program. */
static void find_waiting_loop(why_t *w, findings_list_t *out) {
  enum { THREADS_MAX = 16 };
  loop_t longest = {.count = 0};
  for (size_t i = 0; i < w->threads.count && i < THREADS_MAX; i++) {
    const loop_t loop = loop_of(w, w->threads.items[i].tid);
    if (loop.count && loop.all_ns > longest.all_ns) longest = loop;
  }
  if (longest.count && (double)longest.all_ns >= WHY_IDLE_LASTED * (double)w->duration_ns)
    describe_loop(w, &longest, out);
  why_weights_free(&longest.weights);
}

static void find_blocked(why_t *w, findings_list_t *out) {
  uint64_t run = why_run_ns(w), since = 0;
  if (!w->has_waits || (!w->is_core && (double)run > WHY_IDLE_SHARE * (double)w->duration_ns))
    return;
  const why_wait_t *wait = telling_wait(w, &since);
  uint64_t lasted = wait ? wait->to_ns - since : 0;
  if (!w->is_core && (double)lasted < WHY_IDLE_LASTED * (double)w->duration_ns) {
    find_waiting_loop(w, out);
    return;
  }
  if (!wait) return;
  char place[WHY_PLACE_MAX], thread[64], a[WHY_AMOUNT_MAX];
  const why_stack_t *s = why_stack(w, wait->stack);
  finding_t f = {.kind = WHY_BLOCKED,
                 .is_note = true,
                 .score = 15,
                 .culprit = why_place(s),
                 .tid = wait->tid,
                 .since_ns = since,
                 .amount = (double)lasted / 1e9,
                 .unit = "s",
                 .section = "waits"};
  bool has_file = *wait->what && *wait->what != '?';
  char start[100], more[WHY_PLACE_MAX + 160] = "";
  f.is_note = !w->is_stuck;
  why_thread_text(w, wait->tid, thread, sizeof thread);
  (void)snprintf(start, sizeof start, w->is_stuck ? "hangs: %s waits" : "waits: %s", thread);
  if (w->is_stuck) {
    f.kind = WHY_HANG;
    f.score = 90;
    describe_hang(w, wait, has_file, more, sizeof more, &f);
  } else {
    describe_others(w, wait, lasted / 2, more, sizeof more);
  }
  WHY_SAY(f.what, "The program %s for %s%s%.80s, in %s%s", start, purpose_of(w, s, wait),
          has_file ? " on " : "", has_file ? wait->what : "", why_place_text(s, place), more);
  WHY_SAY(f.evidence, "blocked for %s", why_seconds((double)lasted, a));
  findings_list_add(out, &f);
}

void why_blocked_rules(why_t *w, findings_list_t *out) {
  find_zombies(w, out);
  find_blocked(w, out);
}
