/* SPDX-License-Identifier: MIT
 *
 * Rules: deadlocks, and crowds of threads that wait for one lock.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/why/rules.h"

/* ---- deadlocks ---------------------------------------------------------------------------- */

/* The longest chain of threads that is told of. */
enum { CYCLE_MAX = 16, CYCLE_TOLD = 3 };

/* The wait in which TID was last seen; NULL: none. */
static const why_wait_t *last_wait(const why_t *w, uint32_t tid) {
  for (size_t i = w->waits.count; i-- > 0;)
    if (w->waits.items[i].tid == tid) return &w->waits.items[i];
  return NULL;
}

/* The time at which LAST's thread began to wait for this lock of this owner without a break. */
static uint64_t since_of(const why_t *w, const why_wait_t *last) {
  uint64_t since = last->from_ns;
  for (size_t i = (size_t)(last - w->waits.items); i-- > 0;) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->tid != last->tid) continue;
    if (wait->address != last->address || wait->stack != last->stack || wait->owner != last->owner)
      break;
    since = wait->from_ns;
  }
  return since;
}

/* Whether TID ran after TIME: then it does not wait for ever. */
static bool ran_after(const why_t *w, uint32_t tid, uint64_t time_ns) {
  for (size_t i = w->ticks.count; i-- > 0;)
    if (w->ticks.items[i].tid == tid && w->ticks.items[i].time_ns > time_ns) return true;
  return false;
}

/* Whether the thread of LAST waited to the end. Records of living threads are at most a second old,
 * and the last ones are of the end. A thread that waits for the GIL runs every 5 ms to ask for it.
 */
static bool waits_to_the_end(const why_t *w, const why_wait_t *last) {
  uint64_t end = 0;
  for (size_t i = 0; i < w->waits.count; i++)
    if (w->waits.items[i].to_ns > end) end = w->waits.items[i].to_ns;
  return (double)(end - last->to_ns) <= WHY_DEADLOCK_NS &&
         (why_is_gil(w, last->address) || !ran_after(w, last->tid, since_of(w, last)));
}

static bool has_address(const why_wait_t *const *waits, int count, uint64_t address) {
  for (int i = 0; i < count; i++)
    if (waits[i]->address == address) return true;
  return false;
}

/* Follows the owners from START. Returns the length of the cycle that START is in, or 0. Threads
 * that compete for one lock make no cycle: the owner of a wait may be out of date, so each thread
 * must wait for another lock. */
static int find_cycle(const why_t *w, uint32_t start, const why_wait_t *cycle[CYCLE_MAX]) {
  uint32_t tid = start;
  for (int n = 0; n < CYCLE_MAX; n++) {
    const why_wait_t *wait = last_wait(w, tid);
    if (!wait || !wait->is_lock || !wait->owner || has_address(cycle, n, wait->address) ||
        !waits_to_the_end(w, wait))
      return 0;
    cycle[n] = wait;
    tid = wait->owner;
    if (tid == start) return n + 1;
  }
  return 0;
}

static void describe_cycle(why_t *w, const why_wait_t *const *cycle, int n, finding_t *f) {
  char place[WHY_PLACE_MAX], thread[64];
  size_t used = 0, size = sizeof f->what;
  if (n == 1) {
    WHY_SAY(f->what, "Deadlock: %s waits for a lock that it holds itself, in %s",
            why_thread_text(w, cycle[0]->tid, thread, sizeof thread),
            why_place_text(why_stack(w, cycle[0]->stack), place));
    return;
  }
  for (int i = 0; i < n && i < CYCLE_TOLD && used < size; i++) {
    char owner[64], lock[96];
    used += (size_t)snprintf(
        f->what + used, size - used, "%s%s in %s waits for %s of %s",
        i ? ", " : "Deadlock: ", why_thread_text(w, cycle[i]->tid, thread, sizeof thread),
        why_place_text(why_stack(w, cycle[i]->stack), place),
        why_lock_text(w, cycle[i]->address, "a lock", lock, sizeof lock),
        why_thread_text(w, cycle[i]->owner, owner, sizeof owner));
  }
  if (n > CYCLE_TOLD && used < size)
    (void)snprintf(f->what + used, size - used, ", and so on through %d threads", n);
}

