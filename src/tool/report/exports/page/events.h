/* SPDX-License-Identifier: MIT
 *
 * The events of a page that are not blocks: samples of CPU time, waits, time in the run queue,
 * markers and audited calls. One thread uses a page_events_t.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_EVENTS_H
#define SONDE_REPORT_EXPORTS_PAGE_EVENTS_H

#include "base/array.h"
#include "analysis/audit/audit.h"
#include "analysis/texts.h"
#include "report/exports/page/rows.h"
#include "report/frame_names.h"

/* What a thread waited for, and where. */
typedef struct page_place {
  uint32_t stack, owner; /* the thread that held the mutex; 0: unknown */
  const char *call, *what;
  uint64_t address; /* of the futex; 0: none */
  bool is_mutex;
} page_place_t;

/* Writes the name of the lock, or of the variable at the address of the futex, to OUT; the address
 * if it has none, "" without one. Returns OUT. */
char *page_place_futex(const page_place_t *place, frame_names_t *names, char *out, size_t size);

/* A marker or an audited call. */
typedef struct page_mark {
  uint64_t ns;
  uint32_t tid; /* 0: the command set it */
  const char *name;
} page_mark_t;

typedef ARRAY(page_mark_t) page_marks_t;

enum { PAGE_MARKS_MAX = 20000 };

typedef struct page_events {
  reader_t *reader;
  audit_t *audit;      /* decodes audited calls; NULL: none are recorded */
  page_rows_t samples; /* place: stack; thread: tid; count: ticks */
  page_rows_t waits;   /* place: number of a place; count: samples; amount: ns */
  page_rows_t queued;  /* per thread; count: ns on a CPU, amount: ns in the run queue */
  ARRAY(page_place_t) places;
  hash_index_t place_index;
  page_marks_t marks, calls;
  uint64_t left_out; /* marks and calls beyond the limit */
  text_copy_t *texts;
} page_events_t;

/* EVENTS begins as zeros except `reader`. False: out of memory. */
bool page_events_start(page_events_t *events);

/* Adds an event of any kind. False: out of memory. */
bool page_events_add(page_events_t *events, const record_event_t *event);

/* Sorts all rows. Call it once, after the last event. */
void page_events_finish(page_events_t *events);
void page_events_free(page_events_t *events);

#endif
