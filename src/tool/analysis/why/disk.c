/* SPDX-License-Identifier: MIT
 *
 * Rules: threads that wait for the disk after each write, and writers that readers starve.
 */
#include <stdio.h>

#include "analysis/why/rules.h"

/* ---- the disk ----------------------------------------------------------------------------- */

static const char *const flushes[] = {"fsync",  "fdatasync",       "msync", "sync",
                                      "syncfs", "sync_file_range", NULL};

static bool is_flush(const why_wait_t *wait) { return why_is_any(wait->call, flushes); }

/* The waits of a thread are samples: each flush may take less than the time between two looks. The
 * kernel counts how long the thread was blocked; the samples tell where. */
typedef struct disk_time {
  why_weights_t places;
  const char *call;
  uint64_t flushes;
  double flush_ns, known_ns, blocked_ns;
} disk_time_t;

static bool add_disk_waits(why_t *w, const why_thread_t *t, disk_time_t *d) {
  double active = (double)t->run_ns + (double)t->runq_ns;
  d->blocked_ns = (double)t->seen_ns > active ? (double)t->seen_ns - active : 0;
  for (size_t i = 0; i < w->waits.count; i++) {
    const why_wait_t *wait = &w->waits.items[i];
    if (wait->tid != t->tid || !*wait->call) continue;
    double ns = (double)(wait->to_ns - wait->from_ns);
    d->known_ns += ns;
    if (!is_flush(wait)) continue;
    d->flush_ns += ns;
    d->flushes++;
    d->call = wait->call;
    if (!why_weights_add(&d->places, why_stack(w, wait->stack), (uint64_t)ns + 1)) return false;
  }
  return true;
}

/* A program may flush what it wrote once, at its end. */
static bool is_repeated(const why_thread_t *t) {
  enum { FLUSHES_LEAST = 50 };
  return t->switches >= FLUSHES_LEAST;
}

/* On a busy machine a thread waits for a CPU after each flush, and a run has fewer flushes than it
 * would have. WAITED_NS count then for the whole run, unless they are too few to show where. */
static bool is_worth_it(const why_thread_t *t, const disk_time_t *d, double waited_ns,
                        double able_ns) {
  bool are_many = waited_ns >= WHY_DISK_NS;
  bool would_be_many = (double)d->flushes >= WHY_DISK_SAMPLES &&
                       waited_ns / able_ns * (double)t->seen_ns >= WHY_DISK_NS;
  return waited_ns >= WHY_DISK_SHARE * able_ns && (are_many || would_be_many);
}

static void judge_disk(why_t *w, const why_thread_t *t, findings_list_t *out) {
  disk_time_t d = {0};
  char a[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX], thread[64];
  bool good = add_disk_waits(w, t, &d) && d.flush_ns > 0;
  double waited = good ? d.blocked_ns * d.flush_ns / d.known_ns : 0;
  double able = (double)t->seen_ns - (double)t->runq_ns; /* on a busy machine it waits for a CPU */
  const why_weight_t *hot = good ? why_weights_hot(&d.places, WHY_HOT_SHARE) : NULL;
  if (hot && is_worth_it(t, &d, waited, able) && is_repeated(t)) {
    bool is_busy = (double)t->runq_ns > WHY_QUEUE_SHARE * (double)t->seen_ns;
    double share = waited / able;
    finding_t f = {.kind = WHY_DISK,
                   .score = 30 + 30 * share,
                   .culprit = hot->function,
                   .tid = t->tid,
                   .amount = waited / 1e9,
                   .unit = "s",
                   .section = "waits"};
    WHY_SAY(f.what, "%s waits for the disk for %s, %.0f %% of %s, in %s of %s",
            why_thread_text(w, t->tid, thread, sizeof thread), why_seconds(waited, a), 100 * share,
            is_busy ? "the time in which it did not wait for a CPU" : "its time", d.call,
            why_place_of(hot->example, hot->function, place));
    if (*f.what == 't') *f.what = 'T';
    WHY_SAY(f.advice, "write more before each %s, or call it in another thread", d.call);
    WHY_SAY(f.evidence, "%.0f %% of the thread's waits are in %s; it waited for a CPU for %s",
            100 * d.flush_ns / d.known_ns, d.call, why_seconds((double)t->runq_ns, a));
    findings_list_add(out, &f);
  }
  why_weights_free(&d.places);
}

/* ---- writers ------------------------------------------------------------------------------ */

static bool is_writer(const why_stack_t *s) {
  static const char *const names[] = {"pthread_rwlock_wrlock", "pthread_rwlock_timedwrlock",
                                      "pthread_rwlock_clockwrlock", "pthread_rwlock_wrlock_full64",
                                      NULL};
  return why_calls_any(s, names);
}

/* A writer that waits for one lock nearly all of the time, while no thread owns it for writing: the
 * readers overlap without a gap. */
static void judge_writer(why_t *w, const why_thread_t *t, findings_list_t *out) {
  char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX], lock[96], thread[64],
      address[32];
  const why_wait_t *longest = NULL;
  uint64_t waited = 0;
  for (size_t i = 0; i < w->waits.count; i++) {
    const why_wait_t *wait = &w->waits.items[i];
    uint64_t ns = wait->to_ns - wait->from_ns;
    if (wait->tid != t->tid || wait->owner || !is_writer(why_stack(w, wait->stack))) continue;
    waited += ns;
    if (!longest || ns > longest->to_ns - longest->from_ns) longest = wait;
  }
  if (!longest || (double)waited < WHY_STARVED_NS ||
      (double)waited < WHY_STARVED_SHARE * (double)w->duration_ns)
    return;
  const why_stack_t *s = why_stack(w, longest->stack);
  finding_t f = {.kind = WHY_STARVED,
                 .score = 62,
                 .culprit = why_owner(s),
                 .tid = t->tid,
                 .since_ns = longest->from_ns,
                 .amount = (double)waited / 1e9,
                 .unit = "s",
                 .section = "waits"};
  WHY_SAY(f.what, "%s waits for %s of %s to write with %s, in %s: readers hold it all the time",
          why_thread_text(w, t->tid, thread, sizeof thread), why_seconds((double)waited, a),
          why_seconds((double)w->duration_ns, b),
          why_lock_text(w, longest->address, "a lock", lock, sizeof lock),
          why_place_text(s, place));
  if (*f.what == 't') *f.what = 'T';
  WHY_SAY(f.advice, "hold the lock for less time, or prefer writers: "
                    "PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP");
  WHY_SAY(address, "the lock 0x%llx", (unsigned long long)longest->address);
  WHY_SAY(f.evidence, "%s has no writer meanwhile",
          why_lock_text(w, longest->address, address, lock, sizeof lock));
  findings_list_add(out, &f);
}

void why_disk_rules(why_t *w, findings_list_t *out) {
  if (!w->has_waits) return;
  for (size_t i = 0; i < w->threads.count; i++) {
    judge_disk(w, &w->threads.items[i], out);
    judge_writer(w, &w->threads.items[i], out);
  }
}
