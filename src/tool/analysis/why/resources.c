/* SPDX-License-Identifier: MIT
 *
 * Rules about the readings of the process: descriptors, resident memory, limits of its cgroup.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/why/rules.h"

/* Whether the value rises to its peak without a plateau, and the peak is in the last quarter. What
 * a program frees just before its end does not count. */
static bool rises(const why_t *w, usage_field_t field, double least) {
  const usage_series_t *s = why_series(w, field);
  if (!s || s->peak < s->first || (double)(s->peak - s->first) < least) return false;
  uint64_t span = w->usage->to_ns - w->usage->from_ns;
  if ((double)span < WHY_GROWTH_NS) return false;
  /* A short recording may have its last reading before the last quarter. */
  if (s->peak_ns < w->usage->from_ns + span / 4 * 3 && s->peak_ns < w->usage->before_end_ns)
    return false;
  uint64_t middle = usage_at(s, w->usage->from_ns + (s->peak_ns - w->usage->from_ns) / 2);
  usage_growth_t g = usage_growth(w->usage, field, w->usage->from_ns, s->peak_ns);
  double grown = (double)(s->peak - s->first);
  double late = s->peak > middle ? (double)(s->peak - middle) : 0;
  return g.low_per_s > 0 && late >= 0.25 * grown && late <= 0.75 * grown;
}

/* ---- descriptors -------------------------------------------------------------------------- */

static const char *const openers[] = {
    "open",          "open64",         "openat",       "openat64",      "creat",
    "fopen",         "fopen64",        "fdopen",       "opendir",       "socket",
    "accept",        "accept4",        "dup",          "dup2",          "dup3",
    "fcntl",         "pipe",           "pipe2",        "eventfd",       "epoll_create",
    "epoll_create1", "timerfd_create", "signalfd",     "inotify_init",  "inotify_init1",
    "memfd_create",  "fopen_internal", "IO_new_fopen", "IO_new_fdopen", "opendir_tail",
    "popen",         "socketpair",     "mkstemp",      "mkostemp",      NULL};

