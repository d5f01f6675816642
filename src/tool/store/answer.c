/* SPDX-License-Identifier: MIT */
#include "store/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/json.h"
#include "report/report.h"
#include "symbol/short_name.h"

/* ---- building ----------------------------------------------------------------------------- */

void answer_column(answer_t *a, const char *name) {
  char *copy = strdup(name), **added = ARRAY_ADD(a->columns);
  if (added) *added = copy;
  if (!added) free(copy);
  a->failed |= !copy || !added;
}

static void add_cell(answer_t *a, answer_cell_t cell) {
  answer_cell_t *added = ARRAY_ADD(a->cells);
  if (added) *added = cell;
  if (!added) free(cell.text);
  a->failed |= !added;
}

void answer_text(answer_t *a, const char *text) {
  char *copy = strdup(text);
  a->failed |= !copy;
  add_cell(a, (answer_cell_t){.unit = ANSWER_TEXT, .text = copy});
}

void answer_number(answer_t *a, answer_unit_t unit, double number) {
  add_cell(a, (answer_cell_t){.unit = unit, .number = number});
}

void answer_integer(answer_t *a, answer_unit_t unit, int64_t number) {
  add_cell(a, (answer_cell_t){
                  .unit = unit, .number = (double)number, .integer = number, .is_integer = true});
}

void answer_free(answer_t *a) {
  for (size_t i = 0; i < a->columns.count; i++)
    free(a->columns.items[i]);
  for (size_t i = 0; i < a->cells.count; i++)
    free(a->cells.items[i].text);
  free(a->columns.items);
  free(a->cells.items);
  *a = (answer_t){0};
}

size_t answer_rows(const answer_t *a) {
  return a->columns.count ? a->cells.count / a->columns.count : 0;
}

const answer_cell_t *answer_at(const answer_t *a, size_t row, size_t column) {
  return &a->cells.items[row * a->columns.count + column];
}

/* ---- queries ------------------------------------------------------------------------------ */

static answer_unit_t unit_named(const char *name, const char *unit) {
  if (strstr(name, "amount") && unit) name = unit;
  if (strstr(name, "bytes")) return ANSWER_BYTES;
  return !strncmp(name, "ns", 2) || strstr(name, "_ns") ? ANSWER_NS : ANSWER_COUNT;
}

static void add_value(answer_t *a, const char *name, const char *unit, const store_value_t *v) {
  if (v->is_null)
    add_cell(a, (answer_cell_t){.unit = ANSWER_NULL});
  else if (v->kind == STORE_INTEGER)
    answer_integer(a, unit_named(name, unit), v->integer);
  else if (v->kind == STORE_REAL)
    answer_number(a,
                  unit_named(name, unit) == ANSWER_COUNT ? ANSWER_NUMBER : unit_named(name, unit),
                  v->real);
  else if (v->kind == STORE_TEXT)
    answer_text(a, v->bytes);
  else
    answer_text(a, "[bytes]");
}

/* The text of the column `unit`, or NULL. */
static const char *unit_of(const engine_rows_t *rows, size_t columns) {
  for (size_t i = 0; i < columns; i++)
    if (!strcmp(engine_column_name(rows, i), "unit")) return engine_value(rows, i).bytes;
  return NULL;
}

static void add_columns(answer_t *a, engine_rows_t *rows) {
  size_t columns = engine_column_count(rows);
  for (size_t i = 0; i < columns; i++)
    answer_column(a, engine_column_name(rows, i));
}

/* Adds at most MOST rows. Returns 1 if there may be more, 0 after the last, negative on failure. */
static int add_rows(answer_t *a, engine_rows_t *rows, size_t most) {
  int step = 1;
  for (size_t row = 0; row < most && !a->failed && (step = engine_step(rows)) > 0; row++)
    for (size_t i = 0; i < a->columns.count; i++) {
      const store_value_t value = engine_value(rows, i);
      add_value(a, engine_column_name(rows, i), unit_of(rows, a->columns.count), &value);
    }
  return a->failed ? -1 : step;
}

