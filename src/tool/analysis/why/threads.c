/* SPDX-License-Identifier: MIT
 *
 * Rules: threads that nobody joins, and threads that never end.
 *
 * pthread_create allocates a block for each thread. The block is freed when the thread has ended
 * and another thread has joined it, or it was detached. The kernel's count of threads tells whether
 * those with a block live.
 */
#include <stdio.h>

#include "analysis/why/rules.h"

/* The C library keeps a few blocks for new threads. */
enum { KEPT_MAX = 16 };

static bool is_creation(why_t *w, size_t stack) {
  static const char *const creators[] = {"pthread_create", "thrd_create", NULL};
  return why_calls_any(why_stack(w, w->replay->stacks[stack].stack), creators);
}

/* The threads whose blocks were live at level LEVEL. */
static uint64_t blocks_at(why_t *w, size_t level) {
  const why_level_t *l = &w->levels[level];
  uint64_t count = 0;
  for (size_t i = 0; i < l->stack_count; i++)
    if (l->stacks[i].count && is_creation(w, i)) count += l->stacks[i].count;
  return count / WEIGHT_ONE;
}

/* The last level that is not after TIME_NS; the count of levels: none. */
static size_t level_before(const why_t *w, uint64_t time_ns) {
  size_t found = w->level_count;
  for (size_t i = 0; i < w->level_count && w->levels[i].time_ns <= time_ns; i++)
    found = i;
  return found;
}

/* The last time at which a reading found another value than before. The record of the end repeats
 * what was read before, because the process is gone. */
static uint64_t last_reading(const why_t *w) {
  uint64_t time_ns = 0;
  for (unsigned i = 0; i < USAGE_FIELDS; i++) {
    const usage_series_t *s = &w->usage->series[i];
    for (uint32_t k = s->count; k-- > 0;)
      if (s->points[k].time_ns < w->usage->to_ns) {
        if (s->points[k].time_ns > time_ns) time_ns = s->points[k].time_ns;
        break;
      }
  }
  return time_ns;
}

typedef enum threads_state { THREADS_UNKNOWN, THREADS_ALIVE, THREADS_ENDED } threads_state_t;

/* Whether most threads with blocks were alive when the kernel last counted them. */
static threads_state_t state_of(why_t *w, const usage_series_t *threads) {
  uint64_t time_ns = last_reading(w), blocks;
  size_t level = level_before(w, time_ns);
  if (level == w->level_count) return THREADS_UNKNOWN;
  blocks = blocks_at(w, level);
  if ((double)blocks < WHY_DESCRIPTORS_LEAST) return THREADS_UNKNOWN;
  return usage_at(threads, time_ns) * 2 >= blocks ? THREADS_ALIVE : THREADS_ENDED;
}

/* A pool has its threads from its start on. */
static bool keeps_growing(why_t *w) {
  size_t last = w->level_count - 1, steps = last - last / 2, grown = 0;
  if (w->level_count < WHY_LEVELS / 2) return false;
  for (size_t i = last - steps + 1; i <= last; i++)
    grown += blocks_at(w, i) > blocks_at(w, i - 1);
  return (double)grown >= WHY_GROWTH_STEPS * (double)steps;
}

static void add_finding(const why_weight_t *hot, uint64_t blocks, const usage_series_t *threads,
                        threads_state_t state, findings_list_t *out) {
  char place[WHY_PLACE_MAX];
  bool alive = state == THREADS_ALIVE;
  finding_t f = {.kind = alive ? WHY_THREADS : WHY_LEAK,
                 .score = alive ? 84 : 68,
                 .culprit = hot->function,
                 .amount = (double)blocks,
                 .unit = "threads",
                 .section = "malloc"};
  why_place_of(hot->example, hot->function, place);
  if (alive) {
    WHY_SAY(f.what,
            "The number of threads grows to the end, to %llu, because they do not finish; they are "
            "created in %s",
            (unsigned long long)blocks, place);
    WHY_SAY(f.advice, "let each thread end, or use a pool of threads");
  } else {
    WHY_SAY(f.what,
            "%llu threads have ended, but their stacks are kept, because nobody joined them; "
            "they are created in %s",
            (unsigned long long)blocks, place);
    WHY_SAY(f.advice, "join or detach each thread");
  }
  WHY_SAY(f.evidence, "%llu live blocks of pthread_create; the kernel counted up to %llu threads",
          (unsigned long long)blocks, (unsigned long long)threads->peak);
  findings_list_add(out, &f);
}

void why_thread_rules(why_t *w, findings_list_t *out) {
  const usage_series_t *threads = why_series(w, USAGE_THREADS);
  why_weights_t weights = {0};
  uint64_t blocks = 0;
  bool good = threads && w->replay && !w->replay->sample_bytes && w->level_count;
  for (size_t i = 0; good && i < w->replay->stack_count; i++) {
    const stack_totals_t *t = &w->replay->stacks[i];
    if (!t->live.count || !is_creation(w, i)) continue;
    blocks += t->live.count;
    good = why_weights_add(&weights, why_stack(w, t->stack), t->live.count);
  }
  const why_weight_t *hot = good ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  threads_state_t state = hot ? state_of(w, threads) : THREADS_UNKNOWN;
  if ((state == THREADS_ALIVE && keeps_growing(w)) ||
      (state == THREADS_ENDED &&
       (double)blocks >= WHY_DESCRIPTORS_LEAST + (double)threads->peak + KEPT_MAX))
    add_finding(hot, blocks, threads, state, out);
  why_weights_free(&weights);
}