/* A kind of descriptors: which calls open some, or copy them. */
static const struct {
  usage_field_t field;
  const char *what;
  const char *openers[16];
} kinds[] = {{USAGE_READ_FILES,
              "files open for reading",
              {"open", "open64", "openat", "openat64", "fopen", "fopen64", "fopen_internal",
               "IO_new_fopen", "opendir", "opendir_tail", "dup", "dup2", "dup3", "fcntl"}},
             {USAGE_WRITTEN_FILES,
              "files open for writing",
              {"open", "open64", "openat", "openat64", "fopen", "fopen64", "fopen_internal",
               "IO_new_fopen", "creat", "mkstemp", "mkostemp", "dup", "dup2", "dup3", "fcntl"}},
             {USAGE_SOCKETS,
              "sockets",
              {"socket", "accept", "accept4", "socketpair", "dup", "dup2", "dup3", "fcntl"}},
             {USAGE_PIPES, "pipes", {"pipe", "pipe2", "popen", "dup", "dup2", "dup3", "fcntl"}},
             {USAGE_EPOLLS,
              "epoll descriptors",
              {"epoll_create", "epoll_create1", "dup", "dup2", "dup3", "fcntl"}},
             {USAGE_TIMERS, "timers", {"timerfd_create", "dup", "dup2", "dup3", "fcntl"}},
             {USAGE_EVENTS, "eventfd descriptors", {"eventfd", "dup", "dup2", "dup3", "fcntl"}}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* How many descriptors of a kind were added, when the kinds were read last. */
static double kind_growth(const why_t *w, usage_field_t field) {
  const usage_series_t *s = why_series(w, field), *all = why_series(w, USAGE_DESCRIPTORS);
  if (!s || !all) return 0;
  return (double)s->last - (s->first_ns <= all->first_ns ? (double)s->first : 0);
}

/* The index in `kinds` of most of the added descriptors; -1: unknown, or they are of many kinds. */
static int growing_kind(const why_t *w) {
  double sum = 0, most = 0;
  int found = -1;
  for (unsigned field = USAGE_READ_FILES; field <= USAGE_OTHER_DESCRIPTORS; field++)
    sum += kind_growth(w, (usage_field_t)field);
  for (int i = 0; i < KINDS; i++)
    if (kind_growth(w, kinds[i].field) > most) most = kind_growth(w, kinds[found = i].field);
  return most >= WHY_DESCRIPTORS_LEAST / 2 && most >= WHY_KIND_SHARE * sum ? found : -1;
}

/* Who opened descriptors, as far as audited calls, blocks of streams that were not freed, and
 * samples in the calls KIND_OPENERS tell. */
static bool weigh_openers(why_t *w, const char *const *kind_openers, why_weights_t *out,
                          bool *is_sampled) {
  *is_sampled = false;
  for (size_t i = 0; i < w->calls.count; i++)
    if (why_is_any(w->calls.items[i].function, openers) &&
        !why_weights_add(out, why_stack(w, w->calls.items[i].stack), w->calls.items[i].count))
      return false;
  if (out->sum) return true;
  for (size_t i = 0; w->replay && i < w->replay->stack_count; i++) {
    const stack_totals_t *s = &w->replay->stacks[i];
    const why_stack_t *stack = s->live.count ? why_stack(w, s->stack) : NULL;
    if (stack && why_calls_any(stack, openers) && !why_weights_add(out, stack, s->live.count))
      return false;
  }
  if (out->sum) return true;
  *is_sampled = true;
  for (size_t i = 0; i < w->samples.count; i++) {
    const why_samples_t *s = &w->samples.items[i];
    if (why_calls_any(s->stack, kind_openers) && !why_weights_add(out, s->stack, s->ticks))
      return false;
  }
  return true;
}

/* Whether NAME is FUNCTION, or a copy that the compiler made: "read.isra.0". */
static bool is_clone(const char *name, const char *function) {
  size_t size = strlen(function);
  return !strncmp(name, function, size) && (!name[size] || name[size] == '.');
}

static void find_descriptors(why_t *w, findings_list_t *out) {
  if (!rises(w, USAGE_DESCRIPTORS, WHY_DESCRIPTORS_LEAST)) return;
  const usage_series_t *s = why_series(w, USAGE_DESCRIPTORS);
  char a[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX], name[WHY_NAME_MAX];
  why_weights_t weights = {0};
  bool is_sampled;
  int kind = growing_kind(w);
  const char *const *kind_openers = kind < 0 ? openers : kinds[kind].openers;
  const why_weight_t *hot =
      weigh_openers(w, kind_openers, &weights, &is_sampled)
          ? why_weights_hot(&weights, is_sampled ? WHY_SAMPLED_SHARE : WHY_HOT_SHARE)
          : NULL;
  const why_function_t *only = hot && !is_sampled ? NULL : why_only_caller(w, kind_openers);
  if (hot && only && !is_clone(hot->function->name, only->name)) only = NULL; /* seen counts */
  if (hot && !is_sampled && weights.sum >= 24 && hot->total * 2 < s->peak - s->first) hot = NULL;
  finding_t f = {.kind = WHY_DESCRIPTORS,
                 .score = 85,
                 .culprit = hot ? hot->function : only,
                 .since_ns = s->first_ns,
                 .amount = (double)(s->peak - s->first),
                 .unit = "descriptors",
                 .section = "usage"};
  WHY_SAY(f.what, "Open descriptors grow from %llu to %llu in %s%s%s%s%s",
          (unsigned long long)s->first, (unsigned long long)s->peak,
          why_seconds((double)(s->peak_ns - s->first_ns), a), kind < 0 ? "" : ", mostly ",
          kind < 0 ? "" : kinds[kind].what,
          only         ? "; of the program's functions, only this one opens some: "
          : !hot       ? ""
          : is_sampled ? "; the samples of opening descriptors are in "
                       : "; they are opened in ",
          only  ? why_function_text(only, name)
          : hot ? why_place_of(hot->example, hot->function, place)
                : "");
  WHY_SAY(f.advice, "%s",
          hot && !is_sampled ? "close them when they are no longer used"
                             : "record with --audit=descriptors to see who opens them");
  WHY_SAY(f.evidence, "%llu descriptors at %s", (unsigned long long)s->peak,
          why_seconds((double)s->peak_ns, a));
  findings_list_add(out, &f);
  why_weights_free(&weights);
}

/* ---- resident memory ---------------------------------------------------------------------- */

/* The live heap at the time when resident memory is at its peak. */
static uint64_t heap_at(const why_t *w, uint64_t time_ns) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < w->level_count && w->levels[i].time_ns <= time_ns; i++)
    bytes = w->levels[i].bytes;
  return bytes;
}

/* Who mapped the memory that is mapped at the end, outside of the allocator. */
static bool weigh_mappings(why_t *w, why_weights_t *out) {
  static const char *const allocator[] = {"malloc",
                                          "calloc",
                                          "realloc",
                                          "memalign",
                                          "sysmalloc",
                                          "posix_memalign",
                                          "new_heap",
                                          "pthread_create",
                                          "allocate_stack",
                                          "PyObject_ArenaMmap",
                                          NULL};
  for (size_t i = 0; w->mappings && i < w->mappings->count; i++) {
    const mapped_range_t *m = &w->mappings->items[i];
    const why_stack_t *s = m->stack ? why_stack(w, m->stack) : NULL;
    if (s && !why_calls_any(s, allocator) && !why_weights_add(out, s, m->end - m->start))
      return false;
  }
  return true;
}

