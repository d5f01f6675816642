/* SPDX-License-Identifier: MIT */
#include "report/table.h"
#include "base/wrap.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "report/json.h"
#include "symbol/short_name.h"

enum { CELL_BYTES = REPORT_NAME_MAX + 512, COLUMNS_MAX = 24 };

void table_hide(column_t *columns, const char *name) {
  for (column_t *c = columns; c->unit; c++)
    if ((c->key && !strcmp(c->key, name)) || (c->heading && !strcmp(c->heading, name)))
      c->key = c->heading = NULL;
}

/* ---- values ------------------------------------------------------------------------------- */

static uint64_t integer_at(const void *row, size_t offset, size_t bytes) {
  const char *field = (const char *)row + offset;
  uint64_t wide = 0;
  uint32_t narrow;
  if (bytes == sizeof narrow) {
    memcpy(&narrow, field, sizeof narrow);
    return narrow;
  }
  memcpy(&wide, field, bytes < sizeof wide ? bytes : sizeof wide);
  return wide;
}

static double double_of(const column_t *c, const void *row) {
  double value;
  if (!c->is_double) return (double)integer_at(row, c->offset, c->bytes);
  memcpy(&value, (const char *)row + c->offset, sizeof value);
  return value;
}

static uint64_t integer_of(const column_t *c, const void *row) {
  if (!c->is_double) return integer_at(row, c->offset, c->bytes);
  double value = double_of(c, row);
  return value > 0 && value < 9e18 ? (uint64_t)(value + 0.5) : 0;
}

static const void *pointer_of(const column_t *c, const void *row) {
  const void *pointer;
  memcpy(&pointer, (const char *)row + c->offset, sizeof pointer);
  return pointer;
}

static counts_t counts_at(const column_t *c, const void *row) {
  counts_t counts;
  memcpy(&counts, (const char *)row + c->offset, sizeof counts);
  return counts;
}

static double base_of(const table_t *t, const column_t *c, const void *row) {
  return (double)(c->base ? integer_at(row, c->base - 1u, sizeof(uint64_t)) : t->whole);
}

static const void *row_of(const table_t *t, size_t i) {
  return (const char *)t->rows + (t->order ? t->order[i] : i) * t->row_bytes;
}

/* ---- text --------------------------------------------------------------------------------- */

/* Whether the events of THREAD's stream are those of signal handlers that interrupted it while it
 * wrote another event (docs/format.md): the odd levels. */
static bool in_handlers(const record_thread_t *thread) { return thread->level & 1; }

static void put_thread(const report_t *r, uint32_t stream, char *out) {
  const record_thread_t *thread = reader_thread(r->reader, stream);
  if (thread)
    snprintf(out, CELL_BYTES, "%" PRIu32 " %s%s", thread->tid, plain_text(thread->name),
             in_handlers(thread) ? " (in its signal handlers)" : "");
  else
    snprintf(out, CELL_BYTES, "[a thread that is not in the recording]");
}

/* ROOM is the width of the cell. */
static void put_function(const report_t *r, const frame_name_t *name, int room, char *out) {
  char text[REPORT_NAME_MAX] = "[no stack]";
  char place[PATH_MAX + 32] = "";
  if (name && name->file && (name->own || !*name->library))
    report_place(r, name, place, sizeof place);
  else if (name && name->known && *name->library)
    snprintf(place, sizeof place, "  %s", plain_text(name->library));
  room -= (int)strlen(place);
  snprintf(out, CELL_BYTES, "%s%s%s%s", name ? report_name(r, name, room, text) : text, r->dim,
           place, r->plain);
}

static void put_name(const report_t *r, const char *function, int room, char *out) {
  report_name(r, &(frame_name_t){.function = function, .known = true}, room, out);
}

static void put_stack(const report_t *r, uint32_t stack, int room, char *out) {
  const frame_name_t *owner = r->brief && stack ? frame_names_owner(r->names, stack) : NULL;
  if (owner)
    put_function(r, owner, room, out);
  else if (stack)
    snprintf(out, CELL_BYTES, "stack %" PRIu32, stack);
  else
    snprintf(out, CELL_BYTES, "[no stack]");
}

