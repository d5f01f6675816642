/* SPDX-License-Identifier: MIT
 *
 * The facts that the rules of `sonde why` look at: from a recording, a running process or a core.
 *
 * The time line holds samples of CPU time and waits with their times, which the analyses by stack
 * do not keep. The other analyses are those of the report. A pointer that is NULL means that the
 * sensor did not record: a rule then says nothing. One thread uses the facts.
 */
#ifndef SONDE_ANALYSIS_WHY_FACTS_H
#define SONDE_ANALYSIS_WHY_FACTS_H

#include "analysis/cpu_time.h"
#include "analysis/malloc/leaks.h"
#include "analysis/malloc/mappings.h"
#include "analysis/malloc/replay.h"
#include "analysis/texts.h"
#include "analysis/usage.h"
#include "analysis/why/finding.h"
#include "base/array.h"
#include "base/hash.h"

/* Names of the functions of a stack, innermost first, with inlined functions. Returns the count,
 * at most MAX; 0: unknown. */
typedef struct why_names {
  int (*of_stack)(void *context, uint32_t stack, why_function_t *out, int max);
  /* Writes the name of the variable at ADDRESS, such as that of a lock, to OUT. False: it has none.
   * May be NULL. */
  bool (*of_variable)(void *context, uint64_t address, char *out, size_t size);
  /* The file with the debug information of the program; NULL: not found. May be NULL. */
  const char *(*program)(void *context);
  void *context;
} why_names_t;

/* ---- stacks ------------------------------------------------------------------------------- */

enum { WHY_DEPTH_MAX = 96 };

/* A stack with its names. */
typedef struct why_stack {
  uint32_t id;
  int count;
  int owner;  /* index of the innermost function of the program; -1: none */
  int caller; /* of the next other one that called it, except main; -1: none */
  int place;  /* the owner; else the innermost function without a name that is not the system's, as
                 in a stripped program; -1: none */
  const why_function_t *functions[];
} why_stack_t;

/* ---- the time line ------------------------------------------------------------------------ */

/* A sample of CPU time. */
typedef struct why_tick {
  uint64_t time_ns; /* from the start */
  uint32_t tid, stack;
  uint64_t ticks; /* of CPU time that it represents */
} why_tick_t;

/* All samples of a thread at one stack. Most rules look at these: there are far fewer. */
typedef struct why_samples {
  uint32_t tid, id; /* ID is that of the stack, which may be unknown */
  const why_stack_t *stack;
  uint64_t ticks, first_ns;
} why_samples_t;

/* A time in which a thread was blocked at one place. */
typedef struct why_wait {
  uint64_t from_ns, to_ns;
  uint32_t tid, stack;
  bool is_lock;
  uint32_t owner;   /* the thread that held the lock; 0: unknown */
  uint64_t address; /* of the futex or lock; 0: none */
  const char *call; /* the system call; "" */
  const char *what; /* the file or socket, or the name of the lock: "GIL"; "" */
} why_wait_t;

typedef struct why_thread {
  uint32_t tid;
  const char *name; /* "": none */
  uint64_t seen_ns, run_ns, runq_ns;
  uint64_t ticks;    /* of its CPU samples */
  uint64_t switches; /* how often it woke up; 0: unknown */
  bool is_counted;   /* run_ns is the kernel's count */
} why_thread_t;

/* ---- growth ------------------------------------------------------------------------------- */

/* Live blocks at one time: in all, and of each stack (by its index in the replay). */
typedef struct why_level {
  uint64_t time_ns, bytes, allocated;
  counts_t *stacks; /* counts in 1/WEIGHT_ONE */
  size_t stack_count;
} why_level_t;

enum { WHY_LEVELS = 16 };

/* ---- crashes ------------------------------------------------------------------------------ */

