/* SPDX-License-Identifier: MIT */
#include "store/regressions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/content.h"
#include "store/queries.h"
#include "store/statistics.h"

typedef struct side {
  double count, amount, deviation; /* of all sessions together; of the amount per session */
} side_t;

typedef struct row {
  store_measure_t measure;
  int64_t signature, stack;
  side_t sides[2]; /* old, new */
  mean_change_t change;
} row_t;

typedef struct comparison {
  ARRAY(row_t) rows;
  double sessions[2][STORE_MEASURES];
  size_t tested, nameless;
} comparison_t;

/* ---- reading ------------------------------------------------------------------------------ */

static bool count_sessions(engine_t *engine, comparison_t *c, int side, int64_t build) {
  for (int m = 0; m < STORE_MEASURES; m++) {
    const store_value_t values[] = {store_integer(build), store_integer(m)};
    engine_rows_t *rows = engine_query(
        engine, "SELECT count(*) FROM sessions WHERE build = ? AND measured >> ? & 1", values, 2);
    bool good = rows && engine_step(rows) > 0;
    if (good) c->sessions[side][m] = (double)engine_value(rows, 0).integer;
    engine_rows_end(rows);
    if (!good) return false;
  }
  return true;
}

/* The standard deviation of N values, of which those that are not 0 have these sums. */
static double deviation_of(double n, double sum, double squares) {
  double variance = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0;
  return variance > squares * 1e-12 ? sqrt(variance) : 0;
}

static row_t *row_of(comparison_t *c, store_measure_t measure, int64_t signature) {
  row_t *last = c->rows.count ? &c->rows.items[c->rows.count - 1] : NULL;
  if (last && last->measure == measure && last->signature == signature) return last;
  row_t *added = ARRAY_ADD(c->rows);
  if (added) *added = (row_t){.measure = measure, .signature = signature};
  return added;
}

/* A row for each stack and cause; days have different sessions, so their squares add up. */
static bool read_rows(engine_t *engine, comparison_t *c, int64_t old_build, int64_t new_build) {
  static const char sql[] =
      "SELECT measure, signature, build = ?2, stack, sum(count), sum(amount), sum(squares)"
      " FROM totals JOIN stacks USING (stack) WHERE build IN (?1, ?2)"
      " AND measure IN (SELECT measure FROM measures) GROUP BY measure, signature, build, stack, "
      "cause"
      " ORDER BY measure, signature";
  const store_value_t builds[] = {store_integer(old_build), store_integer(new_build)};
  engine_rows_t *rows = engine_query(engine, sql, builds, 2);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    store_measure_t measure = (store_measure_t)engine_value(rows, 0).integer;
    if (measure >= STORE_MEASURES) continue;
    row_t *row = row_of(c, measure, engine_value(rows, 1).integer);
    if (!row) break;
    bool is_new = engine_value(rows, 2).integer;
    side_t *side = &row->sides[is_new];
    double amount = (double)engine_value(rows, 5).integer;
    if (is_new || !row->stack) row->stack = engine_value(rows, 3).integer;
    side->count += (double)engine_value(rows, 4).integer;
    side->amount += amount;
    side->deviation +=
        deviation_of(c->sessions[is_new][measure], amount, engine_value(rows, 6).real);
  }
  engine_rows_end(rows);
  return step == 0;
}

/* ---- frames without names ----------------------------------------------------------------- */

enum { OF_OLD = 1, OF_NEW = 2, OF_BOTH = OF_OLD | OF_NEW };

typedef struct frame {
  uint64_t image;
  bool is_named;
} frame_t;

/* The frames of the store, and the builds that have the images. */
typedef struct frames {
  id_set_t frames, images;
  ARRAY(frame_t) facts;  /* by number in FRAMES */
  ARRAY(uint8_t) builds; /* by number in IMAGES */
} frames_t;

static void free_frames(frames_t *f) {
  id_set_free(&f->frames);
  id_set_free(&f->images);
  free(f->facts.items);
  free(f->builds.items);
}

