/* SPDX-License-Identifier: MIT
 *
 * Functions of the last seconds, by CPU time: a window of slices, of which the oldest is dropped
 * when a new one begins. As in reports (report/sections/sample.c), a function's total counts the
 * samples in it and in what it called, once a stack; its own time includes that of the libraries
 * that it called, up to the next function of the program. Pure.
 */
#ifndef SONDE_TOP_FUNCTIONS_H
#define SONDE_TOP_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

enum { TOP_SLICES = 10 };

/* A function on a stack. */
typedef struct top_frame {
  const char *function; /* its full name; NULL: unknown */
  const char *file;     /* without its folder; NULL: unknown */
  uint32_t line;        /* 0: unknown */
  const char *library;  /* the image's file name; "": unknown */
  bool is_own;          /* of the program, not of a library, a template or a runtime */
  bool is_system;       /* of libc and its family */
} top_frame_t;

typedef struct top_function {
  char *name;
  char place[64]; /* "file.c:12", or the library */
  bool is_own;
  uint64_t total_ns, own_ns; /* of the window */
  /* ---- of this file ---- */
  uint64_t totals[TOP_SLICES], owns[TOP_SLICES];
  uint64_t last_sample;
} top_function_t;

typedef struct top_functions {
  top_function_t *items; /* without order; hidden ones have total_ns 0 */
  size_t count, capacity;
  hash_index_t index;
  uint64_t time_ns; /* of all samples in the window */
  uint64_t times[TOP_SLICES];
  uint64_t samples;
  uint32_t slice;
} top_functions_t;

typedef enum top_rank { TOP_RANK_TOTAL, TOP_RANK_OWN } top_rank_t;

/* Adds a sample of WEIGHT_NS with COUNT functions, innermost first, whose texts are copied. False:
 * out of memory. */
bool top_functions_add(top_functions_t *functions, const top_frame_t *frames, int count,
                       uint64_t weight_ns);

/* The function of a stack that its time belongs to: the innermost own one, else the innermost
 * outside the system's images, else the innermost. -1: there is none. */
int top_owner(const top_frame_t *frames, int count);

/* Writes "file.c:12", or the library, to OUT. */
void top_place(const top_frame_t *frame, char *out, size_t size);

/* Begins a new slice and drops the oldest. */
void top_functions_turn(top_functions_t *functions);

/* Writes at most MAX functions that contain FILTER to OUT, the program's own first. Functions that
 * only call others are left out. Returns their number. */
size_t top_functions_list(const top_functions_t *functions, top_rank_t rank, const char *filter,
                          const top_function_t **out, size_t max);

void top_functions_free(top_functions_t *functions);

#endif
