/* SPDX-License-Identifier: MIT
 *
 * Rules: a heap that grows to the end, and allocations that are freed at once.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/why/rules.h"

/* ---- growth ------------------------------------------------------------------------------- */

/* The heap of the program's last phase may be freed just before its end, so growth is looked for
 * up to the peak. */
static size_t peak_level(const why_t *w) {
  size_t peak = 0;
  for (size_t i = 1; i < w->level_count; i++)
    if (w->levels[i].bytes >= w->levels[peak].bytes) peak = i;
  return peak;
}

static uint64_t stack_at(const why_level_t *level, size_t stack) {
  return stack < level->stack_count ? level->stacks[stack] : 0;
}

static uint64_t bytes_of(const why_level_t *level, const size_t *stacks, size_t count) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++)
    bytes += stack_at(level, stacks[i]);
  return bytes;
}

/* The stacks of FUNCTION, as indexes in the replay. */
static size_t stacks_of(why_t *w, const why_function_t *function, size_t **out) {
  size_t count = 0;
  *out = calloc(w->replay->stack_count + 1, sizeof **out);
  for (size_t i = 0; *out && i < w->replay->stack_count; i++) {
    const why_stack_t *s = why_stack(w, w->replay->stacks[i].stack);
    bool is_on = false;
    for (int k = 0; k < s->count && !is_on; k++)
      is_on = why_same_function(&s->functions[k], function);
    if (is_on) (*out)[count++] = i;
  }
  return count;
}

/* Whether the culprit's blocks grow in most steps from the middle of the recording to its end: a
 * program that loads its data and then works stops growing. */
static bool grows_to_the_end(const why_t *w, const size_t *stacks, size_t count, size_t peak,
                             size_t *first) {
  size_t steps = 0, half = w->level_count / 2;
  uint64_t total = bytes_of(&w->levels[peak], stacks, count);
  *first = peak;
  for (size_t i = 1; i <= peak; i++) {
    uint64_t before = bytes_of(&w->levels[i - 1], stacks, count);
    uint64_t after = bytes_of(&w->levels[i], stacks, count);
    bool grew = after > before && (double)(after - before) * 100 > (double)total;
    if (grew && i - 1 < *first) *first = i - 1;
    steps += grew && i > half;
  }
  return peak > half && (double)steps >= WHY_GROWTH_STEPS * (double)(peak - half);
}

static void describe_growth(why_t *w, const why_weight_t *hot, size_t peak, findings_list_t *out) {
  char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], c[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX];
  size_t *stacks, first, count = stacks_of(w, hot->function, &stacks);
  if (stacks && grows_to_the_end(w, stacks, count, peak, &first)) {
    uint64_t kept = bytes_of(&w->levels[peak], stacks, count), allocated = 0, freed_blocks = 0;
    for (size_t i = 0; i < count; i++)
      allocated += w->replay->stacks[stacks[i]].allocated.bytes;
    (void)freed_blocks;
    double share = (double)kept / (double)w->levels[peak].bytes;
    finding_t f = {.kind = WHY_GROWTH,
                   .score = 60 + 20 * share,
                   .culprit = hot->function,
                   .since_ns = w->levels[first].time_ns,
                   .amount = (double)kept,
                   .unit = "bytes",
                   .section = "malloc"};
    WHY_SAY(f.what, "The heap grows to the end, to %s; %.0f %% of it was allocated by %s",
            why_bytes((double)w->levels[peak].bytes, a), 100 * share,
            why_place_of(hot->example, hot->function, place));
    WHY_SAY(f.advice, "free these blocks, or bound what keeps them");
    WHY_SAY(f.evidence, "%s of %s that it allocated were live %s after the start",
            why_bytes((double)kept, b), why_bytes((double)allocated, c),
            why_seconds((double)w->levels[peak].time_ns, a));
    findings_list_add(out, &f);
  }
  free(stacks);
}

