/* SPDX-License-Identifier: MIT
 *
 * Stacks by name, and weights of the program's own functions.
 */
#include <stdio.h>

#include "analysis/called_name.h"
#include "analysis/why/facts.h"
#include "image/path.h"
#include "symbol/short_name.h"

/* ---- functions ---------------------------------------------------------------------------- */

static uint64_t hash_of_fields(const why_function_t *f) {
  return hash_pair((uintptr_t)f->name ^ f->line, (uintptr_t)f->file);
}

static uint64_t hash_of_function(const void *why, size_t i) {
  return hash_of_fields(((const why_t *)why)->functions.items[i]);
}

static bool has_same_fields(const why_function_t *a, const why_function_t *b) {
  return a->name == b->name && a->file == b->file && a->line == b->line &&
         a->library == b->library && a->path == b->path && a->own == b->own && a->known == b->known;
}

const why_function_t *why_keep_function(why_t *w, const why_function_t *f) {
  uint32_t *slot;
  if (!hash_reserve(&w->function_index, w->functions.count, hash_of_function, w)) goto no_memory;
  HASH_FIND(&w->function_index, hash_of_fields(f), slot) {
    const why_function_t *kept = w->functions.items[*slot - 1];
    if (has_same_fields(kept, f)) return kept;
  }
  why_function_t *copy = malloc(sizeof *copy), **kept = copy ? ARRAY_ADD(w->functions) : NULL;
  if (!kept) {
    free(copy);
    goto no_memory;
  }
  *copy = *f;
  *kept = copy;
  *slot = (uint32_t)w->functions.count;
  return copy;
no_memory:
  w->failed = true;
  return NULL;
}

/* ---- one stack ---------------------------------------------------------------------------- */

static uint64_t hash_of_stack(const void *why, size_t i) {
  return hash_number(((const why_t *)why)->stacks.items[i]->id);
}

/* The next own function that called the one at I and is not its thread's first, which calls
 * everything: main, or the function that pthread_create got. -1: none. */
static int caller_of(const why_stack_t *s, int i) {
  int caller = -1;
  for (int k = i + 1; k < s->count; k++) {
    const why_function_t *f = s->functions[k];
    if (!f->own || (caller < 0 && why_same_function(f, s->functions[i]))) continue;
    if (caller >= 0) return caller; /* F is outside it */
    caller = k;
  }
  return -1;
}

/* A function that only wraps the allocator, such as xmalloc: its caller decides. */
static bool is_wrapper(const char *function) {
  char name[WHY_NAME_MAX];
  short_name(function, 0, name, sizeof name); /* without arguments, such as std::allocator */
  name[strcspn(name, "<")] = 0;
  return strstr(name, "alloc") || strstr(name, "strdup") || strstr(name, "strndup");
}

/* Code of a stripped image has no name, so nothing tells whose it is. */
static bool is_nameless(const why_function_t *f) {
  return !f->known && *f->path && !path_is_system(f->path, NULL);
}

static void find_owner(why_stack_t *s) {
  for (int i = 0; i < s->count && s->owner < 0; i++)
    if (s->functions[i]->own) s->owner = i;
  for (int i = s->owner + 1; s->owner >= 0 && i < s->count; i++) {
    if (!s->functions[i]->own) continue;
    if (!is_wrapper(s->functions[s->owner]->name)) break;
    s->owner = i;
  }
  if (s->owner >= 0) s->caller = caller_of(s, s->owner);
  s->place = s->owner;
  for (int i = 0; i < s->count && s->place < 0; i++)
    if (is_nameless(s->functions[i])) s->place = i;
}

const why_stack_t *why_stack(why_t *w, uint32_t id) {
  static const why_stack_t unknown = {.owner = -1, .caller = -1, .place = -1};
  why_function_t functions[WHY_DEPTH_MAX];
  uint32_t *slot;
  if (!id || !hash_reserve(&w->stack_index, w->stacks.count, hash_of_stack, w)) return &unknown;
  HASH_FIND(&w->stack_index, hash_number(id), slot) {
    if (w->stacks.items[*slot - 1]->id == id) return w->stacks.items[*slot - 1];
  }
  int count = w->names.of_stack(w->names.context, id, functions, WHY_DEPTH_MAX);
  if (count < 0) count = 0;
  why_stack_t *s = malloc(sizeof *s + (size_t)count * sizeof *s->functions);
  why_stack_t **added = s ? ARRAY_ADD(w->stacks) : NULL;
  if (!added) {
    free(s);
    return &unknown;
  }
  *added = s;
  *slot = (uint32_t)w->stacks.count;
  *s = (why_stack_t){.id = id, .owner = -1, .caller = -1, .place = -1, .count = count};
  for (int i = 0; i < count && s->count == count; i++)
    if (!(s->functions[i] = why_keep_function(w, &functions[i]))) s->count = i;
  find_owner(s);
  return s;
}

static bool is_in_libc(const why_function_t *f) { return f->known && called_is_libc(f->library); }

