/* SPDX-License-Identifier: MIT
 *
 * Section `malloc`: totals, then what the report ranks by (live at the peak by default) by
 * function, library, thread, block size and stack. JSON: docs/json.md, "malloc".
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analysis/malloc/estimate.h"
#include "report/json.h"
#include "report/sections/malloc_totals.h"
#include "report/stacks/alike.h"
#include "report/table.h"
#include "report/tree.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 5 };

/* ---- functions, libraries, stacks --------------------------------------------------------- */

/* A row: totals of a stack, or of all stacks that a function or library owns. */
typedef struct malloc_row {
  counts_t amount;           /* by the report's measure */
  uint64_t error;            /* of its bytes, if blocks were sampled */
  const char *library;       /* of the owner */
  const frame_name_t *owner; /* the function that owns the stacks, or one in that library */
  /* What tells the owner from others, and is the same for all of the stacks. */
  const char *function, *module, *file;
  uint64_t stacks;
  stack_totals_t totals;
} malloc_row_t;

typedef enum row_kind { ROW_FUNCTION, ROW_LIBRARY, ROW_STACK } row_kind_t;

typedef struct malloc_rows {
  malloc_row_t *items;
  size_t count;
} malloc_rows_t;

static const column_t row_columns[] = {
    {NULL, "bytes", UNIT_BYTES, FIELD(malloc_row_t, amount.bytes)},
    {NULL, "share", UNIT_SHARE, FIELD(malloc_row_t, amount.bytes)},
    {"error_bytes", "error", UNIT_ERROR, FIELD(malloc_row_t, error),
     BASE(malloc_row_t, amount.bytes)},
    {NULL, "blocks", UNIT_COUNT, FIELD(malloc_row_t, amount.count)},
    {NULL, "function", UNIT_FUNCTION, FIELD(malloc_row_t, owner)},
    {"function", NULL, UNIT_NAME, FIELD(malloc_row_t, function)},
    {"module", NULL, UNIT_TEXT, FIELD(malloc_row_t, module), .optional = true},
    {"file", NULL, UNIT_TEXT, FIELD(malloc_row_t, file), .optional = true},
    {"allocated", NULL, UNIT_BLOCKS, FIELD(malloc_row_t, totals.allocated)},
    {"peak", NULL, UNIT_BLOCKS, FIELD(malloc_row_t, totals.at_peak)},
    {"live", NULL, UNIT_BLOCKS, FIELD(malloc_row_t, totals.live)},
    {"live_at_start", NULL, UNIT_BLOCKS, FIELD(malloc_row_t, totals.at_start)},
    {"temporary", NULL, UNIT_COUNT, FIELD(malloc_row_t, totals.temporary)},
    {"stacks", NULL, UNIT_COUNT, FIELD(malloc_row_t, stacks)},
    {0}};
enum { COLUMNS = sizeof row_columns / sizeof *row_columns };
enum {
  COLUMN_AMOUNT,
  COLUMN_SHARE,
  COLUMN_ERROR,
  COLUMN_BLOCKS,
  COLUMN_OWNER,
  COLUMN_FUNCTION,
  COLUMN_FILE = COLUMN_FUNCTION + 2,
  COLUMN_LAST = COLUMNS - 2
};

static void make_columns(const report_t *r, row_kind_t kind, column_t *out) {
  const measure_t measure = r->measure;
  memcpy(out, row_columns, sizeof row_columns);
  if (r->replay->sample_bytes <= 1) table_hide(out, "error_bytes");
  if (measure == MEASURE_GROWTH) out[COLUMN_BLOCKS].unit = UNIT_CHANGE;
  if (measure == MEASURE_TEMPORARY) {
    out[COLUMN_AMOUNT].heading = "allocations";
    out[COLUMN_AMOUNT].unit = UNIT_COUNT;
    out[COLUMN_BLOCKS].heading = NULL;
  }
  if (kind != ROW_FUNCTION)
    for (int i = COLUMN_FUNCTION; i <= COLUMN_FILE; i++)
      out[i].key = NULL;
  if (kind == ROW_LIBRARY)
    out[COLUMN_OWNER] = (column_t){"module", "library", UNIT_TEXT, FIELD(malloc_row_t, library)};
  if (kind == ROW_STACK) {
    out[COLUMN_OWNER] = (column_t){"stack", "stack", UNIT_STACK, FIELD(malloc_row_t, totals.stack)};
    out[COLUMN_LAST] = (column_t){"frees", NULL, UNIT_COUNT, FIELD(malloc_row_t, totals.frees)};
  }
  malloc_hide_unknown(r, out);
}