static void add_deadlock(why_t *w, const why_wait_t *const *cycle, int n, findings_list_t *out) {
  uint64_t since = 0, until = UINT64_MAX;
  char amount[WHY_AMOUNT_MAX];
  for (int i = 0; i < n; i++) {
    uint64_t from = since_of(w, cycle[i]);
    if (from > since) since = from;
    if (cycle[i]->to_ns < until) until = cycle[i]->to_ns;
  }
  uint64_t lasted = until > since ? until - since : 0;
  if (!w->is_core && (double)lasted < WHY_DEADLOCK_NS) return;
  finding_t f = {.kind = WHY_DEADLOCK,
                 .score = 95,
                 .culprit = why_owner(why_stack(w, cycle[0]->stack)),
                 .tid = cycle[0]->tid,
                 .since_ns = since,
                 .amount = (double)lasted / 1e9,
                 .unit = "s",
                 .section = "waits"};
  describe_cycle(w, cycle, n, &f);
  if (n == 1)
    WHY_SAY(f.advice, "release the lock before the second call, or make it recursive");
  else
    WHY_SAY(f.advice, "take these locks in one order everywhere");
  if (w->is_core)
    WHY_SAY(f.evidence, "%d thread%s, each waits for a lock whose owner is the next", n,
            n == 1 ? "" : "s");
  else
    WHY_SAY(f.evidence, "%d thread%s blocked for %s", n, n == 1 ? "" : "s",
            why_seconds((double)lasted, amount));
  findings_list_add(out, &f);
}

static void find_deadlocks(why_t *w, findings_list_t *out) {
  const why_wait_t *cycle[CYCLE_MAX];
  for (size_t i = 0; i < w->threads.count; i++) {
    uint32_t tid = w->threads.items[i].tid, least = tid;
    int n = find_cycle(w, tid, cycle);
    for (int k = 0; k < n; k++)
      if (cycle[k]->tid < least) least = cycle[k]->tid;
    if (n && least == tid) add_deadlock(w, cycle, n, out); /* each cycle once */
  }
}

/* ---- convoys ------------------------------------------------------------------------------ */

/* All waits for one lock. */
typedef struct crowd {
  uint64_t address, ns, from_ns, to_ns;
  bool is_gil;
  uint32_t tids[64];
  unsigned waiters;
} crowd_t;
typedef ARRAY(crowd_t) crowds_t;

/* NULL: out of memory, or too many locks: a crowd is at one of the first. */
static crowd_t *crowd_of(const why_t *w, crowds_t *all, uint64_t address) {
  enum { LOCKS_MAX = 1024 };
  for (size_t i = 0; i < all->count; i++)
    if (all->items[i].address == address) return &all->items[i];
  crowd_t *c = all->count < LOCKS_MAX ? ARRAY_ADD(*all) : NULL;
  if (c)
    *c = (crowd_t){.address = address, .from_ns = UINT64_MAX, .is_gil = why_is_gil(w, address)};
  return c;
}

static void add_waiter(crowd_t *c, uint32_t tid) {
  for (unsigned i = 0; i < c->waiters; i++)
    if (c->tids[i] == tid) return;
  if (c->waiters < sizeof c->tids / sizeof *c->tids) c->tids[c->waiters++] = tid;
}

static void collect_crowds(why_t *w, crowds_t *all) {
  for (size_t i = 0; i < w->waits.count; i++) {
    const why_wait_t *wait = &w->waits.items[i];
    if (!wait->is_lock) continue;
    crowd_t *c = crowd_of(w, all, wait->address);
    if (!c) continue;
    c->ns += wait->to_ns - wait->from_ns;
    if (wait->from_ns < c->from_ns) c->from_ns = wait->from_ns;
    if (wait->to_ns > c->to_ns) c->to_ns = wait->to_ns;
    add_waiter(c, wait->tid);
  }
}

static uint64_t overlap(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  uint64_t from = a > c ? a : c, to = b < d ? b : d;
  return to > from ? to - from : 0;
}

/* Calls in which a thread waits for work or for a client. A thread that holds a lock meanwhile
 * leads a pool of idle threads: the others wait for their turn to wait. */
static bool is_idle_call(const char *call) {
  static const char *const calls[] = {
      "accept",         "accept4",         "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll",
      "ppoll",          "select",          "pselect6",   "recvfrom",    "recvmsg",      "read",
      "rt_sigwaitinfo", "rt_sigtimedwait", "pause",      "wait4",       "waitid",       "msgrcv",
      "semop",          "io_getevents",    NULL};
  for (const char *const *c = calls; *c; c++)
    if (!strcmp(*c, call)) return true;
  return false;
}

