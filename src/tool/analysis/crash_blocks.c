/* SPDX-License-Identifier: MIT */
#include "analysis/crash_blocks.h"

#include <string.h>

#include "reader/body.h"
#include "reader/merge.h"
#include "sonde/status.h"

/* How far behind a block an address is said to be behind it. A large block has its own mapping, of
 * whole pages. */
enum { NEAR_BYTES = 64, NEAR_LARGE_BYTES = 8192, GUARD_BYTES = 1 << 20, NEAR_STACK_BYTES = 65536 };
#define LARGE_BYTES (UINT64_C(128) << 10)

enum { SIGNAL_ABORT = 6, SIGNAL_BUS = 7, SIGNAL_SEGV = 11, CODE_KERNEL = 0x80 }; /* of Linux */

/* What is known of a pointer so far. A block with a freed_time is not live. */
typedef struct search {
  crash_block_t inside, behind, mapping;
  crash_block_t before; /* freed, where INSIDE is now */
  crash_block_t above;  /* the next one */
} search_t;

/* The call of free that did not return. */
typedef struct last_free {
  uint64_t time, address;
  uint32_t stream;
  bool is_known;
} last_free_t;

typedef struct context {
  reader_t *reader;
  const crash_t *crash;
  crash_pointers_t *out;
  search_t searches[CRASH_POINTERS];
  last_free_t last;
} context_t;

/* ---- the argument of free ----------------------------------------------------------------- */

static bool aborts_in_free(const crash_t *c) {
  static const char *const starts[] = {"free()", "double free", "munmap_chunk()", "realloc()"};
  for (size_t i = 0; c->number == SIGNAL_ABORT && c->message && i < 4; i++)
    if (!strncmp(c->message, starts[i], strlen(starts[i]))) return true;
  return false;
}

static bool is_free(const record_event_t *e) {
  return e->kind == EVENT_FREE || (e->kind == EVENT_REALLOC && e->moment == 0);
}

static uint64_t freed_address(const record_event_t *e) {
  return e->kind == EVENT_FREE ? e->address : e->old;
}

static void note_free(context_t *x, const record_event_t *e) {
  const record_thread_t *t = reader_thread(x->reader, e->stream);
  if (!is_free(e) || !t || t->tid != x->crash->crashed.tid) return;
  x->last = (last_free_t){e->time, freed_address(e), e->stream, true};
}

/* ---- blocks ------------------------------------------------------------------------------- */

static bool is_live(const crash_block_t *b) { return b->start && !b->freed_time; }

static uint64_t near_bytes(uint64_t size) {
  return size >= LARGE_BYTES ? NEAR_LARGE_BYTES : NEAR_BYTES;
}

static void on_allocated(context_t *x, const crash_block_t *block) {
  for (uint32_t i = 0; i < x->out->count; i++) {
    uint64_t value = x->out->items[i].value;
    search_t *s = &x->searches[i];
    if (value < block->start && (!is_live(&s->above) || block->start <= s->above.start))
      s->above = *block;
    if (value < block->start) continue;
    uint64_t offset = value - block->start;
    if (offset < block->size || offset == 0) {
      if (s->inside.freed_time) s->before = s->inside;
      s->inside = *block;
    } else if (offset - block->size < near_bytes(block->size) &&
               (!is_live(&s->behind) || block->start > s->behind.start))
      s->behind = *block;
  }
}

static void mark_freed(crash_block_t *b, const record_event_t *e, uint64_t address) {
  if (b->start != address || !is_live(b)) return;
  b->freed_time = e->time;
  b->freed_stack = e->stack;
  b->freed_stream = e->stream;
}

static void on_freed(context_t *x, const record_event_t *e) {
  const last_free_t *last = &x->last;
  uint64_t address = freed_address(e);
  if (last->is_known && e->time == last->time && e->stream == last->stream &&
      address == last->address)
    return;
  for (uint32_t i = 0; i < x->out->count; i++) {
    mark_freed(&x->searches[i].inside, e, address);
    mark_freed(&x->searches[i].behind, e, address);
    mark_freed(&x->searches[i].above, e, address);
  }
}