static uint64_t whole_of(const replay_t *p, measure_t measure) {
  switch (measure) {
  case MEASURE_PEAK: return p->at_peak.bytes;
  case MEASURE_LIVE: return p->live.bytes;
  case MEASURE_TEMPORARY: return p->temporary;
  case MEASURE_GROWTH: {
    int64_t growth = (int64_t)(p->live.bytes - p->at_start.bytes);
    return (uint64_t)(growth < 0 ? -growth : growth);
  }
  default: return p->allocated.bytes;
  }
}

/* Allocates COUNT rows. */
static bool start_rows(malloc_rows_t *rows, size_t count) {
  *rows = (malloc_rows_t){.count = count};
  rows->items = calloc(rows->count + 1, sizeof *rows->items);
  return rows->items != NULL;
}

static const frame_name_t *owner_of(const report_t *r, const stack_totals_t *s) {
  static const frame_name_t unknown = {.function = "[a stack that is not in the recording]",
                                       .library = "[a stack that is not in the recording]"};
  const frame_name_t *owner = frame_names_owner(r->names, s->stack);
  return owner ? owner : &unknown;
}

static const char *library_of(const frame_name_t *owner) {
  if (owner->python) return "[Python]";
  return *owner->library ? owner->library : "[no library]";
}

static malloc_row_t row_of(const report_t *r, const stack_totals_t *totals, uint64_t stacks) {
  const frame_name_t *owner = owner_of(r, totals);
  counts_t amount = counts_of(totals, r->measure);
  uint64_t error = estimate_error(amount, r->replay->sample_bytes).bytes;
  bool in_file = !*owner->library && owner->file;
  return (malloc_row_t){amount,
                        error,
                        library_of(owner),
                        owner,
                        owner->function,
                        owner->library,
                        in_file ? owner->file : NULL,
                        stacks,
                        *totals};
}

static bool add_to_group(aggregate_t *groups, const report_t *r, row_kind_t kind,
                         const stack_totals_t *s) {
  const frame_name_t *owner = owner_of(r, s);
  if (kind == ROW_LIBRARY) return aggregate_add(groups, library_of(owner), "", s);
  return aggregate_add(groups, owner->function, frame_name_home(owner), s);
}

static bool make_groups(const report_t *r, row_kind_t kind, malloc_rows_t *out) {
  aggregate_t groups = {0};
  bool good = true;
  for (size_t i = 0; good && i < r->replay->stack_count; i++) {
    const stack_totals_t *s = &r->replay->stacks[i];
    good = !measure_of(s, r->measure) || add_to_group(&groups, r, kind, s);
  }
  if (good) aggregate_rank(&groups, r->measure);
  good = good && start_rows(out, groups.count);
  for (size_t i = 0; good && i < out->count; i++) {
    const aggregate_row_t *g = &groups.items[i];
    out->items[i] = row_of(r, &g->totals, g->stacks);
  }
  aggregate_free(&groups);
  return good;
}

static bool make_stacks(const report_t *r, malloc_rows_t *out) {
  uint32_t *ranked;
  ptrdiff_t count = rank_stacks(r->replay, r->measure, &ranked);
  if (count < 0) return false;
  bool good = start_rows(out, (size_t)count);
  for (size_t i = 0; good && i < out->count; i++)
    out->items[i] = row_of(r, &r->replay->stacks[ranked[i]], 1);
  free(ranked);
  return good;
}

static int by_amount(const void *left, const void *right) {
  const malloc_row_t *a = left, *b = right;
  int64_t x = (int64_t)a->amount.bytes, y = (int64_t)b->amount.bytes;
  if (x != y) return x > y ? -1 : 1;
  return a->totals.stack < b->totals.stack ? -1 : a->totals.stack > b->totals.stack;
}

