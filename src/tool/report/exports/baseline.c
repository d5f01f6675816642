/* SPDX-License-Identifier: MIT
 *
 * Baselines: the fingerprints of known findings, as a JSON file.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/exports/audit_exports.h"
#include "report/json.h"

static int by_value(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

static bool finish(baseline_t *b) {
  if (b->count) qsort(b->fingerprints, b->count, sizeof *b->fingerprints, by_value);
  return true;
}

bool baseline_of(baseline_t *out, const findings_t *f) {
  *out = (baseline_t){.fingerprints = calloc(f->count + 1, sizeof(uint64_t))};
  if (!out->fingerprints) return false;
  for (size_t i = 0; i < f->count; i++)
    out->fingerprints[out->count++] = f->rows[i].fingerprint;
  return finish(out);
}

bool baseline_has(const baseline_t *b, uint64_t fingerprint) {
  return b->count && bsearch(&fingerprint, b->fingerprints, b->count, sizeof fingerprint, by_value);
}

void baseline_free(baseline_t *b) {
  free(b->fingerprints);
  *b = (baseline_t){0};
}

static int by_fingerprint(const void *left, const void *right) {
  const finding_row_t *a = *(finding_row_t *const *)left, *b = *(finding_row_t *const *)right;
  return a->fingerprint < b->fingerprint ? -1 : a->fingerprint > b->fingerprint;
}

json_object *baseline_json(const findings_t *f) {
  const finding_row_t **rows = calloc(f->count + 1, sizeof *rows);
  if (!rows) return NULL;
  json_object *o = json_new_object(), *list = json_new_array();
  for (size_t i = 0; i < f->count; i++)
    rows[i] = &f->rows[i];
  if (f->count) qsort(rows, f->count, sizeof *rows, by_fingerprint);
  for (size_t i = 0; i < f->count; i++) {
    char text[17];
    if (i && rows[i]->fingerprint == rows[i - 1]->fingerprint) continue;
    json_object *row = json_new_object();
    snprintf(text, sizeof text, "%016" PRIx64, rows[i]->fingerprint);
    json_add_text(row, "fingerprint", text);
    json_add_text(row, "category", rows[i]->category->id);
    json_add_text(row, "function", finding_function(rows[i]));
    json_add_text(row, "arguments", rows[i]->class);
    json_add_text(row, "owner", rows[i]->owner);
    json_append(list, row);
  }
  free(rows);
  json_add_number(o, "baseline", 1);
  json_add(o, "findings", list);
  return o;
}

static bool read_rows(baseline_t *out, json_object *list) {
  size_t count = json_object_array_length(list);
  out->fingerprints = calloc(count + 1, sizeof *out->fingerprints);
  for (size_t i = 0; out->fingerprints && i < count; i++) {
    json_object *text;
    char *end;
    if (!json_object_object_get_ex(json_object_array_get_idx(list, i), "fingerprint", &text) ||
        !json_object_is_type(text, json_type_string))
      return false;
    const char *digits = json_object_get_string(text);
    out->fingerprints[out->count++] = strtoull(digits, &end, 16);
    if (end != digits + 16 || *end) return false;
  }
  return out->fingerprints && finish(out);
}

bool baseline_read(baseline_t *out, const char *path, char *error, size_t error_size) {
  *out = (baseline_t){0};
  json_object *o = json_read_file(path), *version, *list;
  bool good = o && json_object_object_get_ex(o, "baseline", &version) &&
              json_object_get_int(version) == 1 &&
              json_object_object_get_ex(o, "findings", &list) &&
              json_object_is_type(list, json_type_array) && read_rows(out, list);
  json_object_put(o);
  if (good) return true;
  baseline_free(out);
  snprintf(error, error_size, "'%s' is not a baseline; create one with 'sonde audit baseline FILE'",
           path);
  return false;
}