static void put_cell(const report_t *r, const table_t *t, const column_t *c, const void *row,
                     int room, char *out) {
  uint64_t n = integer_of(c, row);
  double base = base_of(t, c, row);
  switch (c->unit) {
  case UNIT_COUNT: report_count(n, out); break;
  case UNIT_CHANGE: snprintf(out, CELL_BYTES, "%+" PRId64, (int64_t)n); break;
  case UNIT_ID: snprintf(out, CELL_BYTES, "%" PRIu64, n); break;
  case UNIT_BYTES: report_bytes((int64_t)n, out); break;
  case UNIT_BLOCKS: report_bytes((int64_t)counts_at(c, row).bytes, out); break;
  case UNIT_NS: report_duration(double_of(c, row), out); break;
  case UNIT_SECONDS: snprintf(out, CELL_BYTES, "%.3f s", (double)n / 1e9); break;
  case UNIT_TICKS:
    snprintf(out, CELL_BYTES, "%.3f s", (double)reader_ns(r->reader, n) / 1e9);
    break;
  case UNIT_SHARE:
    snprintf(out, CELL_BYTES, "%.1f %%", base > 0 ? 100 * (double)(int64_t)n / base : 0);
    break;
  case UNIT_ERROR: report_error((double)n, base, out); break;
  case UNIT_RATE: snprintf(out, CELL_BYTES, "%.1f", base > 0 ? 1e9 * (double)n / base : 0); break;
  case UNIT_ADDRESS: snprintf(out, CELL_BYTES, "0x%" PRIx64, n); break;
  case UNIT_TEXT: snprintf(out, CELL_BYTES, "%s", plain_text(pointer_of(c, row))); break;
  case UNIT_NAME: put_name(r, pointer_of(c, row), room, out); break;
  case UNIT_STREAM: put_thread(r, (uint32_t)n, out); break;
  case UNIT_FUNCTION: put_function(r, pointer_of(c, row), room, out); break;
  case UNIT_STACK: put_stack(r, (uint32_t)n, room, out); break;
  case UNIT_FLAG:
  case UNIT_FRAMES:
  case UNIT_END: *out = 0; break;
  }
}

static int width_of(const char *text) { return (int)wrap_columns(text, strlen(text)); }

static bool is_left_aligned(const column_t *c) { return c->unit >= UNIT_TEXT; }

static bool is_last(const column_t *c) {
  while ((++c)->unit)
    if (c->heading) return false;
  return true;
}

static void print_cell(const column_t *c, const char *text, int width, FILE *out) {
  int padding = width - width_of(text);
  if (padding < 0 || (is_left_aligned(c) && is_last(c))) padding = 0;
  fprintf(out, "  %*s%s%*s", is_left_aligned(c) ? 0 : padding, "", text,
          is_left_aligned(c) ? padding : 0, "");
}

static bool is_name(const column_t *c) {
  return c->unit == UNIT_FUNCTION || c->unit == UNIT_NAME || c->unit == UNIT_STACK;
}

enum { SUMMED_BYTES = 1024, WORD = sizeof(uint64_t) };

static bool is_additive(const column_t *c) {
  return c->heading && !c->base && !c->is_double && c->bytes % WORD == 0 &&
         (c->unit == UNIT_COUNT || c->unit == UNIT_BYTES || c->unit == UNIT_BLOCKS ||
          c->unit == UNIT_SECONDS || c->unit == UNIT_SHARE);
}

/* Adds the fields of columns that can be added, each once, over all rows to the row SUM. */
static void add_rows(const table_t *t, uint64_t *sum) {
  bool added[SUMMED_BYTES / WORD] = {false};
  for (const column_t *c = t->columns; c->unit; c++)
    for (size_t at = c->offset / WORD; is_additive(c) && at < (c->offset + c->bytes) / WORD; at++) {
      for (size_t i = 0; !added[at] && i < t->count; i++)
        sum[at] += integer_at((const char *)t->rows + i * t->row_bytes, at * WORD, WORD);
      added[at] = true;
    }
}

/* Sets the widths of all columns, and the room for a name in the last column. */
static int measure(const report_t *r, const table_t *t, size_t most, const uint64_t *sum,
                   int *widths) {
  enum { NAME_COLUMNS = 40 }; /* a name that is not the last column */
  char cell[CELL_BYTES];
  int room = (int)r->columns;
  for (int k = 0; t->columns[k].unit; k++) {
    const column_t *c = &t->columns[k];
    widths[k] = c->heading ? width_of(c->heading) : 0;
    if (is_name(c) && is_last(c)) continue;
    for (size_t i = 0; c->heading && i < t->count && i < most; i++) {
      put_cell(r, t, c, row_of(t, i), NAME_COLUMNS, cell);
      if (width_of(cell) > widths[k]) widths[k] = width_of(cell);
    }
    if (sum && is_additive(c)) {
      put_cell(r, t, c, sum, NAME_COLUMNS, cell);
      if (width_of(cell) > widths[k]) widths[k] = width_of(cell);
    }
    if (c->heading) room -= 2 + widths[k];
  }
  return room - 2;
}

