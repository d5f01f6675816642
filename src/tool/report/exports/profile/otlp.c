/* SPDX-License-Identifier: MIT
 *
 * Builds the whole request in memory, as protobuf-c requires, in one pool that is freed as a whole.
 * The tables of the dictionary have an empty entry first, so the indexes of profile_tables_t, which
 * count from 1, are those of the dictionary.
 */
#include "report/exports/profile/otlp.h"

#include <stdlib.h>
#include <string.h>

#include "report/exports/profile/messages.h"
#include "report/exports/profile/otlp.pb-c.h"
#include "report/exports/profile/tables.h"
#include "symbol/language.h"

/* Attributes of mappings and locations (OpenTelemetry's semantic conventions). */
#define BUILD_ID_KEY "process.executable.build_id.gnu"
#define FRAME_KEY    "profile.frame.type"

/* Attributes besides those of mappings: the empty one, and two types of frames. */
enum { OTHER_ATTRIBUTES = 3 };

/* The identifiers of a link that is none. */
enum { TRACE_ID_BYTES = 16, SPAN_ID_BYTES = 8 };

typedef struct writer {
  const otlp_source_t *source;
  const profile_rows_t *rows;
  size_t from, to;
  profile_tables_t tables;
  uint32_t *stacks; /* of each row */
  pool_t pool;
  Sonde__Otlp__Dictionary dictionary;
  Sonde__Otlp__Attribute *attributes;
  Sonde__Otlp__Value *values; /* of these */
} writer_t;

/* ---- dictionary --------------------------------------------------------------------------- */

static void set_text(Sonde__Otlp__Value *value, const char *text) {
  value->value_case = SONDE__OTLP__VALUE__VALUE_TEXT;
  value->text = (char *)(uintptr_t)text;
}

/* The table has space for an attribute of each mapping and OTHER_ATTRIBUTES. */
static bool start_attributes(writer_t *e) {
  size_t count = e->tables.mappings.count + OTHER_ATTRIBUTES;
  Sonde__Otlp__Value **unused;
  e->attributes = NEW_MESSAGES(&e->pool, Sonde__Otlp__Attribute, sonde__otlp__attribute__init,
                               count, e->dictionary.attributes);
  e->values = NEW_MESSAGES(&e->pool, Sonde__Otlp__Value, sonde__otlp__value__init, count, unused);
  (void)unused;
  e->dictionary.n_attributes = 1;
  return !e->pool.failed;
}

/* Adds an attribute, whose TEXT must outlive the request. Returns its index. */
static int32_t add_attribute(writer_t *e, const char *key, const char *text) {
  size_t number = e->dictionary.n_attributes++;
  e->attributes[number].key = (int32_t)profile_string(&e->tables, key);
  e->attributes[number].value = &e->values[number];
  set_text(&e->values[number], text);
  return (int32_t)number;
}

static bool put_functions(writer_t *e) {
  const profile_tables_t *t = &e->tables;
  size_t count = t->functions.count + 1;
  Sonde__Otlp__Function *f = NEW_MESSAGES(
      &e->pool, Sonde__Otlp__Function, sonde__otlp__function__init, count, e->dictionary.functions);
  if (e->pool.failed) return false;
  for (size_t i = 1; i < count; i++) {
    f[i].name = f[i].system_name = (int32_t)t->functions.items[i - 1].name;
    f[i].file = (int32_t)t->functions.items[i - 1].file;
  }
  e->dictionary.n_functions = count;
  return true;
}

static bool put_locations(writer_t *e) {
  const profile_tables_t *t = &e->tables;
  size_t count = t->locations.count + 1;
  Sonde__Otlp__Line **lines;
  Sonde__Otlp__Line *line =
      NEW_MESSAGES(&e->pool, Sonde__Otlp__Line, sonde__otlp__line__init, t->lines.count, lines);
  Sonde__Otlp__Location *l = NEW_MESSAGES(
      &e->pool, Sonde__Otlp__Location, sonde__otlp__location__init, count, e->dictionary.locations);
  int32_t *types = pool_array(&e->pool, LANGUAGE_COUNT, sizeof *types); /* 0: not yet used */
  if (e->pool.failed) return false;
  for (size_t i = 0; i < t->lines.count; i++) {
    line[i].function = (int32_t)t->lines.items[i].function;
    line[i].line = t->lines.items[i].line;
  }
  for (size_t i = 1; i < count; i++) {
    const profile_location_t *from = &t->locations.items[i - 1];
    int32_t *type = &types[from->language];
    if (!*type) *type = add_attribute(e, FRAME_KEY, language_facts(from->language)->frame_type);
    l[i].mapping = (int32_t)from->mapping;
    l[i].address = from->address;
    l[i].lines = lines + from->first_line;
    l[i].n_lines = from->line_count;
    l[i].attributes = type;
    l[i].n_attributes = 1;
  }
  e->dictionary.n_locations = count;
  return !e->tables.failed;
}

