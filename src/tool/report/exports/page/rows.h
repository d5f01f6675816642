/* SPDX-License-Identifier: MIT
 *
 * Amounts by place, thread and time: the samples, waits and blocks of a page. Equal rows are added
 * up. Times are in steps of `unit_ns`. When there are too many rows, the step doubles, which joins
 * rows: the memory and the page stay bounded, however long the recording is, and no amount is lost.
 *
 * One thread uses a page_rows_t.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_ROWS_H
#define SONDE_REPORT_EXPORTS_PAGE_ROWS_H

#include "base/hash.h"

/* A row of which the end is not known, such as a block that is still live. */
#define PAGE_NEVER UINT64_MAX

typedef struct page_row {
  uint64_t from, to; /* in steps; TO may be PAGE_NEVER */
  uint32_t place;    /* a stack, or a place of the caller */
  uint32_t thread;   /* as the caller numbers them */
  uint32_t kind;
  uint64_t count, amount;
} page_row_t;

typedef struct page_rows {
  page_row_t *items;
  size_t count, capacity;
  hash_index_t index;
  size_t indexed;    /* the first row that the index has */
  bool is_unordered; /* a row came whose FROM is before that of the last one */
  uint64_t unit_ns;  /* the step */
  size_t limit;      /* rows that make the step double */
} page_rows_t;

/* Adds ROW, whose times are in nanoseconds. False: out of memory. */
bool page_rows_add(page_rows_t *rows, const page_row_t *row);

/* Rows of blocks come in no order, and a table of rows is larger than the caches. Prefetch the slot
 * of a row some rows before it is added, and then, when the slot is there, the row that the slot
 * has. HASH is that of the row; after a longer step it is another one, which only costs time. */
uint64_t page_rows_hash(const page_rows_t *rows, const page_row_t *row);
void page_rows_fetch_slot(const page_rows_t *rows, uint64_t hash);
void page_rows_fetch_row(const page_rows_t *rows, uint64_t hash);

/* Orders the rows by `from`. Call it once, after the last row. */
void page_rows_sort(page_rows_t *rows);
void page_rows_free(page_rows_t *rows);

#endif