bool answer_run(answer_t *a, engine_t *engine, const char *sql, const store_value_t *values,
                size_t count) {
  engine_rows_t *rows = engine_query(engine, sql, values, count);
  if (!rows) return false;
  add_columns(a, rows);
  int step = add_rows(a, rows, SIZE_MAX);
  engine_rows_end(rows);
  return step == 0;
}

bool answer_run_parts(engine_t *engine, const char *sql,
                      bool (*part)(const answer_t *answer, uint64_t before, void *context),
                      void *context) {
  enum { PART_ROWS = 4096 };
  engine_rows_t *rows = engine_query(engine, sql, NULL, 0);
  uint64_t before = 0;
  int step = rows ? 1 : -1;
  while (step > 0) {
    answer_t a = {0};
    add_columns(&a, rows);
    step = add_rows(&a, rows, PART_ROWS);
    bool is_wanted = step >= 0 && (answer_rows(&a) || !before);
    if (is_wanted && !part(&a, before, context)) step = 0;
    before += answer_rows(&a);
    answer_free(&a);
  }
  if (rows) engine_rows_end(rows);
  return step == 0;
}

/* ---- printing ----------------------------------------------------------------------------- */

enum { NUMBER_MAX = 64 };

static const char *cell_text(const answer_cell_t *c, char out[NUMBER_MAX]) {
  switch (c->unit) {
  case ANSWER_TEXT: return c->text;
  case ANSWER_NULL: return "-";
  case ANSWER_NS: return report_duration(c->number, out);
  case ANSWER_BYTES: return report_bytes((int64_t)c->number, out);
  case ANSWER_PERCENT: snprintf(out, NUMBER_MAX, "%.4g %%", 100 * c->number); return out;
  case ANSWER_NUMBER: snprintf(out, NUMBER_MAX, "%.6g", c->number); return out;
  case ANSWER_COUNT: break;
  }
  snprintf(out, NUMBER_MAX, "%" PRId64, c->integer);
  return out;
}

/* Text shows where something happened on a line of its own, and no column without any text. */
typedef enum place { PLACE_NOWHERE, PLACE_FIRST_LINE, PLACE_SECOND_LINE } place_t;

static bool is_empty(const answer_t *a, size_t column) {
  size_t rows = answer_rows(a), row = 0;
  while (row < rows && answer_at(a, row, column)->text && !*answer_at(a, row, column)->text)
    row++;
  return rows && row == rows;
}

static place_t place_of(const answer_t *a, size_t column) {
  const char *name = a->columns.items[column];
  if (is_empty(a, column)) return PLACE_NOWHERE;
  if (!strcmp(name, "unit") || !strcmp(name, "build_id")) return PLACE_NOWHERE;
  bool is_second = column && (!strcmp(name, "stack") || !strcmp(name, "function"));
  return is_second ? PLACE_SECOND_LINE : PLACE_FIRST_LINE;
}

/* The columns of TEXT, which is UTF-8. */
static int width_of(const char *text) {
  int width = 0;
  for (; *text; text++)
    width += ((unsigned char)*text & 0xc0) != 0x80;
  return width;
}

static int column_width(const answer_t *a, size_t column) {
  char number[NUMBER_MAX];
  int widest = width_of(a->columns.items[column]);
  for (size_t row = 0; row < answer_rows(a); row++) {
    int width = width_of(cell_text(answer_at(a, row, column), number));
    if (width > widest) widest = width;
  }
  return widest;
}

static bool is_number(const answer_t *a, size_t column) {
  return answer_rows(a) && answer_at(a, 0, column)->unit != ANSWER_TEXT;
}

