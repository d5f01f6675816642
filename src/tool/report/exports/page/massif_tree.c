/* SPDX-License-Identifier: MIT
 *
 * A line for each node, indented by its depth: "n2: 4096 0x7: main (a.c:5)" has two children and
 * 4096 bytes. As in massif's own files, children below 1 % are one line, and a tree ends at a depth
 * of DEPTH_MOST: perl, and so ms_print, warns of deeper recursion than 100. The address is the
 * number of the frame, since inlined functions have none.
 */
#include "report/exports/page/massif_tree.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/exports/command_line.h"

enum { DEPTH_MOST = 90 };

typedef struct node {
  uint32_t parent, frame, child, next;
  uint64_t bytes;
} node_t;

typedef struct tree {
  const page_names_t *names;
  ARRAY(node_t) nodes; /* the first is the root */
  hash_index_t index;
  FILE *out;
  bool failed;
} tree_t;

/* ---- building ----------------------------------------------------------------------------- */

static uint64_t hash_of_node(const void *tree, size_t i) {
  const node_t *n = &((const tree_t *)tree)->nodes.items[i];
  return hash_pair(n->parent, n->frame);
}

/* 0: out of memory. */
static uint32_t child_of(tree_t *t, uint32_t parent, uint32_t frame) {
  uint32_t *slot;
  node_t *nodes = t->nodes.items, *made = NULL;
  if (hash_reserve(&t->index, t->nodes.count, hash_of_node, t)) {
    HASH_FIND(&t->index, hash_pair(parent, frame), slot) {
      if (nodes[*slot - 1].parent == parent && nodes[*slot - 1].frame == frame) return *slot - 1;
    }
    made = ARRAY_ADD(t->nodes);
  }
  if (!made) {
    t->failed = true;
    return 0;
  }
  uint32_t number = (uint32_t)t->nodes.count - 1;
  node_t *above = &t->nodes.items[parent];
  *made = (node_t){.parent = parent, .frame = frame, .next = above->child};
  above->child = number;
  *slot = number + 1;
  return number;
}

static void add_stack(tree_t *t, uint32_t stack, uint64_t bytes) {
  uint32_t at = 0;
  t->nodes.items[0].bytes += bytes;
  for (int depth = 1; stack && depth < DEPTH_MOST && !t->failed; depth++) {
    const page_node_t *node = &t->names->nodes.items[stack];
    at = child_of(t, at, node->frame);
    t->nodes.items[at].bytes += t->failed ? 0 : bytes;
    stack = node->parent;
  }
}

/* ---- writing ------------------------------------------------------------------------------ */

static bool is_large(const tree_t *t, uint32_t node) {
  return t->nodes.items[node].bytes >= t->nodes.items[0].bytes / 100 + 1;
}

static int by_bytes(const void *left, const void *right) {
  const node_t *a = *(node_t *const *)left, *b = *(node_t *const *)right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a->frame < b->frame ? -1 : a->frame > b->frame;
}

/* What a node's line contains of its children. */
typedef struct children {
  ARRAY(const node_t *) large; /* most bytes first */
  size_t small_count;
  uint64_t small_bytes;
} children_t;

static children_t children_of(const tree_t *t, const node_t *n) {
  children_t c = {0};
  for (uint32_t i = n->child; i; i = t->nodes.items[i].next) {
    const node_t **large = is_large(t, i) ? ARRAY_ADD(c.large) : NULL;
    if (large)
      *large = &t->nodes.items[i];
    else {
      c.small_count++;
      c.small_bytes += t->nodes.items[i].bytes;
    }
  }
  if (c.large.count) qsort(c.large.items, c.large.count, sizeof *c.large.items, by_bytes);
  return c;
}

static void put_name(const tree_t *t, uint32_t frame) {
  const page_frame_t *f = &t->names->frames.items[frame];
  char **texts = t->names->texts.items;
  fprintf(t->out, "0x%" PRIx32 ": ", frame);
  export_line_text(texts[f->function], t->out);
  fputs(f->file ? " (" : " (in ", t->out);
  export_line_text(texts[f->file ? f->file : f->library], t->out);
  if (f->line) fprintf(t->out, ":%" PRIu32, f->line);
  fputs(")\n", t->out);
}

/* The depth is at most DEPTH_MOST. */
static void put_node(const tree_t *t, const node_t *n, int depth) {
  children_t c = children_of(t, n);
  fprintf(t->out, "%*sn%zu: %" PRIu64 " ", depth, "", c.large.count + (c.small_count > 0),
          n->bytes);
  if (depth)
    put_name(t, n->frame);
  else
    fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n", t->out);
  for (size_t i = 0; i < c.large.count; i++)
    put_node(t, c.large.items[i], depth + 1);
  if (c.small_count)
    fprintf(t->out, "%*sn0: %" PRIu64 " in %zu place%s below massif's threshold (1.00%%)\n",
            depth + 1, "", c.small_bytes, c.small_count, c.small_count > 1 ? "s, all" : ",");
  free(c.large.items);
}

static bool add_root(tree_t *t) {
  node_t *root = ARRAY_ADD(t->nodes);
  if (root) *root = (node_t){0};
  return root != NULL;
}

bool massif_tree_write(page_names_t *names, const page_amounts_t *stacks, FILE *out) {
  tree_t t = {.names = names, .out = out};
  bool good = add_root(&t);
  for (size_t i = 0; good && i < stacks->count && !t.failed; i++)
    add_stack(&t, page_stack(names, stacks->items[i].stack), stacks->items[i].bytes);
  good = good && !t.failed;
  if (good) put_node(&t, &t.nodes.items[0], 0);
  free(t.nodes.items);
  hash_free(&t.index);
  return good;
}
