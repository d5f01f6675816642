/* SPDX-License-Identifier: MIT */
#include "analysis/stack_dedup.h"

#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "record/format.h"

/* A stack of an earlier call, with its result. */
typedef struct known_stack {
  uint32_t stack, first;
} known_stack_t;

/* A stack that equals no stack before it. */
typedef struct distinct {
  uint32_t stack;
  uint64_t hash; /* of its frames */
} distinct_t;

struct stack_dedup {
  const reader_t *reader;
  const record_image_t *images;
  size_t image_count;
  uint32_t *builds; /* for each image, the number of the first image of the same build */
  bool moved;       /* some build was loaded at two addresses */
  known_stack_t *known;
  distinct_t *distinct;
  size_t known_count, known_capacity, distinct_count, distinct_capacity;
  hash_index_t known_index, distinct_index;
  const record_frame_t **frames, **others; /* READER_DEPTH_MAX of each */
};

/* ---- images --------------------------------------------------------------------------------- */

static uint64_t hash_of_build(const void *images, size_t i) {
  const record_image_t *image = (const record_image_t *)images + i;
  return hash_number(hash_bytes(HASH_START, image->build_id, image->build_id_size));
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The folders may differ: the loader names /lib/libc.so.6 what /proc/PID/maps, which the recorder
 * reads, names /usr/lib/libc.so.6. */
static bool same_build(const record_image_t *a, const record_image_t *b) {
  return a->build_id_size && a->build_id_size == b->build_id_size &&
         !memcmp(a->build_id, b->build_id, a->build_id_size) &&
         !strcmp(file_name(a->path), file_name(b->path));
}

/* An image that is loaded again at its address is defined again with the same id. */
static bool find_build(stack_dedup_t *s, hash_index_t *index, uint32_t i) {
  uint32_t *slot;
  if (!hash_reserve(index, i, hash_of_build, s->images)) return false;
  HASH_FIND(index, hash_of_build(s->images, i), slot) {
    const record_image_t *first = &s->images[*slot - 1];
    if (!same_build(first, &s->images[i])) continue;
    s->builds[i] = s->builds[*slot - 1];
    s->moved |= first->id != s->images[i].id;
    return true;
  }
  s->builds[i] = i;
  *slot = i + 1;
  return true;
}

static bool find_builds(stack_dedup_t *s) {
  hash_index_t index = {0};
  bool good = true;
  for (uint32_t i = 0; i < s->image_count && good; i++)
    good = find_build(s, &index, i);
  hash_free(&index);
  return good;
}

/* ---- frames --------------------------------------------------------------------------------- */

static const record_image_t *image_of(const stack_dedup_t *s, const record_frame_t *f) {
  return f->image ? reader_image(s->reader, f->image) : NULL;
}

static uint32_t build_of(const stack_dedup_t *s, const record_image_t *image) {
  return s->builds[image - s->images];
}

/* Frames whose pc has no meaning have a text instead. */
static bool same_text(const record_frame_t *a, const record_frame_t *b) {
  return a->text == b->text || (a->text && b->text && !strcmp(a->text, b->text));
}

/* Frames of an interpreter have a pc of which a part is a hash, and the same name, file and line.
 */
static bool same_interpreted(const record_frame_t *a, const record_frame_t *b) {
  const record_function_t *x = a->functions, *y = b->functions;
  return reader_is_interpreted(a) && reader_is_interpreted(b) && a->pc == b->pc &&
         a->function_count == 1 && b->function_count == 1 && x->line == y->line &&
         !strcmp(x->name, y->name) && !strcmp(x->file, y->file);
}

static bool same_frame(const stack_dedup_t *s, const record_frame_t *a, const record_frame_t *b) {
  if (a == b || same_interpreted(a, b)) return true;
  const record_image_t *x = image_of(s, a), *y = image_of(s, b);
  return x && y && build_of(s, x) == build_of(s, y) && a->pc - x->slide == b->pc - y->slide &&
         a->flags == b->flags && same_text(a, b);
}

static uint64_t hash_of_frames(const stack_dedup_t *s, int depth) {
  uint64_t hash = (uint64_t)depth;
  for (int i = 0; i < depth; i++) {
    const record_frame_t *f = s->frames[i];
    const record_image_t *image = image_of(s, f);
    uint64_t place = image ? f->pc - image->slide : reader_is_interpreted(f) ? f->pc : f->id;
    hash = checksum_mix(hash, place) + (image ? build_of(s, image) : UINT32_MAX);
  }
  return checksum_mix(hash, 1);
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* Returns whether STACK equals the DEPTH frames in s->frames. */
static bool same_stack(stack_dedup_t *s, uint32_t stack, int depth) {
  if (reader_stack(s->reader, stack, s->others, READER_DEPTH_MAX) != depth) return false;
  for (int i = 0; i < depth; i++)
    if (!same_frame(s, s->frames[i], s->others[i])) return false;
  return true;
}

static uint64_t hash_of_distinct(const void *same, size_t i) {
  return ((const stack_dedup_t *)same)->distinct[i].hash;
}

static bool find_first(stack_dedup_t *s, uint32_t stack, uint32_t *out) {
  int depth = reader_stack(s->reader, stack, s->frames, READER_DEPTH_MAX);
  *out = stack;
  if (depth < 0 || depth > READER_DEPTH_MAX) return true;
  uint64_t hash = hash_of_frames(s, depth);
  uint32_t *slot;
  if (!ARRAY_GROW(s->distinct, s->distinct_count, s->distinct_capacity) ||
      !hash_reserve(&s->distinct_index, s->distinct_count, hash_of_distinct, s))
    return false;
  HASH_FIND(&s->distinct_index, hash, slot) {
    const distinct_t *there = &s->distinct[*slot - 1];
    if (there->hash != hash || !same_stack(s, there->stack, depth)) continue;
    *out = there->stack;
    return true;
  }
  s->distinct[s->distinct_count++] = (distinct_t){.stack = stack, .hash = hash};
  *slot = (uint32_t)s->distinct_count;
  return true;
}

static uint64_t hash_of_stack(uint32_t stack) { return checksum_mix(stack, 1); }

static uint64_t hash_of_known(const void *same, size_t i) {
  return hash_of_stack(((const stack_dedup_t *)same)->known[i].stack);
}

bool stack_dedup_first(stack_dedup_t *s, uint32_t stack, uint32_t *out) {
  uint32_t *slot;
  *out = stack;
  if (!s->moved) return true;
  if (!ARRAY_GROW(s->known, s->known_count, s->known_capacity) ||
      !hash_reserve(&s->known_index, s->known_count, hash_of_known, s))
    return false;
  HASH_FIND(&s->known_index, hash_of_stack(stack), slot) {
    if (s->known[*slot - 1].stack != stack) continue;
    *out = s->known[*slot - 1].first;
    return true;
  }
  if (!find_first(s, stack, out)) return false;
  s->known[s->known_count++] = (known_stack_t){.stack = stack, .first = *out};
  *slot = (uint32_t)s->known_count;
  return true;
}

/* ---- creation ------------------------------------------------------------------------------- */

static bool prepare(stack_dedup_t *s) {
  s->builds = calloc(s->image_count + 1, sizeof *s->builds);
  if (!s->builds || !find_builds(s)) return false;
  if (!s->moved) return true;
  s->frames = calloc(READER_DEPTH_MAX, sizeof(const record_frame_t *));
  s->others = calloc(READER_DEPTH_MAX, sizeof(const record_frame_t *));
  return s->frames && s->others;
}

stack_dedup_t *stack_dedup_new(const reader_t *reader) {
  stack_dedup_t *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->reader = reader;
  s->images = reader_images(reader, &s->image_count);
  if (prepare(s)) return s;
  stack_dedup_free(s);
  return NULL;
}

void stack_dedup_free(stack_dedup_t *s) {
  if (!s) return;
  free(s->builds);
  free(s->known);
  free(s->distinct);
  hash_free(&s->known_index);
  hash_free(&s->distinct_index);
  free(s->frames);
  free(s->others);
  free(s);
}
