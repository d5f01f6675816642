/* SPDX-License-Identifier: MIT
 *
 * Rules: a heap that grows to the end; blocks that nothing referenced at exit. Fact: what was still
 * allocated at the end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/why/rules.h"

/* The heap of the program's last phase may be freed just before its end, so growth is looked for
 * up to the peak. */
static size_t peak_level(const why_t *w) {
  size_t peak = 0;
  for (size_t i = 1; i < w->level_count; i++)
    if (w->levels[i].bytes >= w->levels[peak].bytes) peak = i;
  return peak;
}

static counts_t stack_at(const why_level_t *level, size_t stack) {
  return stack < level->stack_count ? level->stacks[stack] : (counts_t){0};
}

static counts_t counts_of(const why_level_t *level, const size_t *stacks, size_t count) {
  counts_t sum = {0};
  for (size_t i = 0; i < count; i++)
    counts_add(&sum, stack_at(level, stacks[i]));
  return sum;
}

static uint64_t bytes_of(const why_level_t *level, const size_t *stacks, size_t count) {
  return counts_of(level, stacks, count).bytes;
}

/* The stacks of FUNCTION, as indexes in the replay. */
static size_t stacks_of(why_t *w, const why_function_t *function, size_t **out) {
  size_t count = 0;
  *out = calloc(w->replay->stack_count + 1, sizeof **out);
  for (size_t i = 0; *out && i < w->replay->stack_count; i++) {
    const why_stack_t *s = why_stack(w, w->replay->stacks[i].stack);
    bool is_on = false;
    for (int k = 0; k < s->count && !is_on; k++)
      is_on = why_same_function(s->functions[k], function);
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

/* Whether the culprit's blocks stay. A program that allocates and frees all the time has some bytes
 * live at each look, at times more and at times less. And one buffer that is made larger again and
 * again is no collection of blocks. */
static bool accumulates(const why_t *w, const size_t *stacks, size_t count, size_t peak) {
  counts_t kept = counts_of(&w->levels[peak], stacks, count);
  counts_t middle = counts_of(&w->levels[w->level_count / 2], stacks, count);
  uint64_t allocated = 0;
  if ((double)kept.count < WHY_GROWTH_BLOCKS * WEIGHT_ONE ||
      (double)kept.count < 1.2 * (double)middle.count)
    return false;
  for (size_t i = 0; i < count; i++)
    allocated += w->replay->stacks[stacks[i]].allocated.bytes;
  if ((double)kept.bytes >= WHY_GROWTH_KEPT * (double)allocated) return true;
  for (size_t i = 1; i <= peak; i++)
    if (bytes_of(&w->levels[i], stacks, count) < bytes_of(&w->levels[i - 1], stacks, count))
      return false;
  return true;
}

static void describe_growth(why_t *w, const why_weight_t *hot, size_t peak, findings_list_t *out) {
  char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], c[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX];
  size_t *stacks, first, count = stacks_of(w, hot->function, &stacks);
  if (stacks && accumulates(w, stacks, count, peak) &&
      grows_to_the_end(w, stacks, count, peak, &first)) {
    uint64_t kept = bytes_of(&w->levels[peak], stacks, count), allocated = 0;
    for (size_t i = 0; i < count; i++)
      allocated += w->replay->stacks[stacks[i]].allocated.bytes;
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
    uint64_t now = w->levels[peak].stacks[i].bytes, then = stack_at(&w->levels[half], i).bytes;
    if (now > then)
      good = why_weights_add(&weights, why_stack(w, w->replay->stacks[i].stack), now - then);
  }
  const why_weight_t *hot = good ? why_weights_hot(&weights, WHY_GROWTH_SHARE) : NULL;
  if (hot) describe_growth(w, hot, peak, out);
  why_weights_free(&weights);
}

/* A fact, not a fault: a program may leave its memory to the system when it ends. */
static void note_kept(why_t *w, findings_list_t *out) {
  why_weights_t weights = {0};
  uint64_t kept = 0;
  bool good = true;
  for (size_t i = 0; good && i < w->replay->stack_count; i++) {
    const stack_totals_t *t = &w->replay->stacks[i];
    kept += t->live.bytes;
    if (t->live.bytes) good = why_weights_add(&weights, why_stack(w, t->stack), t->live.bytes);
  }
  const why_weight_t *hot =
      good && (double)kept >= WHY_NOTE_KEPT ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  if (hot) {
    char a[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX];
    double share = (double)hot->total / (double)kept;
    finding_t f = {.kind = WHY_LEAK,
                   .is_note = true,
                   .score = 10,
                   .culprit = hot->function,
                   .amount = (double)kept,
                   .unit = "bytes",
                   .section = "malloc"};
    WHY_SAY(f.what, "%s%s were still allocated at the end, %.0f %% of them by %s",
            w->replay->sample_bytes ? "about " : "", why_bytes((double)kept, a), 100 * share,
            why_place_of(hot->example, hot->function, place));
    WHY_SAY(f.evidence, "live blocks at the end");
    findings_list_add(out, &f);
  }
  why_weights_free(&weights);
}

/* What the search at exit found for certain. The user asked for it, so that one block counts. */
static bool find_leaked(why_t *w, findings_list_t *out) {
  const leaks_t *l = &w->leaks.leaks;
  why_weights_t weights = {0};
  uint64_t bytes = 0, blocks = 0;
  bool good = true;
  for (size_t i = 0; good && i < l->by_stack_count; i++) {
    const leaks_stack_t *s = &l->by_stack[i];
    if (s->uncertain) continue;
    bytes += s->total.bytes;
    blocks += s->total.count;
    good = why_weights_add(&weights, why_stack(w, s->stack), s->total.bytes);
  }
  const why_weight_t *hot = good && blocks ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  if (hot) {
    char a[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX];
    finding_t f = {.kind = WHY_LEAK,
                   .score = 55,
                   .culprit = hot->function,
                   .amount = (double)bytes,
                   .unit = "bytes",
                   .section = "leaks"};
    WHY_SAY(f.what, "%s in %" PRIu64 " block%s leaked; %s allocated %.0f %% of that",
            why_bytes((double)bytes, a), blocks, blocks == 1 ? "" : "s",
            why_place_of(hot->example, hot->function, place),
            100 * (double)hot->total / (double)bytes);
    WHY_SAY(f.advice, "free these blocks before the last pointer to them is gone");
    WHY_SAY(f.evidence, "no pointer led to them %s", leaks_time_of_search(w->reader));
    findings_list_add(out, &f);
  }
  why_weights_free(&weights);
  return hot != NULL;
}

void why_memory_rules(why_t *w, findings_list_t *out) {
  if (!w->replay) return;
  find_growth(w, out);
  if (!find_leaked(w, out)) note_kept(w, out);
}
