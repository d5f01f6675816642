/* SPDX-License-Identifier: MIT */
#include "report/exports/page/blocks.h"

#include "analysis/malloc/estimate.h"

#define FIRST_UNIT_NS  UINT64_C(1024000) /* 1000 * 2^n, as the other steps */
#define FIRST_CURVE_NS UINT64_C(65536)
#define ROWS_LIMIT     200000u

/* ---- the curve ---------------------------------------------------------------------------- */

static void halve_curve(page_blocks_t *b) {
  for (size_t i = 0; i < PAGE_CURVE / 2; i++) {
    size_t a = 2 * i, c = a + 1;
    bool both = b->changed[a] && b->changed[c];
    b->largest[i] = both && b->largest[a] > b->largest[c] ? b->largest[a]
                    : b->changed[c]                       ? b->largest[c]
                                                          : b->largest[a];
    b->last[i] = b->changed[c] ? b->last[c] : b->last[a];
    b->changed[i] = b->changed[a] || b->changed[c];
  }
  memset(b->changed + PAGE_CURVE / 2, 0, PAGE_CURVE / 2 * sizeof *b->changed);
  b->curve_ns *= 2;
}

static void add_point(page_blocks_t *b, uint64_t ns, uint64_t live) {
  while (ns / b->curve_ns >= PAGE_CURVE)
    halve_curve(b);
  size_t i = (size_t)(ns / b->curve_ns);
  if (!b->changed[i] || live > b->largest[i]) b->largest[i] = live;
  b->last[i] = live;
  b->changed[i] = true;
}

/* ---- blocks ------------------------------------------------------------------------------- */

static page_row_t row_of(const replay_t *r, const live_block_t *block, uint64_t birth_us) {
  return (page_row_t){.from = birth_us * 1000,
                      .to = PAGE_NEVER,
                      .place = r->stacks[block->stack].stack,
                      .thread = block->stream,
                      .count = block->weight,
                      .amount = estimate_scale(block->size, block->weight)};
}

/* Adds the row that has waited longest, then lets ROW wait: see rows.h. */
static void add_row(page_blocks_t *b, const page_row_t *row) {
  uint64_t n = b->row_count++;
  page_waiting_t *w = &b->waiting[n % PAGE_WAITING];
  if (n >= PAGE_WAITING && !page_rows_add(&b->rows, &w->row)) b->failed = true;
  *w = (page_waiting_t){*row, page_rows_hash(&b->rows, row)};
  page_rows_fetch_slot(&b->rows, w->hash);
  if (n >= PAGE_WAITING / 2)
    page_rows_fetch_row(&b->rows, b->waiting[(n - PAGE_WAITING / 2) % PAGE_WAITING].hash);
}

static void add_waiting(page_blocks_t *b) {
  uint64_t n = b->row_count > PAGE_WAITING ? b->row_count - PAGE_WAITING : 0;
  for (; n < b->row_count; n++)
    if (!page_rows_add(&b->rows, &b->waiting[n % PAGE_WAITING].row)) b->failed = true;
}

static void on_block(void *context, const replay_t *r, const live_block_t *block, uint64_t time,
                     replay_change_t change) {
  page_blocks_t *b = context;
  uint64_t ns = reader_ns(r->reader, time);
  add_point(b, ns, r->live.bytes);
  live_block_t *birth = live_set_find(&b->births, block->address);
  if (change == REPLAY_ALLOCATED) {
    live_block_t born = {.address = block->address, .size = ns / 1000 & LIVE_SIZE_MAX};
    if (!birth && !live_set_add(&b->births, &born)) b->failed = true;
    return;
  }
  if (!birth) return;
  page_row_t row = row_of(r, block, birth->size);
  row.to = ns < row.from ? row.from : ns;
  row.kind = change == REPLAY_FREED_AT_ONCE;
  live_set_remove(&b->births, birth);
  add_row(b, &row);
}

bool page_blocks_start(page_blocks_t *b, replay_options_t *window) {
  b->rows = (page_rows_t){.unit_ns = FIRST_UNIT_NS, .limit = ROWS_LIMIT};
  b->curve_ns = FIRST_CURVE_NS;
  b->started = live_set_init(&b->births);
  window->on_block = on_block;
  window->on_block_context = b;
  window->fetched = &b->births;
  return b->started;
}

bool page_blocks_finish(page_blocks_t *b, const replay_t *r) {
  size_t at = 0;
  for (const live_block_t *block; !b->failed && (block = live_set_next(&r->blocks, &at));) {
    const live_block_t *birth = live_set_find(&b->births, block->address);
    if (!birth) continue;
    page_row_t row = row_of(r, block, birth->size);
    add_row(b, &row);
  }
  add_waiting(b);
  page_rows_sort(&b->rows);
  return !b->failed;
}

void page_blocks_free(page_blocks_t *b) {
  if (b->started) live_set_free(&b->births);
  page_rows_free(&b->rows);
}