static bool on_block(void *context, const record_block_t *b) {
  const crash_block_t block = {.start = b->address,
                               .size = b->size,
                               .allocated_time = b->time,
                               .allocated_stack = b->stack,
                               .allocated_stream = b->stream};
  on_allocated(context, &block);
  return true;
}

/* ---- mappings ----------------------------------------------------------------------------- */

static void on_mapping(context_t *x, const record_event_t *e) {
  uint64_t n[6] = {0};
  if (!body_numbers(e, n, 4)) return;
  (void)body_numbers(e, n, 6);
  bool removed = n[0] == MAPPING_REMOVED;
  uint64_t start = n[1], size = n[2];
  for (uint32_t i = 0; i < x->out->count; i++) {
    crash_block_t *m = &x->searches[i].mapping;
    uint64_t value = x->out->items[i].value;
    if (n[0] == MAPPING_MOVED && value - n[4] < n[5]) mark_freed(m, e, m->start);
    if (value - start >= size) continue;
    if (!removed)
      *m = (crash_block_t){.start = start,
                           .size = size,
                           .allocated_time = e->time,
                           .allocated_stack = (uint32_t)n[3],
                           .allocated_stream = e->stream};
    else if (is_live(m)) {
      mark_freed(m, e, m->start);
      m->freed_stack = (uint32_t)n[3];
    }
  }
}

/* ---- passes over the events --------------------------------------------------------------- */

static void follow(context_t *x, const record_event_t *e) {
  if (e->kind == EVENT_EXTENDED && e->subtype == EXTENDED_BLOCKS) (void)body_blocks(e, on_block, x);
  if (e->time > x->crash->time) return;
  if (e->kind == EVENT_EXTENDED && e->subtype == EXTENDED_MAPPING) on_mapping(x, e);
  if (e->kind == EVENT_EXTENDED || e->kind == EVENT_SAMPLE) return;
  if (is_free(e)) {
    on_freed(x, e);
    return;
  }
  const crash_block_t block = {.start = e->address,
                               .size = e->size,
                               .allocated_time = e->time,
                               .allocated_stack = e->stack,
                               .allocated_stream = e->stream,
                               .is_sampled = e->sample_bytes != 0};
  on_allocated(x, &block);
}

static bool pass(context_t *x, void (*visit)(context_t *, const record_event_t *)) {
  merge_t *merge = merge_open(x->reader);
  const record_event_t *e;
  while (merge && (e = merge_next(merge)))
    visit(x, e);
  if (merge) merge_close(merge);
  return merge != NULL;
}

static void note_free_before(context_t *x, const record_event_t *e) {
  if (e->time <= x->crash->time) note_free(x, e);
}

/* ---- places ------------------------------------------------------------------------------- */

/* The pages below the mapped part of the stack, where the stack pointer is, too. */
static bool is_in_guard(const context_t *x, uint64_t value, uint64_t *below) {
  const crash_t *c = x->crash;
  uint32_t sp = crash_stack_pointer(reader_header(x->reader)->machine);
  if (!c->stack_low || sp >= c->register_count) return false;
  uint64_t pointer = c->registers[sp];
  bool near = pointer < c->stack_low + NEAR_STACK_BYTES && pointer + GUARD_BYTES > c->stack_low;
  if (!near || value >= c->stack_low || value + GUARD_BYTES <= c->stack_low) return false;
  *below = c->stack_low - value;
  return true;
}

static const record_image_t *image_of(const context_t *x, uint64_t value, bool unloaded) {
  size_t count;
  const record_image_t *images = reader_images(x->reader, &count);
  for (size_t i = count; i > 0; i--) {
    const record_image_t *image = &images[i - 1];
    bool gone = image->unloaded_time && image->unloaded_time <= x->crash->time;
    if (value >= image->start && value < image->end && gone == unloaded) return image;
  }
  return NULL;
}

