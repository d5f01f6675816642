/* SPDX-License-Identifier: MIT
 *
 * The nodes of stacks. A report walks each stack of a recording several times. So each node has
 * links, the numbers of its parent and of its frame, and a walk looks up an id once.
 */
#include "base/bits.h"
#include "reader/internal.h"
#include "sonde/status.h"

/* ---- nodes -------------------------------------------------------------------------------- */

int reader_put_node(reader_t *r, record_node_t n) {
  uint32_t number = ids_find(&r->node_ids, n.id);
  const record_node_t *before = number ? &r->nodes.items[number - 1] : NULL;
  r->has_replaced_nodes |= before && (before->parent != n.parent || before->frame != n.frame);
  record_node_t *item = ARRAY_ADD(r->nodes);
  if (!item) return SONDE_ENOMEM;
  *item = n;
  return ids_set(&r->node_ids, n.id, (uint32_t)(r->nodes.count - 1)) ? 0 : SONDE_ENOMEM;
}

const record_frame_t *reader_frame_of_node(const reader_t *r, size_t i) {
  uint32_t frame = r->links.items[i].frame;
  return frame ? &r->frames.items[frame - 1] : NULL;
}

/* Of node I, all nodes before which have links. Its parent is usually the node before it. */
static node_link_t link_of(const reader_t *r, size_t i) {
  const record_node_t *n = &r->nodes.items[i];
  node_link_t link = {.frame = ids_find(&r->frame_ids, n->frame)};
  if (n->parent && i && r->nodes.items[i - 1].id == n->parent && !r->has_replaced_nodes)
    link.outer = (uint32_t)i;
  else if (n->parent)
    link.outer = ids_find(&r->node_ids, n->parent);
  if (n->parent && !link.outer) link.outer = LINK_MISSING;
  return link;
}

static bool add_link(reader_t *r) {
  node_link_t *link = ARRAY_ADD(r->links);
  if (link) *link = link_of(r, r->links.count - 1);
  return link != NULL;
}

int reader_link_nodes(reader_t *r) {
  r->is_linked = true;
  r->links.count = 0;
  while (r->links.count < r->nodes.count)
    if (!add_link(r)) return SONDE_ENOMEM;
  return 0;
}

uint64_t reader_next_node(const reader_t *r) {
  uint32_t highest = 0;
  for (size_t i = 0; i < r->nodes.count; i++)
    if (r->nodes.items[i].id > highest) highest = r->nodes.items[i].id;
  return (uint64_t)highest + 1;
}

uint32_t reader_add_node(reader_t *r, uint32_t parent, uint32_t frame) {
  if (!r->next_node) r->next_node = reader_next_node(r);
  if (r->next_node > UINT32_MAX) return 0;
  return reader_set_node(r, (uint32_t)r->next_node, parent, frame) ? (uint32_t)r->next_node++ : 0;
}

/* All links are made again if nodes may have links to an earlier node with ID: it is rare. */
uint32_t reader_set_node(reader_t *r, uint32_t id, uint32_t parent, uint32_t frame) {
  bool is_known = ids_find(&r->node_ids, id) != 0;
  if (!id || reader_put_node(r, (record_node_t){id, parent, frame}) < 0) return 0;
  if (!r->is_linked) return id;
  return (is_known ? reader_link_nodes(r) == 0 : add_link(r)) ? id : 0;
}

/* ---- stacks -------------------------------------------------------------------------------- */

/* Brent's algorithm detects a cycle of at most READER_DEPTH_MAX / 2 nodes: each time that the depth
 * has doubled, a checkpoint moves to the current node. Longer cycles end at READER_DEPTH_MAX. */
int reader_stack(const reader_t *r, uint32_t id, const record_frame_t **frames, int max) {
  uint32_t checkpoint = 0, node = id ? ids_find(&r->node_ids, id) : 0;
  int count = 0, nodes = 0;
  if (id && !node) return -1;
  for (; node && count < READER_DEPTH_MAX; nodes++) {
    const record_frame_t *f = node == LINK_MISSING ? NULL : reader_frame_of_node(r, node - 1);
    if (!f || node == checkpoint) return -1;
    if (!(nodes & (nodes - 1))) checkpoint = node;
    node = r->links.items[node - 1].outer;
    if (f->flags & FRAME_TRAMPOLINE) continue;
    if (count < max) frames[count] = f;
    count++;
  }
  return count + (node != 0);
}

/* Whether F is in the image of an interpreter. */
static bool is_interpreter(const reader_t *r, const record_frame_t *f) {
  const record_image_t *image = f->image ? reader_image(r, f->image) : NULL;
  return image && image->is_interpreter;
}

int reader_program_stack(const reader_t *r, uint32_t id, const record_frame_t **frames, int max) {
  int depth = reader_stack(r, id, frames, max), known = depth < max ? depth : max, kept = 0;
  int own = 0; /* innermost frames of the agent */
  while (own < known && reader_is_agent(r, frames[own]))
    own++;
  if (own) frames[kept++] = frames[own - 1];
  bool is_inside = false;
  for (int i = own; i < known; i++) {
    is_inside |= reader_is_interpreted(frames[i]);
    if (!reader_is_agent(r, frames[i]) && !(is_inside && is_interpreter(r, frames[i])))
      frames[kept++] = frames[i];
  }
  return known > 0 ? depth - (known - kept) : depth;
}