static bool add_frame(frames_t *f, uint64_t frame, uint64_t image, bool is_named) {
  frame_t *added = ARRAY_ADD(f->facts);
  if (!added || id_set_add(&f->frames, frame) < 0) return false;
  *added = (frame_t){image, is_named};
  int is_new = id_set_add(&f->images, image);
  uint8_t *builds = is_new > 0 ? ARRAY_ADD(f->builds) : NULL;
  if (builds) *builds = 0;
  return !is_new || builds;
}

static bool read_frames(engine_t *engine, frames_t *f) {
  engine_rows_t *rows = engine_query(engine, "SELECT frame, image, label FROM frames", NULL, 0);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0)
    if (!add_frame(f, (uint64_t)engine_value(rows, 0).integer,
                   (uint64_t)engine_value(rows, 1).integer,
                   content_label_is_named((uint64_t)engine_value(rows, 2).integer)))
      break;
  engine_rows_end(rows);
  return step == 0;
}

/* NULL: a damaged database lacks the frame. */
static const frame_t *frame_at(frames_t *f, const store_value_t *stack, size_t i) {
  uint64_t id;
  memcpy(&id, (const char *)stack->bytes + i * sizeof id, sizeof id);
  int64_t number = id_set_number(&f->frames, id);
  return number >= 0 && (size_t)number < f->facts.count ? &f->facts.items[number] : NULL;
}

static bool mark_images(engine_t *engine, frames_t *f, int64_t build, uint8_t mark) {
  const store_value_t value = store_integer(build);
  engine_rows_t *rows = engine_query(
      engine, "SELECT frames FROM stacks WHERE stack IN (SELECT stack FROM totals WHERE build = ?)",
      &value, 1);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    const store_value_t stack = engine_value(rows, 0);
    for (size_t i = 0; i < stack.size / sizeof(uint64_t); i++) {
      const frame_t *frame = frame_at(f, &stack, i);
      if (frame) f->builds.items[id_set_number(&f->images, frame->image)] |= mark;
    }
  }
  engine_rows_end(rows);
  return step == 0;
}

/* Code without an image is at other addresses in each run. */
static bool is_relatable(frames_t *f, const frame_t *frame) {
  return frame &&
         (frame->is_named ||
          (frame->image && f->builds.items[id_set_number(&f->images, frame->image)] == OF_BOTH));
}

/* 1: the other build may have this stack of one build, 0: it has not, -1: failed. */
static int is_nameless(engine_t *engine, frames_t *f, int64_t stack) {
  const store_value_t value = store_integer(stack);
  engine_rows_t *rows =
      engine_query(engine, "SELECT frames FROM stacks WHERE stack = ?", &value, 1);
  int step = rows ? engine_step(rows) : -1;
  bool is = false;
  const store_value_t frames = step > 0 ? engine_value(rows, 0) : (store_value_t){0};
  for (size_t i = 0; i < frames.size / sizeof(uint64_t) && !is; i++)
    is = !is_relatable(f, frame_at(f, &frames, i));
  engine_rows_end(rows);
  return step < 0 ? -1 : is;
}

static bool remove_nameless(engine_t *engine, comparison_t *c, frames_t *f) {
  size_t kept = 0;
  int is = 0;
  for (size_t i = 0; i < c->rows.count && is >= 0; i++) {
    const row_t *row = &c->rows.items[i];
    bool of_one = row->sides[0].count == 0 || row->sides[1].count == 0;
    is = of_one ? is_nameless(engine, f, row->stack) : 0;
    if (is == 0) c->rows.items[kept++] = *row;
    c->nameless += is > 0;
  }
  c->rows.count = kept;
  return is >= 0;
}

static bool leave_out_nameless(engine_t *engine, comparison_t *c, int64_t old_build,
                               int64_t new_build) {
  frames_t f = {0};
  bool good = read_frames(engine, &f) && mark_images(engine, &f, old_build, OF_OLD) &&
              mark_images(engine, &f, new_build, OF_NEW) && remove_nameless(engine, c, &f);
  free_frames(&f);
  return good;
}

/* ---- comparing ---------------------------------------------------------------------------- */

/* Two sessions of each build are the least that has a deviation. */
static bool is_comparable(const comparison_t *c, const row_t *row) {
  return c->sessions[0][row->measure] >= 2 && c->sessions[1][row->measure] >= 2;
}

static sample_of_values_t values_of(const comparison_t *c, const row_t *row, int side) {
  double n = c->sessions[side][row->measure];
  return (sample_of_values_t){n, row->sides[side].amount / n, row->sides[side].deviation};
}

