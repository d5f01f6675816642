/* SPDX-License-Identifier: MIT
 *
 * Attribution of a stall's time to its samples. Borders divide the stall between neighboring
 * samples: a sample represents the time from the border before it to the border after it. The first
 * sample begins at the start of the stall, the last one ends at its end.
 */
#include "analysis/stalls.h"

#include <stdlib.h>

#include "base/array.h"
#include "reader/body.h"

/* The kernel accounts time on a CPU at its tick, so a running thread has used up to this more. */
#define TICK_NS 4000000u

/* ---- records ------------------------------------------------------------------------------ */

/* Copies a string. A string that equals one of the last two is not copied again: consecutive
 * samples have the same call and file. NULL when memory runs out. */
static const char *get_text(stalls_t *s, body_t *b) {
  uint64_t n;
  const uint8_t *from = body_string(b, &n);
  for (const text_copy_t *t = s->texts; t; t = t->next) {
    if (strlen(t->text) == n && !memcmp(t->text, from, n)) return t->text;
    if (t != s->texts) break;
  }
  return texts_add(&s->texts, from, n);
}

/* The latest stall with the number: open stalls are at the end. */
static stall_t *find(stalls_t *s, uint64_t number) {
  for (size_t i = s->count; i-- > 0;)
    if (s->items[i].number == number) return &s->items[i];
  return NULL;
}

static bool add_stall(stalls_t *s, body_t *b, uint64_t time) {
  stall_t stall = {.detected = time, .open = true};
  stall.number = body_number(b);
  stall.tid = (uint32_t)body_number(b);
  stall.start = body_number(b);
  stall.threshold_ns = body_number(b);
  stall.thread = get_text(s, b);
  if (!stall.thread || !ARRAY_GROW(s->items, s->count, s->capacity)) return false;
  stall.end = time;
  if (!b->truncated && stall.start <= time) s->items[s->count++] = stall;
  return true;
}

static bool add_sample(stalls_t *s, body_t *b) {
  stall_t *stall = find(s, body_number(b));
  stall_sample_t sample = {.time = body_number(b)};
  stall_observation_t *seen = &sample.seen;
  sample.stack = (uint32_t)body_number(b);
  uint64_t state = body_number(b);
  seen->state = (char)(state & 0x7f);
  seen->frozen = state >> 8 & 1;
  (void)body_number(b); /* the call's number; its name follows */
  for (int i = 0; i < 3; i++)
    seen->args[i] = body_number(b);
  seen->window_ns = body_number(b);
  seen->run_ns = body_number(b);
  seen->runq_ns = body_number(b);
  seen->minor_faults = body_number(b);
  seen->major_faults = body_number(b);
  seen->user_ticks = body_number(b);
  seen->system_ticks = body_number(b);
  seen->is_mutex = body_number(b) != 0;
  sample.owner = (uint32_t)body_number(b);
  sample.address = body_number(b);
  seen->call = get_text(s, b);
  sample.what = get_text(s, b);
  if (!seen->call || !sample.what) return false;
  if (b->truncated || !stall) return true;
  if (!ARRAY_GROW(stall->samples, stall->sample_count, stall->sample_capacity)) return false;
  stall->samples[stall->sample_count++] = sample;
  if (sample.time > stall->end) stall->end = sample.time;
  return true;
}

static bool add_lock(stalls_t *s, body_t *b) {
  stall_t *stall = find(s, body_number(b));
  stall_lock_t lock = {0};
  lock.waiter = (uint32_t)body_number(b);
  lock.owner = (uint32_t)body_number(b);
  lock.address = body_number(b);
  lock.owner_state = (char)(body_number(b) & 0x7f);
  lock.in_cycle = body_number(b) != 0;
  lock.owner_stack = (uint32_t)body_number(b);
  if (b->truncated || !stall) return true;
  if (!ARRAY_GROW(stall->locks, stall->lock_count, stall->lock_capacity)) return false;
  /* A running owner's stack is recorded later, in a second record. */
  for (size_t i = 0; i < stall->lock_count; i++)
    if (stall->locks[i].waiter == lock.waiter && stall->locks[i].owner == lock.owner) {
      if (lock.owner_stack) stall->locks[i].owner_stack = lock.owner_stack;
      return true;
    }
  stall->locks[stall->lock_count++] = lock;
  return true;
}

static void end_stall(stalls_t *s, body_t *b) {
  stall_t *stall = find(s, body_number(b));
  uint64_t end = body_number(b), ending = body_number(b), stopped = body_number(b),
           late = body_number(b), runq = body_number(b);
  if (b->truncated || !stall || ending > STALL_EXEC || end < stall->start) return;
  stall->open = false;
  stall->end = end;
  stall->ending = (stall_ending_t)ending;
  stall->stopped_ns = stopped;
  stall->late_ns = late;
  stall->runq_ns = runq;
}

