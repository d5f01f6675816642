/* SPDX-License-Identifier: MIT
 *
 * Converts records to events. The loop over the records is compiled once for each layout, for
 * speed.
 */
#include "import/apple.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "import/apple_stacks.h"
#include "record/vm_tag.h"

/* Records between two calls of release_log. */
#define RELEASE_EVERY (1u << 20)
#define RELEASE_PAGE  65536u

typedef struct importer {
  offline_t *to;
  apple_summary_t *summary;
  apple_stacks_t stacks;
  void (*progress)(void *context, uint64_t done, uint64_t total);
  void *context;
  bool is_mapped; /* the log is a mapped file */
} importer_t;

/* ---- regions ------------------------------------------------------------------------------ */

static void put_region(importer_t *m, stream_t *s, uint64_t time, mapping_call_t call,
                       uint64_t address, uint64_t bytes, uint32_t stack, uint32_t type) {
  uint32_t flags = vm_tag_flags(type & APPLE_MAPPED);
  char tag[VM_TAG_NAME_MAX], name[VM_TAG_NAME_MAX + 2] = "";
  const uint64_t numbers[] = {call, address, bytes, stack, 0, 0, 0, flags, 0};
  if (vm_tag_name(type >> APPLE_TAG_SHIFT, tag)) snprintf(name, sizeof name, "[%s]", tag);
  offline_extended(m->to, s, time, EXTENDED_MAPPING, numbers, 9, name);
  m->summary->regions++;
}

static bool put_live_region(uint64_t address, uint64_t bytes, uint32_t id, void *context) {
  importer_t *m = context;
  uint32_t stack;
  stream_t *s = apple_stacks_find(&m->stacks, id, &stack);
  if (!s) return false;
  put_region(m, s, m->summary->records, MAPPING_CREATED, address, bytes, stack, APPLE_VM_ALLOCATE);
  return true;
}

/* ---- records ------------------------------------------------------------------------------ */

static NOINLINE bool convert_rare(importer_t *m, uint64_t time, const apple_record_t *r) {
  uint32_t stack = 0;
  if (!apple_is_possible(r)) {
    m->summary->damaged++;
    return true;
  }
  stream_t *s = apple_stacks_find(&m->stacks, r->stack, &stack);
  if (!s) return false;
  offline_reserve(m->to, s);
  if (r->type & (APPLE_VM_ALLOCATE | APPLE_MAPPED))
    put_region(m, s, time, MAPPING_CREATED, r->address, r->argument, stack, r->type);
  else if (r->type & APPLE_VM_DEALLOCATE)
    put_region(m, s, time, MAPPING_REMOVED, r->address, r->argument, stack, r->type);
  else if (r->type & APPLE_DEALLOC)
    event_put_free(s, time, r->address, stack);
  else if (r->type & APPLE_ALLOC) /* with a tag, which is known only from regions */
    event_put_new(s, EVENT_MALLOC, time, r->address, r->argument, stack);
  else
    return true; /* generic: without information */
  m->summary->events++;
  return true;
}

/* Converts one record; most are plain allocations and frees. False when memory runs out. */
static ALWAYS_INLINE bool convert_record(importer_t *m, uint64_t time, const uint8_t *at,
                                         apple_layout_t layout) {
  const apple_record_t r = apple_decode(at, layout);
  uint32_t stack;
  if (UNLIKELY((r.type != APPLE_ALLOC && r.type != APPLE_DEALLOC) || r.address >> 56))
    return convert_rare(m, time, &r);
  stream_t *s = apple_stacks_find(&m->stacks, r.stack, &stack);
  if (UNLIKELY(!s)) return false;
  offline_reserve(m->to, s);
  if (r.type == APPLE_ALLOC)
    event_put_new(s, EVENT_MALLOC, time, r.address, r.argument, stack);
  else
    event_put_free(s, time, r.address, stack);
  m->summary->events++;
  return true;
}

/* Releases the pages of the mapping that were read: the log may be many times larger than memory.
 */
static NOINLINE void release_log(importer_t *m, const uint8_t *log, uint64_t done, uint64_t total,
                                 apple_layout_t layout) {
  uintptr_t from = ALIGN_UP((uintptr_t)log, RELEASE_PAGE);
  uintptr_t to = ALIGN_DOWN((uintptr_t)log + done * layout, RELEASE_PAGE);
  if (m->is_mapped && to > from) (void)madvise((void *)from, to - from, MADV_DONTNEED);
  if (m->progress) m->progress(m->context, done, total);
}

static ALWAYS_INLINE bool convert_all(importer_t *m, const uint8_t *log, uint64_t count,
                                      apple_layout_t layout) {
  for (uint64_t i = 0; i < count; i++) {
    if (!convert_record(m, i + 1, log + i * layout, layout)) return false;
    if (UNLIKELY(i % RELEASE_EVERY == 0)) release_log(m, log, i, count, layout);
  }
  return true;
}

static bool convert_log(importer_t *m, const apple_input_t *in) {
  uint64_t count = in->log_size / in->layout;
  m->summary->records = count;
  m->summary->partial_bytes = in->log_size % in->layout;
  switch (in->layout) {
  case APPLE_16: return convert_all(m, in->log, count, APPLE_16);
  case APPLE_24: return convert_all(m, in->log, count, APPLE_24);
  default: return convert_all(m, in->log, count, APPLE_32);
  }
}

bool apple_import(offline_t *to, const apple_input_t *in, apple_summary_t *summary,
                  void (*progress)(void *context, uint64_t done, uint64_t total), void *context) {
  importer_t *m = calloc(1, sizeof *m);
  if (!m) return false;
  *summary = (apple_summary_t){0};
  m->to = to;
  m->summary = summary;
  m->progress = progress;
  m->context = context;
  m->is_mapped = in->log_is_mapped;
  m->stacks.table = in->table;
  m->stacks.to = to;
  m->stacks.summary = summary;
  bool good = apple_stacks_open(&m->stacks) && (!in->log || convert_log(m, in));
  if (good && in->regions) {
    long damaged = apple_regions_each(in->regions, in->regions_size, put_live_region, m);
    summary->damaged_regions = damaged > 0 ? (uint64_t)damaged : 0;
    good = damaged >= 0;
  }
  good = good && apple_stacks_write(&m->stacks, in->images, in->link_bases);
  apple_stacks_close(&m->stacks);
  free(m);
  return good;
}
