/* SPDX-License-Identifier: MIT
 *
 * Writes the findings of an audit as SARIF 2.1.0: a rule for each category, a result for each
 * fingerprint. A result's location is the innermost frame outside the system, if it has a line; its
 * stacks have all frames.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "report/exports/audit_exports.h"
#include "report/exports/name.h"
#include "report/json.h"

#define SCHEMA "https://json.schemastore.org/sarif-2.1.0.json"

enum { STACKS_MAX = 8, FRAMES_MAX = 256 };

/* {"text": TEXT} */
static json_object *message(const char *text) {
  json_object *o = json_new_object();
  json_add_text(o, "text", text);
  return o;
}

/* A path as a URI. A relative path of the build stays relative: its base is unknown. */
static json_object *artifact(const char *file) {
  char uri[4096];
  size_t n = 0;
  json_object *o = json_new_object();
  if (*file == '/') n = (size_t)snprintf(uri, sizeof uri, "file://");
  for (; *file && n + 4 < sizeof uri; file++) {
    unsigned char c = (unsigned char)*file;
    bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                 c == '/' || c == '.' || c == '-' || c == '_' || c == '~' || c == '+';
    n += (size_t)snprintf(uri + n, sizeof uri - n, plain ? "%c" : "%%%02X", c);
  }
  uri[n] = 0;
  json_add_text(o, "uri", uri);
  return o;
}

static json_object *location(const frame_name_t *name) {
  json_object *o = json_new_object(), *logical = json_new_object(), *list = json_new_array();
  if (name->file) {
    json_object *physical = json_new_object(), *region = json_new_object();
    json_add(physical, "artifactLocation", artifact(name->file));
    if (name->line) {
      json_add_number(region, "startLine", name->line);
      json_add(physical, "region", region);
    } else {
      json_object_put(region);
    }
    json_add(o, "physicalLocation", physical);
  }
  char text[REPORT_NAME_MAX];
  json_add_text(logical, "name", export_name(name, false, text));
  json_add_text(logical, "fullyQualifiedName", name->function);
  json_add_text(logical, "kind", "function");
  json_append(list, logical);
  json_add(o, "logicalLocations", list);
  return o;
}

static json_object *stack(const report_t *r, const audit_entry_t *s) {
  const frame_name_t *names[FRAMES_MAX];
  const record_thread_t *thread = reader_thread(r->reader, s->stream);
  json_object *o = json_new_object(), *frames = json_new_array();
  int count = frame_names_of_stack(r->names, s->stack, names, FRAMES_MAX);
  for (int i = 0; i < count && i < FRAMES_MAX; i++) {
    json_object *frame = json_new_object();
    json_add(frame, "location", location(names[i]));
    if (*names[i]->library) json_add_text(frame, "module", names[i]->library);
    if (thread) json_add_number(frame, "threadId", thread->tid);
    json_append(frames, frame);
  }
  json_add(o, "frames", frames);
  return o;
}

static json_object *suppressions(const policy_allowance_t *allowed) {
  json_object *list = json_new_array(), *o = json_new_object();
  json_add_text(o, "kind", "external");
  json_add_text(o, "justification", allowed->reason);
  json_append(list, o);
  return list;
}

static void add_message(json_object *o, const finding_row_t *row) {
  char text[4096];
  snprintf(text, sizeof text, "%s: %s(%s) is called by %s", row->category->title,
           finding_function(row), row->arguments, row->owner);
  json_add(o, "message", message(text));
}

static void add_fingerprint(json_object *o, uint64_t fingerprint) {
  char text[17];
  json_object *prints = json_new_object();
  snprintf(text, sizeof text, "%016" PRIx64, fingerprint);
  json_add_text(prints, "sondeAudit/v1", text);
  json_add(o, "partialFingerprints", prints);
}

static json_object *new_result(const finding_row_t *row, const baseline_t *baseline) {
  json_object *o = json_new_object(), *locations = json_new_array();
  json_add_text(o, "ruleId", row->category->id);
  json_add_text(o, "level", policy_level_word(row->category->level));
  add_message(o, row);
  if (row->site) json_append(locations, location(row->site));
  json_add(o, "locations", locations);
  json_add(o, "stacks", json_new_array());
  json_add_number(o, "occurrenceCount", 0);
  add_fingerprint(o, row->fingerprint);
  if (baseline)
    json_add_text(o, "baselineState",
                  baseline_has(baseline, row->fingerprint) ? "unchanged" : "new");
  if (row->allowed) json_add(o, "suppressions", suppressions(row->allowed));
  return o;
}