typedef struct holders {
  why_weights_t weights; /* what the owner did while others waited */
  uint64_t idle_ns, blocked_ns, known_ns;
  const why_wait_t *longest; /* a blocked owner */
  uint64_t longest_ns, tick_ns;
} holders_t;

/* Whether the owner's STACK shows that it holds the lock of LOCKERS there: it is in a function that
 * takes this lock elsewhere. The owner was read at another moment than its stack, so a stack that
 * shows nothing counts only if it lasted for NS. */
static bool shows_holding(const why_stack_t *s, const why_weights_t *lockers, uint64_t ns) {
  if ((double)ns >= WHY_HELD_NS) return true;
  for (size_t i = 0; i < lockers->items.count; i++) {
    const why_weight_t *locker = &lockers->items.items[i];
    if (!locker->own) continue;
    for (int k = 0; k < s->count; k++)
      if (why_same_function(s->functions[k], locker->function)) return true;
  }
  return false;
}

/* What the owner of the lock did during WAIT. A thread that runs Python code holds the GIL. */
static bool add_owner(why_t *w, const crowd_t *c, const why_wait_t *wait,
                      const why_weights_t *lockers, uint64_t tick_ns, holders_t *h) {
  for (size_t i = 0; i < w->waits.count; i++) {
    const why_wait_t *held = &w->waits.items[i];
    if (held->tid != wait->owner || held->address == wait->address) continue;
    uint64_t ns = overlap(wait->from_ns, wait->to_ns, held->from_ns, held->to_ns);
    if (!ns) continue;
    h->known_ns += ns;
    if (is_idle_call(held->call)) h->idle_ns += ns;
    if (!shows_holding(why_stack(w, held->stack), lockers, ns)) continue;
    h->blocked_ns += ns;
    if (ns > h->longest_ns) {
      h->longest_ns = ns;
      h->longest = held;
    }
    if (!why_weights_add(&h->weights, why_stack(w, held->stack), ns)) return false;
  }
  for (size_t i = 0; i < w->ticks.count; i++) {
    const why_tick_t *t = &w->ticks.items[i];
    if (t->tid != wait->owner || t->time_ns < wait->from_ns || t->time_ns > wait->to_ns) continue;
    uint64_t ns = t->ticks * tick_ns;
    h->known_ns += ns;
    if (!c->is_gil && !shows_holding(why_stack(w, t->stack), lockers, 0)) continue;
    if (!why_weights_add(&h->weights, why_stack(w, t->stack), ns)) return false;
  }
  return true;
}

static uint64_t tick_length(const why_t *w) {
  uint64_t run = 0, ticks = 0;
  for (size_t i = 0; i < w->threads.count; i++) {
    if (!w->threads.items[i].ticks) continue;
    run += w->threads.items[i].run_ns;
    ticks += w->threads.items[i].ticks;
  }
  return ticks ? run / ticks : 10000000;
}

/* Whether most of the waiting threads had just been woken up by a condition variable. */
static bool is_herd(why_t *w, const crowd_t *c) {
  static const char *const names[] = {"pthread_cond_wait", "pthread_cond_wait_common",
                                      "pthread_cond_timedwait", "pthread_cond_clockwait", NULL};
  uint64_t woken = 0;
  for (size_t i = 0; i < w->waits.count; i++) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->is_lock && wait->address == c->address &&
        why_calls_any(why_stack(w, wait->stack), names))
      woken += wait->to_ns - wait->from_ns;
  }
  return woken * 2 > c->ns;
}

/* H: what the owners did; NULL: unknown. */
static void advise(why_t *w, const crowd_t *c, const holders_t *h, finding_t *f) {
  bool blocks = h && h->longest && h->blocked_ns * 2 > h->known_ns;
  const char *call =
      blocks && h->longest->call[0] ? why_called(w, h->longest) : "a blocking function";
  if (c->is_gil && blocks)
    WHY_SAY(f->advice, "release the GIL around %s: Py_BEGIN_ALLOW_THREADS", call);
  else if (c->is_gil)
    WHY_SAY(f->advice, "move the work to other processes, or to C code that releases the GIL");
  else if (is_herd(w, c))
    WHY_SAY(f->advice, "wake one thread, not all: pthread_cond_signal");
  else if (blocks)
    WHY_SAY(f->advice, "do not call %s while the lock is held", call);
  else
    WHY_SAY(f->advice, "hold the lock for less time, or split it");
}