static void print_row(const report_t *r, const table_t *t, const void *row, const int *widths,
                      int room, FILE *out) {
  char cell[CELL_BYTES];
  uint32_t stack = 0;
  for (int k = 0; t->columns[k].unit; k++) {
    const column_t *c = &t->columns[k];
    if (c->unit == UNIT_FRAMES) stack = (uint32_t)integer_of(c, row);
    if (!c->heading) continue;
    put_cell(r, t, c, row, is_last(c) ? room : widths[k], cell);
    print_cell(c, cell, widths[k], out);
    if (c->unit == UNIT_STACK) stack = (uint32_t)integer_of(c, row);
  }
  fputc('\n', out);
  if (stack && !r->brief) report_stack_text(r, stack, out);
}

/* ---- the row of sums ---------------------------------------------------------------------- */

/* Returns whether it says how many rows are not shown: a narrow last column has no room for that.
 */
static bool print_sum(const report_t *r, const table_t *t, size_t most, const char *what,
                      const uint64_t *sum, const int *widths, int room, FILE *out) {
  char cell[CELL_BYTES];
  bool told = t->count <= most;
  for (int k = 0; t->columns[k].unit; k++) {
    const column_t *c = &t->columns[k];
    if (!c->heading) continue;
    *cell = 0;
    if (is_last(c) && t->count > most) {
      snprintf(cell, sizeof cell, "all %zu %s, %zu not shown", t->count, what, t->count - most);
      told = !r->columns || width_of(cell) <= room;
    }
    if (is_last(c) && (t->count <= most || !told))
      snprintf(cell, sizeof cell, "all %zu %s", t->count, what);
    if (!is_last(c) && is_additive(c)) put_cell(r, t, c, sum, widths[k], cell);
    print_cell(c, cell, widths[k], out);
  }
  fputc('\n', out);
  return told;
}

void table_text(const report_t *r, const table_t *t, size_t most, const char *what, FILE *out) {
  int widths[COLUMNS_MAX];
  uint64_t sum[SUMMED_BYTES / WORD] = {0};
  bool summed = t->summed && t->count > 1 && t->row_bytes <= SUMMED_BYTES;
  if (summed) add_rows(t, sum);
  int room = measure(r, t, most, summed ? sum : NULL, widths);
  fputs(r->dim, out);
  for (int k = 0; t->columns[k].unit; k++)
    if (t->columns[k].heading) print_cell(&t->columns[k], t->columns[k].heading, widths[k], out);
  fprintf(out, "%s\n", r->plain);
  for (size_t i = 0; i < t->count && i < most; i++)
    print_row(r, t, row_of(t, i), widths, room, out);
  bool told = summed ? print_sum(r, t, most, what, sum, widths, room, out) : t->count <= most;
  if (!told) report_more(r, t->count - most, what, out);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void add_stream(const report_t *r, uint32_t stream, json_object *o) {
  const record_thread_t *thread = reader_thread(r->reader, stream);
  if (!thread) return;
  json_add_count(o, "tid", thread->tid);
  json_add_text(o, "name", thread->name);
  if (in_handlers(thread)) json_add_flag(o, "in_signal_handler", true);
}

static void add_stack(const report_t *r, const column_t *c, uint32_t stack, json_object *o) {
  bool complete;
  if (!stack && c->optional) return;
  json_add_count(o, c->key, stack);
  json_add(o, "frames", report_frames_json(r, stack, &complete));
  json_add_flag(o, "complete", complete);
}

static void add_text(const column_t *c, const char *text, json_object *o) {
  if (!c->optional || (text && *text)) json_add_text(o, c->key, text);
}

static void add_field(const report_t *r, const column_t *c, const void *row, json_object *o) {
  uint64_t n = integer_of(c, row);
  switch (c->unit) {
  case UNIT_TEXT:
  case UNIT_NAME: add_text(c, pointer_of(c, row), o); return;
  case UNIT_FUNCTION: report_function_json(pointer_of(c, row), o); return;
  case UNIT_STREAM: add_stream(r, (uint32_t)n, o); return;
  case UNIT_STACK: add_stack(r, c, (uint32_t)n, o); return;
  case UNIT_BLOCKS: json_add(o, c->key, report_counts_json(counts_at(c, row))); return;
  default: break;
  }
  if (c->optional && !n) return;
  if (c->unit == UNIT_ADDRESS)
    json_add_address(o, c->key, n);
  else if (c->unit == UNIT_FLAG)
    json_add_flag(o, c->key, n);
  else
    json_add_count(o, c->key, c->unit == UNIT_TICKS ? reader_ns(r->reader, n) : n);
}

void table_row_json(const report_t *r, const column_t *columns, const void *row, json_object *o) {
  for (const column_t *c = columns; c->unit; c++)
    if (c->key) add_field(r, c, row, o);
}

json_object *table_json(const report_t *r, const table_t *t, size_t most) {
  json_object *list = json_new_array();
  for (size_t i = 0; i < t->count && i < most; i++) {
    json_object *o = json_new_object();
    table_row_json(r, t->columns, row_of(t, i), o);
    json_append(list, o);
  }
  return list;
}
