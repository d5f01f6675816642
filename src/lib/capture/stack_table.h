/* SPDX-License-Identifier: MIT
 *
 * The stack table: a stack <-> one id.
 *
 * A node is a frame and its parent, the node of the stack further out; a stack's id is the number
 * of its innermost node, so stacks share what they have in common. A node is one 64-bit word, its
 * key and its content at once: it is found by comparing what it stands for, never by a hash alone,
 * and put in by one compare-and-swap. Ids are slot numbers (base/leveled_table.h): the table grows
 * and no id ever changes. 8 bytes a node; 0 is the empty stack.
 *
 * Where somebody keeps a record of all nodes (`stack_table_on_new`), a node must be in the record
 * before any thread uses its id. So it is put in marked as pending, a state that the quick look-up
 * does not accept, and the mark is cleared once the record has it. Whoever meets a pending node
 * does the same and does not wait: the record may get a node twice, never a wrong one.
 *
 * All of it is lock-free and async-signal-safe, and shared by all threads.
 *
 * What it costs where stacks are many (cc1 -O2 on 1,500 functions: 34,000 nodes, 2.06 look-ups an
 * event, 1.41 of them in a line that was left more than 1,024 events ago): of 100 look-ups 86 end
 * at the first slot and 10 at the second. An id follows from its slot, so the processor, which
 * foresees the first one, begins the next look-up before this one's line has come: an event's lines
 * are fetched at the same time. That is worth as much as fewer lines. With nodes in their parents'
 * lines, as far as these have room, 0.64 such lines an event are touched; but then 0.8 more
 * branches are foreseen wrongly (simulated), or, where none are, a look-up waits for the line of
 * the one before. cc1's CPU time, on a busy machine, was between 3 % less and 9 % more.
 */
#ifndef SONDE_CAPTURE_STACK_TABLE_H
#define SONDE_CAPTURE_STACK_TABLE_H

#include "base/leveled_table.h"

#define STACK_TABLE_BITS   17
#define STACK_TABLE_BUCKET 8

extern HIDDEN struct stack_table {
  /* Words of parent << 32 | frame. */
  uint64_t *level[LEVELED_MAX];
} stack_table;

/* Told of a node before any capture can answer with its id; perhaps by several threads, or twice.
 * NULL: nobody. Runs wherever a capture runs. */
extern HIDDEN void (*stack_table_on_new)(uint32_t id, uint32_t parent, uint32_t frame);

#define STACK_TABLE_FULL UINT32_MAX /* no id: the node, or one further out, found no room */

bool stack_table_init(void);

/* Finds or makes the node of FRAME under PARENT when the quick look-up failed. STACK_TABLE_FULL
 * when there is no room, when PARENT is that, or when FRAME is FRAME_TABLE_FULL: no shorter stack
 * comes out of it. */
uint32_t stack_table_child_slow(uint32_t parent, uint32_t frame);

/* Finds or makes the node of FRAME (not 0) under PARENT. stack_table_init must have succeeded. */
static ALWAYS_INLINE uint32_t stack_table_child(uint32_t parent, uint32_t frame) {
  uint64_t word = (uint64_t)parent << 32 | frame;
  uint32_t index = (uint32_t)(leveled_hash(word) >> (64 - STACK_TABLE_BITS));
  const uint64_t *slots = stack_table.level[0]; /* two of a bucket, which is a cache line */
  if (LIKELY(load_relaxed(&slots[index]) == word))
    return leveled_first(STACK_TABLE_BITS, 0) + index;
  if (LIKELY(load_relaxed(&slots[index ^ 1]) == word))
    return leveled_first(STACK_TABLE_BITS, 0) + (index ^ 1);
  return stack_table_child_slow(parent, frame);
}

/* The frame and the parent of node ID. False when there is no such node. */
bool stack_table_get(uint32_t id, uint32_t *parent, uint32_t *frame);

#endif
