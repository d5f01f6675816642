/* SPDX-License-Identifier: MIT
 *
 * Names of frames in generated code. A program defines a frame by its pc, once, but a JIT compiler
 * may put a later code at the same address. The times of TABLE_CODE tell which of them ran.
 *
 * Such a frame stands for several, so events are read twice. The first pass adds for each stack,
 * and each time at which it occurs, a stack of frames with the names of that time. In the second
 * pass, the merge replaces the stacks of events by those. Times are divided at the times of all
 * codes with shared addresses, into epochs in which all names are constant.
 *
 * Records of other kinds have the stack as it was captured. Its frame has all the names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/internal.h"
#include "reader/merge.h"
#include "sonde/status.h"

/* A frame whose address had several codes: COUNT of `candidates` from FIRST, the earlier first. */
typedef struct varying {
  uint32_t frame;
  size_t first, count;
} varying_t;

/* The frame that stands for FRAME while it has FUNCTION; NULL: while it has no name. */
typedef struct version {
  uint32_t frame, id;
  const record_function_t *function;
} version_t;

/* What stack ID is in EPOCH. */
typedef struct stack_then {
  uint32_t stack, epoch, id;
} stack_then_t;

/* A node that was added, and the first recorded one that it stands for. Their ids are consecutive.
 */
typedef struct added {
  uint32_t parent, frame, id, recorded;
} added_t;

typedef struct code_times {
  ARRAY(const record_code_t *) candidates;
  ARRAY(varying_t) varying;
  ARRAY(version_t) versions;
  hash_index_t by_version;
  ARRAY(uint64_t) borders;
  ARRAY(stack_then_t) stacks;
  hash_index_t by_stack;
  ARRAY(added_t) added;
  hash_index_t by_parent;
  uint32_t chain[READER_DEPTH_MAX];
  size_t looked_at;
  bool failed;
} code_times_t;

/* ---- the codes at an address -------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
  const record_code_t *x = a, *y = b;
  if (x->address != y->address) return x->address < y->address ? -1 : 1;
  return x->latest < y->latest ? -1 : x->latest > y->latest;
}

static int by_time(const void *a, const void *b) {
  const record_code_t *x = *(const record_code_t *const *)a, *y = *(const record_code_t *const *)b;
  if (x->latest != y->latest) return x->latest < y->latest ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

/* Codes that are looked at for an address, and for all addresses together. A hostile file may have
 * any number around each. */
enum { CODES_MAX = 4096, CODES_LOOKED_AT_MAX = 4 << 20 };

/* The highest end of each code and all before it. */
static uint64_t *reaches(const reader_t *r) {
  uint64_t *out = malloc((r->codes.count + 1) * sizeof *out), reach = 0;
  for (size_t i = 0; out && i < r->codes.count; i++) {
    uint64_t end = r->codes.items[i].address + r->codes.items[i].size;
    out[i] = reach = end > reach ? end : reach;
  }
  return out;
}

