/* SPDX-License-Identifier: MIT
 *
 * Rules: CPU time for work that has no result: exceptions, copies and blocks that are freed soon.
 */
#include <stdio.h>

#include "analysis/why/rules.h"

/* The ticks of stacks for which IS_IT holds, by own function. False: out of memory. */
static bool weigh_if(why_t *w, bool (*is_it)(const why_stack_t *), why_weights_t *out,
                     uint64_t *all) {
  *all = 0;
  for (size_t i = 0; i < w->samples.count; i++) {
    const why_samples_t *s = &w->samples.items[i];
    *all += s->ticks;
    if (is_it(s->stack) && !why_weights_add(out, s->stack, s->ticks)) return false;
  }
  return true;
}

static bool matters(const why_t *w, uint64_t ticks) {
  enum { TICKS_LEAST = 20 };
  return ticks >= TICKS_LEAST && (double)why_run_ns(w) >= WHY_COST_NS;
}

/* ---- exceptions --------------------------------------------------------------------------- */

static bool is_throw(const why_stack_t *s) {
  static const char *const names[] = {"cxa_throw", "cxa_rethrow", "Unwind_RaiseException",
                                      "Unwind_Resume", NULL};
  return why_calls_any(s, names);
}

static void find_exceptions(why_t *w, findings_list_t *out) {
  why_weights_t weights = {0};
  uint64_t all;
  bool good = weigh_if(w, is_throw, &weights, &all) && matters(w, all) &&
              (double)weights.sum >= WHY_THROW_SHARE * (double)all;
  const why_weight_t *hot = good ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  if (hot) {
    char place[WHY_PLACE_MAX], a[WHY_AMOUNT_MAX];
    double share = (double)weights.sum / (double)all;
    finding_t f = {.kind = WHY_EXCEPTIONS,
                   .score = 30 + 30 * share,
                   .culprit = hot->function,
                   .amount = share * (double)why_run_ns(w) / 1e9,
                   .unit = "s",
                   .section = "sample"};
    WHY_SAY(f.what, "Throwing exceptions uses %.0f %% of the CPU time, %s; they are thrown in %s",
            100 * share, why_seconds(share * (double)why_run_ns(w), a),
            why_place_of(hot->example, hot->function, place));
    WHY_SAY(f.advice, "return a value for what happens often");
    WHY_SAY(f.evidence, "%llu of %llu samples are in the throw or in the search for its handler",
            (unsigned long long)weights.sum, (unsigned long long)all);
    findings_list_add(out, &f);
  }
  why_weights_free(&weights);
}

/* ---- the allocator ------------------------------------------------------------------------ */

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

/* The most blocks that were live at a time, as far as the levels show: in 1/WEIGHT_ONE. */
static uint64_t most_live(const why_t *w) {
  uint64_t most = 0;
  for (size_t i = 0; i < w->level_count; i++) {
    uint64_t live = 0;
    for (size_t k = 0; k < w->levels[i].stack_count; k++)
      live += w->levels[i].stacks[k].count;
    if (live > most) most = live;
  }
  return most;
}

/* Whether most blocks live shortly: the next call frees them, or far more are allocated than are
 * live at any time. */
static bool is_short_lived(const why_t *w, bool *at_once) {
  const replay_t *r = w->replay;
  *at_once = r->allocated.count >= 100000 &&
             (double)r->temporary >= WHY_TEMPORARY_SHARE * (double)r->allocated.count;
  return *at_once ||
         ((double)r->allocated.count >= WHY_SHORT_LIVED && w->level_count >= WHY_LEVELS / 2 &&
          (double)r->allocated.count * WEIGHT_ONE >= WHY_TURNOVER * (double)most_live(w));
}

static void describe_temporary(const why_t *w, const why_weight_t *hot, double cpu, bool at_once,
                               findings_list_t *out) {
  const replay_t *r = w->replay;
  char place[WHY_PLACE_MAX];
  finding_t f = {.kind = WHY_TEMPORARY,
                 .score = 30 + 40 * cpu,
                 .culprit = hot->function,
                 .amount = (double)hot->total,
                 .unit = "allocations",
                 .section = "malloc"};
  WHY_SAY(f.what,
          "The allocator uses %.0f %% of the CPU time, mostly for %llu blocks that are %s, "
          "from %s",
          100 * cpu, (unsigned long long)hot->total, at_once ? "freed at once" : "short-lived",
          why_place_of(hot->example, hot->function, place));
  WHY_SAY(f.advice, "keep one buffer and use it again");
  if (at_once)
    WHY_SAY(f.evidence, "%.0f %% of %llu allocations are temporary",
            100.0 * (double)r->temporary / (double)r->allocated.count,
            (unsigned long long)r->allocated.count);
  else
    WHY_SAY(f.evidence, "%llu allocations, of which at most %llu were live at a time",
            (unsigned long long)r->allocated.count,
            (unsigned long long)(most_live(w) / WEIGHT_ONE));
  findings_list_add(out, &f);
}