typedef struct why_crash {
  int signal; /* 0: none */
  int code;   /* si_code */
  bool has_address;
  uint64_t address, time_ns;
  uint32_t tid, stack;
  uint64_t stack_pointer; /* 0: unknown */
  /* What a recording proves; NULL: nothing. KIND is a key of report/crash.h, POINTER says what a
   * pointer of the crash points to: "rdi = 0x… is in a block that … freed". */
  const char *kind, *cause, *pointer;
  /* A register that points into a live block, where another function's block was freed before;
   * NULL: none. Who allocated and freed that one, and who allocated the live one. */
  const char *reused;
  uint32_t allocated_stack, freed_stack, live_stack;
} why_crash_t;

/* ---- stalls ------------------------------------------------------------------------------- */

/* Equal stalls of an event loop: one function, one cause. */
typedef struct why_stalls {
  const why_function_t *function; /* NULL: unknown */
  const why_function_t *callee;   /* the system function that used the time; NULL: none */
  const char *cause;              /* a key of sensor/stall/stall_label.h */
  const char *call, *what;        /* of the longest blocking call; "" */
  uint32_t tid, owner;            /* OWNER held the lock; 0: unknown */
  uint32_t stack;                 /* of the longest stall, with FUNCTION; 0: unknown */
  uint32_t owner_stack;           /* of OWNER; 0: unknown */
  uint64_t count, total_ns, longest_ns, first_ns;
  bool open;
} why_stalls_t;

/* ---- sensitive calls ---------------------------------------------------------------------- */

/* Equal audited calls that the policy does not allow. */
typedef struct why_call {
  const char *category, *title; /* of the policy */
  const char *level;            /* "note", "warning" or "error" */
  const char *function, *arguments;
  uint32_t stack, tid;
  uint64_t count, first_ns;
} why_call_t;

/* ---- the whole ---------------------------------------------------------------------------- */

typedef struct why {
  why_names_t names;
  bool is_live, is_core, is_partial; /* PARTIAL: a part of the time was asked for */
  uint64_t duration_ns;
  bool is_stuck;    /* no thread can go on (report/why/stuck.h) */
  unsigned zombies; /* children that ended and were not waited for, all the time */

  ARRAY(why_tick_t) ticks;
  ARRAY(why_samples_t) samples; /* the ticks by thread and stack, in the order of the first one */
  ARRAY(why_wait_t) waits;
  ARRAY(why_thread_t) threads;
  bool has_ticks, has_waits; /* these sensors recorded */
  uint64_t queued_ns;        /* for which all threads waited for a CPU; 0: unknown, too */

  const replay_t *replay; /* NULL: no allocations were recorded */
  why_level_t levels[WHY_LEVELS + 1];
  size_t level_count;

  why_crash_t crash;
  int exit_signal; /* that ended the program; 0: none, or unknown */
  ARRAY(why_stalls_t) stalls;
  bool has_stalls;

  ARRAY(why_call_t) calls;
  bool has_calls;
  leaks_at_end_t leaks; /* the search at exit, if there was one */

  const usage_t *usage;       /* NULL: unknown */
  const mappings_t *mappings; /* NULL: unknown */

  const reader_t *reader; /* NULL: no recording */

  /* private */
  ARRAY(why_stack_t *) stacks;
  hash_index_t stack_index;
  hash_index_t samples_index;
  ARRAY(why_function_t *) functions; /* owned */
  hash_index_t function_index;
  text_copy_t *texts;
  bool failed; /* out of memory */
} why_t;

/* Adds an event of a recording whose reader is WHY->reader. False: out of memory. */
bool why_add(why_t *why, const record_event_t *event);

/* Notes the live heap: a callback of replay_options_t.on_interval. */
bool why_add_level(void *why, const replay_t *replay, uint64_t time);

/* Completes the threads. TIME may be NULL. Call it after the last event. False: out of memory. */
bool why_complete(why_t *why, const cpu_time_t *time);

/* Makes `samples` of `ticks`. False: out of memory. */
bool why_group_ticks(why_t *why);