static bool add_loop(stalls_t *s, body_t *b) {
  stall_loop_t loop = {0};
  loop.tid = (uint32_t)body_number(b);
  loop.iterations = body_number(b);
  if (b->truncated) return true;
  if (!ARRAY_GROW(s->loops, s->loop_count, s->loop_capacity)) return false;
  s->loops[s->loop_count++] = loop;
  return true;
}

static bool add_unsampled(stalls_t *s, body_t *b) {
  const char *text = get_text(s, b);
  if (!text || b->truncated) return text != NULL;
  if (s->unsampled_count < sizeof s->unsampled / sizeof *s->unsampled)
    s->unsampled[s->unsampled_count++] = text;
  return true;
}

bool stalls_add(stalls_t *s, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED) return true;
  body_t b = {e->body, e->body + e->body_size, false};
  bool good = true;
  switch (e->subtype) {
  case EXTENDED_STALL: good = add_stall(s, &b, e->time); break;
  case EXTENDED_STALL_SAMPLE: good = add_sample(s, &b); break;
  case EXTENDED_STALL_LOCK: good = add_lock(s, &b); break;
  case EXTENDED_STALL_END: end_stall(s, &b); break;
  case EXTENDED_UNSAMPLED: good = add_unsampled(s, &b); break;
  case EXTENDED_LOOP: good = add_loop(s, &b); break;
  default: return true;
  }
  if (b.truncated) s->bad++;
  return good;
}

/* ---- weights ------------------------------------------------------------------------------ */

static uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int by_time(const void *left, const void *right) {
  const stall_sample_t *a = left, *b = right;
  return a->time < b->time ? -1 : a->time > b->time;
}

static bool was_runnable(const stall_sample_t *s) { return s->seen.state == 'R'; }

/* The time between two samples in which the thread was neither on a CPU nor waiting for one. */
static uint64_t blocked_between(const stall_sample_t *a, const stall_sample_t *b) {
  return minus(minus(b->seen.window_ns, a->seen.window_ns),
               minus(b->seen.run_ns, a->seen.run_ns) + minus(b->seen.runq_ns, a->seen.runq_ns));
}

/* The border between A and B: the time at which, by the kernel's accounting, the thread went to
 * sleep or woke up; else the middle. */
static uint64_t border(const reader_t *reader, const stall_sample_t *a, const stall_sample_t *b) {
  uint64_t from = reader_ns(reader, a->time), to = reader_ns(reader, b->time);
  bool known = b->seen.run_ns > a->seen.run_ns || b->seen.runq_ns > a->seen.runq_ns;
  if (was_runnable(a) == was_runnable(b) || !known) return (from + to) / 2;
  uint64_t blocked = at_most(blocked_between(a, b), minus(to, from));
  return was_runnable(a) ? to - blocked : from + blocked;
}

/* How long the thread was on a CPU in the time that sample I represents, by its counts and those of
 * the sample before. The counts of the first sample begin when it was taken, so the thread is
 * assumed to have done the same before. */
static uint64_t ran_in(const stall_t *stall, size_t i) {
  const stall_sample_t *s = &stall->samples[i], *before = i ? s - 1 : NULL;
  uint64_t ran = minus(s->seen.run_ns, before ? before->seen.run_ns : 0);
  uint64_t window = minus(s->seen.window_ns, before ? before->seen.window_ns : 0);
  if (was_runnable(s)) {
    ran += TICK_NS;
    if (before && !was_runnable(before)) window = minus(window, blocked_between(before, s));
  }
  if (!window) return was_runnable(s) ? s->weight_ns : 0;
  return (uint64_t)((double)ran / (double)window * (double)s->weight_ns);
}

/* Waiting for a CPU has no weight. So the weights of samples of a runnable thread are scaled down
 * to the time that it ran. The kernel counts this time exactly for the whole stall, and roughly for
 * each sample. */
static void exclude_runq_time(stall_t *stall, uint64_t runnable_ns, uint64_t ran_ns) {
  uint64_t left = minus(runnable_ns, stall->runq_ns);
  double scale = ran_ns ? (double)left / (double)ran_ns : 1;
  for (size_t i = 0; i < stall->sample_count; i++) {
    stall_sample_t *s = &stall->samples[i];
    uint64_t active = s->weight_ns;
    if (was_runnable(s) && stall->runq_ns)
      active = (uint64_t)(scale * (double)at_most(ran_in(stall, i), active));
    uint64_t ran = was_runnable(s) ? active : ran_in(stall, i);
    stall_totals_add(&stall->totals, &s->seen, s->weight_ns, ran);
    s->weight_ns = active ? active : 1;
  }
}