static void place_block(crash_pointer_t *p, crash_place_t place, const crash_block_t *block,
                        uint64_t offset) {
  p->place = place;
  p->block = *block;
  p->offset = offset;
}

static void find_place(const context_t *x, const search_t *s, crash_pointer_t *p) {
  const crash_t *c = x->crash;
  uint64_t v = p->value, below;
  if (v < CRASH_NULL_BYTES) {
    p->place = CRASH_PLACE_NULL;
    p->offset = v;
  } else if (is_live(&s->inside)) {
    place_block(p, CRASH_PLACE_LIVE, &s->inside, v - s->inside.start);
    p->before = s->before;
  } else if (is_in_guard(x, v, &below)) {
    p->place = CRASH_PLACE_STACK_GUARD;
    p->offset = below;
  } else if (c->stack_low && v >= c->stack_low && v < c->stack_high)
    p->place = CRASH_PLACE_STACK;
  else if ((p->image = image_of(x, v, false)))
    p->place = CRASH_PLACE_IMAGE;
  else if (s->inside.start)
    place_block(p, CRASH_PLACE_FREED, &s->inside, v - s->inside.start);
  else if (is_live(&s->behind))
    place_block(p, CRASH_PLACE_BEHIND, &s->behind, v - s->behind.start - s->behind.size);
  else if ((p->image = image_of(x, v, true)))
    p->place = CRASH_PLACE_UNLOADED;
  else if (s->mapping.start && !is_live(&s->mapping))
    place_block(p, CRASH_PLACE_UNMAPPED, &s->mapping, v - s->mapping.start);
  else if (c->code == CODE_KERNEL && v >> 47 && v >> 47 != 0x1ffff)
    p->place = CRASH_PLACE_NOT_CANONICAL;
  if (p->image) p->offset = v - p->image->start;
}

/* ---- damage of glibc's heap ---------------------------------------------------------------- */

/* Whether block NEXT follows block B in glibc's heap. A chunk has the size in front of the block,
 * a multiple of 16 and at least 32; it may be 16 larger, since that cannot be a chunk (malloc.c,
 * "Chunk representation"). */