/* The readings of FIELD; NULL: unknown. */
const usage_series_t *why_series(const why_t *why, usage_field_t field);

/* The CPU time of all threads. */
uint64_t why_run_ns(const why_t *why);

void why_free(why_t *why);

/* Adds to the time line of facts that no recording has. NULL: out of memory. */
why_thread_t *why_thread(why_t *why, uint32_t tid);
const char *why_copy_text(why_t *why, const char *text);

/* A copy of FUNCTION, which refers to the same texts. Functions that refer to the same texts share
 * a copy. Valid until WHY is freed. NULL: out of memory. */
const why_function_t *why_keep_function(why_t *why, const why_function_t *function);

/* The names of stack ID; never NULL. Valid until WHY is freed. */
const why_stack_t *why_stack(why_t *why, uint32_t id);

/* The innermost function of the program; NULL: none. */
const why_function_t *why_owner(const why_stack_t *stack);

/* The same, or the code without a name that stands for it; NULL: none. */
const why_function_t *why_place(const why_stack_t *stack);

/* The function that the owner called: of a library or the system; NULL: none. */
const why_function_t *why_callee(const why_stack_t *stack);

/* The only function of the program that calls one of NAMES, which end with NULL, as its debug
 * information says; NULL: several do, or unknown. Reads the debug information: some seconds for a
 * program of a gigabyte. */
const why_function_t *why_only_caller(why_t *why, const char *const *names);

/* Whether NAME, without leading underscores, is one of NAMES, which end with NULL. */
bool why_is_any(const char *name, const char *const *names);

/* Whether one of the functions inside the owner has one of NAMES, which end with NULL. Leading
 * underscores are ignored. */
bool why_calls_any(const why_stack_t *stack, const char *const *names);

/* "transfer (bank.c:30), called by main_loop (bank.c:80)". Returns OUT. */
#define WHY_PLACE_MAX (3 * WHY_NAME_MAX + 24)
char *why_place_text(const why_stack_t *stack, char out[WHY_PLACE_MAX]);

/* The same for FUNCTION, which is on STACK. */
char *why_place_of(const why_stack_t *stack, const why_function_t *function,
                   char out[WHY_PLACE_MAX]);

/* Whether the lock at ADDRESS is Python's GIL. */
bool why_is_gil(const why_t *why, uint64_t address);

/* "the lock journal", "the GIL", or WITHOUT if the lock at ADDRESS has no name. Returns OUT. */
char *why_lock_text(const why_t *why, uint64_t address, const char *without, char *out,
                    size_t size);

/* What the program called in the C library, where WAIT waits: "nanosleep" where the system call is
 * clock_nanosleep. The system call if the stack does not show it. */
const char *why_called(why_t *why, const why_wait_t *wait);

/* "thread 12 (worker)". Returns OUT. */
char *why_thread_text(why_t *why, uint32_t tid, char *out, size_t size);

/* ---- weights of functions ----------------------------------------------------------------- */

/* Sums by own function. */
typedef struct why_weight {
  const why_function_t *function;
  const why_stack_t *example; /* the stack with most weight */
  uint64_t example_weight;
  uint64_t total;    /* of stacks with the function, each once */
  uint64_t own;      /* of stacks that it owns */
  uint64_t depth;    /* sum of WEIGHT times the number of own functions outside it */
  uint64_t last_add; /* the number of the addition that it last counted in */
} why_weight_t;

typedef struct why_weights {
  ARRAY(why_weight_t) items;
  uint64_t sum; /* of all stacks, with those that have no own function */
  uint64_t additions;
} why_weights_t;

/* False: out of memory. */
bool why_weights_add(why_weights_t *weights, const why_stack_t *stack, uint64_t weight);
void why_weights_free(why_weights_t *weights);

/* The deepest own function that has at least SHARE (0 to 1) of the whole weight; NULL: none. */
const why_weight_t *why_weights_hot(const why_weights_t *weights, double share);

#endif
