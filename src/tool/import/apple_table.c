/* SPDX-License-Identifier: MIT
 *
 * Reads the stack table and the tree of regions. Both are copies of a process's memory; every
 * number is checked. See apple_table.h.
 */
#include "import/apple_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/load.h"

#define TABLE_MAGIC        "MslUniquingTable"
#define TABLE_NODES        16384u /* offset */
#define NODE_BYTES         16u
#define CONTROL            16u /* offset of the control structure; below, of its fields */
#define CONTROL_NODE_COUNT 8u
#define CONTROL_FLAGS      60u
#define FLAG_COUNTED       2u /* nodes have counts: the lite form */

bool apple_table_is(const uint8_t *data, uint64_t size) {
  return size >= 16 && memcmp(data, TABLE_MAGIC, 16) == 0;
}

const char *apple_table_read(apple_table_t *table, const uint8_t *data, uint64_t size) {
  *table = (apple_table_t){0};
  if (!apple_table_is(data, size)) return "it does not begin with MslUniquingTable";
  if (size < TABLE_NODES + NODE_BYTES) return "it is truncated before its first node";
  uint64_t count = load64(data + CONTROL + CONTROL_NODE_COUNT);
  for (unsigned i = CONTROL + 68; i < TABLE_NODES; i++)
    if (data[i]) return "its header is of an unknown version";
  uint64_t there = (size - TABLE_NODES) / NODE_BYTES;
  if (count == 0 || count >> 48) return "its header is of an unknown version";
  table->nodes = data + TABLE_NODES;
  table->count = count < there ? count : there;
  table->missing = count - table->count;
  table->is_lite = data[CONTROL + CONTROL_FLAGS] & FLAG_COUNTED;
  return NULL;
}

/* A lite node contains 48 bits of pc, 32 of parent, 48 of a count. */
bool apple_table_node(const apple_table_t *table, uint64_t i, uint64_t *pc, uint64_t *parent) {
  uint64_t first = load64(table->nodes + i * NODE_BYTES);
  uint64_t second = load64(table->nodes + i * NODE_BYTES + 8);
  if (first == 0 && second == 0) return false;
  if (!table->is_lite) {
    *pc = first;
    *parent = second;
    return true;
  }
  uint32_t packed = (uint32_t)(first >> 48) | (uint32_t)second << 16;
  *pc = first & 0xffffffffffff;
  *parent = packed == UINT32_MAX ? APPLE_NO_PARENT : packed;
  return true;
}

/* ---- regions -------------------------------------------------------------------------------- */

/* Header of 20 bytes: "radixv2\0", then 32 bits each: shift of a leaf's size, number of nodes,
 * first free node. A node is two edges of 32 bits: 11 bits of label, 16 of node, 4 of the label's
 * length (0: no edge), 1 that the node is a leaf. A leaf is a stack id and a size. A key is the
 * upper 52 bits of an address, most significant first. */
#define TREE_MAGIC  "radixv2"
#define TREE_HEADER 20u
#define KEY_BITS    52u

typedef struct region_tree {
  const uint8_t *nodes;
  uint32_t count, shift;
  uint8_t *seen; /* a bit a node */
  long damaged;
  bool (*visit)(uint64_t address, uint64_t bytes, uint32_t stack, void *context);
  void *context;
} region_tree_t;

bool apple_regions_are(const uint8_t *data, uint64_t size) {
  return size >= TREE_HEADER && memcmp(data, TREE_MAGIC, 8) == 0;
}

static bool mark_seen(region_tree_t *tree, uint32_t node) {
  if (node >= tree->count || (tree->seen[node / 8] & 1u << node % 8)) return false;
  tree->seen[node / 8] |= (uint8_t)(1u << node % 8);
  return true;
}

static bool walk_node(region_tree_t *tree, uint32_t node, uint64_t key, unsigned bits);

static bool walk_edge(region_tree_t *tree, uint32_t edge, uint64_t key, unsigned bits) {
  unsigned length = edge >> 27 & 15;
  uint32_t node = edge >> 11 & 0xffff, label = edge & 0x7ff;
  if (length == 0) return true;
  bool is_leaf = edge >> 31;
  bits += length;
  key = key << length | (label & ((1u << length) - 1));
  if (length > 11 || bits > KEY_BITS || (is_leaf && bits != KEY_BITS) || !mark_seen(tree, node)) {
    tree->damaged++;
    return true;
  }
  if (!is_leaf) return walk_node(tree, node, key, bits);
  uint64_t pages = load32(tree->nodes + node * 8 + 4);
  return tree->visit(key << 12, pages << tree->shift, load32(tree->nodes + node * 8),
                     tree->context);
}

/* At most KEY_BITS deep, because every edge has at least one bit. Edges ascend by label. */
static bool walk_node(region_tree_t *tree, uint32_t node, uint64_t key, unsigned bits) {
  return walk_edge(tree, load32(tree->nodes + node * 8), key, bits) &&
         walk_edge(tree, load32(tree->nodes + node * 8 + 4), key, bits);
}

long apple_regions_each(const uint8_t *data, uint64_t size,
                        bool (*visit)(uint64_t address, uint64_t bytes, uint32_t stack,
                                      void *context),
                        void *context) {
  region_tree_t tree = {.nodes = data + TREE_HEADER,
                        .shift = load32(data + 8) & 31,
                        .count = load32(data + 12),
                        .visit = visit,
                        .context = context};
  uint64_t there = (size - TREE_HEADER) / 8;
  if (tree.count > there) tree.count = (uint32_t)there;
  if (tree.count > 65536) tree.count = 65536;
  tree.seen = calloc(tree.count / 8 + 1, 1);
  if (!tree.seen) return -1;
  bool good = !mark_seen(&tree, 0) || walk_node(&tree, 0, 0, 0);
  free(tree.seen);
  return good ? tree.damaged : -1;
}
