/* SPDX-License-Identifier: MIT */
#include "store/content.h"

#include <stdlib.h>
#include <string.h>

#include "report/diff.h"
#include "report/frame_names.h"
#include "report/own_code.h"
#include "symbol/language.h"
#include "symbol/system.h"

enum {
  DEPTH_MAX = 4096,    /* deeper stacks are truncated */
  KNOWN_MAX = 4000000, /* ids of a table that this process remembers */
};

/* How much a frame tells whose stack it is. */
typedef enum rank { RANK_SYSTEM, RANK_LIBRARY, RANK_OWN } rank_t;

typedef struct stored_image {
  uint64_t id; /* 0: not stored yet */
  rank_t rank;
} stored_image_t;

typedef struct stored_frame {
  uint64_t id, label; /* 0: not stored yet */
  rank_t rank;
} stored_frame_t;

typedef struct stored_stack {
  uint32_t recorded;
  uint64_t id;
} stored_stack_t;

struct content {
  const reader_t *reader;
  engine_t *engine;
  content_known_t *known;
  stored_image_t *images; /* by index in the recording */
  stored_frame_t *frames;
  ARRAY(stored_stack_t) stacks;
  hash_index_t stack_index;
};

/* ---- rows --------------------------------------------------------------------------------- */

void content_known_free(content_known_t *known) {
  for (int i = 0; i < STORE_TABLE_COUNT; i++)
    id_set_free(&known->rows[i]);
  free(known->labels.items);
}

bool content_insert(engine_t *engine, content_known_t *known, store_table_id_t table,
                    const store_value_t *values) {
  id_set_t *set = &known->rows[table];
  if (set->ids.count > KNOWN_MAX) id_set_free(set);
  int is_new = id_set_add(set, (uint64_t)values[0].integer);
  return is_new >= 0 && (!is_new || engine_insert(engine, table, values) >= 0);
}

content_t *content_new(const reader_t *reader, engine_t *engine, content_known_t *known) {
  size_t images, frames;
  (void)reader_images(reader, &images);
  (void)reader_frames(reader, &frames);
  content_t *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  *c = (content_t){.reader = reader, .engine = engine, .known = known};
  c->images = calloc(images + 1, sizeof *c->images);
  c->frames = calloc(frames + 1, sizeof *c->frames);
  if (c->images && c->frames) return c;
  content_free(c);
  return NULL;
}

void content_free(content_t *c) {
  if (!c) return;
  free(c->images);
  free(c->frames);
  free(c->stacks.items);
  hash_free(&c->stack_index);
  free(c);
}

/* ---- labels ------------------------------------------------------------------------------- */

/* The lowest bit of a label says that the frame has no name. */
void content_label_add(content_label_t *label, const char *function) {
  uint64_t name = hash_bytes(HASH_START, function, diff_stable_length(function));
  label->hash = id_mix(label->hash, name);
}

uint64_t content_label_named(const content_label_t *label) {
  return id_not_zero(label->hash & ~UINT64_C(1));
}

uint64_t content_label_unnamed(uint64_t frame) { return frame | 1; }

/* ---- images ------------------------------------------------------------------------------- */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

uint64_t content_image_id(const record_image_t *image) {
  uint64_t hash = image->build_id_size
                      ? hash_bytes(HASH_START, image->build_id, image->build_id_size)
                      : hash_text(HASH_START, base_name(image->path));
  return id_not_zero(id_mix(image->build_id_size, hash));
}

static rank_t rank_of_image(const content_t *c, const record_image_t *image) {
  const char *program = reader_argument(c->reader, 0);
  if (image->is_interpreter || system_is(NULL, program, image->path)) return RANK_SYSTEM;
  bool is_program = program && !strcmp(program, image->path);
  return is_program || own_image(image->path) ? RANK_OWN : RANK_LIBRARY;
}

static const stored_image_t *store_image(content_t *c, const record_image_t *image) {
  size_t count;
  stored_image_t *stored = &c->images[image - reader_images(c->reader, &count)];
  if (stored->id) return stored;
  char build_id[FRAME_NAMES_ID_MAX];
  uint64_t id = content_image_id(image);
  const store_value_t row[] = {store_id(id), store_text(frame_names_build_id(image, build_id)),
                               store_text(base_name(image->path)), store_text(image->path)};
  if (!content_insert(c->engine, c->known, STORE_IMAGES, row)) return NULL;
  *stored = (stored_image_t){id, rank_of_image(c, image)};
  return stored;
}

