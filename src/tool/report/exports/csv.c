/* SPDX-License-Identifier: MIT */
#include "report/exports/csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "report/json.h"

void csv_put_field(FILE *out, const char *text) {
  fputc('"', out);
  if (*text && strchr("=+-@\t\r", *text)) fputc('\'', out);
  for (; *text; text++) {
    if (*text == '"') fputc('"', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

static void put_value(FILE *out, json_object *value) {
  if (json_object_is_type(value, json_type_string))
    csv_put_field(out, json_object_get_string(value));
  else if (value)
    fputs(json_print(value, JSON_STYLE), out);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* A value of a row: of a key, or of a key in the object at KEY. */
typedef struct column {
  const char *key, *inner; /* INNER: NULL, or the key in the object */
} column_t;

typedef struct columns {
  column_t *items;
  size_t count, capacity;
} columns_t;

/* False: out of memory. */
static bool add_column(columns_t *columns, const char *key, const char *inner) {
  for (size_t i = 0; i < columns->count; i++) {
    const column_t *c = &columns->items[i];
    if (!strcmp(c->key, key) && !c->inner == !inner && (!inner || !strcmp(c->inner, inner)))
      return true;
  }
  column_t *added = ARRAY_ADD(*columns);
  if (added) *added = (column_t){key, inner};
  return added != NULL;
}

static bool add_columns(columns_t *columns, json_object *row) {
  bool good = true;
  json_object_object_foreach(row, key, value) {
    if (json_object_is_type(value, json_type_object)) {
      json_object_object_foreach(value, inner, part) {
        if (!json_object_is_type(part, json_type_array))
          good = good && add_column(columns, key, inner);
      }
    } else if (!json_object_is_type(value, json_type_array)) {
      good = good && add_column(columns, key, NULL);
    }
  }
  return good;
}

static json_object *member(json_object *o, const char *key) {
  json_object *value = NULL;
  return json_object_object_get_ex(o, key, &value) ? value : NULL;
}

static void put_row(const columns_t *columns, json_object *row, FILE *out) {
  for (size_t i = 0; i < columns->count; i++) {
    const column_t *c = &columns->items[i];
    json_object *value = member(row, c->key);
    if (c->inner) value = member(value, c->inner);
    if (i) fputc(',', out);
    put_value(out, value);
  }
  fputs("\r\n", out);
}

static void put_rows(const columns_t *columns, json_object *rows, FILE *out) {
  for (size_t i = 0; i < columns->count; i++) {
    const column_t *c = &columns->items[i];
    fprintf(out, "%s%s", i ? "," : "", c->key);
    if (c->inner) fprintf(out, "_%s", c->inner);
  }
  fputs("\r\n", out);
  for (size_t i = 0; i < json_object_array_length(rows); i++)
    put_row(columns, json_object_array_get_idx(rows, i), out);
}

bool csv_put_rows(json_object *rows, FILE *out) {
  columns_t columns = {0};
  bool good = true;
  for (size_t i = 0; good && i < json_object_array_length(rows); i++)
    good = add_columns(&columns, json_object_array_get_idx(rows, i));
  if (good && columns.count) put_rows(&columns, rows, out);
  free(columns.items);
  return good;
}

/* ---- series ------------------------------------------------------------------------------- */

enum { SERIES_MAX = 64 };

typedef struct series {
  const char *key;
  json_object *points; /* pairs of a time in ns and a value */
  size_t next;
} series_t;

static json_object *part_of(const series_t *s, size_t at, size_t part) {
  return json_object_array_get_idx(json_object_array_get_idx(s->points, at), part);
}

static bool has_next(const series_t *s) { return s->next < json_object_array_length(s->points); }

static int64_t next_ns(const series_t *s) { return json_object_get_int64(part_of(s, s->next, 0)); }

static int find_series(json_object *usage, series_t *series) {
  int count = 0;
  json_object_object_foreach(usage, key, value) {
    json_object *points = member(value, "points");
    if (points && count < SERIES_MAX) series[count++] = (series_t){key, points, 0};
  }
  return count;
}

/* The least time that is left. False: none is. */
static bool least_ns(const series_t *series, int count, int64_t *out) {
  bool found = false;
  for (int i = 0; i < count; i++)
    if (has_next(&series[i]) && (!found || next_ns(&series[i]) < *out)) {
      *out = next_ns(&series[i]);
      found = true;
    }
  return found;
}

void csv_put_usage(json_object *usage, FILE *out) {
  series_t series[SERIES_MAX];
  int count = find_series(usage, series);
  int64_t ns = 0;
  fputs("time_ns", out);
  for (int i = 0; i < count; i++)
    fprintf(out, ",%s", series[i].key);
  fputs("\r\n", out);
  while (least_ns(series, count, &ns)) {
    fprintf(out, "%" PRId64, ns);
    for (int i = 0; i < count; i++) {
      series_t *s = &series[i];
      while (has_next(s) && next_ns(s) == ns)
        s->next++;
      fputc(',', out);
      if (s->next) put_value(out, part_of(s, s->next - 1, 1));
    }
    fputs("\r\n", out);
  }
}
