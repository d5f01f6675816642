/* SPDX-License-Identifier: MIT
 *
 * Packs a recording: the same chunks, compressed. Every reader of this version reads a packed
 * recording like the original.
 */
#ifndef SONDE_ANALYSIS_SUMMARY_PACK_H
#define SONDE_ANALYSIS_SUMMARY_PACK_H

#include <stdio.h>

#include "analysis/summary/pack_events.h"
#include "reader/reader.h"

typedef struct pack_totals {
  uint64_t before, after; /* bytes of the chunks with their headers */
  uint64_t left_out;      /* stacks that did not fit in a summary */
  uint64_t plain;         /* chunks of events that the column form cannot express */
} pack_totals_t;

/* The functions of a frame, to be stored: frame_names_of_frame, which is in a later module. *NAMES
 * is valid until the next call. Returns the count. */
typedef struct pack_names {
  int (*functions)(void *context, const record_frame_t *frame, const record_function_t **out);
  void *context;
} pack_names_t;

/* Appends a record of each frame's functions to OUT. FRAMES: which frames, by index; NULL: all.
 * *FROM is the first frame, 0 at first, and then the next one: OUT is filled up to about LIMIT
 * bytes. False: out of memory. */
bool pack_functions(const reader_t *reader, const pack_names_t *names, const uint8_t *frames,
                    size_t limit, size_t *from, byte_buffer_t *out);

typedef void (*pack_progress_fn)(void *context, uint64_t done, uint64_t total);

/* To pack a recording, call pack_begin, then pack_program for each program of the process, each
 * with its own reader (reader_open_program), in any order, and pack_end. TOTALS add up all
 * programs. NAMES are stored for every frame; NULL: the recording's own stored names are kept, if
 * it has any. The functions write to OUT and return 0 or a negative SONDE_E…; with SONDE_EIO errno
 * has the cause. FEATURES: RECORD_FEATURE_… bits. */
int pack_begin(const reader_t *reader, uint64_t features, FILE *out);
int pack_program(reader_t *reader, const pack_names_t *names, FILE *out, pack_totals_t *totals,
                 pack_progress_fn progress, void *context);

/* Completes the header. Without it, and if READER's file is truncated, readers say that the new
 * file is. Does nothing if OUT is a pipe. */
int pack_end(const reader_t *reader, FILE *out);

/* Writes one chunk: header, payload, checksum. */
int pack_write_chunk(FILE *out, chunk_header_t *header, const void *payload, size_t size);

#endif