static bool put_stacks(writer_t *e) {
  const profile_tables_t *t = &e->tables;
  size_t count = t->stacks.count + 1, places = t->stack_locations.count;
  Sonde__Otlp__Stack *s = NEW_MESSAGES(&e->pool, Sonde__Otlp__Stack, sonde__otlp__stack__init,
                                       count, e->dictionary.stacks);
  int32_t *locations = pool_array(&e->pool, places, sizeof *locations);
  if (e->pool.failed) return false;
  for (size_t i = 0; i < places; i++)
    locations[i] = (int32_t)t->stack_locations.items[i];
  for (size_t i = 1; i < count; i++) {
    s[i].locations = locations + t->stacks.items[i - 1].first;
    s[i].n_locations = t->stacks.items[i - 1].depth;
  }
  e->dictionary.n_stacks = count;
  return true;
}

/* Images with one build-id share its attribute. */
static bool put_mappings(writer_t *e) {
  const profile_tables_t *t = &e->tables;
  size_t count = t->mappings.count + 1;
  Sonde__Otlp__Mapping *m = NEW_MESSAGES(&e->pool, Sonde__Otlp__Mapping, sonde__otlp__mapping__init,
                                         count, e->dictionary.mappings);
  int32_t *attributes = pool_array(&e->pool, count, sizeof *attributes);
  if (e->pool.failed) return false;
  for (size_t i = 1, same; i < count; i++) {
    const profile_mapping_t *from = &t->mappings.items[i - 1];
    m[i].start = from->start;
    m[i].limit = from->limit;
    m[i].offset = from->offset;
    m[i].file = (int32_t)from->file;
    if (!*from->build_id) continue;
    for (same = 1; strcmp(t->mappings.items[same - 1].build_id, from->build_id) != 0; same++) {
    }
    attributes[i] = same < i ? attributes[same] : add_attribute(e, BUILD_ID_KEY, from->build_id);
    m[i].attributes = &attributes[i];
    m[i].n_attributes = 1;
  }
  e->dictionary.n_mappings = count;
  return !e->tables.failed;
}

/* The empty link has identifiers of the right length, which some receivers require. */
static bool put_links(writer_t *e) {
  Sonde__Otlp__Link *link =
      NEW_MESSAGES(&e->pool, Sonde__Otlp__Link, sonde__otlp__link__init, 1, e->dictionary.links);
  uint8_t *zeros = pool_array(&e->pool, TRACE_ID_BYTES, 1);
  if (e->pool.failed) return false;
  link->trace_id = (ProtobufCBinaryData){TRACE_ID_BYTES, zeros};
  link->span_id = (ProtobufCBinaryData){SPAN_ID_BYTES, zeros};
  e->dictionary.n_links = 1;
  return true;
}

/* ---- profiles ----------------------------------------------------------------------------- */

static Sonde__Otlp__ValueType *new_type(writer_t *e, const profile_type_t *from) {
  Sonde__Otlp__ValueType *type = pool_array(&e->pool, 1, sizeof *type);
  if (!type) return NULL;
  sonde__otlp__value_type__init(type);
  type->type = (int32_t)profile_string(&e->tables, from->type);
  type->unit = (int32_t)profile_string(&e->tables, from->unit);
  return type;
}

/* Rows without any of this type stay out. */
static bool put_samples(writer_t *e, unsigned type, Sonde__Otlp__Profile *profile) {
  size_t count = e->to - e->from;
  Sonde__Otlp__Sample *s = NEW_MESSAGES(&e->pool, Sonde__Otlp__Sample, sonde__otlp__sample__init,
                                        count, profile->samples);
  if (e->pool.failed) return false;
  for (size_t i = 0; i < count; i++) {
    profile_row_t *row = &e->rows->rows.items[e->from + i];
    if (!row->values[type]) continue;
    Sonde__Otlp__Sample *sample = &s[profile->n_samples++];
    sample->stack = (int32_t)e->stacks[i];
    sample->values = &row->values[type];
    sample->n_values = 1;
  }
  return true;
}

static uint8_t *new_id(writer_t *e, unsigned type) {
  uint8_t *id = pool_array(&e->pool, OTLP_ID_BYTES, 1);
  if (!id) return NULL;
  memcpy(id, e->source->id, OTLP_ID_BYTES);
  id[OTLP_ID_BYTES - 1] = (uint8_t)(id[OTLP_ID_BYTES - 1] + type);
  return id;
}

static bool put_profile(writer_t *e, unsigned type, Sonde__Otlp__Profile *profile) {
  const record_header_t *h = reader_header(e->source->reader);
  profile->sample_type = new_type(e, &e->rows->types[type]);
  if (e->rows->period_type.type) {
    profile->period_type = new_type(e, &e->rows->period_type);
    profile->period = e->rows->period;
  }
  profile->time_ns = profile_rows_time_ns(e->rows, h);
  profile->duration_ns = profile_rows_duration_ns(e->rows, h);
  profile->profile_id = (ProtobufCBinaryData){OTLP_ID_BYTES, new_id(e, type)};
  return put_samples(e, type, profile) && !e->pool.failed && !e->tables.failed;
}

