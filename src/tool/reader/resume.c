/* SPDX-License-Identifier: MIT */
#include "reader/resume.h"

#include <stdlib.h>

#include "reader/internal.h"
#include "sonde/status.h"

resume_t *resume_new(uint32_t program) {
  resume_t *s = calloc(1, sizeof *s);
  if (s) s->program = (uint16_t)(program < UINT16_MAX ? program : UINT16_MAX);
  return s;
}

void resume_free(resume_t *s) {
  if (!s) return;
  free(s->streams.items);
  free(s->known.items);
  free(s->named.items);
  hash_free(&s->named_ids);
  pool_free(&s->names);
  free(s);
}

int resume_open(reader_t **out, const char *path, resume_t *s, char *error, size_t error_size) {
  reader_t *r = reader_new();
  if (!r) return SONDE_ENOMEM;
  r->exec_index = s->program;
  r->resume = s;
  return reader_open_path(out, r, path, error, error_size);
}

/* ---- places ------------------------------------------------------------------------------- */

static int by_stream(const void *left, const void *right) {
  const stream_place_t *a = left, *b = right;
  return a->stream < b->stream ? -1 : a->stream > b->stream;
}

const stream_place_t *reader_resumed(const reader_t *r, uint32_t stream) {
  const stream_place_t key = {.stream = stream};
  const resume_t *s = r->resume;
  if (!s || !s->streams.count) return NULL;
  return bsearch(&key, s->streams.items, s->streams.count, sizeof key, by_stream);
}

bool reader_note_reached(reader_t *r, const stream_place_t *place) {
  stream_place_t *added = ARRAY_ADD(r->reached);
  if (added) *added = *place;
  return added != NULL;
}

/* ---- advancing ---------------------------------------------------------------------------- */

static bool is_before(const stream_place_t *a, const stream_place_t *b) {
  return a->sequence != b->sequence ? a->sequence < b->sequence : a->events < b->events;
}

/* Of two places of a stream the later one counts. */
static void join(stream_place_t *items, size_t *count) {
  size_t kept = 0;
  if (*count) qsort(items, *count, sizeof *items, by_stream);
  for (size_t i = 0; i < *count; i++)
    if (!kept || items[kept - 1].stream != items[i].stream)
      items[kept++] = items[i];
    else if (is_before(&items[kept - 1], &items[i]))
      items[kept - 1] = items[i];
  *count = kept;
}

static bool advance_streams(resume_t *s, const reader_t *r) {
  if (!r->reached.count) return true;
  if (!ARRAY_RESERVE(s->streams.items, s->streams.count + r->reached.count, s->streams.capacity))
    return false;
  for (size_t i = 0; i < r->reached.count; i++)
    s->streams.items[s->streams.count++] = r->reached.items[i];
  join(s->streams.items, &s->streams.count);
  return true;
}

/* The reader selected the chunks of its program. Those of the next programs are found again, since
 * `known` then begins anew. */
static bool keep_places(resume_t *s, const reader_t *r) {
  ARRAY(chunk_place_t) known = {0};
  const reader_t now = {.resume = s};
  for (size_t i = 0; i < r->chunks.count; i++) {
    const chunk_place_t *place = &r->chunks.items[i];
    const stream_place_t *until = reader_resumed(&now, place->stream);
    bool is_done = place->type == CHUNK_EVENTS && until && place->sequence < until->sequence;
    if (is_done || place->from_shm || place->offset >= r->solid_until) continue;
    chunk_place_t *kept = ARRAY_ADD(known);
    if (!kept) {
      free(known.items);
      return false;
    }
    *kept = *place;
  }
  free(s->known.items);
  s->known.items = known.items;
  s->known.count = known.count;
  s->known.capacity = known.capacity;
  s->known_until = r->solid_until;
  return true;
}

bool resume_advance(resume_t *s, const reader_t *r) {
  if (!advance_streams(s, r)) return false;
  s->program = r->exec_index;
  s->has_begun = r->exec_index != 0;
  if (!keep_places(s, r)) s->known_until = s->known.count = 0; /* all are found again */
  return true;
}

/* ---- names -------------------------------------------------------------------------------- */

static uint64_t hash_of_frame(const void *resume, size_t i) {
  return hash_number(((const resume_t *)resume)->named.items[i].frame);
}

static const named_frame_t *find_named(const resume_t *s, uint32_t frame) {
  const uint32_t *slot;
  if (!s->named.count) return NULL;
  HASH_FIND(&s->named_ids, hash_number(frame), slot) {
    if (s->named.items[*slot - 1].frame == frame) return &s->named.items[*slot - 1];
  }
  return NULL;
}

/* Only what the recording does not say itself. */
static bool lacks_functions(const record_frame_t *f) {
  return f->image && !f->text && !f->function_count;
}

static const record_function_t *copy_functions(pool_t *pool, const record_function_t *from,
                                               uint32_t count) {
  record_function_t *out = pool_array(pool, count, sizeof *out);
  for (uint32_t i = 0; out && i < count; i++) {
    out[i] = from[i];
    out[i].name = pool_text(pool, from[i].name);
    out[i].file = pool_text(pool, from[i].file);
    if (!out[i].name || !out[i].file) return NULL;
  }
  return out;
}

bool resume_name_frame(resume_t *s, const record_frame_t *f, const record_function_t *functions,
                       int count) {
  static const record_function_t none = {.name = "", .file = ""};
  uint32_t *slot, kept = count > 0 ? (uint32_t)count : 1;
  if (!lacks_functions(f) || find_named(s, f->id)) return true;
  const record_function_t *copy = copy_functions(&s->names, count > 0 ? functions : &none, kept);
  if (!copy || !hash_reserve(&s->named_ids, s->named.count, hash_of_frame, s)) return false;
  HASH_FIND(&s->named_ids, hash_number(f->id), slot) {}
  named_frame_t *added = ARRAY_ADD(s->named);
  if (!added) return false;
  *added = (named_frame_t){f->id, kept, copy};
  *slot = (uint32_t)s->named.count;
  return true;
}

void resume_name_frames(const resume_t *s, record_frame_t *frames, size_t count) {
  for (size_t i = 0; s->named.count && i < count; i++) {
    const named_frame_t *named = lacks_functions(&frames[i]) ? find_named(s, frames[i].id) : NULL;
    if (!named) continue;
    frames[i].functions = named->functions;
    frames[i].function_count = named->count;
  }
}

uint32_t resume_next_program(const reader_t *r) {
  return r->next_program > r->exec_index ? r->next_program : 0;
}

uint32_t resume_recorded_stack(const reader_t *r, uint32_t stack) {
  return r->code_times ? reader_stack_before(r, stack) : stack;
}