/* Stacks that are printed alike become one row: for people, not for JSON. */
static bool merge_alike(const report_t *r, malloc_rows_t *rows) {
  alike_t groups = {0};
  size_t group, kept = 0;
  bool good = true;
  for (size_t i = 0; i < rows->count && good; i++) {
    malloc_row_t row = rows->items[i], *to;
    good = alike_add(&groups, r, row.totals.stack, "", &group);
    if (!good) break;
    to = &rows->items[group];
    if (group == kept) {
      rows->items[kept++] = row;
      continue;
    }
    stack_totals_add(&to->totals, &row.totals);
    *to = row_of(r, &to->totals, to->stacks + 1);
  }
  if (good) rows->count = kept;
  alike_free(&groups);
  if (good && rows->count) qsort(rows->items, rows->count, sizeof *rows->items, by_amount);
  return good;
}

/* False: out of memory. The caller frees ROWS->items in any case. */
static bool make_rows(const report_t *r, row_kind_t kind, malloc_rows_t *rows) {
  *rows = (malloc_rows_t){0};
  return kind == ROW_STACK ? make_stacks(r, rows) : make_groups(r, kind, rows);
}

static table_t table_of(const report_t *r, const malloc_rows_t *rows, const column_t *columns) {
  return (table_t){TABLE(columns, rows->items, rows->count), .summed = true,
                   .whole = whole_of(r->replay, r->measure)};
}

static const char *title_of(const replay_t *p, measure_t measure) {
  static const char *const titles[MEASURE_COUNT] = {"live at the peak", "never freed",
                                                    "allocated in all", "temporary allocations",
                                                    "growth over the window"};
  return measure == MEASURE_PEAK && has_snapshots_only(p) ? "live in the largest snapshot"
                                                          : titles[measure];
}

/* What the numbers below a title cover. */
static const char *note_of(const report_t *r) {
  bool live = r->measure == MEASURE_PEAK || r->measure == MEASURE_LIVE;
  if (live && malloc_covered_from(r)) return ", of the blocks allocated in the time covered";
  return r->replay->sample_bytes ? " (estimated)" : "";
}

static int print_rows(const report_t *r, row_kind_t kind, FILE *out) {
  static const char *const names[] = {"function", "library", "stack"};
  static const char *const plurals[] = {"functions", "libraries", "stacks"};
  malloc_rows_t rows;
  column_t columns[COLUMNS];
  bool good = make_rows(r, kind, &rows) && (kind != ROW_STACK || merge_alike(r, &rows));
  make_columns(r, kind, columns);
  const table_t table = table_of(r, &rows, columns);
  if (good && (rows.count || !malloc_covered_from(r))) {
    fprintf(out, "%s%s%s, by %s%s%s\n", report_gap(r), r->bold, title_of(r->replay, r->measure),
            names[kind], note_of(r), r->plain);
    table_text(r, &table, report_rows(r, BRIEF_ROWS), plurals[kind], out);
  }
  free(rows.items);
  return good ? 0 : SONDE_ENOMEM;
}

static bool add_rows_json(const report_t *r, row_kind_t kind, const char *key, json_object *o) {
  malloc_rows_t rows;
  column_t columns[COLUMNS];
  bool good = make_rows(r, kind, &rows);
  make_columns(r, kind, columns);
  const table_t table = table_of(r, &rows, columns);
  if (good && kind == ROW_STACK) json_add_count(o, "stack_count", rows.count);
  if (good) json_add(o, key, table_json(r, &table, r->top));
  free(rows.items);
  return good;
}

/* ---- threads and sizes -------------------------------------------------------------------- */

static const column_t thread_columns[] = {
    {"allocated", "allocated", UNIT_BLOCKS, FIELD(thread_totals_t, allocated)},
    {NULL, "calls", UNIT_COUNT, FIELD(thread_totals_t, allocated.count)},
    {"frees", "frees", UNIT_COUNT, FIELD(thread_totals_t, frees)},
    {"live", "never freed", UNIT_BLOCKS, FIELD(thread_totals_t, live)},
    {"tid", "thread", UNIT_STREAM, FIELD(thread_totals_t, stream)},
    {0}};

