/* SPDX-License-Identifier: MIT
 *
 * The command's part of a leak search (record/leaks.h): the command sends a replay's live blocks to
 * a copy of the program, which searches its memory for references to them. Then the command
 * aggregates the verdicts by the stack that allocated each block.
 *
 * Another process writes the exchange, so it is not trusted: every value is copied once and
 * checked.
 */
#ifndef SONDE_ANALYSIS_MALLOC_LEAKS_H
#define SONDE_ANALYSIS_MALLOC_LEAKS_H

#include "analysis/malloc/replay.h"
#include "record/leaks.h"

/* The lost blocks of one stack. */
typedef struct leaks_stack {
  uint32_t stack;     /* its id */
  counts_t lost;      /* leaked blocks that are not `indirect`, cycles included */
  counts_t indirect;  /* blocks of any stack that are reachable only from these */
  counts_t total;     /* `lost` and `indirect` */
  uint64_t in_cycles; /* part of `lost` */
  uint64_t uncertain; /* part of `lost`: as many as unknown registers may reference */
  uint64_t example;   /* address of the largest block */
  uint64_t example_size;
} leaks_stack_t;

typedef struct leaks {
  leaks_exchange_t *exchange; /* mapped, of SIZE bytes */
  uint64_t size;
  /* Offsets in the exchange. The program can change the exchange's own copies of them. */
  uint64_t blocks_at, answers_at;
  leaks_block_t *blocks; /* our copy, by ascending address */
  uint32_t *stacks;      /* id of the stack that allocated each block */
  uint64_t count;
  counts_t live, lost, indirect, total; /* as those of a stack */
  uint64_t in_cycles;
  uint64_t unmapped;               /* blocks whose address is no longer mapped */
  uint64_t holders[LEAKS_HOLDERS]; /* live blocks by what first referenced them */
  leaks_stack_t *by_stack;         /* largest total first */
  size_t by_stack_count;
  uint32_t unknown_threads; /* whose registers are unknown */
  uint32_t running_threads; /* that may have run while the copy was made */
  uint64_t unknown_registers;
} leaks_t;

/* Copies the live blocks of REPLAY with the stacks that allocated them. 0 or SONDE_ENOMEM. */
int leaks_collect(leaks_t *leaks, const replay_t *replay);

/* False when frees are missing from the recording. The blocks that are live at its end are then
 * unknown. */
bool leaks_log_is_complete(const replay_t *replay);

/* Returns whether the program may have blocks that REPLAY has not seen. */
bool leaks_has_unrecorded(const replay_t *replay);

/* Writes the blocks into the exchange. SONDE_EFULL when they do not fit. */
int leaks_send(leaks_t *leaks);

/* Reads and aggregates the verdicts, after the copy has answered. SONDE_EFORMAT when they are
 * inconsistent, SONDE_ENOMEM. */
int leaks_receive(leaks_t *leaks);

/* The registers that are unknown if those of THREADS threads are. */
uint64_t leaks_unknown_registers(uint64_t threads);

/* The block that contains ADDRESS, or NULL. */
const leaks_block_t *leaks_find(const leaks_t *leaks, uint64_t address);
void leaks_free(leaks_t *leaks);

/* ---- the search at exit, in the recording -------------------------------------------------- */

/* When a recording's search was: "when the program exited", or "at the end of the recording" of a
 * process that ran on. */
const char *leaks_time_of_search(const reader_t *reader);

typedef enum leaks_result {
  LEAKS_UNRECORDED, /* no search was requested */
  LEAKS_SEARCHED,
  LEAKS_NO_EXIT,  /* the program did not exit by itself, or had ended without a search */
  LEAKS_NO_COPY,  /* it could not be copied, or its copy could not be searched: ERROR */
  LEAKS_NO_BLOCKS /* events were lost, so the live blocks are unknown */
} leaks_result_t;

/* What a recording has of it. LEAKS has no blocks and no threads, only totals and stacks. */
typedef struct leaks_at_end {
  leaks_result_t result;
  int32_t error;    /* a SONDE_E…, or LEAKS_ERRNO minus an errno */
  uint64_t time_ns; /* since the start of the recording */
  leaks_t leaks;
} leaks_at_end_t;

/* Calls WRITE with the numbers of each extended record that holds END. Its result: that of WRITE,
 * until one is negative. */
int leaks_write(const leaks_at_end_t *end,
                int (*write)(void *context, extended_subtype_t subtype, const uint64_t *numbers,
                             size_t count),
                void *context);

/* Takes an event of the recording; false: out of memory. */
bool leaks_read(leaks_at_end_t *end, const record_event_t *event);
void leaks_at_end_free(leaks_at_end_t *end);

#endif
