/* SPDX-License-Identifier: MIT
 *
 * What top shows: the sampler and the heap reader fill it, and the view lays it out. It outlives
 * the program.
 */
#ifndef SONDE_TOP_MODEL_H
#define SONDE_TOP_MODEL_H

#include "top/functions.h"
#include "top/threads.h"

/* A function that allocated. */
typedef struct top_site {
  char *name;
  char place[64];
  double bytes_per_s; /* in the window */
  uint64_t live_bytes;
  bool is_own;
} top_site_t;

/* What the recorder of the program knows of its allocations. */
typedef struct top_heap {
  bool is_known;
  bool is_estimate;   /* from sampled blocks */
  bool is_lower;      /* events are missing: the live bytes are a lower limit */
  char why[128];      /* it is not known */
  char malloc[40];    /* the sensor's mode, as `sonde ctl` takes it; "": no recorder */
  char sample[24];    /* of the sensor `sample`: a rate or off */
  double bytes_per_s; /* in the window */
  uint64_t live_bytes;
  top_site_t *sites;
  size_t site_count, site_capacity;
} top_heap_t;

typedef struct top_stack_row {
  char name[192], place[64];
} top_stack_row_t;

/* The stack of the selected thread. */
typedef struct top_stack {
  pid_t tid;
  char note[96]; /* how the stack ends, or why it is unknown; "": complete */
  top_stack_row_t *rows;
  size_t count, capacity;
} top_stack_t;

typedef struct top_model {
  char program[256];
  pid_t pid;
  uint64_t uptime_ns, rss_bytes;
  double cpu;           /* of one CPU, in the last interval */
  int64_t descriptors;  /* -1: unknown */
  double own_cpu;       /* of top itself and the recorder, in the last interval */
  uint64_t period_ns;   /* between two frames */
  const char *sampling; /* how running threads are sampled; static */
  char ended[96];       /* how the program ended; "": it runs */
  char problem[192];    /* what cannot be read now; "": nothing */
  top_threads_t threads;
  top_functions_t functions;
  top_heap_t heap;
  top_stack_t stack;
} top_model_t;

void top_model_free(top_model_t *model);
void top_heap_clear(top_heap_t *heap);

#endif
