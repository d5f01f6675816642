/* SPDX-License-Identifier: MIT
 *
 * Builds the whole profile in memory, as protobuf-c requires, in one pool that is freed as a whole.
 */
#include "report/exports/profile/pprof.h"

#include <stdio.h>
#include <stdlib.h>

#include "report/exports/profile/gzip.h"
#include "report/exports/profile/messages.h"
#include "report/exports/profile/pprof.pb-c.h"
#include "report/exports/profile/tables.h"

enum { LABELS_MAX = 4, CAUSE_MAX = 352 };

typedef struct profile {
  const profile_rows_t *rows;
  size_t from, to;
  profile_tables_t tables;
  uint32_t *stacks; /* of each row */
  pool_t pool;
  Sonde__Pprof__Profile message;
} profile_t;

/* ---- tables ------------------------------------------------------------------------------- */

static bool put_mappings(profile_t *p) {
  profile_tables_t *t = &p->tables;
  Sonde__Pprof__Mapping *m =
      NEW_MESSAGES(&p->pool, Sonde__Pprof__Mapping, sonde__pprof__mapping__init, t->mappings.count,
                   p->message.mapping);
  if (p->pool.failed) return false;
  for (size_t i = 0; i < t->mappings.count; i++) {
    const profile_mapping_t *from = &t->mappings.items[i];
    m[i].id = i + 1;
    m[i].start = from->start;
    m[i].limit = from->limit;
    m[i].offset = from->offset;
    m[i].file = from->file;
    m[i].build_id = profile_string(t, from->build_id);
    m[i].has_functions = m[i].has_files = m[i].has_lines = m[i].has_inlined = true;
  }
  p->message.n_mapping = t->mappings.count;
  return !t->failed;
}

static bool put_functions(profile_t *p) {
  const profile_tables_t *t = &p->tables;
  Sonde__Pprof__Function *f =
      NEW_MESSAGES(&p->pool, Sonde__Pprof__Function, sonde__pprof__function__init,
                   t->functions.count, p->message.function);
  if (p->pool.failed) return false;
  for (size_t i = 0; i < t->functions.count; i++) {
    f[i].id = i + 1;
    f[i].name = f[i].system_name = t->functions.items[i].name;
    f[i].file = t->functions.items[i].file;
  }
  p->message.n_function = t->functions.count;
  return true;
}

static bool put_locations(profile_t *p) {
  const profile_tables_t *t = &p->tables;
  Sonde__Pprof__Line **lines;
  Sonde__Pprof__Line *line =
      NEW_MESSAGES(&p->pool, Sonde__Pprof__Line, sonde__pprof__line__init, t->lines.count, lines);
  Sonde__Pprof__Location *l =
      NEW_MESSAGES(&p->pool, Sonde__Pprof__Location, sonde__pprof__location__init,
                   t->locations.count, p->message.location);
  if (p->pool.failed) return false;
  for (size_t i = 0; i < t->lines.count; i++) {
    line[i].function_id = t->lines.items[i].function;
    line[i].line = t->lines.items[i].line;
  }
  for (size_t i = 0; i < t->locations.count; i++) {
    const profile_location_t *from = &t->locations.items[i];
    l[i].id = i + 1;
    l[i].mapping_id = from->mapping;
    l[i].address = from->address;
    l[i].line = lines + from->first_line;
    l[i].n_line = from->line_count;
  }
  p->message.n_location = t->locations.count;
  return true;
}

/* ---- labels ------------------------------------------------------------------------------- */

/* Of the thread that had the number first; "": unknown. */
static const char *thread_name(const profile_t *p, uint32_t tid) {
  size_t count;
  const record_thread_t *threads = reader_threads(p->tables.reader, &count);
  for (size_t i = 0; i < count; i++)
    if (threads[i].tid == tid) return threads[i].name;
  return "";
}

/* TEXT, or if it is NULL the NUMBER. An empty text is no label. */
static void add_label(profile_t *p, Sonde__Pprof__Sample *s, const char *key, const char *text,
                      uint32_t number) {
  if (text && !*text) return;
  Sonde__Pprof__Label *label = s->label[s->n_label++];
  label->key = profile_string(&p->tables, key);
  label->text = text ? profile_string(&p->tables, text) : 0;
  label->num = number;
}

/* "futex lock", "read pipe", "blocked". */
static void add_cause(profile_t *p, Sonde__Pprof__Sample *s, const profile_time_t *of) {
  char cause[CAUSE_MAX];
  snprintf(cause, sizeof cause, "%s%s%s", *of->call ? of->call : "blocked", *of->what ? " " : "",
           of->what);
  add_label(p, s, "cause", cause, 0);
}

