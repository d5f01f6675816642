/* SPDX-License-Identifier: MIT
 *
 * Makes a packed recording of a recording: the same chunks, compressed, which every reader of this
 * version reads as if they were not.
 */
#ifndef SONDE_ANALYSIS_SUMMARY_PACK_H
#define SONDE_ANALYSIS_SUMMARY_PACK_H

#include <stdio.h>

#include "reader/reader.h"

typedef struct pack_totals {
  uint64_t before, after; /* bytes of the chunks, with their headers */
  uint64_t left_out;      /* stacks that a summary had no room for */
  uint64_t plain;         /* packed chunks of events that only plain compression was good for */
} pack_totals_t;

typedef void (*pack_progress_fn)(void *context, uint64_t done, uint64_t total);

/* A packed recording is what pack_begin writes to OUT, then each of the process's programs, each by
 * a reader of its own (reader_open_program), in any order; TOTALS are of them all. Both return 0 or
 * a negative SONDE_E…; when it is SONDE_EIO, errno tells why. */
int pack_begin(const reader_t *reader, FILE *out, pack_totals_t *totals);
int pack_program(reader_t *reader, FILE *out, pack_totals_t *totals, pack_progress_fn progress,
                 void *context);

/* One chunk of its own: header, payload, checksum. */
int pack_write_chunk(FILE *out, chunk_header_t *header, const void *payload, size_t size);

#endif
