/* SPDX-License-Identifier: MIT
 *
 * The traced calls of a page: the longest ones, which show how calls were nested, and sums of all
 * by call path, thread and time, from which the page makes the table of any range of time.
 *
 * A call takes at least as long as each call inside it. So with a call, its callers are there, too.
 *
 * One thread uses it.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_CALLS_H
#define SONDE_REPORT_EXPORTS_PAGE_CALLS_H

#include "report/exports/page/rows.h"
#include "report/report.h"

/* A row of sums is of calls that began in its step; place: the node of the call tree. */
enum { PAGE_CALLS_TOTAL, PAGE_CALLS_SELF };

typedef struct page_calls {
  trace_t trace; /* `slowest` in the order of their starts, after page_calls_finish */
  page_rows_t rows;
  bool failed; /* out of memory */
} page_calls_t;

/* Makes the section `trace` of REPORT fill CALLS, which begins as zeros, when its JSON is made. */
void page_calls_start(page_calls_t *calls, report_t *report);

/* Call it once, after that. False: out of memory. */
bool page_calls_finish(page_calls_t *calls);
void page_calls_free(page_calls_t *calls);

#endif