/* ---- frames ------------------------------------------------------------------------------- */

/* The functions that the recording names itself. */
static int own_names(const content_t *c, const record_frame_t *f, record_function_t *one,
                     const record_function_t **out) {
  const char *text = reader_is_agent(c->reader, f) ? "[sonde]" : f->text;
  if (!text && frame_names_is_marker(f))
    text = f->pc == FRAME_PC_BROKEN ? "[outer frames could not be unwound]" : "[truncated]";
  *one = (record_function_t){.name = text, .file = ""};
  *out = text ? one : f->functions;
  return text ? 1 : (int)f->function_count;
}

/* A frame in no image has no offset: its address is another in every run. */
static uint64_t frame_id(const stored_image_t *image, uint64_t offset, bool exact,
                         const record_function_t *names, int count) {
  uint64_t hash = id_mix(id_mix(image ? image->id : 0, offset), exact);
  for (int i = 0; i < count && !image; i++)
    hash = id_mix(id_text(id_text(hash, names[i].name), names[i].file), names[i].line);
  return id_not_zero(hash);
}

static bool store_names(content_t *c, uint64_t frame, const record_function_t *names, int count) {
  for (int i = 0; i < count; i++) {
    const store_value_t row[] = {store_id(frame), store_integer(i), store_text(names[i].name),
                                 store_text(names[i].file), store_integer(names[i].line)};
    if (*names[i].name && engine_insert(c->engine, STORE_NAMES, row) < 0) return false;
  }
  return true;
}

static uint64_t label_of(uint64_t frame, const record_function_t *names, int count) {
  content_label_t label = {0};
  bool is_named = false;
  for (int i = 0; i < count; i++)
    if (*names[i].name) {
      content_label_add(&label, names[i].name);
      is_named = true;
    }
  return is_named ? content_label_named(&label) : content_label_unnamed(frame);
}

static rank_t rank_of_frame(const content_t *c, const record_frame_t *f,
                            const stored_image_t *image) {
  if (reader_is_interpreted(f))
    return f->function_count && language_is_own(language_of_pc(f->pc), f->functions[0].file)
               ? RANK_OWN
               : RANK_LIBRARY;
  return image && !reader_is_agent(c->reader, f) ? image->rank : RANK_SYSTEM;
}

/* The label that the frame has in the database; 0: failed. */
static uint64_t stored_label(content_t *c, uint64_t frame) {
  const store_value_t id = store_id(frame);
  engine_rows_t *rows = engine_query(c->engine, "SELECT label FROM frames WHERE frame = ?", &id, 1);
  uint64_t label = rows && engine_step(rows) > 0 ? (uint64_t)engine_value(rows, 0).integer : 0;
  engine_rows_end(rows);
  return label;
}

static bool set_label(content_t *c, uint64_t frame, uint64_t label) {
  const store_value_t values[] = {store_id(label), store_id(frame)};
  c->known->relabeled = true;
  return engine_run(c->engine, "UPDATE frames SET label = ? WHERE frame = ?", values, 2);
}

/* Inserts the row of a frame. A frame that is there keeps its names, and gets these if it has none.
 * Returns its label; 0: failed. */
static uint64_t insert_frame(content_t *c, const store_value_t *row, const record_function_t *names,
                             int named) {
  uint64_t id = (uint64_t)row[0].integer, label = (uint64_t)row[4].integer;
  int inserted = engine_insert(c->engine, STORE_FRAMES, row);
  uint64_t there = inserted == 0 ? stored_label(c, id) : label;
  if (inserted < 0 || !there) return 0;
  bool is_named_now = !content_label_is_named(there) && content_label_is_named(label);
  if (is_named_now && !set_label(c, id, label)) return 0;
  if ((inserted || is_named_now) && !store_names(c, id, names, named)) return 0;
  return is_named_now ? label : there;
}

