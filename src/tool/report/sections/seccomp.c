/* SPDX-License-Identifier: MIT */
#include "report/sections/seccomp.h"

#include <inttypes.h>
#include <string.h>

#include "reader/body.h"
#include "report/json.h"

#define NAME_MAX_BYTES 40u

typedef struct name {
  char text[NAME_MAX_BYTES];
} name_t;

static const struct {
  uint64_t value;
  const char *key, *text;
} stops[] = {
#define STOP(name, value, key, text) {value, key, text},
    RECORD_SECCOMP_TABLE(STOP)
#undef STOP
};

/* TABLE_SECCOMP: time, number of filters; pairs of an effect and the call that causes it, then 0;
 * the forbidden calls. */
static body_t body_of(const sensor_record_t *record) {
  return (body_t){.p = record->body, .end = record->body + record->size};
}

static name_t get_name(body_t *b) {
  uint64_t n;
  name_t name = {{0}};
  const uint8_t *text = body_string(b, &n);
  if (!b->truncated) memcpy(name.text, text, n < NAME_MAX_BYTES ? n : NAME_MAX_BYTES - 1);
  for (char *c = name.text; *c; c++)
    if (*c < ' ' || *c > '~') *c = '?';
  return name;
}

/* The text or, with KEY, the JSON key of an effect. */
static const char *stop_text(uint64_t effect, bool key) {
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
    if (stops[i].value == effect) return key ? stops[i].key : stops[i].text;
  return key ? "unknown" : "this version of sonde does not know what is not recorded";
}

/* The next effect; 0 after the last. */
static uint64_t next_stop(body_t *b, name_t *call) {
  uint64_t effect = b->truncated ? 0 : body_number(b);
  if (effect && !b->truncated) *call = get_name(b);
  return b->truncated ? 0 : effect;
}

static const sensor_record_t *next_record(const reader_t *reader, size_t *at) {
  size_t count;
  const sensor_record_t *records = reader_sensor_records(reader, &count);
  while (*at < count)
    if (records[(*at)++].type == TABLE_SECCOMP) return &records[*at - 1];
  return NULL;
}

/* The calls behind the effects. */
static uint32_t count_forbidden(body_t b) {
  uint32_t count = 0;
  while (b.p < b.end && !b.truncated) {
    (void)get_name(&b);
    count += !b.truncated;
  }
  return count;
}

/* Of several filters the last: its record has the calls that any of them forbids. */
void seccomp_text(const reader_t *reader, FILE *out) {
  const sensor_record_t *record = NULL, *next;
  for (size_t at = 0; (next = next_record(reader, &at));)
    record = next;
  if (!record) return;
  body_t b = body_of(record);
  name_t call = {{0}};
  uint64_t ns = reader_ns(reader, body_number(&b));
  (void)body_number(&b);
  body_t rest = b;
  while (next_stop(&rest, &call)) {
  }
  uint32_t forbidden = count_forbidden(rest);
  if (!forbidden) return;
  fprintf(out, "  seccomp    after %.3f s a filter forbade %" PRIu32 " system calls of sonde:\n",
          (double)ns / 1e9, forbidden);
  bool any = false;
  for (uint64_t effect; (effect = next_stop(&b, &call)); any = true)
    fprintf(out, "             %s (%s)\n", stop_text(effect, false), call.text);
  if (!any) fprintf(out, "             nothing is missing for that reason\n");
}

static json_object *record_json(const reader_t *reader, const sensor_record_t *record) {
  json_object *o = json_new_object(), *stopped = json_new_array(), *forbidden = json_new_array();
  body_t b = body_of(record);
  name_t call = {{0}};
  json_add_number(o, "time_ns", (int64_t)reader_ns(reader, body_number(&b)));
  json_add_count(o, "filters", body_number(&b));
  for (uint64_t effect; (effect = next_stop(&b, &call));) {
    json_object *stop = json_new_object();
    json_add_text(stop, "what", stop_text(effect, true));
    json_add_text(stop, "call", call.text);
    json_append(stopped, stop);
  }
  while (b.p < b.end && !b.truncated) {
    call = get_name(&b);
    if (!b.truncated) json_append(forbidden, json_new_text(call.text));
  }
  json_add(o, "stopped", stopped);
  json_add(o, "forbidden", forbidden);
  return o;
}

void seccomp_json(const reader_t *reader, json_object *out) {
  const sensor_record_t *record;
  json_object *all = NULL;
  for (size_t at = 0; (record = next_record(reader, &at));) {
    if (!all) all = json_new_array();
    json_append(all, record_json(reader, record));
  }
  if (all) json_add(out, "seccomp", all);
}
