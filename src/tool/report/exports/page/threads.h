/* SPDX-License-Identifier: MIT
 *
 * The threads of a timeline: those with samples, waits, blocks or stalls, with the names that they
 * had last. A thread that sonde only watched from outside has no stream in the recording.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_THREADS_H
#define SONDE_REPORT_EXPORTS_PAGE_THREADS_H

#include "report/exports/page/data.h"

typedef struct page_thread {
  uint32_t tid;
  const char *name; /* "": unknown; of the recording or of the sections */
} page_thread_t;

typedef struct page_threads {
  page_thread_t *items; /* by tid */
  size_t count, capacity;
} page_threads_t;

/* Finds the threads of SOURCE. THREADS begins as zeros. False: out of memory. */
bool page_threads_find(page_threads_t *threads, const page_source_t *source);

/* The name of thread TID; "thread" if it has none. */
const char *page_threads_name(const page_threads_t *threads, uint32_t tid);
void page_threads_free(page_threads_t *threads);

#endif
