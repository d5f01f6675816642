/* SPDX-License-Identifier: MIT
 *
 * A report of a recording: a head and sections. A section is one file that defines a
 * report_section_t, and one line in REPORT_SECTIONS.
 *
 * All sections receive the events of one common pass, then print themselves as text or JSON.
 * Without a named section, every section that has data prints a brief summary; together these fit
 * on a screen.
 */
#ifndef SONDE_REPORT_REPORT_H
#define SONDE_REPORT_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "analysis/cpu_time.h"
#include "analysis/malloc/aggregate.h"
#include "analysis/trace.h"
#include "report/frame_names.h"

typedef enum tree_direction {
  TREE_NONE,
  TREE_TOP_DOWN,  /* from a thread's first function to its callees */
  TREE_BOTTOM_UP, /* from the innermost function to its callers */
} tree_direction_t;

/* How functions are ranked by time. */
typedef enum functions_by {
  FUNCTIONS_BY_BOTH,  /* the program's functions by total, then all by self; the default */
  FUNCTIONS_BY_TOTAL, /* the program's functions */
  FUNCTIONS_BY_SELF,  /* all functions, by the time in which they are innermost */
} functions_by_t;

typedef struct report {
  const char *path; /* of the recording */
  uint32_t program; /* of the process, as reader_open_program takes it */
  reader_t *reader;
  const replay_t *replay; /* complete after the pass */
  const replay_options_t *window;
  const cpu_time_t *cpu_time; /* complete after the pass; NULL: of a part of the time, not known */
  frame_names_t *names;
  const frame_names_options_t *naming; /* of NAMES; NULL: the defaults */
  measure_t measure;                   /* ranks stacks, functions and libraries */
  functions_by_t functions_by;
  tree_direction_t tree;          /* a tree instead of lists */
  uint32_t top;                   /* rows of each list to print */
  bool top_given;                 /* in a summary, too */
  bool all;                       /* all rows and frames; in trees branches below 1 %, too */
  bool has_all;                   /* the verb has an option --all, which sets ALL */
  trace_filter_t calls;           /* selects traced calls */
  trace_t *trace;                 /* takes the call tree, which the JSON then lacks; NULL: none */
  const char *functions;          /* only traced functions that match; NULL: all */
  uint64_t least_bytes;           /* only traced functions with this much code; 0: all */
  unsigned columns;               /* of a line; names are shortened to fit. 0: full names */
  bool full_names;                /* COLUMNS is 0 */
  bool brief;                     /* the summary: a section prints a few lines */
  uint32_t brief_rows;            /* the most of each list in it */
  uint64_t stall_limit_ns;        /* a longer stall is a finding; 0: no limit */
  uint64_t *exceeded_ns;          /* set to the longest stall that exceeds the limit */
  const char *bold, *dim, *plain; /* escape sequences, or "" */
} report_t;

/* NAME, HAS_DATA, TEXT and JSON are required. STATE is the result of START, or else STATE_BYTES
 * zeros, which are freed after END. TEXT is called again, with shorter lists, if a summary does not
 * fit on a screen. */
typedef struct report_section {
  const char *name;   /* the word on the command line, and the key in JSON */
  const char *option; /* of `sonde record` that records it; NULL: always recorded */
  uint32_t mode;      /* the bits of record_header_t.mode that OPTION sets; 0: none */
  size_t state_bytes;
  void *(*start)(const report_t *report); /* before the pass; NULL: out of memory */
  /* Each event of the window except allocations and frees; false: out of memory. */
  bool (*event)(void *state, const record_event_t *event);
  bool (*has_data)(const report_t *report, void *state);
  int (*text)(const report_t *report, void *state, FILE *out); /* 0 or SONDE_ENOMEM */
  json_object *(*json)(const report_t *report, void *state);   /* NULL: out of memory */
  void (*end)(void *state);
} report_section_t;

/* In the order of printing. X(name): section_name. */
#define REPORT_SECTIONS(X)                                                                         \
  X(crash)                                                                                         \
  X(stalls)                                                                                        \
  X(cpu)                                                                                           \
  X(sample)                                                                                        \
  X(wall)                                                                                          \
  X(waits)                                                                                         \
  X(trace)                                                                                         \
  X(leaks)                                                                                         \
  X(malloc)                                                                                        \
  X(pools)                                                                                         \
  X(vm)                                                                                            \
  X(usage)                                                                                         \
  X(audit)                                                                                         \
  X(processes)

