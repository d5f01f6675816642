/* SPDX-License-Identifier: MIT */
#include "cli/many/answer_page.h"

#include <stdlib.h>
#include <string.h>

#include "report/exports/page/document.h"
#include "report/exports/page/names.h"
#include "report/json.h"
#include "sonde/status.h"
#include "store/queries.h"
#include "symbol/short_name.h"

static const char *unit_word(const answer_t *a, size_t column) {
  static const char *const words[] = {"text", "count", "ns", "bytes", "percent", "number"};
  for (size_t row = 0; row < answer_rows(a); row++) {
    answer_unit_t unit = answer_at(a, row, column)->unit;
    if (unit != ANSWER_NULL) return words[unit];
  }
  return words[ANSWER_TEXT];
}

static json_object *columns_json(const answer_t *a) {
  json_object *columns = json_object_new_array();
  for (size_t i = 0; i < a->columns.count; i++) {
    json_object *column = json_new_object();
    json_add_text(column, "name", a->columns.items[i]);
    json_add_text(column, "unit", unit_word(a, i));
    json_object_array_add(columns, column);
  }
  return columns;
}

static json_object *rows_json(const answer_t *a) {
  json_object *rows = json_object_new_array();
  for (size_t row = 0; row < answer_rows(a); row++) {
    json_object *cells = json_object_new_array();
    for (size_t i = 0; i < a->columns.count; i++)
      json_object_array_add(cells, answer_cell_json(answer_at(a, row, i)));
    json_object_array_add(rows, cells);
  }
  return rows;
}

/* ---- names --------------------------------------------------------------------------------- */

static size_t column_named(const answer_t *a, const char *name) {
  size_t column = 0;
  while (column < a->columns.count && strcmp(a->columns.items[column], name) != 0)
    column++;
  return column;
}

/* The short forms of the names of functions, by name, where they differ. */
static json_object *short_json(const answer_t *a) {
  json_object *names = json_new_object();
  size_t column = column_named(a, "function");
  for (size_t row = 0; column < a->columns.count && row < answer_rows(a); row++) {
    const char *name = answer_at(a, row, column)->text;
    size_t size = name ? SHORT_NAME_SIZE(strlen(name)) : 0;
    char *text = name ? malloc(size) : NULL;
    if (!text) continue;
    if (strcmp(short_name(name, PAGE_NAME_COLUMNS, text, size), name) != 0)
      json_object_object_add(names, name, json_new_text(text));
    free(text);
  }
  return names;
}

/* ---- frames ------------------------------------------------------------------------------- */

/* Adds the frames of STACK unless they are there, or the store has none. */
static void add_stack(json_object *stacks, engine_t *engine, const char *stack) {
  answer_t frames = {0};
  json_object *list = NULL;
  if (json_object_object_get_ex(stacks, stack, NULL)) return;
  if (query_frames(engine, stack, &frames) && answer_rows(&frames)) list = json_object_new_array();
  for (size_t row = 0; list && row < answer_rows(&frames); row++) {
    json_object *frame = json_new_object();
    for (size_t i = 0; i < frames.columns.count; i++)
      json_object_object_add(frame, frames.columns.items[i],
                             answer_cell_json(answer_at(&frames, row, i)));
    json_object_array_add(list, frame);
  }
  if (list) json_object_object_add(stacks, stack, list);
  answer_free(&frames);
}

static json_object *stacks_json(const answer_t *a, const answer_page_t *page, engine_t *engine) {
  json_object *stacks = json_new_object();
  size_t column = column_named(a, "stack");
  for (size_t row = 0; column < a->columns.count && row < answer_rows(a); row++) {
    const char *stack = answer_at(a, row, column)->text;
    if (stack) add_stack(stacks, engine, stack);
  }
  if (page->stack) add_stack(stacks, engine, page->stack);
  return stacks;
}

/* ---- the page ----------------------------------------------------------------------------- */

static char *text_of(const answer_t *a) {
  char *text = NULL;
  size_t size;
  FILE *memory = open_memstream(&text, &size);
  if (!memory) return NULL;
  answer_print_text(a, 0, memory);
  return fclose(memory) == 0 ? text : NULL;
}

int answer_write_page(const answer_t *a, const answer_page_t *page, engine_t *engine, FILE *out) {
  char *text = text_of(a);
  if (!text) return SONDE_ENOMEM;
  json_object *data = json_new_object();
  json_add_text(data, "query", page->title);
  json_add_text(data, "store", page->store);
  json_object_object_add(data, "columns", columns_json(a));
  json_object_object_add(data, "rows", rows_json(a));
  json_object_object_add(data, "short", short_json(a));
  json_object_object_add(data, "stacks", stacks_json(a, page, engine));
  int status = page_write_answer(page->title, text, data, out);
  json_object_put(data);
  free(text);
  return status;
}