static void find_temporary(why_t *w, findings_list_t *out) {
  const replay_t *r = w->replay;
  bool at_once;
  if (!r || r->sample_bytes || !is_short_lived(w, &at_once)) return;
  why_weights_t in_allocator = {0}, weights = {0};
  uint64_t all;
  bool good = weigh_if(w, is_in_allocator, &in_allocator, &all) && matters(w, all) &&
              (double)in_allocator.sum >= WHY_TEMPORARY_CPU * (double)all;
  for (size_t i = 0; good && i < r->stack_count; i++) {
    uint64_t count = at_once ? r->stacks[i].temporary : r->stacks[i].allocated.count;
    if (count) good = why_weights_add(&weights, why_stack(w, r->stacks[i].stack), count);
  }
  const why_weight_t *hot = good ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  if (hot) describe_temporary(w, hot, (double)in_allocator.sum / (double)all, at_once, out);
  why_weights_free(&in_allocator);
  why_weights_free(&weights);
}

/* ---- copies ------------------------------------------------------------------------------- */

/* Whether the innermost function is one of the C library's that copy memory: memcpy, memmove and
 * their variants, such as __memmove_avx_unaligned_erms. */
static bool is_copy(const why_stack_t *s) {
  if (s->owner <= 0) return false;
  const char *name = s->functions[0]->name;
  name += strspn(name, "_");
  return !strncmp(name, "memcpy", 6) || !strncmp(name, "memmove", 7) ||
         !strncmp(name, "mempcpy", 7);
}

/* What FUNCTION and its callees allocated in all. */
static double allocated_below(why_t *w, const why_function_t *function) {
  double bytes = 0;
  for (size_t i = 0; i < w->replay->stack_count; i++) {
    const why_stack_t *s = why_stack(w, w->replay->stacks[i].stack);
    bool is_on = false;
    for (int k = 0; k < s->count && !is_on; k++)
      is_on = why_same_function(s->functions[k], function);
    if (is_on) bytes += (double)w->replay->stacks[i].allocated.bytes;
  }
  return bytes;
}

/* Copies into blocks that are soon freed: objects that are passed by value, and texts that are made
 * anew to make them longer. Other programs copy memory for a reason. */
static void find_copies(why_t *w, findings_list_t *out) {
  why_weights_t weights = {0};
  uint64_t all, peak = 0;
  bool good = w->replay && weigh_if(w, is_copy, &weights, &all) && matters(w, all) &&
              (double)weights.sum >= WHY_COPY_SHARE * (double)all;
  const why_weight_t *hot = good ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  double bytes = hot ? allocated_below(w, hot->function) : 0;
  for (size_t i = 0; i < w->level_count; i++)
    if (w->levels[i].bytes > peak) peak = w->levels[i].bytes;
  if (hot && bytes >= WHY_COPY_BYTES && bytes >= WHY_TURNOVER * (double)peak) {
    char place[WHY_PLACE_MAX], a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX];
    double share = (double)weights.sum / (double)all;
    finding_t f = {.kind = WHY_COPIES,
                   .score = 30 + 30 * share,
                   .culprit = hot->function,
                   .amount = share * (double)why_run_ns(w) / 1e9,
                   .unit = "s",
                   .section = "sample"};
    WHY_SAY(f.what,
            "Copying memory uses %.0f %% of the CPU time, %s; %s are allocated for copies that are "
            "freed soon, in %s",
            100 * share, why_seconds(share * (double)why_run_ns(w), a), why_bytes(bytes, b),
            why_place_of(hot->example, hot->function, place));
    WHY_SAY(f.advice, "pass a reference, or append in place");
    WHY_SAY(f.evidence, "%llu of %llu samples copy; at most %s are live",
            (unsigned long long)weights.sum, (unsigned long long)all, why_bytes((double)peak, a));
    findings_list_add(out, &f);
  }
  why_weights_free(&weights);
}

void why_cost_rules(why_t *w, findings_list_t *out) {
  if (!w->has_ticks) return;
  find_exceptions(w, out);
  find_temporary(w, out);
  find_copies(w, out);
}