#define REPORT_DECLARE_SECTION(name) extern const report_section_t section_##name;
REPORT_SECTIONS(REPORT_DECLARE_SECTION)
#undef REPORT_DECLARE_SECTION

/* What was recorded, and which data are missing. */
void report_head_text(const report_t *report, FILE *out);
void report_head_json(const report_t *report, json_object *out);

/* The program's command line: a line of text; "exe" and "arguments". */
void report_command_text(const report_t *report, FILE *out);
void report_command_json(const report_t *report, json_object *out);

/* One of several programs of a process (exec): its number, command line and missing data. */
void report_program_text(const report_t *report, FILE *out);
void report_program_json(const report_t *report, json_object *out);

/* How much CPU time samples cover, and why the rest has none: text lines and an object. Nothing, or
 * NULL, if that is not recorded. */
void report_cpu_time_text(const report_t *report, FILE *out);
json_object *report_cpu_time_json(const report_t *report);

/* The time without samples by cause: an array, most time first. */
json_object *report_unsampled_json(const cpu_times_t *times);

/* ---- shared by sections ------------------------------------------------------------------- */

/* How many rows of a list to print; BRIEF is how many a summary has if nothing else was asked for.
 */
static inline size_t report_rows(const report_t *report, size_t brief) {
  if (!report->brief || report->top_given) return report->top;
  return report->brief_rows < brief ? report->brief_rows : brief;
}

/* A summary of many sections leaves out lists that say less than others. */
static inline bool report_is_tight(const report_t *report) {
  return report->brief && report->brief_rows < 3;
}

/* The end of the line before a list: a summary has no empty line inside a section. */
static inline const char *report_gap(const report_t *report) { return report->brief ? "" : "\n"; }

enum { REPORT_NAME_MAX = 33000 };

/* Writes the name of a function to OUT, of REPORT_NAME_MAX bytes, and returns OUT. If lines have a
 * width, writes the short form, of at most ROOM columns but at least 20. */
char *report_name(const report_t *report, const frame_name_t *name, int room, char *out);

/* Writes two spaces and the file and line of a function, or its library, to OUT; "" if both are
 * unknown. If lines have a width, the folder of the file is omitted. */
void report_place(const report_t *report, const frame_name_t *name, char *out, size_t size);

/* Prints one function of a stack, as report_stack_text does. */
void report_site_text(const report_t *report, const frame_name_t *site, FILE *out);

/* Prints the functions of a stack, one line each: the innermost ones and the program's own, or all
 * of them, and how many are left out in between. */
void report_stack_text(const report_t *report, uint32_t stack, FILE *out);

/* Adds the function's name, module, file and line, as far as they are known. */
void report_function_json(const frame_name_t *name, json_object *object);

/* How many stacks of a section reach the thread's first frame, by weight. */
typedef struct completeness {
  uint64_t complete, all;
} completeness_t;
void report_add_stack(const report_t *report, completeness_t *to, uint32_t stack, uint64_t weight);
/* Prints "  stacks     98.20 % of WHAT complete" if there are any; in a summary, if some are not.
 */
void report_completeness_text(const report_t *report, const completeness_t *c, const char *what,
                              FILE *out);

/* The frames of a stack as an array; *COMPLETE, which may be NULL, is false for a truncated or
 * broken stack. */
json_object *report_frames_json(const report_t *report, uint32_t stack, bool *complete);

/* {"blocks", "bytes"} */
json_object *report_counts_json(counts_t counts);

/* Writes a size as "12.3 MB" to TEXT, of 24 bytes; returns TEXT. */
char *report_bytes(int64_t bytes, char *text);

/* The same for nanoseconds: "12.3 µs". */
char *report_duration(double ns, char *text);

/* The same for an error of VALUE: "± 12 %". */
char *report_error(double error, double value, char *text);

/* "SIGSEGV"; "SIG?" for a signal that does not normally end a program. */
const char *report_signal_name(uint64_t number);

/* The same for a count: "1,234,567". */
char *report_count(uint64_t count, char *text);
/* "s", or "" if COUNT is 1: for a noun behind the count. */
static inline const char *report_plural(uint64_t count) { return count == 1 ? "" : "s"; }

/* " (--all)" behind what says that a list or a stack is cut, if that option shows the rest. */
static inline const char *report_rest(const report_t *report) {
  return report->has_all && !report->all ? " (--all)" : "";
}

/* Prints "  … and 3 more PLURAL", with the singular for 1. */
void report_more(const report_t *report, size_t count, const char *plural, FILE *out);

#endif
