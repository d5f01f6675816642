/* SPDX-License-Identifier: MIT
 *
 * The hot path is searched among functions by name and library, so several addresses in one
 * function count as one. The stall is then attributed to the innermost function with a name outside
 * the system's libraries: the caller of sleep, not sleep.
 */
#include "report/sections/stall_groups.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "report/futex_wait.h"
#include "report/own_code.h"
#include "sensor/stall/hot_path.h"

enum { DEPTH_MAX = 1024 };

/* ---- functions as numbers ----------------------------------------------------------------- */

typedef ARRAY(const frame_name_t *) numbered_t;

/* All code without a name in one library counts as one function. */
static bool same_function(const frame_name_t *a, const frame_name_t *b) {
  if (!a->known && !b->known && *a->library) return !strcmp(a->library, b->library);
  return !frame_name_compare(a, b);
}

/* A linear search: a stall has few functions. UINT32_MAX: out of memory. */
static uint32_t number_of(numbered_t *n, const frame_name_t *name) {
  for (size_t i = n->count; i-- > 0;)
    if (same_function(n->items[i], name)) return (uint32_t)i;
  const frame_name_t **added = ARRAY_ADD(*n);
  if (!added) return UINT32_MAX;
  *added = name;
  return (uint32_t)n->count - 1;
}

/* Neither a library of the system nor code of the compiler's headers that is built into the
 * program: std::mutex::lock, the wrappers of pthread_mutex_lock. */
static bool is_program(const frame_name_t *name) {
  return !name->system && own_function(name->function, name->file);
}

/* ---- one stall ---------------------------------------------------------------------------- */

typedef struct paths {
  hot_path_stack_t *items;
  uint32_t *stacks;
  bool *set;
  size_t count;
  numbered_t functions;
} paths_t;

static bool add_path(paths_t *p, const report_t *r, const stall_sample_t *s) {
  for (size_t i = 0; i < p->count; i++)
    if (p->stacks[i] == s->stack) {
      p->items[i].weight += s->weight_ns;
      return true;
    }
  const frame_name_t *names[DEPTH_MAX];
  int count = frame_names_of_stack(r->names, s->stack, names, DEPTH_MAX);
  if (count <= 0) return true;
  if (count > DEPTH_MAX) count = DEPTH_MAX;
  uint64_t *functions = malloc((size_t)count * sizeof *functions);
  if (!functions) return false;
  int depth = 0;
  for (int i = count; i-- > 0;) {
    uint32_t number = number_of(&p->functions, names[i]);
    if (number == UINT32_MAX) {
      free(functions);
      return false;
    }
    /* A recursion counts as one function, whatever its depth. */
    if (!depth || functions[depth - 1] != number) functions[depth++] = number;
  }
  p->stacks[p->count] = s->stack;
  p->items[p->count++] = (hot_path_stack_t){functions, depth, s->weight_ns};
  return true;
}

static bool make_paths(paths_t *p, const report_t *r, const stall_t *stall) {
  size_t room = stall->sample_count ? stall->sample_count : 1;
  *p = (paths_t){.items = calloc(room, sizeof *p->items),
                 .stacks = calloc(room, sizeof *p->stacks),
                 .set = calloc(room, sizeof *p->set)};
  bool good = p->items && p->stacks && p->set;
  for (size_t i = 0; good && i < stall->sample_count; i++)
    if (stall->samples[i].stack) good = add_path(p, r, &stall->samples[i]);
  return good;
}

static void free_paths(paths_t *p) {
  for (size_t i = 0; i < p->count; i++)
    free((void *)(uintptr_t)p->items[i].functions);
  free(p->items);
  free(p->stacks);
  free(p->set);
  free(p->functions.items);
}

static const frame_name_t *name_at(const paths_t *p, const hot_path_stack_t *path, int depth) {
  return p->functions.items[path->functions[depth]];
}

static void find_worst(attributed_stall_t *n, const paths_t *p, const hot_path_stack_t *model,
                       int depth) {
  uint64_t most = 0;
  uint32_t stack = 0;
  for (size_t i = 0; i < p->count; i++)
    if (hot_path_matches(&p->items[i], model, depth) && p->items[i].weight >= most) {
      most = p->items[i].weight;
      stack = p->stacks[i];
    }
  for (size_t i = 0; i < n->stall->sample_count; i++) {
    const stall_sample_t *s = &n->stall->samples[i];
    if (s->stack == stack && (!n->worst || s->weight_ns > n->worst->weight_ns)) n->worst = s;
  }
}

/* The innermost function outside the system, from DEPTH outward; -1: none. */
static int innermost(const paths_t *p, const hot_path_stack_t *path, int depth, bool with_name) {
  while (depth >= 0 &&
         !(is_program(name_at(p, path, depth)) && (name_at(p, path, depth)->known || !with_name)))
    depth--;
  return depth;
}

