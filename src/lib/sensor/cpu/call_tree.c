/* SPDX-License-Identifier: MIT */
#include "sensor/cpu/call_tree.h"

void call_tree_clear(call_tree_t *tree) {
  tree->count = 0;
  tree->first = -1;
  tree->samples = 0;
  tree->sampled_ns = 0;
}

/* The link to the first callee of CALLER. */
static int16_t *callees_of(call_tree_t *tree, int caller, int16_t *outermost) {
  return caller < 0 ? outermost : &tree->nodes[caller].first_callee;
}

/* The node of FUNCTION called by CALLER; -1: no node is free. */
static int callee(call_tree_t *tree, int caller, uint64_t function, uintptr_t pc) {
  int16_t outermost = (int16_t)tree->first;
  int16_t *link = callees_of(tree, caller, &outermost);
  for (int i = *link; i >= 0; i = tree->nodes[i].next)
    if (tree->nodes[i].function == function) return i;
  if (tree->count == CALL_TREE_NODES) return -1;
  int added = tree->count++;
  tree->nodes[added] = (call_tree_node_t){
      .function = function, .pc = pc, .caller = (int16_t)caller, .first_callee = -1, .next = *link};
  *link = (int16_t)added;
  tree->first = outermost;
  return added;
}

void call_tree_add(call_tree_t *tree, const uintptr_t *pcs, const uint64_t *functions, int count,
                   uint64_t weight_ns) {
  int node = -1;
  for (int i = count; i-- > 0;) {
    if (node >= 0 && tree->nodes[node].function == functions[i]) continue;
    int next = callee(tree, node, functions[i], pcs[i] - (i > 0));
    if (next < 0) break;
    node = next;
    tree->nodes[node].cpu_ns += weight_ns;
  }
  if (node < 0) return;
  tree->nodes[node].self_ns += weight_ns;
  tree->sampled_ns += weight_ns;
  tree->samples++;
}

/* Sorts the list that begins at FIRST by CPU time, largest first. Returns its new first node. */
static int16_t sort_list(call_tree_t *tree, int16_t first) {
  int16_t sorted = -1;
  while (first >= 0) {
    int16_t node = first, *link = &sorted;
    first = tree->nodes[node].next;
    while (*link >= 0 && tree->nodes[*link].cpu_ns >= tree->nodes[node].cpu_ns)
      link = &tree->nodes[*link].next;
    tree->nodes[node].next = *link;
    *link = node;
  }
  return sorted;
}

/* The node after NODE in the order of the tree; -1: NODE is the last. */
static int after(const call_tree_t *tree, int node, int *depth) {
  if (tree->nodes[node].first_callee >= 0) {
    ++*depth;
    return tree->nodes[node].first_callee;
  }
  while (node >= 0 && tree->nodes[node].next < 0) {
    node = tree->nodes[node].caller;
    --*depth;
  }
  return node < 0 ? -1 : tree->nodes[node].next;
}

int call_tree_write(call_tree_t *tree, sonde_cpu_node_t *out) {
  int16_t path[CALL_TREE_DEPTH]; /* the index in OUT of the node at each depth */
  int count = 0, depth = 0;
  tree->first = sort_list(tree, (int16_t)tree->first);
  for (int i = 0; i < tree->count; i++)
    tree->nodes[i].first_callee = sort_list(tree, tree->nodes[i].first_callee);
  for (int node = tree->first; node >= 0; node = after(tree, node, &depth)) {
    const call_tree_node_t *n = &tree->nodes[node];
    path[depth] = (int16_t)count;
    out[count++] =
        (sonde_cpu_node_t){n->pc, depth, depth ? path[depth - 1] : -1, n->cpu_ns, n->self_ns};
  }
  return count;
}
