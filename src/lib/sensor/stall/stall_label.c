/* SPDX-License-Identifier: MIT
 *
 * The rules are ordered; the first that applies names the cause. The limits are measured: faults on
 * cached pages reach 130 to 600 per millisecond of CPU time, and a plain loop has none. A thread
 * that reads pages from a disk is uninterruptible and in no system call.
 */
#include "sensor/stall/stall_label.h"

#define FAULTS_PER_MS 20

const char *stall_label_key(stall_label_t label) {
  static const char *const keys[] = {
#define STALL_LABEL_KEY(name, key, text) key,
      STALL_LABEL_TABLE(STALL_LABEL_KEY)
#undef STALL_LABEL_KEY
  };
  return keys[label];
}

const char *stall_label_text(stall_label_t label) {
  static const char *const texts[] = {
#define STALL_LABEL_TEXT(name, key, text) text,
      STALL_LABEL_TABLE(STALL_LABEL_TEXT)
#undef STALL_LABEL_TEXT
  };
  return texts[label];
}

static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }

void stall_totals_add(stall_totals_t *t, const stall_observation_t *s, uint64_t weight_ns,
                      uint64_t ran_ns) {
  uint64_t ran = at_most(ran_ns, weight_ns), rest = weight_ns - ran;
  t->run_ns += ran;
  if (s->frozen || s->state == 'T' || s->state == 't')
    t->other_ns += rest;
  else if (s->state == 'R')
    t->runq_ns += rest;
  else if (s->state == 'D' && !*s->call)
    t->fault_ns += rest;
  else if (s->state == 'D')
    t->disk_ns += rest;
  else if (s->state == 'S') {
    t->blocked_ns += rest;
    if (s->is_mutex) t->lock_ns += rest;
  } else {
    t->other_ns += rest;
  }
  /* These count from the stall's first sample, so the last values are the totals. */
  t->minor_faults = s->minor_faults;
  t->major_faults = s->major_faults;
  t->user_ticks = s->user_ticks;
  t->system_ticks = s->system_ticks;
}

static stall_label_t of_cpu(const stall_totals_t *t) {
  uint64_t ticks = t->user_ticks + t->system_ticks;
  bool in_kernel = ticks >= 5 && t->system_ticks * 10 >= ticks * 7;
  if (t->minor_faults >= t->run_ns / 1000000 * FAULTS_PER_MS && t->minor_faults > 1000 &&
      t->system_ticks * 2 >= ticks)
    return STALL_MINOR_FAULTS;
  return in_kernel ? STALL_ON_CPU_KERNEL : STALL_ON_CPU;
}

stall_label_t stall_label_of(const stall_totals_t *t) {
  /* The program does not cause the waiting for a CPU; the cause is in the rest of the time. */
  uint64_t all = t->run_ns + t->blocked_ns + t->disk_ns + t->fault_ns + t->other_ns;
  if (!all && !t->runq_ns) return STALL_UNKNOWN;
  if (t->runq_ns / 10 >= all) return STALL_STARVED;
  uint64_t half = all / 2;
  if (t->deadlock) return STALL_DEADLOCK;
  if (t->run_ns >= half) return of_cpu(t);
  /* Many disk reads: part of the time runs, part waits. */
  if (t->run_ns + t->fault_ns >= half && (t->fault_ns * 4 >= all || t->major_faults > 100))
    return STALL_MAJOR_FAULTS;
  if (t->lock_ns >= half) return STALL_LOCK;
  if (t->disk_ns >= half) return STALL_DISK;
  if (t->blocked_ns + t->disk_ns >= half) return STALL_BLOCKED;
  return STALL_MIXED;
}
