/* SPDX-License-Identifier: MIT
 *
 * The stack table: a calling-context tree that maps a stack to one id and back.
 *
 * A node is a frame and its parent, the node of the next outer stack. A stack's id is the number of
 * its innermost node, so stacks share their common outer part. A node is one 64-bit word, key and
 * content at once. A lookup compares that word, never a hash alone, and one compare-and-swap stores
 * it. Ids are slot numbers (capture/leveled_table.h): the table grows and no id ever changes. A
 * node takes 8 bytes; id 0 is the empty stack.
 *
 * If a recorder keeps all nodes (`stack_table_on_new`), a node must be recorded before any thread
 * uses its id. So a node is first stored as pending, which the fast lookup does not accept. The
 * pending bit is cleared after the node was recorded. A thread that meets a pending node records it
 * too and does not wait. So a node may be recorded twice, but never wrongly.
 *
 * A node of a *chain* has Python frames alone, and bits of its frame say so
 * (capture/python/python_event.h).
 *
 * The table is lock-free, async-signal-safe and shared by all threads.
 *
 * Cost with many stacks (cc1 -O2 on 1,500 functions: 34,000 nodes, 2.06 lookups per event, 1.41 of
 * them in a line last used more than 1,024 events ago): of 100 lookups 86 end at the first slot and
 * 10 at the second. An id follows from its slot, and the processor predicts the first slot. So the
 * processor starts the next lookup before the line of the current one arrives, and fetches all
 * lines of an event at the same time. That saves as much time as touching fewer lines would. An
 * alternative that places nodes in their parents' lines touches 0.64 such lines per event. It costs
 * 0.8 more mispredicted branches (simulated), or each lookup waits for the line of the one before.
 * cc1's CPU time, on a busy machine, was between 3 % less and 9 % more.
 */
#ifndef SONDE_CAPTURE_STACK_TABLE_H
#define SONDE_CAPTURE_STACK_TABLE_H

#include "capture/leveled_table.h"

#define STACK_TABLE_BITS   17
#define STACK_TABLE_BUCKET 8

/* Bits of the frame in a node of a chain: it is one, it is the outermost of a call of the evaluator
 * (then the frame may be 0). */
#define STACK_IN_CHAIN (1u << 28)
#define STACK_OF_CALL  (1u << 30)

extern HIDDEN struct stack_table {
  /* Words of parent << 32 | frame. */
  uint64_t *level[LEVELED_MAX];
} stack_table;

/* Called with a new node before any capture can return its id. Several threads may call it for one
 * node, and more than once. NULL: not called. The function runs wherever a capture runs. */
extern HIDDEN void (*stack_table_on_new)(uint32_t id, uint32_t parent, uint32_t frame);

/* No id: the table has no slot for the node or for one further out. */
#define STACK_TABLE_FULL UINT32_MAX

bool stack_table_init(void);

/* Finds or makes the node of FRAME under PARENT after the fast lookup failed. Returns
 * STACK_TABLE_FULL if the table is full, if PARENT is STACK_TABLE_FULL or if FRAME is
 * FRAME_TABLE_FULL. So a full table never shortens a stack. */
uint32_t stack_table_child_slow(uint32_t parent, uint32_t frame);

/* Finds or makes the node of FRAME (not 0) under PARENT. stack_table_init must have succeeded. */
static ALWAYS_INLINE uint32_t stack_table_child(uint32_t parent, uint32_t frame) {
  uint64_t word = (uint64_t)parent << 32 | frame;
  uint32_t index = (uint32_t)(leveled_hash(word) >> (64 - STACK_TABLE_BITS));
  /* Two slots of a bucket, which is a cache line. */
  const uint64_t *slots = stack_table.level[0];
  if (LIKELY(load_relaxed(&slots[index]) == word))
    return leveled_first(STACK_TABLE_BITS, 0) + index;
  if (LIKELY(load_relaxed(&slots[index ^ 1]) == word))
    return leveled_first(STACK_TABLE_BITS, 0) + (index ^ 1);
  return stack_table_child_slow(parent, frame);
}

/* Gets the frame and the parent of node ID. Returns false if there is no such node. */
bool stack_table_get(uint32_t id, uint32_t *parent, uint32_t *frame);

#endif