static bool is_next(const crash_block_t *b, const crash_block_t *next) {
  enum { SIZE_BYTES = 8, ALIGNMENT = 16, LEAST = 32 };
  uint64_t chunk = (b->size + SIZE_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (chunk < LEAST) chunk = LEAST;
  return is_live(b) && is_live(next) &&
         (next->start == b->start + chunk || next->start == b->start + chunk + ALIGNMENT);
}

/* What MESSAGE says of a live block that is freed (malloc.c, _int_free and its callers). "(out)" is
 * about the block's own size, unless the heap ends behind the block. */
static crash_damage_t damage_of(const char *message, bool is_last) {
  static const struct {
    const char *start;
    crash_damage_t damage;
  } messages[] = {{"free(): invalid pointer", CRASH_DAMAGE_BEFORE},
                  {"free(): invalid size", CRASH_DAMAGE_BEFORE},
                  {"munmap_chunk(): invalid pointer", CRASH_DAMAGE_BEFORE},
                  {"realloc(): invalid pointer", CRASH_DAMAGE_BEFORE},
                  {"realloc(): invalid old size", CRASH_DAMAGE_BEFORE},
                  {"double free or corruption (out)", CRASH_DAMAGE_BEFORE},
                  {"double free or corruption (!prev)", CRASH_DAMAGE_BEHIND},
                  {"free(): invalid next size", CRASH_DAMAGE_BEHIND},
                  {"realloc(): invalid next size", CRASH_DAMAGE_BEHIND}};
  for (size_t i = 0; message && i < sizeof messages / sizeof *messages; i++) {
    if (strncmp(message, messages[i].start, strlen(messages[i].start)) != 0) continue;
    return is_last && strstr(message, "(out)") ? CRASH_DAMAGE_NONE : messages[i].damage;
  }
  return CRASH_DAMAGE_NONE;
}

static void find_damage(const context_t *x, const search_t *s, crash_pointer_t *p) {
  if (strcmp(p->name, "freed") != 0 || p->place != CRASH_PLACE_LIVE || p->offset) return;
  p->damage = damage_of(x->crash->message, !is_next(&p->block, &s->above));
  if (p->damage == CRASH_DAMAGE_BEFORE && is_next(&s->behind, &p->block)) p->below = s->behind;
}

/* ---- questions ---------------------------------------------------------------------------- */

const crash_pointer_t *crash_pointer_named(const crash_pointers_t *pointers, const char *name) {
  for (uint32_t i = 0; i < pointers->count; i++)
    if (!strcmp(pointers->items[i].name, name)) return &pointers->items[i];
  return NULL;
}

static bool holds(const crash_pointers_t *pointers, uint64_t value) {
  for (uint32_t i = 0; i < pointers->count; i++)
    if (pointers->items[i].value == value) return true;
  return false;
}

const crash_pointer_t *crash_pointer_link(const crash_pointers_t *pointers) {
  enum { LINK_SHIFT = 12, MEMBER_BYTES = 4096 }; /* a member of what the link seems to point to */
  const crash_pointer_t *address = crash_pointer_named(pointers, "address");
  if (!address || address->place != CRASH_PLACE_UNKNOWN) return NULL;
  for (uint32_t i = 0; i < pointers->count; i++) {
    const crash_pointer_t *p = &pointers->items[i];
    uint64_t link = p->block.start >> LINK_SHIFT;
    if (p->place == CRASH_PLACE_FREED && address->value - link < MEMBER_BYTES &&
        holds(pointers, link))
      return p;
  }
  return NULL;
}

/* The address and the argument of free explain a crash by nearly every place. A register may only
 * explain an address that nothing else explains. */
static bool is_telling(const context_t *x, const crash_pointer_t *p) {
  const crash_pointer_t *address = crash_pointer_named(x->out, "address");
  bool is_unexplained = !address || address->place == CRASH_PLACE_UNKNOWN;
  bool is_fault = x->crash->number == SIGNAL_SEGV || x->crash->number == SIGNAL_BUS;
  switch (p->place) {
  case CRASH_PLACE_UNKNOWN:
  case CRASH_PLACE_STACK:
  case CRASH_PLACE_IMAGE: return false;
  default: break;
  }
  if (p == address || !strcmp(p->name, "freed")) return true;
  return is_fault && is_unexplained &&
         (p->place == CRASH_PLACE_FREED || p->place == CRASH_PLACE_NOT_CANONICAL);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static void add_pointer(crash_pointers_t *out, const char *name, uint64_t value) {
  out->items[out->count++] = (crash_pointer_t){.name = name, .value = value};
}

int crash_pointers_find(reader_t *reader, const crash_t *c, crash_pointers_t *out) {
  uint32_t machine = reader_header(reader)->machine, sp = crash_stack_pointer(machine);
  context_t x = {.reader = reader, .crash = c, .out = out};
  out->count = 0;
  if (!c->number) return 0;
  if (c->has_address) add_pointer(out, "address", c->address);
  if (aborts_in_free(c)) {
    if (!pass(&x, note_free_before)) return SONDE_ENOMEM;
    if (x.last.is_known) add_pointer(out, "freed", x.last.address);
  }
  for (uint32_t i = 0; i + 1 < c->register_count; i++)
    if (i != sp && *crash_register_name(machine, i))
      add_pointer(out, crash_register_name(machine, i), c->registers[i]);
  if (!pass(&x, follow)) return SONDE_ENOMEM;
  for (uint32_t i = 0; i < out->count; i++)
    find_place(&x, &x.searches[i], &out->items[i]);
  for (uint32_t i = 0; i < out->count; i++)
    find_damage(&x, &x.searches[i], &out->items[i]);
  for (uint32_t i = 0; i < out->count; i++)
    out->items[i].is_telling = is_telling(&x, &out->items[i]);
  return 0;
}