static bool put_labels(profile_t *p, Sonde__Pprof__Sample *s, const profile_time_t *of) {
  (void)NEW_MESSAGES(&p->pool, Sonde__Pprof__Label, sonde__pprof__label__init, LABELS_MAX,
                     s->label);
  if (p->pool.failed) return false;
  add_label(p, s, "thread", thread_name(p, of->tid), 0);
  add_label(p, s, "tid", NULL, of->tid);
  add_label(p, s, "phase", of->phase, 0);
  if (of->call) add_cause(p, s, of);
  return !p->tables.failed;
}

/* ---- samples ------------------------------------------------------------------------------ */

static bool put_samples(profile_t *p) {
  static const profile_stack_t no_frames;
  const profile_tables_t *t = &p->tables;
  size_t count = p->to - p->from, places = t->stack_locations.count;
  uint64_t *ids = pool_array(&p->pool, places, sizeof *ids);
  Sonde__Pprof__Sample *s = NEW_MESSAGES(&p->pool, Sonde__Pprof__Sample, sonde__pprof__sample__init,
                                         count, p->message.sample);
  if (p->pool.failed) return false;
  for (size_t i = 0; i < places; i++)
    ids[i] = t->stack_locations.items[i];
  for (size_t i = 0; i < count; i++) {
    const profile_stack_t *stack = p->stacks[i] ? &t->stacks.items[p->stacks[i] - 1] : &no_frames;
    s[i].location_id = ids + stack->first;
    s[i].n_location_id = stack->depth;
    s[i].value = p->rows->rows.items[p->from + i].values;
    s[i].n_value = p->rows->type_count;
    const profile_time_t *of = p->rows->rows.items[p->from + i].of;
    if (of && !put_labels(p, &s[i], of)) return false;
  }
  p->message.n_sample = count;
  return true;
}

static bool put_type(profile_t *p, const profile_type_t *from, Sonde__Pprof__ValueType *to) {
  sonde__pprof__value_type__init(to);
  to->type = profile_string(&p->tables, from->type);
  to->unit = profile_string(&p->tables, from->unit);
  return !p->tables.failed;
}

static bool put_types(profile_t *p) {
  const profile_rows_t *r = p->rows;
  Sonde__Pprof__ValueType *types =
      NEW_MESSAGES(&p->pool, Sonde__Pprof__ValueType, sonde__pprof__value_type__init,
                   (size_t)r->type_count + 1, p->message.sample_type);
  if (p->pool.failed) return false;
  for (unsigned i = 0; i < r->type_count; i++)
    if (!put_type(p, &r->types[i], &types[i])) return false;
  p->message.n_sample_type = r->type_count;
  if (r->drop_frames) p->message.drop_frames = profile_string(&p->tables, r->drop_frames);
  if (r->default_type) p->message.default_sample_type = profile_string(&p->tables, r->default_type);
  if (!r->period_type.type) return true;
  p->message.period_type = &types[r->type_count];
  p->message.period = r->period;
  return put_type(p, &r->period_type, p->message.period_type);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static bool collect(profile_t *p) {
  profile_program(&p->tables);
  p->stacks = pool_array(&p->pool, p->to - p->from, sizeof *p->stacks);
  for (size_t i = p->from; p->stacks && i < p->to; i++)
    p->stacks[i - p->from] = profile_stack(&p->tables, p->rows->rows.items[i].stack);
  return p->stacks && !p->tables.failed;
}

static void put_times(profile_t *p) {
  const record_header_t *h = reader_header(p->tables.reader);
  p->message.time_ns = (int64_t)profile_rows_time_ns(p->rows, h);
  p->message.duration_ns = (int64_t)profile_rows_duration_ns(p->rows, h);
}

static uint8_t *pack(profile_t *p, size_t *size) {
  p->message.strings = (char **)(uintptr_t)p->tables.strings.items;
  p->message.n_strings = p->tables.strings.count;
  size_t packed_size = sonde__pprof__profile__get_packed_size(&p->message);
  uint8_t *packed = malloc(packed_size + 1), *out = NULL;
  if (packed) {
    sonde__pprof__profile__pack(&p->message, packed);
    out = gzip_bytes(packed, packed_size, size);
  }
  free(packed);
  return out;
}

uint8_t *pprof_bytes(const reader_t *reader, frame_names_t *names, const profile_rows_t *rows,
                     size_t from, size_t to, size_t *size) {
  profile_t p = {.rows = rows, .from = from, .to = to};
  sonde__pprof__profile__init(&p.message);
  bool good = profile_tables_start(&p.tables, reader, names) && collect(&p) && put_types(&p) &&
              put_mappings(&p) && put_functions(&p) && put_locations(&p) && put_samples(&p);
  put_times(&p);
  uint8_t *out = good ? pack(&p, size) : NULL;
  profile_tables_free(&p.tables);
  pool_free(&p.pool);
  return out;
}