/* Most blocks are Python objects of up to 512 bytes: Python then divides no mappings among them. */
static bool has_python_objects(why_t *w) {
  enum { OBJECT_MAX = 512 };
  static const char *const allocator[] = {"PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc",
                                          NULL};
  uint64_t objects = 0;
  for (size_t i = 0; w->replay && i < w->replay->stack_count; i++) {
    const stack_totals_t *t = &w->replay->stacks[i];
    if (!t->allocated.count || t->allocated.bytes / t->allocated.count > OBJECT_MAX) continue;
    const why_stack_t *s = why_stack(w, t->stack);
    if (s && why_calls_any(s, allocator)) objects += t->allocated.count;
  }
  return w->replay && objects > w->replay->allocated.count / 2;
}

/* Python maps large areas, and divides them among its objects. */
static bool divides_mappings(why_t *w) {
  size_t calls = 0;
  if (w->reader) (void)reader_python_calls(w->reader, &calls);
  return calls != 0 && !has_python_objects(w);
}

static void find_resident(why_t *w, findings_list_t *out) {
  if (!rises(w, USAGE_RSS, WHY_RSS_BYTES)) return;
  const usage_series_t *s = why_series(w, USAGE_RSS);
  double grown = (double)(s->peak - s->first);
  if (grown < 0.25 * (double)s->peak) return;
  uint64_t heap = heap_at(w, s->peak_ns);
  bool exact = w->replay && w->level_count && !w->replay->sample_bytes;
  if (w->replay && w->level_count && (double)heap > 0.6 * grown) return; /* the heap rule's */
  char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], c[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX];
  why_weights_t weights = {0};
  const why_weight_t *hot =
      weigh_mappings(w, &weights) ? why_weights_hot(&weights, WHY_HOT_SHARE) : NULL;
  if (hot && (double)weights.sum < 0.5 * grown) hot = NULL;
  /* Without a culprit it may be the working memory of a program that grows. */
  bool divides = !hot && divides_mappings(w);
  finding_t f = {.kind = WHY_RESIDENT,
                 .is_note = !hot,
                 .score = hot       ? 58
                          : divides ? 25
                                    : 12,
                 .culprit = hot ? hot->function : NULL,
                 .since_ns = s->first_ns,
                 .amount = grown,
                 .unit = "bytes",
                 .section = "usage"};
  size_t used =
      (size_t)snprintf(f.what, sizeof f.what, "Resident memory grows to the end, from %s to %s",
                       why_bytes((double)s->first, a), why_bytes((double)s->peak, b));
  if (exact)
    used += (size_t)snprintf(f.what + used, sizeof f.what - used, ", but the live heap is %s",
                             why_bytes((double)heap, c));
  if (hot)
    (void)snprintf(f.what + used, sizeof f.what - used, "; it was mapped in %s",
                   why_place_of(hot->example, hot->function, place));
  else if (divides)
    (void)snprintf(f.what + used, sizeof f.what - used,
                   "; objects of Python are no blocks of malloc: record with PYTHONMALLOC=malloc "
                   "and --malloc to see who makes them");
  WHY_SAY(f.advice, "%s",
          hot         ? "unmap what is no longer used"
          : w->replay ? "see the mappings: sonde report FILE vm"
                      : "record with --malloc to see who allocates it");
  WHY_SAY(f.evidence, "%s of growth by %s", why_bytes(grown, a),
          why_seconds((double)s->peak_ns, b));
  findings_list_add(out, &f);
  why_weights_free(&weights);
}

/* ---- fragmentation ------------------------------------------------------------------------ */

/* Since when the heap is small and resident memory is not; the count of levels. A heap that still
 * shrinks is that of a program that frees all at its end. */
static size_t levels_above(const why_t *w, const usage_series_t *rss, size_t peak) {
  size_t count = 0;
  double last = (double)w->levels[w->level_count - 1].bytes;
  for (size_t i = w->level_count; i-- > peak + 1; count++) {
    double resident = (double)usage_at(rss, w->levels[i].time_ns);
    if ((double)w->levels[i].bytes > WHY_FRAGMENTED_SHARE * resident) break;
    if ((double)w->levels[i].bytes > WHY_FRAGMENTED_STEADY * last) break;
  }
  return count;
}