static void find_growth(why_t *w, findings_list_t *out) {
  if (w->level_count < WHY_LEVELS / 2 || (double)w->duration_ns < WHY_GROWTH_NS) return;
  size_t peak = peak_level(w), half = w->level_count / 2;
  /* The peak is in the last quarter, and a good part of it came in the second half. */
  if (peak < w->level_count * 3 / 4) return;
  uint64_t before = w->levels[half].bytes, at_peak = w->levels[peak].bytes;
  if ((double)at_peak < (double)before + WHY_GROWTH_BYTES / 2 ||
      (double)at_peak < WHY_GROWTH_BYTES || (double)(at_peak - before) < 0.2 * (double)at_peak)
    return;
  why_weights_t weights = {0};
  bool good = true;
  for (size_t i = 0; good && i < w->levels[peak].stack_count; i++) {
    uint64_t now = w->levels[peak].stacks[i], then = stack_at(&w->levels[half], i);
    if (now > then)
      good = why_weights_add(&weights, why_stack(w, w->replay->stacks[i].stack), now - then);
  }
  const why_weight_t *hot = good ? why_weights_hot(&weights, WHY_GROWTH_SHARE) : NULL;
  if (hot) describe_growth(w, hot, peak, out);
  why_weights_free(&weights);
}

/* ---- temporary allocations ---------------------------------------------------------------- */

/* Whether the own code waits for the allocator, or for the sensor that records its calls. */
static bool is_in_allocator(const why_stack_t *s) {
  static const char *const names[] = {"malloc",
                                      "free",
                                      "calloc",
                                      "realloc",
                                      "cfree",
                                      "libc_malloc",
                                      "libc_free",
                                      "libc_calloc",
                                      "int_malloc",
                                      "int_free",
                                      "libc_realloc",
                                      "operator new",
                                      "[sonde]",
                                      "malloc@plt",
                                      "free@plt",
                                      "int_realloc",
                                      "malloc_consolidate",
                                      "GI___libc_malloc",
                                      "GI___libc_free",
                                      "operator delete",
                                      "operator new(unsigned long)",
                                      "operator delete(void*)",
                                      "operator delete(void*, unsigned long)",
                                      NULL};
  return why_calls_any(s, names);
}

static uint64_t allocator_ticks(why_t *w, uint64_t *all) {
  uint64_t ticks = 0;
  *all = 0;
  for (size_t i = 0; i < w->ticks.count; i++) {
    const why_tick_t *t = &w->ticks.items[i];
    *all += t->ticks;
    if (is_in_allocator(why_stack(w, t->stack))) ticks += t->ticks;
  }
  return ticks;
}

static void find_temporary(why_t *w, findings_list_t *out) {
  const replay_t *r = w->replay;
  if (r->sample_bytes || !w->has_ticks || r->allocated.count < 100000 ||
      (double)r->temporary < WHY_TEMPORARY_SHARE * (double)r->allocated.count)
    return;
  uint64_t all, ticks = allocator_ticks(w, &all);
  if (all < 20 || (double)ticks < WHY_TEMPORARY_CPU * (double)all) return;
  why_weights_t weights = {0};
  bool good = true;
  for (size_t i = 0; good && i < r->stack_count; i++)
    if (r->stacks[i].temporary)
      good = why_weights_add(&weights, why_stack(w, r->stacks[i].stack), r->stacks[i].temporary);
  const why_weight_t *hot = good ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  if (hot) {
    char place[WHY_PLACE_MAX];
    double cpu = (double)ticks / (double)all;
    finding_t f = {.kind = WHY_TEMPORARY,
                   .score = 30 + 40 * cpu,
                   .culprit = hot->function,
                   .amount = (double)hot->total,
                   .unit = "allocations",
                   .section = "malloc"};
    WHY_SAY(f.what,
            "The allocator uses %.0f %% of the CPU time, mostly for %llu blocks that are freed at "
            "once, from %s",
            100 * cpu, (unsigned long long)hot->total,
            why_place_of(hot->example, hot->function, place));
    WHY_SAY(f.advice, "keep one buffer and use it again");
    WHY_SAY(f.evidence, "%.0f %% of %llu allocations are temporary",
            100.0 * (double)r->temporary / (double)r->allocated.count,
            (unsigned long long)r->allocated.count);
    findings_list_add(out, &f);
  }
  why_weights_free(&weights);
}

void why_memory_rules(why_t *w, findings_list_t *out) {
  if (!w->replay) return;
  find_growth(w, out);
  find_temporary(w, out);
}
