/* SPDX-License-Identifier: MIT
 *
 * Only frames of stacks that are added become locations.
 */
#include "report/exports/profile/tables.h"

#include <string.h>

#include "base/unicode.h"

enum { DEPTH_MAX = 4096 };

bool profile_tables_start(profile_tables_t *t, const reader_t *reader, frame_names_t *names) {
  size_t frames, images;
  *t = (profile_tables_t){.reader = reader, .names = names};
  (void)reader_frames(reader, &frames);
  (void)reader_images(reader, &images);
  t->location_of = calloc(frames + 1, sizeof *t->location_of);
  t->mapping_of = calloc(images + 1, sizeof *t->mapping_of);
  t->failed = !t->location_of || !t->mapping_of;
  (void)profile_string(t, "");
  return !t->failed;
}

void profile_tables_free(profile_tables_t *t) {
  pool_free(&t->pool);
  free(t->strings.items);
  free(t->functions.items);
  free(t->mappings.items);
  free(t->lines.items);
  free(t->locations.items);
  free(t->stacks.items);
  free(t->stack_locations.items);
  hash_free(&t->string_index);
  hash_free(&t->function_index);
  hash_free(&t->location_index);
  hash_free(&t->stack_index);
  free(t->location_of);
  free(t->mapping_of);
}

/* ---- hashes ------------------------------------------------------------------------------- */

static uint64_t hash_of_string(const void *tables, size_t i) {
  return hash_text(HASH_START, ((const profile_tables_t *)tables)->strings.items[i]);
}

static uint64_t hash_of_function(const void *tables, size_t i) {
  const profile_function_t *f = &((const profile_tables_t *)tables)->functions.items[i];
  return hash_pair(f->name, f->file);
}

static uint64_t hash_of_location(const void *tables, size_t i) {
  const profile_location_t *l = &((const profile_tables_t *)tables)->locations.items[i];
  return hash_pair(l->address, l->mapping);
}

static uint64_t hash_of_stack(const void *tables, size_t i) {
  const profile_tables_t *t = tables;
  const profile_stack_t *s = &t->stacks.items[i];
  return hash_bytes(HASH_START, t->stack_locations.items + s->first,
                    s->depth * sizeof *t->stack_locations.items);
}

static bool reserve(profile_tables_t *t, hash_index_t *index, size_t count, hash_item_t *hash_of) {
  bool good = !t->failed && count < INT32_MAX && hash_reserve(index, count, hash_of, t);
  t->failed |= !good;
  return good;
}

/* ---- strings and functions ---------------------------------------------------------------- */

uint32_t profile_string(profile_tables_t *t, const char *text) {
  uint32_t *slot;
  if (!unicode_is_valid(text)) text = pool_text(&t->pool, text);
  t->failed |= !text;
  if (!reserve(t, &t->string_index, t->strings.count, hash_of_string)) return 0;
  HASH_FIND(&t->string_index, hash_text(HASH_START, text), slot) {
    if (!strcmp(t->strings.items[*slot - 1], text)) return *slot - 1;
  }
  const char *copy = pool_text(&t->pool, text), **added = copy ? ARRAY_ADD(t->strings) : NULL;
  t->failed |= !added;
  if (!added) return 0;
  *added = copy;
  *slot = (uint32_t)t->strings.count;
  return *slot - 1;
}

static uint32_t function_of(profile_tables_t *t, const frame_name_t *name) {
  const profile_function_t wanted = {profile_string(t, name->function),
                                     name->file ? profile_string(t, name->file) : 0};
  uint32_t *slot;
  if (!reserve(t, &t->function_index, t->functions.count, hash_of_function)) return 0;
  HASH_FIND(&t->function_index, hash_pair(wanted.name, wanted.file), slot) {
    const profile_function_t *f = &t->functions.items[*slot - 1];
    if (f->name == wanted.name && f->file == wanted.file) return *slot;
  }
  profile_function_t *added = ARRAY_ADD(t->functions);
  t->failed |= !added;
  if (!added) return 0;
  *added = wanted;
  return *slot = (uint32_t)t->functions.count;
}

/* ---- locations ---------------------------------------------------------------------------- */

static bool are_equal_mappings(const profile_mapping_t *a, const profile_mapping_t *b) {
  return a->start == b->start && a->limit == b->limit && a->offset == b->offset &&
         a->file == b->file && !strcmp(a->build_id, b->build_id);
}

/* The agent and the recorder each describe an image whose frames they record, and an image may be
 * loaded again at its old address: such mappings are one. There are few, each searched once. */
static uint32_t add_mapping(profile_tables_t *t, const profile_mapping_t *wanted) {
  for (size_t i = 0; i < t->mappings.count; i++)
    if (are_equal_mappings(&t->mappings.items[i], wanted)) return (uint32_t)i + 1;
  profile_mapping_t *added = ARRAY_ADD(t->mappings);
  t->failed |= !added;
  if (!added) return 0;
  *added = *wanted;
  return (uint32_t)t->mappings.count;
}