/* Row SIZE_MAX: the headings. */
static void print_first_line(const answer_t *a, const int *widths, size_t row, FILE *out) {
  char number[NUMBER_MAX];
  int printed = 0, pad = 0; /* none at the end of a line */
  for (size_t i = 0; i < a->columns.count; i++) {
    if (place_of(a, i) != PLACE_FIRST_LINE) continue;
    const char *text =
        row == SIZE_MAX ? a->columns.items[i] : cell_text(answer_at(a, row, i), number);
    int room = widths[i] - width_of(text);
    bool right = is_number(a, i);
    if (!*text) {
      pad += widths[i] + 2;
      continue;
    }
    fprintf(out, "%*s%s", pad + (printed++ ? 2 : 0) + (right ? room : 0), "", text);
    pad = right ? 0 : room;
  }
  fputc('\n', out);
}

static void print_name(const char *text, int used, unsigned width, FILE *out) {
  size_t size = SHORT_NAME_SIZE(strlen(text));
  unsigned room = width && (int)width - used > 20 ? width - (unsigned)used : 20;
  char *name = width ? malloc(size) : NULL;
  fprintf(out, "  %s", name ? short_name(text, room, name, size) : text);
  free(name);
}

static void print_second_line(const answer_t *a, size_t row, unsigned width, FILE *out) {
  int used = 2;
  for (size_t i = 0; i < a->columns.count; i++) {
    const answer_cell_t *c = answer_at(a, row, i);
    if (place_of(a, i) != PLACE_SECOND_LINE || c->unit != ANSWER_TEXT) continue;
    if (used == 2) fprintf(out, "  ");
    print_name(c->text, used + 2, width, out);
    used += 2 + width_of(c->text);
  }
  if (used > 2) fputc('\n', out);
}

void answer_print_text(const answer_t *a, unsigned width, FILE *out) {
  int *widths = calloc(a->columns.count + 1, sizeof *widths);
  if (!widths) return;
  for (size_t i = 0; i < a->columns.count; i++)
    widths[i] = column_width(a, i);
  if (answer_rows(a)) print_first_line(a, widths, SIZE_MAX, out);
  for (size_t row = 0; row < answer_rows(a); row++) {
    print_first_line(a, widths, row, out);
    print_second_line(a, row, width, out);
  }
  free(widths);
}

json_object *answer_cell_json(const answer_cell_t *c) {
  if (c->unit == ANSWER_NULL) return NULL;
  if (c->unit == ANSWER_TEXT) return json_new_text(c->text);
  return c->is_integer ? json_object_new_int64(c->integer) : json_object_new_double(c->number);
}

void answer_print_json(const answer_t *a, const char *name, uint64_t before, FILE *out) {
  if (!before) fprintf(out, "{\"query\":\"%s\",\"rows\":[", name);
  for (size_t row = 0; row < answer_rows(a); row++) {
    json_object *object = json_new_object();
    for (size_t i = 0; i < a->columns.count; i++)
      json_object_object_add(object, a->columns.items[i], answer_cell_json(answer_at(a, row, i)));
    fprintf(out, "%s%s", before || row ? "," : "", json_print(object, JSON_STYLE));
    json_object_put(object);
  }
}

void answer_print_json_end(FILE *out) { fputs("]}\n", out); }

static void print_csv_text(const char *text, FILE *out) {
  if (!strpbrk(text, ",\"\r\n")) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (; *text; text++) {
    if (*text == '"') fputc('"', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

void answer_print_csv(const answer_t *a, uint64_t before, FILE *out) {
  for (size_t i = 0; !before && i < a->columns.count; i++) {
    if (i) fputc(',', out);
    print_csv_text(a->columns.items[i], out);
  }
  if (!before) fputs("\r\n", out);
  for (size_t at = 0; a->columns.count && at < a->cells.count; at++) {
    const answer_cell_t *c = &a->cells.items[at];
    bool last = (at + 1) % a->columns.count == 0;
    if (c->unit == ANSWER_TEXT)
      print_csv_text(c->text, out);
    else if (c->unit != ANSWER_NULL && c->is_integer)
      fprintf(out, "%" PRId64, c->integer);
    else if (c->unit != ANSWER_NULL)
      fprintf(out, "%.17g", c->number);
    fputs(last ? "\r\n" : ",", out);
  }
}
