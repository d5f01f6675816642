/* SPDX-License-Identifier: MIT
 *
 * What the two halves of the Firefox export share: firefox.c writes the profile, firefox_thread.c a
 * thread of it.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_FIREFOX_WRITER_H
#define SONDE_REPORT_EXPORTS_PAGE_FIREFOX_WRITER_H

#include "base/portions.h"
#include "report/exports/page/data.h"
#include "report/exports/page/firefox_libs.h"
#include "report/exports/page/threads.h"

#define LOCK_NAME    "lock"
#define BLOCKED_NAME "blocked"
#define STALL_NAME   "stall"

/* Numbers of the page's table that a thread uses, in the order of their first use, and back. */
typedef struct subset {
  uint32_t *number; /* by number of the page, + 1; 0: not used */
  ARRAY(uint32_t) used;
} subset_t;

typedef struct firefox_writer {
  const page_source_t *source;
  page_names_t names;
  page_stream_t *out;
  subset_t nodes, frames, functions, libs, texts;
  firefox_libs_t images;
  page_threads_t threads;
  uint32_t *function_of; /* by frame: the first frame with the same function */
  portions_t sample_times;
  uint32_t tid; /* of the thread that is written */
  bool failed;
} firefox_writer_t;

/* Writes the thread TID. All stacks and texts that it uses are in the tables already. */
void firefox_put_thread(firefox_writer_t *writer, uint32_t tid, const char *name, bool is_main);

#endif