static void find_hot(attributed_stall_t *n, const paths_t *p) {
  hot_path_t c = hot_path_find(p->items, p->count, p->set);
  if (c.depth < 0) return;
  const hot_path_stack_t *path = &p->items[c.stack];
  int own = innermost(p, path, c.depth, true);
  if (own < 0) own = innermost(p, path, c.depth, false);
  if (own < 0) own = c.depth;
  n->hot = name_at(p, path, own);
  n->callee = own < c.depth ? name_at(p, path, c.depth) : NULL;
  n->share = (double)hot_path_weight(p->items, p->count, path, own) / (double)c.total;
  find_worst(n, p, path, own);
}

static void find_at_threshold(attributed_stall_t *n, const report_t *r) {
  const stall_t *s = n->stall;
  uint64_t due = reader_ns(r->reader, s->start) + s->threshold_ns;
  for (size_t i = 0; i < s->sample_count && !n->at_threshold; i++)
    if (s->samples[i].stack && reader_ns(r->reader, s->samples[i].time) >= due)
      n->at_threshold = frame_names_owner(r->names, s->samples[i].stack);
}

/* As the program called it: "usleep", where the system call is clock_nanosleep. */
static const char *name_of_call(const report_t *r, const stall_sample_t *s) {
  return *s->seen.call ? wait_called(r, s->stack, s->seen.call) : "";
}

static bool is_same_wait(const stall_sample_t *a, const char *call_a, const stall_sample_t *b,
                         const char *call_b) {
  return !strcmp(call_a, call_b) && !strcmp(a->what, b->what);
}

/* The call that blocked the thread longest. One stall may wait in futex for different functions of
 * the C library: CALLS has the name for each sample. */
static void find_longest_call(attributed_stall_t *n, const char *const *calls) {
  const stall_t *s = n->stall;
  uint64_t most = 0;
  for (size_t i = 0; i < s->sample_count; i++) {
    const stall_sample_t *a = &s->samples[i];
    if (!*calls[i] || (i && is_same_wait(a, calls[i], a - 1, calls[i - 1]))) continue;
    uint64_t weight = 0;
    for (size_t k = i; k < s->sample_count; k++)
      if (is_same_wait(a, calls[i], &s->samples[k], calls[k])) weight += s->samples[k].weight_ns;
    if (weight <= most) continue;
    most = weight;
    n->call = calls[i];
    n->what = a->what;
  }
}

/* False: out of memory. */
static bool find_call(attributed_stall_t *n, const report_t *r) {
  const stall_t *s = n->stall;
  const char **calls = calloc(s->sample_count + 1, sizeof *calls);
  n->call = n->what = "";
  if (!calls) return false;
  for (size_t i = 0; i < s->sample_count; i++)
    calls[i] = name_of_call(r, &s->samples[i]);
  find_longest_call(n, calls);
  free((void *)calls);
  return true;
}

static bool attribute(attributed_stall_t *n, const report_t *r, const stall_t *stall) {
  paths_t paths;
  *n = (attributed_stall_t){.stall = stall};
  bool good = make_paths(&paths, r, stall);
  if (good) find_hot(n, &paths);
  free_paths(&paths);
  find_at_threshold(n, r);
  return find_call(n, r) && good;
}

/* ---- groups ------------------------------------------------------------------------------ */

static uint64_t id_of(const attributed_stall_t *n) {
  uint64_t hash = hash_text(HASH_START, stall_label_key(n->stall->label));
  if (!n->hot) return hash_text(hash, n->call);
  return hash_pair(hash, frame_name_hash(n->hot));
}

static void add_to_group(stall_groups_t *e, const attributed_stall_t *n) {
  uint64_t id = id_of(n);
  const stall_t *s = n->stall;
  size_t i = 0;
  while (i < e->count && e->items[i].id != id)
    i++;
  stall_group_t *group = &e->items[i];
  if (i == e->count)
    e->items[e->count++] = (stall_group_t){.id = id, .worst = n, .first = s->start};
  group->count++;
  group->total_ns += s->length_ns;
  if (s->start < group->first) group->first = s->start;
  if (s->start > group->last) group->last = s->start;
  group->open |= s->open;
  if (s->length_ns > group->worst->stall->length_ns) group->worst = n;
  e->total_ns += s->length_ns;
  if (s->length_ns > e->max_ns) e->max_ns = s->length_ns;
}

static int by_total(const void *left, const void *right) {
  const stall_group_t *a = left, *b = right;
  if (a->total_ns != b->total_ns) return a->total_ns > b->total_ns ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

bool stall_groups_make(stall_groups_t *e, const report_t *r, const stalls_t *stalls) {
  size_t room = stalls->count ? stalls->count : 1;
  *e = (stall_groups_t){.stalls = calloc(room, sizeof *e->stalls),
                        .items = calloc(room, sizeof *e->items)};
  bool good = e->stalls && e->items;
  for (size_t i = 0; good && i < stalls->count; i++) {
    good = attribute(&e->stalls[i], r, &stalls->items[i]);
    if (good) add_to_group(e, &e->stalls[i]);
  }
  if (good)
    qsort(e->items, e->count, sizeof *e->items, by_total);
  else
    stall_groups_free(e);
  return good;
}

void stall_groups_free(stall_groups_t *e) {
  free(e->stalls);
  free(e->items);
  *e = (stall_groups_t){0};
}
