/* SPDX-License-Identifier: MIT
 *
 * The memory graph as the outside sees it: the blocks of a replay handed to the copy that searches
 * (record/leaks.h), and its verdicts put together by the stack that allocated.
 *
 * The exchange is written by another process and is not trusted: what is read of it is copied once
 * and checked.
 */
#ifndef SONDE_ANALYSIS_MALLOC_LEAKS_H
#define SONDE_ANALYSIS_MALLOC_LEAKS_H

#include "analysis/malloc/replay.h"
#include "record/leaks.h"

/* What one stack has lost. */
typedef struct leaks_stack {
  uint32_t stack;     /* its id */
  counts_t lost;      /* blocks that nothing points to, or that only hold each other */
  counts_t indirect;  /* blocks that these lead to, of whatever stack */
  uint64_t in_cycles; /* of `lost` */
  uint64_t uncertain; /* of `lost`: so many a register that is not known may hold */
  uint64_t example;   /* address of the largest */
  uint64_t example_size;
} leaks_stack_t;

typedef struct leaks {
  leaks_exchange_t *exchange; /* mapped, of SIZE bytes */
  uint64_t size;
  uint64_t blocks_at,
      answers_at;        /* in the exchange; what stands there of them is the program's to change */
  leaks_block_t *blocks; /* our own, by ascending address */
  uint32_t *stacks;      /* id of the stack that gave each block */
  uint64_t count;
  counts_t live, lost, indirect;
  uint64_t unmapped;               /* blocks at whose address there is no memory */
  uint64_t holders[LEAKS_HOLDERS]; /* live blocks by what they were first reached from */
  leaks_stack_t *by_stack;         /* by falling lost and held bytes */
  size_t by_stack_count;
  uint32_t unknown_threads; /* whose registers are not known */
  uint32_t running_threads; /* that may have run while the copy was made */
  uint64_t unknown_registers;
} leaks_t;

/* The live blocks of REPLAY, and which stack gave them. 0 or SONDE_ENOMEM. */
int leaks_collect(leaks_t *leaks, const replay_t *replay);

/* False where frees are missing from the log, so that what is live at its end is not known. */
bool leaks_log_is_complete(const replay_t *replay);

/* Blocks were given out that REPLAY does not know of. */
bool leaks_has_unrecorded(const replay_t *replay);

/* Puts the blocks into the exchange. SONDE_EFULL when it has no room for them. */
int leaks_send(leaks_t *leaks);

/* Once the copy has answered: verdicts and groups. SONDE_EFORMAT when the answer makes no sense. */
int leaks_receive(leaks_t *leaks);

/* The block that holds ADDRESS, or NULL. */
const leaks_block_t *leaks_find(const leaks_t *leaks, uint64_t address);
void leaks_free(leaks_t *leaks);

#endif