static void describe_convoy(why_t *w, const crowd_t *c, const why_weights_t *waiting,
                            const holders_t *h, findings_list_t *out) {
  char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], holder[WHY_PLACE_MAX], waiter[WHY_PLACE_MAX];
  char lock[96], address[32];
  const why_weight_t *hold = why_weights_hot(&h->weights, WHY_HOT_SHARE);
  const why_weight_t *wait = why_weights_hot(waiting, WHY_HOT_SHARE);
  if (!hold && !wait) return;
  const why_weight_t *culprit = hold ? hold : wait;
  uint64_t lasted = c->to_ns - c->from_ns;
  finding_t f = {
      .kind = WHY_CONVOY,
      .score = 50 + 40 * ((double)c->ns / (double)lasted > 1 ? 1 : (double)c->ns / (double)lasted),
      .culprit = culprit->function,
      .since_ns = c->from_ns,
      .amount = (double)c->ns / 1e9,
      .unit = "s",
      .section = "waits"};
  size_t used = (size_t)snprintf(f.what, sizeof f.what, "%u threads waited %s for %s", c->waiters,
                                 why_seconds((double)c->ns, a),
                                 why_lock_text(w, c->address, "one lock", lock, sizeof lock));
  if (hold)
    used += (size_t)snprintf(f.what + used, sizeof f.what - used, ", held in %s",
                             why_place_of(hold->example, hold->function, holder));
  if (wait && (!hold || !why_same_function(wait->function, hold->function)) && used < sizeof f.what)
    (void)snprintf(f.what + used, sizeof f.what - used, "%s in %s", hold ? "; they wait" : "",
                   why_place_of(wait->example, wait->function, waiter));
  advise(w, c, hold ? h : NULL, &f);
  WHY_SAY(address, "lock 0x%llx", (unsigned long long)c->address);
  const char *name = why_lock_text(w, c->address, address, lock, sizeof lock);
  WHY_SAY(f.evidence, "%s: %s of waits in %s", name + (strncmp(name, "the ", 4) ? 0 : 4), a,
          why_seconds((double)lasted, b));
  findings_list_add(out, &f);
}

/* Each look at an owner reads the whole time line. Of many waits, every n-th is enough. */
static size_t step_of(const why_t *w) {
  const size_t steps_max = 200000000;
  size_t looks = steps_max / (w->waits.count + w->ticks.count + 1) + 1;
  return w->waits.count / looks + 1;
}

static void judge_crowd(why_t *w, const crowd_t *c, findings_list_t *out) {
  uint64_t lasted = c->to_ns - c->from_ns;
  bool is_large = c->waiters >= (unsigned)WHY_CONVOY_WAITERS && (double)c->ns >= WHY_CONVOY_NS &&
                  (double)c->ns >= WHY_CONVOY_SHARE * (double)w->duration_ns;
  if (!is_large || !lasted) return;
  holders_t h = {0};
  why_weights_t waiting = {0};
  uint64_t tick_ns = tick_length(w);
  bool good = true;
  for (size_t i = 0; i < w->waits.count && good; i++) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->is_lock && wait->address == c->address)
      good = why_weights_add(&waiting, why_stack(w, wait->stack), wait->to_ns - wait->from_ns);
  }
  for (size_t i = 0, step = step_of(w); i < w->waits.count && good; i += step) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->is_lock && wait->address == c->address && wait->owner && wait->owner != wait->tid)
      good = add_owner(w, c, wait, &waiting, tick_ns, &h);
  }
  bool is_pool = !c->is_gil && h.idle_ns * 4 >= h.known_ns + 1;
  if (good && !is_pool) describe_convoy(w, c, &waiting, &h, out);
  why_weights_free(&h.weights);
  why_weights_free(&waiting);
}

static void find_convoys(why_t *w, findings_list_t *out) {
  crowds_t all = {0};
  collect_crowds(w, &all);
  for (size_t i = 0; i < all.count; i++)
    judge_crowd(w, &all.items[i], out);
  free(all.items);
}

void why_lock_rules(why_t *w, findings_list_t *out) {
  if (!w->has_waits) return;
  find_deadlocks(w, out);
  find_convoys(w, out);
}