/* A class of block sizes: LOW to HIGH bytes. */
typedef struct size_row {
  uint64_t low;
  const char *range;
  size_totals_t totals;
} size_row_t;

static const column_t size_columns[] = {
    {"allocations", "allocations", UNIT_COUNT, FIELD(size_row_t, totals.allocated.count)},
    {"bytes", "bytes", UNIT_BYTES, FIELD(size_row_t, totals.allocated.bytes)},
    {"live", "never freed", UNIT_BLOCKS, FIELD(size_row_t, totals.live)},
    {NULL, "size in bytes", UNIT_TEXT, FIELD(size_row_t, range)},
    {"at_least", NULL, UNIT_COUNT, FIELD(size_row_t, low)},
    {0}};

enum { SIZE_COLUMNS = sizeof size_columns / sizeof *size_columns };

static void make_size_columns(const report_t *r, column_t *out) {
  memcpy(out, size_columns, sizeof size_columns);
  malloc_hide_unknown(r, out);
  if (has_snapshots_only(r->replay)) table_hide(out, "bytes");
}

static size_t make_sizes(const replay_t *p, size_row_t *rows, char (*ranges)[56]) {
  size_t count = 0;
  for (unsigned i = 0; i < SIZE_CLASSES; i++) {
    char low[24], high[24];
    if (!p->sizes[i].allocated.count && !p->sizes[i].live.count) continue;
    uint64_t from = i ? UINT64_C(1) << i : 0;
    if (i + 1 == SIZE_CLASSES)
      snprintf(ranges[count], sizeof *ranges, "%s and more", report_count(from, low));
    else
      snprintf(ranges[count], sizeof *ranges, "%s to %s", report_count(from, low),
               report_count((UINT64_C(2) << i) - 1, high));
    rows[count] = (size_row_t){from, ranges[count], p->sizes[i]};
    count++;
  }
  return count;
}

static int print_threads(const report_t *r, FILE *out) {
  uint32_t *ranked;
  ptrdiff_t count = rank_threads(r->replay, &ranked);
  if (count < 0) return SONDE_ENOMEM;
  column_t columns[sizeof thread_columns / sizeof *thread_columns];
  memcpy(columns, thread_columns, sizeof columns);
  malloc_hide_unknown(r, columns);
  const table_t table = {TABLE(columns, r->replay->threads, (size_t)count), .order = ranked,
                         .summed = (size_t)count == r->replay->thread_count};
  fprintf(out, "\n%sby thread%s%s\n", r->bold, r->replay->sample_bytes ? " (estimated)" : "",
          r->plain);
  table_text(r, &table, r->top, "threads", out);
  free(ranked);
  return 0;
}

static void print_sizes(const report_t *r, FILE *out) {
  size_row_t rows[SIZE_CLASSES];
  char ranges[SIZE_CLASSES][56];
  column_t columns[SIZE_COLUMNS];
  make_size_columns(r, columns);
  const table_t table = {TABLE(columns, rows, make_sizes(r->replay, rows, ranges))};
  fprintf(out, "\n%sby block size%s%s\n", r->bold, r->replay->sample_bytes ? " (estimated)" : "",
          r->plain);
  table_text(r, &table, SIZE_CLASSES, "", out);
}

/* ---- invalid frees ------------------------------------------------------------------------ */

static const column_t invalid_columns[] = {
    {"address", NULL, UNIT_ADDRESS, FIELD(invalid_free_t, address)},
    {"twice", NULL, UNIT_FLAG, FIELD(invalid_free_t, twice)},
    {"time_ns", NULL, UNIT_TICKS, FIELD(invalid_free_t, time)},
    {"stack", NULL, UNIT_STACK, FIELD(invalid_free_t, stack)},
    {0}};

static void print_invalid_frees(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  if (!p->invalid_free_count) return;
  fprintf(out, "\n%sinvalid frees%s\n", r->bold, r->plain);
  for (uint32_t i = 0; i < p->invalid_free_count; i++) {
    const invalid_free_t *f = &p->invalid_frees[i];
    fprintf(out, "  0x%" PRIx64 " %s, %.6f s after the start, stack %" PRIu32 "\n", f->address,
            f->twice ? "freed twice" : "never allocated",
            (double)reader_ns(r->reader, f->time) / 1e9, f->stack);
    report_stack_text(r, f->stack, out);
  }
  uint64_t all = p->unknown_frees + p->double_frees;
  if (all > p->invalid_free_count)
    fprintf(out, "  … and %" PRIu64 " more\n", all - p->invalid_free_count);
}

