/* SPDX-License-Identifier: MIT
 *
 * The source text of a page: the lines at which the functions of its stacks are, with the lines
 * around them. Small files of the program itself are there as a whole.
 *
 * The names of the files are part of a recording, which may come from anywhere. So only regular
 * files with the suffix of a programming language are read.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_SOURCES_H
#define SONDE_REPORT_EXPORTS_PAGE_SOURCES_H

#include "report/exports/page/names.h"

/* Writes the member "sources" of an object. A file that was changed after START_NS of the system's
 * clock is marked, since its lines may be others. */
void page_sources_write(page_names_t *names, uint64_t start_ns, page_stream_t *out);

#endif
