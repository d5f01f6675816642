/* SPDX-License-Identifier: MIT
 *
 * Builds the whole profile in memory, as protobuf-c requires, in one pool that is freed as a whole.
 * Only frames of stacks with a value become locations.
 */
#define _GNU_SOURCE
#include "base/array.h"
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
  size_t used, capacity;
  max_align_t bytes[];
} block_t;

typedef ARRAY(void *) list_t;

typedef struct profile {
  reader_t *reader;
  frame_names_t *names;
  block_t *pool;
  list_t samples, mappings, locations, functions, strings, types;
  hash_index_t string_index, function_index;
  uint64_t *location_of; /* by index of the frame; 0: none yet */
  uint64_t *mapping_of;  /* by index of the image; 0: none yet */
  bool out_of_memory;
} profile_t;

/* ---- memory ------------------------------------------------------------------------------- */

static void *pool_alloc(profile_t *p, size_t size) {
  size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (!p->pool || p->pool->capacity - p->pool->used < size) {
    size_t capacity = size > POOL_BLOCK ? size : POOL_BLOCK;
    block_t *b = malloc(sizeof *b + capacity);
    if (!b) {
      p->out_of_memory = true;
      return NULL;
    }
    *b = (block_t){.next = p->pool, .capacity = capacity};
    p->pool = b;
  }
  void *found = (char *)p->pool->bytes + p->pool->used;
  p->pool->used += size;
  return memset(found, 0, size);
}

/* False: out of memory, or ITEM is NULL. */
static bool append(profile_t *p, list_t *list, void *item) {
  void **added = item ? ARRAY_ADD(*list) : NULL;
  if (added)
    *added = item;
  else
    p->out_of_memory = true;
  return added != NULL;
}

/* ---- strings and functions ---------------------------------------------------------------- */

static uint64_t hash_of_string(const void *profile, size_t i) {
  return hash_text(HASH_START, ((const profile_t *)profile)->strings.items[i]);
}

static uint64_t hash_of_function(const void *profile, size_t i) {
  const Sonde__Pprof__Function *f = ((const profile_t *)profile)->functions.items[i];
  return hash_pair((uint64_t)f->name, (uint64_t)f->file);
}

static bool reserve(profile_t *p, hash_index_t *index, const list_t *list, hash_item_t *hash_of) {
  bool good = hash_reserve(index, list->count, hash_of, p);
  p->out_of_memory |= !good;
  return good;
}

/* The index of TEXT in the table of strings. */
static int64_t string_of(profile_t *p, const char *text) {
  uint32_t *slot;
  if (!reserve(p, &p->string_index, &p->strings, hash_of_string)) return 0;
  HASH_FIND(&p->string_index, hash_text(HASH_START, text), slot) {
    if (!strcmp(p->strings.items[*slot - 1], text)) return *slot - 1;
  }
  char *copy = pool_alloc(p, strlen(text) + 1);
  if (copy) strcpy(copy, text);
  if (!append(p, &p->strings, copy)) return 0;
  *slot = (uint32_t)p->strings.count;
  return *slot - 1;
}

static uint64_t function_of(profile_t *p, const frame_name_t *name) {
  int64_t function = string_of(p, name->function), file = name->file ? string_of(p, name->file) : 0;
  uint32_t *slot;
  if (!reserve(p, &p->function_index, &p->functions, hash_of_function)) return 0;
  HASH_FIND(&p->function_index, hash_pair((uint64_t)function, (uint64_t)file), slot) {
    const Sonde__Pprof__Function *f = p->functions.items[*slot - 1];
    if (f->name == function && f->file == file) return *slot;
  }
  Sonde__Pprof__Function *f = pool_alloc(p, sizeof *f);
  if (!append(p, &p->functions, f)) return 0;
  sonde__pprof__function__init(f);
  *slot = (uint32_t)p->functions.count;
  f->id = *slot;
  f->name = f->system_name = function;
  f->file = file;
  return f->id;
}

/* ---- locations ---------------------------------------------------------------------------- */

static uint64_t mapping_of(profile_t *p, const record_image_t *image) {
  size_t count;
  uint64_t *known = &p->mapping_of[image - reader_images(p->reader, &count)];
  if (*known) return *known;
  Sonde__Pprof__Mapping *m = pool_alloc(p, sizeof *m);
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
  Sonde__Pprof__Location *l = pool_alloc(p, sizeof *l);
  Sonde__Pprof__Line *lines = pool_alloc(p, (size_t)rows * sizeof *lines);
  Sonde__Pprof__Line **list = pool_alloc(p, (size_t)rows * sizeof *list);
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
  int depth = frame_names_frames(p->names, stack, frames, DEPTH_MAX);
  if (depth < 0) depth = 0;
  if (depth > DEPTH_MAX) depth = DEPTH_MAX;
  Sonde__Pprof__Sample *s = pool_alloc(p, sizeof *s);
  uint64_t *ids = pool_alloc(p, ((size_t)depth + 1) * sizeof *ids);
  int64_t *copy = pool_alloc(p, count * sizeof *copy);
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
  Sonde__Pprof__ValueType *t = pool_alloc(p, sizeof *t);
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
  if (p->out_of_memory) return SONDE_ENOMEM;
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
  hash_free(&p->string_index);
  hash_free(&p->function_index);
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
  p.out_of_memory = !p.location_of || !p.mapping_of;
  int status = SONDE_ENOMEM;
  if (!p.out_of_memory) {
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