/* The label of the frame of ROW, which is stored once; 0: failed. */
static uint64_t known_label(content_t *c, const store_value_t *row, const record_function_t *names,
                            int named) {
  content_known_t *known = c->known;
  id_set_t *frames = &known->rows[STORE_FRAMES];
  if (frames->ids.count > KNOWN_MAX) {
    id_set_free(frames);
    known->labels.count = 0;
  }
  int64_t number = id_set_number(frames, (uint64_t)row[0].integer);
  if (number < 0) return 0;
  bool is_new = (size_t)number == known->labels.count;
  uint64_t *label = is_new ? ARRAY_ADD(known->labels) : &known->labels.items[number];
  bool gets_name = content_label_is_named((uint64_t)row[4].integer);
  if (!is_new && (content_label_is_named(*label) || !gets_name)) return *label;
  if (label) *label = insert_frame(c, row, names, named);
  return label ? *label : 0;
}

static const stored_frame_t *store_frame(content_t *c, const record_frame_t *f) {
  size_t count;
  stored_frame_t *stored = &c->frames[f - reader_frames(c->reader, &count)];
  if (stored->id) return stored;
  const record_image_t *image = f->image ? reader_image(c->reader, f->image) : NULL;
  const stored_image_t *in = image ? store_image(c, image) : NULL;
  if (image && !in) return NULL;
  record_function_t one;
  const record_function_t *names;
  int named = own_names(c, f, &one, &names);
  uint64_t offset = image ? f->pc - image->slide : 0;
  bool exact = f->flags & FRAME_EXACT;
  uint64_t id = frame_id(in, offset, exact, names, named);
  const store_value_t row[] = {store_id(id), store_id(in ? in->id : 0), store_id(offset),
                               store_integer(exact), store_id(label_of(id, names, named))};
  uint64_t label = known_label(c, row, names, named);
  if (!label) return NULL;
  *stored = (stored_frame_t){id, label, rank_of_frame(c, f, in)};
  return stored;
}

/* ---- stacks ------------------------------------------------------------------------------- */

bool content_frames(content_t *c, const record_frame_t **frames, int count, uint64_t *out) {
  static uint64_t ids[DEPTH_MAX];
  uint64_t id = 0, signature = 0, site = 0;
  rank_t best = RANK_SYSTEM;
  if (count > DEPTH_MAX) count = DEPTH_MAX;
  for (int i = 0; i < count; i++) {
    const stored_frame_t *f = store_frame(c, frames[i]);
    if (!f) return false;
    ids[i] = f->id;
    id = id_mix(id, f->id);
    signature = content_signature(signature, f->label);
    if (site && f->rank <= best) continue;
    site = f->id;
    best = f->rank;
  }
  *out = count ? id_not_zero(id) : 0;
  const store_value_t row[] = {store_id(*out), store_id(signature), store_id(site),
                               store_integer(count), store_bytes(ids, (size_t)count * sizeof *ids)};
  return content_insert(c->engine, c->known, STORE_STACKS, row);
}

static uint64_t hash_of_stack(const void *content, size_t i) {
  return hash_number(((const content_t *)content)->stacks.items[i].recorded);
}

bool content_stack(content_t *c, uint32_t id, uint64_t *out) {
  static const record_frame_t *frames[DEPTH_MAX];
  uint32_t *slot;
  if (!hash_reserve(&c->stack_index, c->stacks.count, hash_of_stack, c)) return false;
  HASH_FIND(&c->stack_index, hash_number(id), slot) {
    *out = c->stacks.items[*slot - 1].id;
    if (c->stacks.items[*slot - 1].recorded == id) return true;
  }
  int count = id ? reader_program_stack(c->reader, id, frames, DEPTH_MAX) : 0;
  if (!content_frames(c, frames, count > 0 ? count : 0, out)) return false;
  stored_stack_t *added = ARRAY_ADD(c->stacks);
  if (!added) return false;
  *added = (stored_stack_t){id, *out};
  *slot = (uint32_t)c->stacks.count;
  return true;
}

bool content_cause(content_t *c, const content_cause_t *cause, uint64_t *out) {
  uint64_t hash = id_text(id_text(cause->measure, cause->name), cause->category);
  *out = id_not_zero(id_text(hash, cause->owner));
  const store_value_t row[] = {store_id(*out), store_text(cause->name), store_text(cause->category),
                               store_text(cause->owner), store_text(cause->level)};
  return content_insert(c->engine, c->known, STORE_CAUSES, row);
}