/* ---- text --------------------------------------------------------------------------------- */

static bool fill_tree(tree_t *tree, const void *context) {
  const report_t *r = context;
  bool good = true;
  for (size_t i = 0; good && i < r->replay->stack_count; i++) {
    const stack_totals_t *s = &r->replay->stacks[i];
    counts_t c = counts_of(s, r->measure);
    if (c.bytes) good = tree_add(tree, s->stack, (int64_t)c.bytes, (int64_t)c.count);
  }
  return good;
}

static int print_lists(const report_t *r, FILE *out) {
  print_invalid_frees(r, out);
  int status = print_rows(r, ROW_FUNCTION, out);
  if (status == 0) status = print_rows(r, ROW_LIBRARY, out);
  if (status == 0) status = print_threads(r, out);
  if (status < 0) return status;
  print_sizes(r, out);
  return print_rows(r, ROW_STACK, out);
}

static int print_text(const report_t *r, void *state, FILE *out) {
  (void)state;
  fprintf(out, "\n%sallocations%s\n", r->bold, r->plain);
  malloc_totals_text(r, out);
  if (r->measure == MEASURE_TEMPORARY && r->replay->sample_bytes) {
    fprintf(out, "  temporary  unknown: blocks were sampled; record with '--malloc=all'\n");
    return 0;
  }
  if (r->tree)
    return tree_print(r, fill_tree, r, title_of(r->replay, r->measure),
                      r->measure == MEASURE_TEMPORARY ? "" : NULL, out);
  return r->brief ? print_rows(r, ROW_FUNCTION, out) : print_lists(r, out);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static bool add_lists(const report_t *r, json_object *o) {
  const replay_t *p = r->replay;
  size_row_t sizes[SIZE_CLASSES];
  char ranges[SIZE_CLASSES][56];
  uint32_t *ranked;
  ptrdiff_t threads = rank_threads(p, &ranked);
  if (threads < 0) return false;
  column_t columns[SIZE_COLUMNS], own[sizeof thread_columns / sizeof *thread_columns];
  make_size_columns(r, columns);
  memcpy(own, thread_columns, sizeof own);
  malloc_hide_unknown(r, own);
  const table_t by_thread = {TABLE(own, p->threads, (size_t)threads), .order = ranked};
  const table_t by_size = {TABLE(columns, sizes, make_sizes(p, sizes, ranges))};
  const table_t invalid = {TABLE(invalid_columns, p->invalid_frees, p->invalid_free_count)};
  json_add(o, "invalid_frees", table_json(r, &invalid, SIZE_MAX));
  json_add(o, "sizes", table_json(r, &by_size, SIZE_MAX));
  json_add(o, "threads", table_json(r, &by_thread, SIZE_MAX));
  free(ranked);
  return add_rows_json(r, ROW_FUNCTION, "functions", o) &&
         add_rows_json(r, ROW_LIBRARY, "libraries", o) && add_rows_json(r, ROW_STACK, "stacks", o);
}

static json_object *make_json(const report_t *r, void *state) {
  (void)state;
  json_object *o = json_new_object();
  malloc_totals_json(r, o);
  json_add_text(o, "ranked_by", measure_name(r->measure));
  if (r->tree) tree_add_json(r, fill_tree, r, o);
  if (add_lists(r, o)) return o;
  json_object_put(o);
  return NULL;
}

/* ---- the section -------------------------------------------------------------------------- */

static bool has_data(const report_t *r, void *state) {
  (void)state;
  return r->replay->events || r->replay->snapshots;
}

const report_section_t section_malloc = {.name = "malloc",
                                         .option = "--malloc",
                                         .mode = RECORD_ANY_BLOCKS,
                                         .has_data = has_data,
                                         .text = print_text,
                                         .json = make_json};