/* Stacks of a result must differ (3.27.18); stacks with different addresses may have equal names.
 */
static void add_stack(json_object *stacks, json_object *added) {
  for (size_t i = 0; i < json_object_array_length(stacks); i++)
    if (json_object_equal(json_object_array_get_idx(stacks, i), added)) {
      json_object_put(added);
      return;
    }
  json_append(stacks, added);
}

static void add_to_result(json_object *o, const finding_row_t *row) {
  json_object *stacks = json_object_object_get(o, "stacks");
  int64_t count = json_object_get_int64(json_object_object_get(o, "occurrenceCount"));
  json_object_object_del(o, "occurrenceCount");
  json_add_number(o, "occurrenceCount", count + (int64_t)row->sighting->count);
  if (json_object_array_length(stacks) < STACKS_MAX)
    add_stack(stacks, stack(&row->by->report, row->sighting));
}

typedef struct fingerprint_result {
  uint64_t fingerprint;
  size_t row; /* the first with this fingerprint */
  json_object *result;
} fingerprint_result_t;

static int by_fingerprint(const void *a, const void *b) {
  const fingerprint_result_t *x = a, *y = b;
  if (x->fingerprint != y->fingerprint) return x->fingerprint < y->fingerprint ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

/* The sorted distinct fingerprints, each with its first row. */
static size_t fingerprints(const findings_t *f, fingerprint_result_t *out) {
  size_t count = 0;
  for (size_t i = 0; i < f->count; i++)
    out[i] = (fingerprint_result_t){.fingerprint = f->rows[i].fingerprint, .row = i};
  qsort(out, f->count, sizeof *out, by_fingerprint);
  for (size_t i = 0; i < f->count; i++)
    if (!count || out[count - 1].fingerprint != out[i].fingerprint) out[count++] = out[i];
  return count;
}

static fingerprint_result_t *find_known(fingerprint_result_t *known, size_t count,
                                        uint64_t fingerprint) {
  size_t low = 0, high = count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (known[middle].fingerprint <= fingerprint)
      low = middle;
    else
      high = middle;
  }
  return &known[low];
}

/* A result for each fingerprint, in the order of its first row. */
static json_object *results(const findings_t *f, const baseline_t *baseline) {
  json_object *list = json_new_array();
  fingerprint_result_t *known = calloc(f->count + 1, sizeof *known);
  size_t count = known ? fingerprints(f, known) : 0;
  for (size_t i = 0; known && i < f->count; i++) {
    fingerprint_result_t *k = find_known(known, count, f->rows[i].fingerprint);
    if (k->row == i) {
      k->result = new_result(&f->rows[i], baseline);
      json_append(list, k->result);
    }
    add_to_result(k->result, &f->rows[i]);
  }
  free(known);
  return list;
}

static json_object *rules(const policy_t *p) {
  json_object *list = json_new_array();
  for (size_t i = 0; p && i < p->category_count; i++) {
    const policy_category_t *c = &p->categories[i];
    json_object *o = json_new_object(), *configuration = json_new_object();
    if (!c->enabled) {
      json_object_put(o);
      json_object_put(configuration);
      continue;
    }
    json_add_text(o, "id", c->id);
    json_add(o, "shortDescription", message(c->title));
    json_add_text(configuration, "level", policy_level_word(c->level));
    json_add(o, "defaultConfiguration", configuration);
    json_append(list, o);
  }
  return list;
}

json_object *sarif_json(const findings_t *f, const baseline_t *baseline) {
  json_object *o = json_new_object(), *runs = json_new_array(), *run = json_new_object(),
              *tool = json_new_object(), *driver = json_new_object();
  json_add_text(driver, "name", "sonde");
  json_add_text(driver, "version", SONDE_VERSION);
  json_add(driver, "rules", rules(audited_policy(f->audited)));
  json_add(tool, "driver", driver);
  json_add(run, "tool", tool);
  json_add(run, "results", results(f, baseline));
  json_append(runs, run);
  json_add_text(o, "$schema", SCHEMA);
  json_add_text(o, "version", "2.1.0");
  json_add(o, "runs", runs);
  return o;
}