static void weigh(stall_t *stall, const reader_t *reader) {
  size_t n = stall->sample_count;
  uint64_t from = reader_ns(reader, stall->start), end = reader_ns(reader, stall->end);
  uint64_t runnable = 0, ran = 0;
  if (n) qsort(stall->samples, n, sizeof *stall->samples, by_time);
  for (size_t i = 0; i < n; i++) {
    stall_sample_t *s = &stall->samples[i];
    uint64_t to = i + 1 < n ? border(reader, s, s + 1) : end;
    s->weight_ns = minus(to, from);
    from = to > from ? to : from;
    if (!was_runnable(s)) continue;
    runnable += s->weight_ns;
    ran += at_most(ran_in(stall, i), s->weight_ns);
  }
  exclude_runq_time(stall, runnable, ran);
}

static void finish_stall(stall_t *stall, const reader_t *reader) {
  uint64_t began = reader_ns(reader, stall->start), end = reader_ns(reader, stall->end);
  stall->total_ns = minus(end, began);
  stall->length_ns = minus(stall->total_ns, stall->stopped_ns + stall->late_ns + stall->runq_ns);
  weigh(stall, reader);
  for (size_t i = 0; i < stall->lock_count; i++)
    stall->totals.deadlock |= stall->locks[i].in_cycle && stall->locks[i].waiter == stall->tid;
  stall->label = stall_label_of(&stall->totals);
}

static bool is_loop_wait(const char *call) {
  static const char *const names[] = {"epoll_wait", "epoll_pwait", "epoll_pwait2", "poll",
                                      "ppoll",      "select",      "pselect6"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(call, names[i])) return true;
  return false;
}

/* Returns whether the stall was idle time: the thread's loop moved to another wait site, and the
 * waits there were taken for one long iteration. */
static bool was_idle(const stall_t *stall) {
  uint64_t idle = 0, all = 0;
  for (size_t i = 0; i < stall->sample_count; i++) {
    all += stall->samples[i].weight_ns;
    if (is_loop_wait(stall->samples[i].seen.call)) idle += stall->samples[i].weight_ns;
  }
  return stall->ending == STALL_MOVED && idle * 2 > all;
}

/* True if S waits for a thread to end. pthread_join waits for the word that the kernel clears then.
 * It holds the thread's id, and is not private to the process: no other futex of a program is both.
 * Threads have larger ids than their process. */
static bool is_join(const stall_sample_t *s, const reader_t *reader) {
  enum { WAIT = 0, WAIT_BITSET = 9, REALTIME = 256, TID_MAX = 1 << 22 };
  uint64_t operation = s->seen.args[1] & ~(uint64_t)REALTIME, value = s->seen.args[2];
  return !strcmp(s->seen.call, "futex") && (operation == WAIT || operation == WAIT_BITSET) &&
         value > reader_header(reader)->pid && value <= TID_MAX;
}

/* The loop of a thread that never returned to its wait site, but waited for other threads to end
 * and then ended too, had ended before: the stall ends where that wait begins. Returns whether it
 * was shortened. */
static bool leave_out_joins(stall_t *stall, const reader_t *reader) {
  size_t n = stall->sample_count;
  if (stall->ending != STALL_EXITED || stall->open || !n) return false;
  qsort(stall->samples, n, sizeof *stall->samples, by_time);
  while (n && is_join(&stall->samples[n - 1], reader))
    n--;
  if (n == stall->sample_count) return false;
  stall->end = stall->samples[n].time;
  stall->sample_count = n;
  stall->ending = STALL_ENDED;
  return true;
}

static void free_stall(stall_t *stall) {
  free(stall->samples);
  free(stall->locks);
}

void stalls_finish(stalls_t *s, const reader_t *reader) {
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++) {
    stall_t *stall = &s->items[i];
    bool shortened = leave_out_joins(stall, reader);
    finish_stall(stall, reader);
    bool idle = was_idle(stall), joining = shortened && stall->length_ns < stall->threshold_ns;
    s->retracted += idle;
    s->joining += joining;
    if (idle || joining) {
      free_stall(stall);
    } else {
      s->items[kept++] = *stall;
    }
  }
  s->count = kept;
}

void stalls_free(stalls_t *s) {
  for (size_t i = 0; i < s->count; i++)
    free_stall(&s->items[i]);
  texts_free(&s->texts);
  free(s->items);
  free(s->loops);
  memset(s, 0, sizeof *s);
}