static void remove_few_sessions(comparison_t *c) {
  size_t kept = 0;
  for (size_t i = 0; i < c->rows.count; i++)
    if (is_comparable(c, &c->rows.items[i])) c->rows.items[kept++] = c->rows.items[i];
  c->rows.count = kept;
}

static void compare(comparison_t *c) {
  c->tested = c->rows.count;
  for (size_t i = 0; i < c->tested; i++) {
    row_t *row = &c->rows.items[i];
    row->change = statistics_compare(values_of(c, row, 0), values_of(c, row, 1),
                                     REGRESSIONS_LEVEL / (double)c->tested);
  }
}

/* By measure, then the largest increase first. */
static int by_change(const void *left, const void *right) {
  const row_t *a = left, *b = right;
  if (a->measure != b->measure) return a->measure < b->measure ? -1 : 1;
  if (a->change.change != b->change.change) return a->change.change > b->change.change ? -1 : 1;
  return a->signature < b->signature ? -1 : a->signature > b->signature;
}

/* ---- the answer --------------------------------------------------------------------------- */

static bool add_place(engine_t *engine, int64_t stack, answer_t *out) {
  static const char sql[] =
      "SELECT printf('%016x', stack), coalesce(" STORE_FUNCTION ", '[no stack]') FROM stacks"
      " LEFT JOIN frames f ON f.frame = site" STORE_NAMED " WHERE stack = ?";
  const store_value_t id = store_integer(stack);
  engine_rows_t *rows = engine_query(engine, sql, &id, 1);
  bool good = rows && engine_step(rows) > 0;
  for (size_t i = 0; good && i < 2; i++)
    answer_text(out, engine_value(rows, i).bytes);
  engine_rows_end(rows);
  return good;
}

static bool add_row(engine_t *engine, const comparison_t *c, const row_t *row, answer_t *out) {
  const store_measure_info_t *info = &store_measures[row->measure];
  answer_unit_t unit = !strcmp(info->unit, "ns")      ? ANSWER_NS
                       : !strcmp(info->unit, "bytes") ? ANSWER_BYTES
                                                      : ANSWER_NUMBER;
  double p = row->change.p * (double)c->tested;
  answer_text(out, info->name);
  answer_text(out, info->unit);
  for (int side = 0; side < 2; side++)
    answer_integer(out, ANSWER_COUNT, (int64_t)row->sides[side].count);
  for (int side = 0; side < 2; side++)
    answer_number(out, unit, values_of(c, row, side).mean);
  answer_number(out, unit, row->change.change);
  answer_number(out, unit, row->change.detectable);
  answer_number(out, ANSWER_PERCENT, p < 1 ? 1 - p : 0);
  return add_place(engine, row->stack, out);
}

static void add_columns(answer_t *out) {
  static const char *const names[] = {"measure",    "unit",  "old_n",    "new_n",
                                      "old",        "new",   "change",   "detectable",
                                      "confidence", "stack", "function", NULL};
  for (int i = 0; names[i]; i++)
    answer_column(out, names[i]);
}

bool regressions_find(engine_t *engine, int64_t old_build, int64_t new_build, bool all,
                      answer_t *out, regressions_t *found) {
  comparison_t c = {0};
  *found = (regressions_t){0};
  bool good = count_sessions(engine, &c, 0, old_build) &&
              count_sessions(engine, &c, 1, new_build) &&
              read_rows(engine, &c, old_build, new_build);
  remove_few_sessions(&c);
  good = good && leave_out_nameless(engine, &c, old_build, new_build);
  compare(&c);
  found->compared = c.tested;
  found->nameless = c.nameless;
  if (c.rows.count) qsort(c.rows.items, c.rows.count, sizeof *c.rows.items, by_change);
  add_columns(out);
  for (size_t i = 0; good && i < c.rows.count; i++) {
    const row_t *row = &c.rows.items[i];
    bool counts = row->change.change > 0 && row->change.p * (double)c.tested < REGRESSIONS_LEVEL;
    found->certain += counts;
    if (all || counts) good = add_row(engine, &c, row, out);
  }
  free(c.rows.items);
  return good && !out->failed;
}