static bool put_profiles(writer_t *e, Sonde__Otlp__ScopeProfiles *scope) {
  unsigned count = e->rows->type_count;
  Sonde__Otlp__Profile *p = NEW_MESSAGES(&e->pool, Sonde__Otlp__Profile, sonde__otlp__profile__init,
                                         count, scope->profiles);
  if (e->pool.failed) return false;
  scope->n_profiles = count;
  for (unsigned i = 0; i < count; i++)
    if (!put_profile(e, i, &p[i])) return false;
  return true;
}

static bool put_resource(writer_t *e, Sonde__Otlp__Resource *resource) {
  size_t count = e->source->attribute_count;
  Sonde__Otlp__KeyValue *a = NEW_MESSAGES(
      &e->pool, Sonde__Otlp__KeyValue, sonde__otlp__key_value__init, count, resource->attributes);
  Sonde__Otlp__Value **unused,
      *v = NEW_MESSAGES(&e->pool, Sonde__Otlp__Value, sonde__otlp__value__init, count, unused);
  (void)unused;
  if (e->pool.failed) return false;
  for (size_t i = 0; i < count; i++) {
    const otlp_attribute_t *from = &e->source->attributes[i];
    a[i].key = (char *)(uintptr_t)from->key;
    a[i].value = &v[i];
    v[i].value_case = SONDE__OTLP__VALUE__VALUE_NUMBER;
    v[i].number = from->number;
    if (from->text) set_text(&v[i], from->text);
  }
  resource->n_attributes = count;
  return true;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static bool collect(writer_t *e) {
  e->stacks = pool_array(&e->pool, e->to - e->from, sizeof *e->stacks);
  for (size_t i = e->from; e->stacks && i < e->to; i++)
    e->stacks[i - e->from] = profile_stack(&e->tables, e->rows->rows.items[i].stack);
  return e->stacks && !e->tables.failed;
}

static uint8_t *pack(writer_t *e, Sonde__Otlp__ResourceProfiles *resource, size_t *size) {
  Sonde__Otlp__Request request = SONDE__OTLP__REQUEST__INIT;
  e->dictionary.strings = (char **)(uintptr_t)e->tables.strings.items;
  e->dictionary.n_strings = e->tables.strings.count;
  request.resource_profiles = &resource;
  request.n_resource_profiles = 1;
  request.dictionary = &e->dictionary;
  *size = sonde__otlp__request__get_packed_size(&request);
  uint8_t *out = malloc(*size + 1);
  if (out) sonde__otlp__request__pack(&request, out);
  return out;
}

static uint8_t *write_request(writer_t *e, size_t *size) {
  Sonde__Otlp__ResourceProfiles profiles = SONDE__OTLP__RESOURCE_PROFILES__INIT;
  Sonde__Otlp__ScopeProfiles scope_profiles = SONDE__OTLP__SCOPE_PROFILES__INIT,
                             *list[] = {&scope_profiles};
  Sonde__Otlp__Resource resource = SONDE__OTLP__RESOURCE__INIT;
  Sonde__Otlp__Scope scope = SONDE__OTLP__SCOPE__INIT;
  char name[] = "sonde", version[] = SONDE_VERSION;
  scope.name = name;
  scope.version = version;
  scope_profiles.scope = &scope;
  profiles.resource = &resource;
  profiles.scope_profiles = list;
  profiles.n_scope_profiles = 1;
  bool good = put_profiles(e, &scope_profiles) && put_resource(e, &resource) &&
              start_attributes(e) && put_mappings(e) && put_functions(e) && put_locations(e) &&
              put_stacks(e) && put_links(e);
  return good ? pack(e, &profiles, size) : NULL;
}

uint8_t *otlp_bytes(const otlp_source_t *source, const profile_rows_t *rows, size_t from, size_t to,
                    size_t *size) {
  writer_t e = {.source = source, .rows = rows, .from = from, .to = to};
  sonde__otlp__dictionary__init(&e.dictionary);
  bool good = profile_tables_start(&e.tables, source->reader, source->names) && collect(&e);
  uint8_t *out = good ? write_request(&e, size) : NULL;
  profile_tables_free(&e.tables);
  pool_free(&e.pool);
  return out;
}

bool otlp_read_response(const uint8_t *data, size_t size, int64_t *rejected, char **message) {
  Sonde__Otlp__Response *r = sonde__otlp__response__unpack(NULL, size, data);
  const Sonde__Otlp__PartialSuccess *partial = r ? r->partial_success : NULL;
  *rejected = partial ? partial->rejected_profiles : 0;
  *message = r ? strdup(partial ? partial->error_message : "") : NULL;
  if (r) sonde__otlp__response__free_unpacked(r, NULL);
  return *message != NULL;
}
