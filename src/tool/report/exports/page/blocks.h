/* SPDX-License-Identifier: MIT
 *
 * The blocks of a page: by stack, thread, and the times of allocation and free. With these, a page
 * finds what was allocated in any range of time, and what was live at any moment. The live bytes
 * over time are a curve of at most PAGE_CURVE points with the largest value of each step.
 *
 * One thread uses it. Memory: 38 to 77 bytes per live block, and the bound of rows.h.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_BLOCKS_H
#define SONDE_REPORT_EXPORTS_PAGE_BLOCKS_H

#include "analysis/malloc/replay.h"
#include "report/exports/page/rows.h"

enum { PAGE_CURVE = 4096, PAGE_WAITING = 16 };

/* A row that is added when its place in the table has been fetched. */
typedef struct page_waiting {
  page_row_t row;
  uint64_t hash;
} page_waiting_t;

typedef struct page_blocks {
  page_rows_t rows;  /* place: the stack's id; count in 1/WEIGHT_ONE; kind 1: temporary */
  live_set_t births; /* the size is the time of the allocation in microseconds */
  page_waiting_t waiting[PAGE_WAITING];           /* the last rows, a ring */
  uint64_t row_count;                             /* of all rows so far */
  uint64_t curve_ns;                              /* the step of the curve */
  uint64_t largest[PAGE_CURVE], last[PAGE_CURVE]; /* live bytes in each step */
  bool changed[PAGE_CURVE];
  bool started, failed;
} page_blocks_t;

/* False: out of memory. Release it with page_blocks_free in either case. */
bool page_blocks_start(page_blocks_t *blocks, replay_options_t *window);

/* Adds the blocks that are live at the end. Call it once, after the replay. False: out of memory.
 */
bool page_blocks_finish(page_blocks_t *blocks, const replay_t *replay);
void page_blocks_free(page_blocks_t *blocks);

#endif
