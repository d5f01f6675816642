/* SPDX-License-Identifier: MIT
 *
 * The call tree of sampled stacks, with the CPU time that they represent. Grows in memory of the
 * caller, of a fixed size. Used by one thread at a time.
 */
#ifndef SONDE_SENSOR_CPU_CALL_TREE_H
#define SONDE_SENSOR_CPU_CALL_TREE_H

#include "sonde/cpu.h"

#define CALL_TREE_NODES 1024
#define CALL_TREE_DEPTH 256

typedef struct call_tree_node {
  uint64_t function; /* identifies it */
  uintptr_t pc;
  uint64_t cpu_ns, self_ns;
  int16_t caller, first_callee, next; /* -1: none; NEXT: of the same caller */
} call_tree_node_t;

typedef struct call_tree {
  int count;
  int first; /* the first outermost function; -1: none */
  uint32_t samples;
  uint64_t sampled_ns;
  call_tree_node_t nodes[CALL_TREE_NODES];
} call_tree_t;

void call_tree_clear(call_tree_t *tree);

/* Adds a stack, innermost first, that represents WEIGHT_NS. FUNCTIONS identifies the function of
 * each of the PCS. Consecutive frames of one recursive function are one node. If no node is free,
 * the time counts for the innermost caller that has one. */
void call_tree_add(call_tree_t *tree, const uintptr_t *pcs, const uint64_t *functions, int count,
                   uint64_t weight_ns);

/* Writes the nodes in the order of sonde_cpu_episode_t to OUT, which has room for CALL_TREE_NODES.
 * Returns the count. Changes the order of the callees in TREE. */
int call_tree_write(call_tree_t *tree, sonde_cpu_node_t *out);

#endif
