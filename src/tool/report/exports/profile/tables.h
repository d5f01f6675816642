/* SPDX-License-Identifier: MIT
 *
 * The tables that profiles refer to: strings, functions, mappings, locations and stacks, each once.
 * pprof.c and otlp.c write them. An index counts from 1; 0 is none. Strings count from 0, and
 * string 0 is empty.
 */
#ifndef SONDE_REPORT_EXPORTS_PROFILE_TABLES_H
#define SONDE_REPORT_EXPORTS_PROFILE_TABLES_H

#include "base/array.h"
#include "base/hash.h"
#include "base/language.h"
#include "base/pool.h"
#include "report/frame_names.h"

typedef struct profile_function {
  uint32_t name, file; /* strings */
} profile_function_t;

typedef struct profile_mapping {
  uint64_t start, limit, offset;
  uint32_t file;        /* a string */
  const char *build_id; /* in hexadecimal; "": none */
} profile_mapping_t;

typedef struct profile_line {
  uint32_t function, line;
} profile_line_t;

typedef struct profile_location {
  uint64_t address;
  uint32_t mapping;
  uint32_t first_line, line_count; /* innermost inlined first */
  language_t language;
} profile_location_t;

typedef struct profile_stack {
  uint32_t first, depth; /* of stack_locations */
} profile_stack_t;

typedef struct profile_tables {
  const reader_t *reader;
  frame_names_t *names;
  pool_t pool;
  ARRAY(const char *) strings;
  ARRAY(profile_function_t) functions;
  ARRAY(profile_mapping_t) mappings;
  ARRAY(profile_line_t) lines;
  ARRAY(profile_location_t) locations;
  ARRAY(profile_stack_t) stacks;
  ARRAY(uint32_t) stack_locations; /* innermost first */
  hash_index_t string_index, function_index, location_index, stack_index;
  uint32_t *location_of; /* by index of the frame; 0: none yet */
  uint32_t *mapping_of;  /* by index of the image; 0: none yet */
  bool failed;           /* memory ran out */
} profile_tables_t;

/* READER and NAMES must outlive it. False: out of memory. */
bool profile_tables_start(profile_tables_t *out, const reader_t *reader, frame_names_t *names);
void profile_tables_free(profile_tables_t *tables);

/* These add what is not there and return its index. After the last call, check `failed`. A stack
 * without frames, of a thread that could not be read, is none. */
uint32_t profile_string(profile_tables_t *tables, const char *text);
uint32_t profile_stack(profile_tables_t *tables, uint32_t stack);

/* Adds the program's image: viewers take the first mapping for the program. Without the image it is
 * a name. */
void profile_program(profile_tables_t *tables);

#endif
