/* SPDX-License-Identifier: MIT
 *
 * The whole profile is built in memory, as protobuf-c wants it, out of one pool that is freed as a
 * whole. Only frames that a stack with some weight has become locations.
 */
#define _GNU_SOURCE
#include "base/hash.h"
#include "report/exports/pprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "report/exports/pprof.pb-c.h"
#include "sonde/status.h"

enum { DEPTH_MAX = 4096, VALUES_MAX = 6, POOL_BLOCK = 1 << 16 };

typedef struct block {
  struct block *next;
  size_t used, room;
  max_align_t bytes[];
} block_t;

typedef struct list {
  void **items;
  size_t count, room;
} list_t;

/* Strings, or functions by the numbers of their strings: a key to a number from 1. */
typedef struct map {
  size_t *slots; /* number in the list + 1 */
  size_t mask, used;
} map_t;

typedef struct profile {
  reader_t *reader;
  frame_names_t *names;
  block_t *pool;
  list_t samples, mappings, locations, functions, strings, types;
  map_t string_map, function_map;
  uint64_t *location_of; /* by the frame's place in the table; 0: none yet */
  uint64_t *mapping_of;  /* likewise of images */
  bool no_memory;
} profile_t;

/* ---- memory ------------------------------------------------------------------------------- */

static void *take(profile_t *p, size_t size) {
  size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (!p->pool || p->pool->room - p->pool->used < size) {
    size_t room = size > POOL_BLOCK ? size : POOL_BLOCK;
    block_t *b = malloc(sizeof *b + room);
    if (!b) {
      p->no_memory = true;
      return NULL;
    }
    *b = (block_t){.next = p->pool, .room = room};
    p->pool = b;
  }
  void *found = (char *)p->pool->bytes + p->pool->used;
  p->pool->used += size;
  return memset(found, 0, size);
}

static bool append(profile_t *p, list_t *list, void *item) {
  if (list->count == list->room) {
    size_t room = list->room ? 2 * list->room : 256;
    void **grown = realloc(list->items, room * sizeof *grown);
    if (!grown) p->no_memory = true;
    if (!grown) return false;
    list->items = grown;
    list->room = room;
  }
  if (!item) return false;
  list->items[list->count++] = item;
  return true;
}

/* ---- strings and functions ---------------------------------------------------------------- */

