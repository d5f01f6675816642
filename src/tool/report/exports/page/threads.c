/* SPDX-License-Identifier: MIT */
#include "report/exports/page/threads.h"

#include <stdlib.h>

#include "base/hash.h"

typedef struct finder {
  page_threads_t *threads;
  hash_index_t index;
  bool failed;
} finder_t;

static uint64_t hash_of_thread(const void *threads, size_t i) {
  return hash_number(((const page_threads_t *)threads)->items[i].tid);
}

/* The first name of a thread counts. */
static void add(finder_t *f, uint32_t tid, const char *name) {
  page_threads_t *t = f->threads;
  uint32_t *slot;
  if (!tid || f->failed) return;
  f->failed = !hash_reserve(&f->index, t->count, hash_of_thread, t);
  if (f->failed) return;
  HASH_FIND(&f->index, hash_number(tid), slot) {
    page_thread_t *known = &t->items[*slot - 1];
    if (known->tid != tid) continue;
    if (!*known->name) known->name = name;
    return;
  }
  page_thread_t *added = ARRAY_ADD(*t);
  f->failed = !added;
  if (!added) return;
  *added = (page_thread_t){tid, name};
  *slot = (uint32_t)t->count;
}

/* The threads of the section KEY, which the monitor read from outside. Their names are newer than
 * those of streams: a thread names itself after its start. */
static void add_section(finder_t *f, json_object *sections, const char *key) {
  json_object *section, *threads, *tid, *name;
  if (!json_object_object_get_ex(sections, key, &section) ||
      !json_object_object_get_ex(section, "threads", &threads))
    return;
  for (size_t i = 0; i < json_object_array_length(threads); i++) {
    json_object *thread = json_object_array_get_idx(threads, i);
    if (json_object_object_get_ex(thread, "tid", &tid) &&
        json_object_object_get_ex(thread, "name", &name))
      add(f, (uint32_t)json_object_get_int64(tid), json_object_get_string(name));
  }
}

static void add_rows(finder_t *f, const page_rows_t *rows) {
  for (size_t i = 0; i < rows->count; i++)
    add(f, rows->items[i].thread, "");
}

static void add_stalled(finder_t *f, const stall_groups_t *groups) {
  for (size_t g = 0, i = 0; g < groups->count; g++)
    for (size_t k = 0; k < groups->items[g].count; k++, i++)
      add(f, groups->stalls[i].stall->tid, "");
}

static int by_tid(const void *left, const void *right) {
  const page_thread_t *a = left, *b = right;
  return a->tid < b->tid ? -1 : a->tid > b->tid;
}

bool page_threads_find(page_threads_t *threads, const page_source_t *source) {
  finder_t f = {.threads = threads};
  size_t count;
  const record_thread_t *streams = reader_threads(source->report->reader, &count);
  add_section(&f, source->sections, "wall");
  add_section(&f, source->sections, "cpu");
  for (size_t i = 0; i < count; i++)
    add(&f, streams[i].tid, streams[i].name);
  add_rows(&f, &source->events->samples);
  add_rows(&f, &source->events->waits);
  add_stalled(&f, source->stalls);
  hash_free(&f.index);
  if (threads->count) qsort(threads->items, threads->count, sizeof *threads->items, by_tid);
  return !f.failed;
}

const char *page_threads_name(const page_threads_t *threads, uint32_t tid) {
  const page_thread_t wanted = {.tid = tid}, *found = NULL;
  if (threads->count)
    found = bsearch(&wanted, threads->items, threads->count, sizeof wanted, by_tid);
  return found && *found->name ? found->name : "thread";
}

void page_threads_free(page_threads_t *threads) { free(threads->items); }
