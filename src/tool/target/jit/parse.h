/* SPDX-License-Identifier: MIT
 *
 * The parsers of perf maps and jitdump files. They read a part of a file at a time, since the file
 * grows, and skip damaged entries.
 *
 * A perf map has lines "START SIZE name", both numbers hexadecimal (linux
 * tools/perf/Documentation/jit-interface.txt). A jitdump is a header, whose first word shows the
 * byte order, and records with their lengths (…/jitdump-specification.txt). The records of loaded
 * code (0) and of moved code (1) are used.
 */
#ifndef SONDE_TARGET_JIT_PARSE_H
#define SONDE_TARGET_JIT_PARSE_H

#include "target/jit/jit.h"

/* A parser needs no more bytes than this at once. */
#define JIT_PIECE_BYTES  (64u << 10)
#define JIT_HEADER_BYTES 40u

/* The state of a file between two parts; all zeros at first. */
typedef struct jit_parse {
  /* of a perf map: the line was too long, and its rest is skipped */
  bool in_long_line;
  /* of a jitdump: its times are of CLOCK_MONOTONIC */
  bool has_times;
} jit_parse_t;

/* Reads the lines in TEXT. Returns the bytes that are done; the rest is a line without its end. */
size_t jit_parse_perf_map(jit_parse_t *state, jit_t *jit, const char *text, size_t size);

/* Reads the header of JIT_HEADER_BYTES at DATA. Returns the offset of the first record, 0 if this
 * is no jitdump file of this byte order. *PID is that of its writer. */
uint64_t jit_parse_header(jit_parse_t *state, const uint8_t *data, uint32_t *pid);

/* Reads the records in DATA. Returns the offset from DATA of the next record: it may be behind the
 * end of DATA. 0: DATA ends within the first record, or that record is damaged. */
uint64_t jit_parse_records(const jit_parse_t *state, jit_t *jit, const uint8_t *data, size_t size);

#endif