static size_t count_below(const reader_t *r, uint64_t address) {
  size_t low = 0, high = r->codes.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (r->codes.items[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Adds the codes that contain ADDRESS to the candidates. Returns their count. */
static size_t find_codes(const reader_t *r, code_times_t *t, const uint64_t *reach,
                         uint64_t address) {
  size_t first = t->candidates.count, below = count_below(r, address);
  for (size_t i = below; i > 0 && reach[i - 1] > address && below - i < CODES_MAX; i--) {
    const record_code_t *code = &r->codes.items[i - 1];
    const record_code_t **place =
        address - code->address < code->size ? ARRAY_ADD(t->candidates) : NULL;
    if (place) *place = code;
  }
  size_t count = t->candidates.count - first;
  t->looked_at += count;
  if (count) qsort(t->candidates.items + first, count, sizeof *t->candidates.items, by_time);
  return count;
}

/* ---- names -------------------------------------------------------------------------------- */

static bool is_same(const record_function_t *a, const record_function_t *b) {
  if (!a || !b) return a == b;
  return a->line == b->line && !strcmp(a->name, b->name) && !strcmp(a->file, b->file);
}

/* The function of the code: "a|b" if one of two may have been there, "a|b|…" if one of more. NULL:
 * there is none, or out of memory. */
static const record_function_t *function_of(reader_t *r, const record_code_t *const *codes,
                                            size_t count) {
  char text[2200];
  const record_code_t *first = count ? codes[0] : NULL, *second = NULL, *third = NULL;
  for (size_t i = 1; i < count && !third; i++) {
    const record_function_t *f = &codes[i]->function;
    if (is_same(f, &first->function) || (second && is_same(f, &second->function))) continue;
    *(second ? &third : &second) = codes[i];
  }
  if (!second) return first ? &first->function : NULL;
  int n = snprintf(text, sizeof text, "%.1024s|%.1024s%s", first->function.name,
                   second->function.name, third ? "|…" : "");
  const record_function_t function = {.name = reader_keep(r, text, (uint64_t)n), .file = ""};
  return function.name ? reader_keep(r, &function, sizeof function) : NULL;
}

/* The codes that may have been there at TIME: the last one before, and those that may have replaced
 * it. Without times of its own, a code may have been there before its name was read. */
static const record_function_t *function_then(reader_t *r, const code_times_t *t,
                                              const varying_t *v, uint64_t time) {
  const record_code_t *const *codes = t->candidates.items + v->first;
  size_t first = 0, end = 0;
  while (end < v->count && codes[end]->latest <= time)
    end++;
  first = end ? end - 1 : 0;
  while (end < v->count && codes[end]->earliest <= time)
    end++;
  if (!end && !codes[0]->has_exact_time) end = 1;
  return function_of(r, codes + first, end - first);
}

static void set_function(record_frame_t *f, const record_function_t *function) {
  f->functions = function;
  f->function_count = function != NULL;
}

static bool is_generated(const record_frame_t *f) {
  return !f->image && !f->text && !f->function_count && !reader_is_interpreted(f) && f->pc >= 4096;
}

static bool add_border(code_times_t *t, uint64_t time) {
  uint64_t *place = ARRAY_ADD(t->borders);
  if (place) *place = time;
  return place != NULL;
}

static bool add_varying(code_times_t *t, uint32_t frame, size_t count) {
  varying_t *v = ARRAY_ADD(t->varying);
  if (!v) return false;
  *v = (varying_t){frame, t->candidates.count - count, count};
  for (size_t i = v->first; i < v->first + count; i++)
    if (!add_border(t, t->candidates.items[i]->earliest) ||
        !add_border(t, t->candidates.items[i]->latest))
      return false;
  return true;
}

static bool has_one_name(const code_times_t *t, size_t count) {
  const record_code_t *const *codes = t->candidates.items + t->candidates.count - count;
  for (size_t i = 1; i < count; i++)
    if (!is_same(&codes[i]->function, &codes[0]->function)) return false;
  return true;
}

static bool name_frames(reader_t *r, code_times_t *t, const uint64_t *reach) {
  for (size_t i = 0; i < r->frames.count; i++) {
    record_frame_t *f = &r->frames.items[i];
    if (!is_generated(f)) continue;
    if (t->looked_at > CODES_LOOKED_AT_MAX) {
      r->damage.missing_definitions++;
      continue;
    }
    size_t count = find_codes(r, t, reach, f->pc - !(f->flags & FRAME_EXACT));
    if (!count) continue;
    bool is_constant = has_one_name(t, count);
    set_function(f, function_of(r, t->candidates.items + t->candidates.count - count, count));
    if (is_constant)
      t->candidates.count -= count;
    else if (!add_varying(t, f->id, count))
      return false;
  }
  return true;
}

/* ---- stacks by time ----------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void sort_borders(code_times_t *t) {
  size_t kept = 0;
  qsort(t->borders.items, t->borders.count, sizeof *t->borders.items, by_number);
  for (size_t i = 0; i < t->borders.count; i++)
    if (!kept || t->borders.items[i] != t->borders.items[kept - 1])
      t->borders.items[kept++] = t->borders.items[i];
  t->borders.count = kept;
}

/* The borders at or before TIME. */
static uint32_t epoch_of(const code_times_t *t, uint64_t time) {
  size_t low = 0, high = t->borders.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (t->borders.items[middle] <= time)
      low = middle + 1;
    else
      high = middle;
  }
  return (uint32_t)low;
}

static uint64_t hash_of_stack(const void *times, size_t i) {
  const stack_then_t *s = &((const code_times_t *)times)->stacks.items[i];
  return hash_pair(s->stack, s->epoch);
}

static uint64_t hash_of_added(const void *times, size_t i) {
  const added_t *a = &((const code_times_t *)times)->added.items[i];
  return hash_pair(a->parent, a->frame);
}

/* What STACK is in EPOCH; 0: not known yet. */
static uint32_t known_stack(const code_times_t *t, uint32_t stack, uint32_t epoch) {
  const uint32_t *slot;
  if (!t->stacks.count) return 0;
  HASH_FIND(&t->by_stack, hash_pair(stack, epoch), slot) {
    const stack_then_t *s = &t->stacks.items[*slot - 1];
    if (s->stack == stack && s->epoch == epoch) return s->id;
  }
  return 0;
}

static void keep_stack(code_times_t *t, uint32_t stack, uint32_t epoch, uint32_t id) {
  uint32_t *slot;
  if (!hash_reserve(&t->by_stack, t->stacks.count, hash_of_stack, t)) return;
  HASH_FIND(&t->by_stack, hash_pair(stack, epoch), slot) {
    const stack_then_t *s = &t->stacks.items[*slot - 1];
    if (s->stack == stack && s->epoch == epoch) return;
  }
  stack_then_t *item = ARRAY_ADD(t->stacks);
  if (!item) return;
  *item = (stack_then_t){stack, epoch, id};
  *slot = (uint32_t)t->stacks.count;
}

static uint32_t make_node(reader_t *r, code_times_t *t, uint32_t parent, uint32_t frame,
                          uint32_t recorded) {
  uint32_t *slot;
  if (!hash_reserve(&t->by_parent, t->added.count, hash_of_added, t)) return 0;
  HASH_FIND(&t->by_parent, hash_pair(parent, frame), slot) {
    const added_t *a = &t->added.items[*slot - 1];
    if (a->parent == parent && a->frame == frame) return a->id;
  }
  uint32_t id = reader_add_node(r, parent, frame);
  added_t *item = id ? ARRAY_ADD(t->added) : NULL;
  if (!item) return 0;
  *item = (added_t){parent, frame, id, recorded};
  *slot = (uint32_t)t->added.count;
  return id;
}

static uint64_t hash_of_version(uint32_t frame, const record_function_t *function) {
  uint64_t hash = hash_pair(frame, function ? function->line : 0);
  return function ? hash_number(hash_text(hash_text(hash, function->name), function->file)) : hash;
}

static uint64_t hash_of_item(const void *versions, size_t i) {
  const version_t *item = &((const code_times_t *)versions)->versions.items[i];
  return hash_of_version(item->frame, item->function);
}

/* The frame that stands for V while it has FUNCTION; 0: out of memory. */
static uint32_t version_of(reader_t *r, code_times_t *t, const varying_t *v,
                           const record_function_t *function) {
  uint32_t *slot;
  if (!hash_reserve(&t->by_version, t->versions.count, hash_of_item, t)) return 0;
  HASH_FIND(&t->by_version, hash_of_version(v->frame, function), slot) {
    const version_t *known = &t->versions.items[*slot - 1];
    if (known->frame == v->frame && is_same(known->function, function)) return known->id;
  }
  record_frame_t frame = *reader_frame(r, v->frame);
  set_function(&frame, function);
  uint32_t id = reader_add_frame(r, &frame);
  version_t *item = id ? ARRAY_ADD(t->versions) : NULL;
  if (!item) return 0;
  *item = (version_t){v->frame, id, function};
  *slot = (uint32_t)t->versions.count;
  return id;
}

static int by_frame(const void *a, const void *b) {
  const varying_t *x = a, *y = b;
  return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static uint32_t frame_then(reader_t *r, code_times_t *t, uint32_t frame, uint32_t epoch) {
  const varying_t key = {.frame = frame};
  const varying_t *v = bsearch(&key, t->varying.items, t->varying.count, sizeof key, by_frame);
  uint64_t time = epoch ? t->borders.items[epoch - 1] : 0;
  return v ? version_of(r, t, v, function_then(r, t, v, time)) : frame;
}

/* Adds what STACK is in EPOCH: from the outermost node that is not known, inward. */
static void add_stack(reader_t *r, code_times_t *t, uint32_t stack, uint32_t epoch) {
  uint32_t outer = 0, depth = 0;
  for (uint32_t id = stack; id && !(outer = known_stack(t, id, epoch));) {
    const record_node_t *n = reader_node(r, id);
    if (!n || depth == READER_DEPTH_MAX) return; /* damaged, or a cycle */
    t->chain[depth++] = id;
    id = n->parent;
  }
  while (depth > 0) {
    const record_node_t n = *reader_node(r, t->chain[--depth]);
    uint32_t frame = frame_then(r, t, n.frame, epoch);
    outer = outer == n.parent && frame == n.frame ? n.id : make_node(r, t, outer, frame, n.id);
    if (!outer || !frame) {
      t->failed = true;
      return;
    }
    keep_stack(t, n.id, epoch, outer);
  }
}

uint32_t reader_stack_then(const reader_t *r, uint32_t stack, uint64_t time) {
  const code_times_t *t = r->code_times;
  uint32_t known = known_stack(t, stack, epoch_of(t, time));
  return known ? known : stack;
}

uint32_t reader_stack_before(const reader_t *r, uint32_t stack) {
  const code_times_t *t = r->code_times;
  size_t place = t->added.count ? stack - t->added.items[0].id : 0;
  bool is_added = place < t->added.count && t->added.items[place].id == stack;
  return is_added ? t->added.items[place].recorded : stack;
}

/* The first pass. What it finds damaged is counted by the second one. */
static bool add_stacks(reader_t *r, code_times_t *t) {
  const reader_damage_t damage = r->damage;
  merge_t *merge = merge_open(r);
  const record_event_t *e;
  if (!merge) return false;
  while (!t->failed && (e = merge_next(merge)))
    if (e->stack) add_stack(r, t, e->stack, epoch_of(t, e->time));
  merge_close(merge);
  r->damage = damage;
  return !t->failed;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static void free_times(code_times_t *t) {
  if (!t) return;
  free(t->candidates.items);
  free(t->varying.items);
  free(t->versions.items);
  hash_free(&t->by_version);
  free(t->borders.items);
  free(t->stacks.items);
  free(t->added.items);
  hash_free(&t->by_stack);
  hash_free(&t->by_parent);
  free(t);
}

int reader_name_code(reader_t *r) {
  if (!r->codes.count) return 0;
  qsort(r->codes.items, r->codes.count, sizeof *r->codes.items, by_address);
  code_times_t *t = calloc(1, sizeof *t);
  uint64_t *reach = reaches(r);
  bool good = t && reach && name_frames(r, t, reach);
  free(reach);
  if (good && t->varying.count) {
    qsort(t->varying.items, t->varying.count, sizeof *t->varying.items, by_frame);
    sort_borders(t);
    good = add_stacks(r, t);
  }
  if (good && t->added.count)
    r->code_times = t;
  else
    free_times(t);
  return good ? 0 : SONDE_ENOMEM;
}

void reader_free_code(reader_t *r) {
  free_times(r->code_times);
  free(r->codes.items);
}
