/* SPDX-License-Identifier: MIT
 *
 * A report of a recording: its head, and sections. A section is a file of its own with one
 * report_section_t, and one line in REPORT_SECTIONS; `sonde report` knows nothing else of it.
 *
 * Every section sees the events of one common pass and then prints itself, as text or as JSON. With
 * no section named, all that hold something are shown in brief: together they fit on a screen.
 */
#ifndef SONDE_REPORT_REPORT_H
#define SONDE_REPORT_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "analysis/malloc/aggregate.h"
#include "analysis/trace.h"
#include "report/frame_names.h"

typedef enum tree_direction {
  TREE_NONE,
  TREE_TOP_DOWN,  /* from a thread's first function to what it calls */
  TREE_BOTTOM_UP, /* from the function that allocates or runs to its callers */
} tree_direction_t;

typedef struct report {
  const char *path; /* of the recording */
  uint32_t program; /* of the process, as reader_open_program takes it */
  reader_t *reader;
  const replay_t *replay; /* complete once the pass is done */
  const replay_options_t *window;
  frame_names_t *names;
  measure_t measure;              /* what stacks, functions and libraries are ranked by */
  tree_direction_t tree;          /* a tree in place of lists */
  uint32_t top;                   /* how many rows of each list are shown */
  trace_filter_t calls;           /* which traced calls are shown */
  const char *functions;          /* of functions whose names match this pattern; NULL: of all */
  uint64_t least_bytes;           /* of functions with at least so much code; 0: of all */
  bool brief;                     /* the summary: a section shows what fits in a few lines */
  uint64_t stall_limit_ns;        /* a longer stall is a finding; 0: none is */
  bool *exceeded;                 /* set by the section that made a finding */
  const char *bold, *dim, *plain; /* escape sequences, or "" */
} report_t;

/* Functions may be NULL but for NAME, HOLDS, TEXT and JSON. STATE is what START gave, or else
 * STATE_BYTES zeros, which are freed behind END. */
typedef struct report_section {
  const char *name;   /* the word on the command line, and the key in JSON */
  const char *option; /* of `sonde record`, without which there is nothing */
  uint32_t mode;      /* the bits of record_header_t.mode that OPTION sets; 0: it leaves no trace */
  size_t state_bytes;
  void *(*start)(const report_t *report); /* before the pass; NULL: no memory */
  /* Each event of the window but allocations and frees; false: no memory. */
  bool (*event)(void *state, const record_event_t *event);
  bool (*has_data)(const report_t *report, void *state);
  int (*text)(const report_t *report, void *state, FILE *out); /* 0 or SONDE_ENOMEM */
  json_object *(*json)(const report_t *report, void *state);   /* NULL: no memory */
  void (*end)(void *state);
} report_section_t;

/* In the order in which they are shown. X(name): section_name. */
#define REPORT_SECTIONS(X)                                                                         \
  X(crash)                                                                                         \
  X(stalls)                                                                                        \
  X(cpu)                                                                                           \
  X(sample)                                                                                        \
  X(wall)                                                                                          \
  X(waits)                                                                                         \
  X(trace)                                                                                         \
  X(malloc)                                                                                        \
  X(pools)                                                                                         \
  X(vm)                                                                                            \
  X(audit)

#define REPORT_DECLARE_SECTION(name) extern const report_section_t section_##name;
REPORT_SECTIONS(REPORT_DECLARE_SECTION)
#undef REPORT_DECLARE_SECTION

/* What was recorded, and what is missing from it. */
void report_head_text(const report_t *report, FILE *out);
void report_head_json(const report_t *report, json_object *out);

/* Of one of several programs that a process ran: its number, command line and what is missing. */
void report_program_text(const report_t *report, FILE *out);
void report_program_json(const report_t *report, json_object *out);

/* ---- what sections share ------------------------------------------------------------------ */

/* A stack, a line a function, indented; at most as many lines as a list shows. */
void report_stack_text(const report_t *report, uint32_t stack, FILE *out);

/* Adds the function's name, module, file and line, as far as they are known. */
void report_function_json(const frame_name_t *name, json_object *object);

/* The frames of a stack as an array; whether it is whole in *COMPLETE, which may be NULL. */
json_object *report_frames_json(const report_t *report, uint32_t stack, bool *complete);

/* {"blocks", "bytes"} */
json_object *report_counts_json(counts_t counts);

/* Writes a size as "12.3 MB" to TEXT, which has room for 24 characters; returns TEXT. */
char *report_bytes(int64_t bytes, char *text);

/* As above, nanoseconds as "12.3 µs". */
char *report_duration(double ns, char *text);

/* "SIGSEGV"; "SIG?" for a signal that does not normally end a program. */
const char *report_signal_name(uint64_t number);

/* As above, a count with separators: 1,234,567. */
char *report_count(uint64_t count, char *text);

#endif