static size_t hash_function(const void *item) {
  const Sonde__Pprof__Function *f = item;
  return (size_t)((uint64_t)(f->name * 1000003 + f->file) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
}

static size_t hash_string(const void *item) { return (size_t)hash_text(HASH_START, item); }

static bool map_room(profile_t *p, map_t *m, const list_t *list, size_t (*hash)(const void *)) {
  if (m->slots && 2 * (m->used + 1) <= m->mask) return true;
  size_t mask = m->slots ? 2 * m->mask + 1 : 1023;
  size_t *slots = calloc(mask + 1, sizeof *slots);
  if (!slots) p->no_memory = true;
  if (!slots) return false;
  for (size_t n = 0; n < m->used; n++) {
    size_t i = hash(list->items[n]) & mask;
    while (slots[i])
      i = (i + 1) & mask;
    slots[i] = n + 1;
  }
  free(m->slots);
  m->slots = slots;
  m->mask = mask;
  return true;
}

/* The number of TEXT in the table of strings. */
static int64_t string_of(profile_t *p, const char *text) {
  if (!map_room(p, &p->string_map, &p->strings, hash_string)) return 0;
  size_t i = (size_t)hash_text(HASH_START, text) & p->string_map.mask;
  for (size_t n; (n = p->string_map.slots[i]); i = (i + 1) & p->string_map.mask)
    if (!strcmp(p->strings.items[n - 1], text)) return (int64_t)(n - 1);
  char *copy = take(p, strlen(text) + 1);
  if (copy) strcpy(copy, text);
  if (!append(p, &p->strings, copy)) return 0;
  p->string_map.slots[i] = ++p->string_map.used;
  return (int64_t)(p->strings.count - 1);
}

static uint64_t function_of(profile_t *p, const frame_name_t *name) {
  Sonde__Pprof__Function key = {.name = string_of(p, name->function),
                                .file = name->file ? string_of(p, name->file) : 0};
  if (!map_room(p, &p->function_map, &p->functions, hash_function)) return 0;
  size_t i = hash_function(&key) & p->function_map.mask;
  for (size_t n; (n = p->function_map.slots[i]); i = (i + 1) & p->function_map.mask) {
    const Sonde__Pprof__Function *f = p->functions.items[n - 1];
    if (f->name == key.name && f->file == key.file) return n;
  }
  Sonde__Pprof__Function *f = take(p, sizeof *f);
  if (!append(p, &p->functions, f)) return 0;
  sonde__pprof__function__init(f);
  f->id = p->functions.count;
  f->name = f->system_name = key.name;
  f->file = key.file;
  p->function_map.slots[i] = ++p->function_map.used;
  return f->id;
}

/* ---- locations ---------------------------------------------------------------------------- */

static uint64_t mapping_of(profile_t *p, const record_image_t *image) {
  size_t count;
  uint64_t *known = &p->mapping_of[image - reader_images(p->reader, &count)];
  if (*known) return *known;
  Sonde__Pprof__Mapping *m = take(p, sizeof *m);
  if (!append(p, &p->mappings, m)) return 0;
  sonde__pprof__mapping__init(m);
  char build_id[129] = "";
  for (uint32_t i = 0; i < image->build_id_size && i < 64; i++)
    snprintf(build_id + 2 * i, 3, "%02x", image->build_id[i]);
  m->id = *known = p->mappings.count;
  m->start = image->start;
  m->limit = image->end;
  m->offset = image->start - image->slide;
  m->file = string_of(p, image->path);
  m->build_id = string_of(p, build_id);
  m->has_functions = m->has_files = m->has_lines = m->has_inlined = true;
  return m->id;
}

static uint64_t location_of(profile_t *p, const record_frame_t *frame) {
  size_t count;
  uint64_t *known = &p->location_of[frame - reader_frames(p->reader, &count)];
  if (*known) return *known;
  const frame_name_t *names;
  int rows = frame_names_of_frame(p->names, frame, &names);
  Sonde__Pprof__Location *l = take(p, sizeof *l);
  Sonde__Pprof__Line *lines = take(p, (size_t)rows * sizeof *lines);
  Sonde__Pprof__Line **list = take(p, (size_t)rows * sizeof *list);
  if (!lines || !list || !append(p, &p->locations, l)) return 0;
  sonde__pprof__location__init(l);
  const record_image_t *image = frame->image ? reader_image(p->reader, frame->image) : NULL;
  l->id = *known = p->locations.count;
  l->mapping_id = image ? mapping_of(p, image) : 0;
  l->address = frame->pc - !(frame->flags & FRAME_EXACT);
  for (int i = 0; i < rows; i++) {
    list[i] = &lines[i];
    sonde__pprof__line__init(list[i]);
    lines[i].function_id = function_of(p, &names[i]);
    lines[i].line = names[i].line;
  }
  l->line = list;
  l->n_line = (size_t)rows;
  return l->id;
}

static void add_stack(profile_t *p, uint32_t stack, const int64_t *values, size_t count) {
  const record_frame_t *frames[DEPTH_MAX];
  int depth = reader_stack(p->reader, stack, frames, DEPTH_MAX);
  if (depth < 0) depth = 0;
  if (depth > DEPTH_MAX) depth = DEPTH_MAX;
  Sonde__Pprof__Sample *s = take(p, sizeof *s);
  uint64_t *ids = take(p, ((size_t)depth + 1) * sizeof *ids);
  int64_t *copy = take(p, count * sizeof *copy);
  if (!ids || !copy || !append(p, &p->samples, s)) return;
  sonde__pprof__sample__init(s);
  for (int i = 0; i < depth; i++)
    ids[i] = location_of(p, frames[i]);
  memcpy(copy, values, count * sizeof *copy);
  s->location_id = ids;
  s->n_location_id = (size_t)depth;
  s->value = copy;
  s->n_value = count;
}

/* ---- what is measured --------------------------------------------------------------------- */

static void add_type(profile_t *p, const char *type, const char *unit) {
  Sonde__Pprof__ValueType *t = take(p, sizeof *t);
  if (!append(p, &p->types, t)) return;
  sonde__pprof__value_type__init(t);
  t->type = string_of(p, type);
  t->unit = string_of(p, unit);
}

static void add_allocations(profile_t *p, const replay_t *replay) {
  static const char *const kinds[] = {"alloc", "inuse", "peak"};
  for (int i = 0; i < 3; i++) {
    char objects[32], space[32];
    snprintf(objects, sizeof objects, "%s_objects", kinds[i]);
    snprintf(space, sizeof space, "%s_space", kinds[i]);
    add_type(p, objects, "count");
    add_type(p, space, "bytes");
  }
  for (size_t i = 0; i < replay->stack_count; i++) {
    const stack_totals_t *s = &replay->stacks[i];
    const int64_t values[VALUES_MAX] = {(int64_t)s->allocated.count, (int64_t)s->allocated.bytes,
                                        (int64_t)s->live.count,      (int64_t)s->live.bytes,
                                        (int64_t)s->at_peak.count,   (int64_t)s->at_peak.bytes};
    if (s->allocated.count || s->live.count) add_stack(p, s->stack, values, VALUES_MAX);
  }
}

static void add_samples(profile_t *p, const samples_t *samples) {
  add_type(p, "samples", "count");
  for (size_t i = 0; i < samples->stack_count; i++) {
    const int64_t value = (int64_t)samples->stacks[i].ticks;
    add_stack(p, samples->stacks[i].stack, &value, 1);
  }
}

/* ---- writing ------------------------------------------------------------------------------ */

static int write_gzip(const uint8_t *data, size_t size, FILE *out) {
  fflush(out);
  int fd = dup(fileno(out));
  gzFile file = fd >= 0 ? gzdopen(fd, "wb") : NULL;
  if (!file) {
    if (fd >= 0) close(fd);
    return SONDE_EIO;
  }
  bool good = true;
  for (size_t done = 0; good && done < size;) {
    unsigned part = size - done < 1u << 30 ? (unsigned)(size - done) : 1u << 30;
    good = gzwrite(file, data + done, part) == (int)part;
    done += part;
  }
  return (gzclose(file) == Z_OK) && good ? 0 : SONDE_EIO;
}

static int write_profile(profile_t *p, bool cpu, FILE *out) {
  const record_header_t *h = reader_header(p->reader);
  Sonde__Pprof__Profile profile;
  sonde__pprof__profile__init(&profile);
  profile.time_ns = (int64_t)h->start_realtime_ns;
  profile.duration_ns = (int64_t)(h->end_monotonic_ns - h->start_monotonic_ns);
  if (!cpu) profile.default_sample_type = string_of(p, "peak_space");
  if (p->no_memory) return SONDE_ENOMEM;
#define PUT(field, list) (profile.field = (void *)(list).items, profile.n_##field = (list).count)
  PUT(sample_type, p->types);
  PUT(sample, p->samples);
  PUT(mapping, p->mappings);
  PUT(location, p->locations);
  PUT(function, p->functions);
  PUT(strings, p->strings);
#undef PUT
  size_t size = sonde__pprof__profile__get_packed_size(&profile);
  uint8_t *bytes = malloc(size + 1);
  if (!bytes) return SONDE_ENOMEM;
  sonde__pprof__profile__pack(&profile, bytes);
  int status = write_gzip(bytes, size, out);
  free(bytes);
  return status;
}

static void release(profile_t *p) {
  while (p->pool) {
    block_t *next = p->pool->next;
    free(p->pool);
    p->pool = next;
  }
  list_t *lists[] = {&p->samples,   &p->mappings, &p->locations,
                     &p->functions, &p->strings,  &p->types};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    free(lists[i]->items);
  free(p->string_map.slots);
  free(p->function_map.slots);
  free(p->location_of);
  free(p->mapping_of);
}

int pprof_write(reader_t *reader, frame_names_t *names, const replay_t *replay,
                const samples_t *samples, bool cpu, FILE *out) {
  size_t frames, images;
  profile_t p = {.reader = reader, .names = names};
  reader_frames(reader, &frames);
  reader_images(reader, &images);
  p.location_of = calloc(frames + 1, sizeof *p.location_of);
  p.mapping_of = calloc(images + 1, sizeof *p.mapping_of);
  p.no_memory = !p.location_of || !p.mapping_of;
  int status = SONDE_ENOMEM;
  if (!p.no_memory) {
    (void)string_of(&p, "");
    if (cpu)
      add_samples(&p, samples);
    else
      add_allocations(&p, replay);
    status = write_profile(&p, cpu, out);
  }
  release(&p);
  return status;
}