static uint32_t mapping_of(profile_tables_t *t, const record_image_t *image) {
  size_t count;
  uint32_t *known = &t->mapping_of[image - reader_images(t->reader, &count)];
  if (*known) return *known;
  char build_id[FRAME_NAMES_ID_MAX];
  const profile_mapping_t mapping = {
      .start = image->start,
      .limit = image->end,
      .offset = image->start - image->slide,
      .file = profile_string(t, image->path),
      .build_id = pool_text(&t->pool, frame_names_build_id(image, build_id))};
  t->failed |= !mapping.build_id;
  return t->failed ? 0 : (*known = add_mapping(t, &mapping));
}

void profile_program(profile_tables_t *t) {
  size_t count;
  const record_image_t *images = reader_images(t->reader, &count);
  const char *program = reader_argument(t->reader, 0);
  for (size_t i = 0; program && i < count; i++)
    if (!strcmp(images[i].path, program)) {
      (void)mapping_of(t, &images[i]);
      return;
    }
  if (!program) return;
  const profile_mapping_t mapping = {.file = profile_string(t, program), .build_id = ""};
  (void)add_mapping(t, &mapping);
}

static bool are_equal(const profile_tables_t *t, const profile_location_t *a,
                      const profile_location_t *b) {
  return a->address == b->address && a->mapping == b->mapping && a->line_count == b->line_count &&
         a->language == b->language &&
         (!a->line_count || !memcmp(t->lines.items + a->first_line, t->lines.items + b->first_line,
                                    a->line_count * sizeof *t->lines.items));
}

/* A frame is looked up once; several frames may have equal locations. */
static uint32_t add_location(profile_tables_t *t, const profile_location_t *wanted) {
  uint32_t *slot;
  if (!reserve(t, &t->location_index, t->locations.count, hash_of_location)) return 0;
  HASH_FIND(&t->location_index, hash_pair(wanted->address, wanted->mapping), slot) {
    if (!are_equal(t, &t->locations.items[*slot - 1], wanted)) continue;
    t->lines.count = wanted->first_line;
    return *slot;
  }
  profile_location_t *added = ARRAY_ADD(t->locations);
  t->failed |= !added;
  if (!added) return 0;
  *added = *wanted;
  return *slot = (uint32_t)t->locations.count;
}

static uint32_t location_of(profile_tables_t *t, const record_frame_t *frame) {
  size_t count;
  uint32_t *known = &t->location_of[frame - reader_frames(t->reader, &count)];
  if (*known) return *known;
  const frame_name_t *names;
  int rows = frame_names_of_frame(t->names, frame, &names);
  const record_image_t *image = frame->image ? reader_image(t->reader, frame->image) : NULL;
  profile_location_t location = {
      .address = frame->pc - !(frame->flags & FRAME_EXACT),
      .mapping = image ? mapping_of(t, image) : 0,
      .first_line = (uint32_t)t->lines.count,
      .language = reader_is_interpreted(frame) ? language_of_pc(frame->pc) : LANGUAGE_NATIVE};
  for (; (int)location.line_count < rows; location.line_count++) {
    const profile_line_t line = {function_of(t, &names[location.line_count]),
                                 names[location.line_count].line};
    profile_line_t *added = ARRAY_ADD(t->lines);
    t->failed |= !added;
    if (!added) return 0;
    *added = line;
  }
  return *known = add_location(t, &location);
}

/* ---- stacks ------------------------------------------------------------------------------- */

static bool add_locations(profile_tables_t *t, uint32_t stack) {
  static const record_frame_t *frames[DEPTH_MAX];
  int depth = frame_names_frames(t->names, stack, frames, DEPTH_MAX);
  for (int i = 0; i < depth && i < DEPTH_MAX; i++) {
    uint32_t location = location_of(t, frames[i]), *added = ARRAY_ADD(t->stack_locations);
    t->failed |= !added;
    if (!added) return false;
    *added = location;
  }
  return !t->failed;
}

uint32_t profile_stack(profile_tables_t *t, uint32_t stack) {
  uint32_t *slot, first = (uint32_t)t->stack_locations.count;
  if (!add_locations(t, stack)) return 0;
  if (!reserve(t, &t->stack_index, t->stacks.count, hash_of_stack)) return 0;
  uint32_t depth = (uint32_t)t->stack_locations.count - first;
  if (!depth) return 0;
  size_t size = depth * sizeof *t->stack_locations.items;
  const uint32_t *locations = t->stack_locations.items;
  HASH_FIND(&t->stack_index, hash_bytes(HASH_START, locations + first, size), slot) {
    const profile_stack_t *s = &t->stacks.items[*slot - 1];
    if (s->depth != depth || (size && memcmp(locations + s->first, locations + first, size)))
      continue;
    t->stack_locations.count = first;
    return *slot;
  }
  profile_stack_t *added = ARRAY_ADD(t->stacks);
  t->failed |= !added;
  if (!added) return 0;
  *added = (profile_stack_t){first, depth};
  return *slot = (uint32_t)t->stacks.count;
}