const char *why_called(why_t *w, const why_wait_t *wait) {
  const why_stack_t *s = why_stack(w, wait->stack);
  int i = 0;
  while (i < s->count && !s->functions[i]->own && is_in_libc(s->functions[i]))
    i++;
  if (i == 0 || i == s->count) return wait->call;
  return called_name(s->functions[i - 1]->name);
}

const why_function_t *why_owner(const why_stack_t *s) {
  return s->owner < 0 ? NULL : s->functions[s->owner];
}

const why_function_t *why_place(const why_stack_t *s) {
  return s->place < 0 ? NULL : s->functions[s->place];
}

const why_function_t *why_callee(const why_stack_t *s) {
  return s->owner > 0 ? s->functions[s->owner - 1] : NULL;
}

bool why_is_any(const char *name, const char *const *names) {
  name += strspn(name, "_");
  for (; *names; names++)
    if (*name == **names && !strcmp(name, *names)) return true;
  return false;
}

bool why_calls_any(const why_stack_t *s, const char *const *names) {
  int end = s->owner < 0 ? s->count : s->owner;
  for (int i = 0; i < end; i++)
    if (why_is_any(s->functions[i]->name, names)) return true;
  return false;
}

/* A destructor does what its object's owner decides. */
static bool is_destructor(const why_function_t *f) { return strstr(f->name, "::~") != NULL; }

/* The own function outside of CALLER, a destructor, that ended the object; NULL: none. */
static const why_function_t *ender_of(const why_stack_t *s, int caller) {
  if (caller < 0 || !is_destructor(s->functions[caller])) return NULL;
  for (int i = caller + 1; i < s->count; i++)
    if (s->functions[i]->own && !is_destructor(s->functions[i])) return s->functions[i];
  return NULL;
}

static char *place_text(const why_function_t *f, const why_stack_t *s, int caller,
                        char out[WHY_PLACE_MAX]) {
  char name[WHY_NAME_MAX], from[WHY_NAME_MAX], end[WHY_NAME_MAX];
  const why_function_t *ender = ender_of(s, caller);
  why_function_text(f, name);
  if (ender)
    snprintf(out, WHY_PLACE_MAX, "%s, called by %s in %s", name,
             why_function_text(s->functions[caller], from), why_function_text(ender, end));
  else if (caller >= 0)
    snprintf(out, WHY_PLACE_MAX, "%s, called by %s", name,
             why_function_text(s->functions[caller], from));
  else
    snprintf(out, WHY_PLACE_MAX, "%s", name);
  return out;
}

char *why_place_text(const why_stack_t *s, char out[WHY_PLACE_MAX]) {
  static const why_function_t unknown = {.name = "unknown code", .library = "", .path = ""};
  const why_function_t *innermost = s->count ? s->functions[0] : &unknown;
  return place_text(s->place < 0 ? innermost : s->functions[s->place], s, s->caller, out);
}

char *why_place_of(const why_stack_t *s, const why_function_t *f, char out[WHY_PLACE_MAX]) {
  int i = 0;
  while (i < s->count && !why_same_function(s->functions[i], f))
    i++;
  return place_text(f, s, i < s->count ? caller_of(s, i) : -1, out);
}

/* ---- weights ------------------------------------------------------------------------------ */

/* A linear search: programs have few own functions on hot stacks. */
static why_weight_t *weight_of(why_weights_t *w, const why_function_t *f) {
  for (size_t i = 0; i < w->items.count; i++)
    if (why_same_function(w->items.items[i].function, f)) return &w->items.items[i];
  why_weight_t *item = ARRAY_ADD(w->items);
  if (item) *item = (why_weight_t){.function = f};
  return item;
}

bool why_weights_add(why_weights_t *w, const why_stack_t *s, uint64_t weight) {
  uint64_t depth = 0;
  w->sum += weight;
  w->additions++;
  for (int i = s->count; i-- > 0;) {
    if (!s->functions[i]->own || i < s->owner) continue;
    why_weight_t *item = weight_of(w, s->functions[i]);
    if (!item) return false;
    if (i == s->owner) item->own += weight;
    depth++;
    if (weight > item->example_weight) {
      item->example = s;
      item->example_weight = weight;
    }
    if (item->last_add == w->additions) continue; /* recursion counts once */
    item->last_add = w->additions;
    item->total += weight;
    item->depth += depth * weight;
  }
  return true;
}

void why_weights_free(why_weights_t *w) {
  free(w->items.items);
  *w = (why_weights_t){0};
}

static double mean_depth(const why_weight_t *item) {
  return (double)item->depth / (double)(item->total ? item->total : 1);
}

const why_weight_t *why_weights_hot(const why_weights_t *w, double share) {
  const why_weight_t *hot = NULL;
  for (size_t i = 0; i < w->items.count; i++) {
    const why_weight_t *item = &w->items.items[i];
    if ((double)item->total < share * (double)w->sum) continue;
    if (!hot || mean_depth(item) > mean_depth(hot)) hot = item;
  }
  return hot;
}