/* Fragmentation: blocks that stay keep the pages of many freed blocks. */
static void find_fragmentation(why_t *w, findings_list_t *out) {
  const usage_series_t *rss = why_series(w, USAGE_ANONYMOUS);
  if (!rss) rss = why_series(w, USAGE_RSS);
  if (!rss || !w->replay || w->replay->sample_bytes || w->level_count < WHY_LEVELS / 2) return;
  size_t peak = 0, last = w->level_count - 1;
  for (size_t i = 1; i <= last; i++)
    if (w->levels[i].bytes > w->levels[peak].bytes) peak = i;
  double resident = (double)usage_at(rss, w->levels[last].time_ns);
  double live = (double)w->levels[last].bytes, most = (double)w->levels[peak].bytes;
  if ((double)w->replay->at_peak.bytes > most) most = (double)w->replay->at_peak.bytes; /* exact */
  size_t long_ago = levels_above(w, rss, peak);
  if (resident - live < WHY_FRAGMENTED_BYTES || most < 0.5 * resident ||
      long_ago * 4 < w->level_count)
    return;
  why_weights_t keepers = {0};
  bool good = true;
  for (size_t i = 0; good && i < w->levels[last].stack_count; i++)
    if (w->levels[last].stacks[i].bytes)
      good = why_weights_add(&keepers, why_stack(w, w->replay->stacks[i].stack),
                             w->levels[last].stacks[i].bytes);
  const why_weight_t *hot = good ? why_weights_hot(&keepers, WHY_HOT_SHARE) : NULL;
  if (hot && live > 0.01 * resident) {
    char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX], c[WHY_AMOUNT_MAX], place[WHY_PLACE_MAX];
    finding_t f = {.kind = WHY_RESIDENT,
                   .score = 57,
                   .culprit = hot->function,
                   .since_ns = w->levels[last - long_ago + 1].time_ns,
                   .amount = resident - live,
                   .unit = "bytes",
                   .section = "usage"};
    WHY_SAY(f.what,
            "The heap is fragmented: %s of it are live, but %s stay resident, because blocks "
            "from %s lie between freed ones",
            why_bytes(live, a), why_bytes(resident, b),
            why_place_of(hot->example, hot->function, place));
    WHY_SAY(f.advice, "allocate what stays apart from what is freed, or call malloc_trim");
    WHY_SAY(f.evidence, "peak of the live heap %s", why_bytes(most, c));
    findings_list_add(out, &f);
  }
  why_weights_free(&keepers);
}

/* ---- limits ------------------------------------------------------------------------------- */

static void find_limits(why_t *w, findings_list_t *out) {
  const usage_series_t *kills = why_series(w, USAGE_CGROUP_OOM_KILLS);
  const usage_series_t *limit = why_series(w, USAGE_CGROUP_LIMIT);
  const usage_series_t *throttled = why_series(w, USAGE_CGROUP_THROTTLED);
  char a[WHY_AMOUNT_MAX], b[WHY_AMOUNT_MAX];
  if (kills && kills->last > kills->first) {
    finding_t f = {.kind = WHY_LIMIT, .score = 92, .section = "usage"};
    WHY_SAY(f.what,
            "The kernel killed %llu process%s of the cgroup because memory reached its limit of %s",
            (unsigned long long)(kills->last - kills->first),
            kills->last - kills->first == 1 ? "" : "es",
            limit ? why_bytes((double)limit->last, a) : "memory");
    WHY_SAY(f.advice, "use less memory or raise the limit");
    WHY_SAY(f.evidence, "the cgroup's count of kills");
    findings_list_add(out, &f);
  }
  double span = w->usage ? (double)(w->usage->to_ns - w->usage->from_ns) : 0;
  double waited = throttled ? (double)(throttled->last - throttled->first) : 0;
  if (span > 0 && waited > WHY_THROTTLED_SHARE * span) {
    finding_t f = {
        .kind = WHY_LIMIT, .score = 60, .amount = waited / 1e9, .unit = "s", .section = "usage"};
    WHY_SAY(f.what, "The CPU limit of the cgroup stopped the program for %s of %s",
            why_seconds(waited, a), why_seconds(span, b));
    WHY_SAY(f.advice, "raise the limit, or use fewer threads");
    WHY_SAY(f.evidence, "the cgroup's throttled time");
    findings_list_add(out, &f);
  }
}

void why_resource_rules(why_t *w, findings_list_t *out) {
  if (!w->usage || !w->usage->is_recorded) return;
  find_descriptors(w, out);
  find_resident(w, out);
  find_fragmentation(w, out);
  find_limits(w, out);
}
