/* SPDX-License-Identifier: MIT
 *
 * A sample represents the time from the middle between it and the previous sample to the middle
 * between it and the next one; the first begins, and the last ends, with the iteration. A function
 * is identified by the address of its symbol; code without symbols counts as one function per
 * image.
 */
#include "sensor/stall/attribution.h"

#include <string.h>

#include "sensor/stall/function_of_pc.h"
#include "sensor/stall/hot_path.h"
#include "sonde/name.h"

static attribution_t attributions[ATTRIBUTIONS];

/* The samples as stacks of functions, outermost first, and the frame of each function. */
static struct {
  hot_path_stack_t stacks[ATTRIBUTION_SAMPLES];
  uint64_t functions[ATTRIBUTION_SAMPLES][ATTRIBUTION_DEPTH];
  uint16_t frames[ATTRIBUTION_SAMPLES][ATTRIBUTION_DEPTH];
  bool set[ATTRIBUTION_SAMPLES];
} tree;

attribution_t *attribution_acquire(void) {
  for (int i = 0; i < ATTRIBUTIONS; i++) {
    if (attributions[i].used) continue;
    attributions[i].used = true;
    attributions[i].count = 0;
    return &attributions[i];
  }
  return NULL;
}

void attribution_release(attribution_t *a) {
  if (a) a->used = false;
}

/* Drops every second sample; the others then represent its time. */
static void thin_out(attribution_t *a) {
  int kept = 0;
  for (int i = 1; i < a->count; i += 2)
    memcpy(&a->samples[kept++], &a->samples[i], sizeof *a->samples);
  a->count = kept;
}

void attribution_add(attribution_t *a, uint64_t time_ns, const uintptr_t *pcs, int count) {
  if (count <= 0) return;
  if (count > ATTRIBUTION_DEPTH) count = ATTRIBUTION_DEPTH;
  if (a->count == ATTRIBUTION_SAMPLES) thin_out(a);
  a->samples[a->count].time_ns = time_ns;
  a->samples[a->count].depth = count;
  memcpy(a->samples[a->count].pcs, pcs, (size_t)count * sizeof *pcs);
  a->count++;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static int name_of(const attribution_t *a, int sample, int frame, sonde_name_t *name) {
  return sonde_name(a->samples[sample].pcs[frame], frame ? 0 : SONDE_NAME_EXACT, name);
}

static uint64_t weight_of(const attribution_t *a, int i, uint64_t began, uint64_t now) {
  uint64_t time = a->samples[i].time_ns;
  uint64_t from = i ? (a->samples[i - 1].time_ns + time) / 2 : began;
  uint64_t to = i + 1 < a->count ? (time + a->samples[i + 1].time_ns) / 2 : now;
  return to > from ? to - from : 0;
}

/* Consecutive frames of one recursive function count once, at the innermost. */
static void make_stack(const attribution_t *a, int i) {
  int depth = 0;
  uint64_t *functions = tree.functions[i];
  for (int frame = a->samples[i].depth; frame-- > 0;) {
    uint64_t function = function_of_pc(a->samples[i].pcs[frame], frame == 0);
    if (!depth || functions[depth - 1] != function) functions[depth++] = function;
    tree.frames[i][depth - 1] = (uint16_t)frame;
  }
  tree.stacks[i].functions = functions;
  tree.stacks[i].depth = depth;
}

/* The innermost function outside system images, from DEPTH outward; DEPTH if there is none. */
static int innermost_app(const attribution_t *a, int path, int depth) {
  sonde_name_t name;
  for (int at = depth; at >= 0; at--)
    if (name_of(a, path, tree.frames[path][at], &name) == 0 &&
        !(name.image_flags & SONDE_IMAGE_SYSTEM))
      return at;
  return depth;
}

static int heaviest_through(const attribution_t *a, int model, int depth) {
  int best = model;
  for (int i = 0; i < a->count; i++)
    if (hot_path_matches(&tree.stacks[i], &tree.stacks[model], depth) &&
        tree.stacks[i].weight > tree.stacks[best].weight)
      best = i;
  return best;
}

int attribution_find(const attribution_t *a, uint64_t began_ns, uint64_t now_ns,
                     const uintptr_t **pcs, int *percent) {
  size_t count = (size_t)a->count;
  for (int i = 0; i < a->count; i++) {
    make_stack(a, i);
    tree.stacks[i].weight = weight_of(a, i, began_ns, now_ns);
  }
  hot_path_t c = hot_path_find(tree.stacks, count, tree.set);
  if (c.depth < 0) return 0;
  int depth = innermost_app(a, (int)c.stack, c.depth);
  uint64_t weight = hot_path_weight(tree.stacks, count, &tree.stacks[c.stack], depth);
  *percent = (int)(100 * weight / c.total);
  int shown = heaviest_through(a, (int)c.stack, depth), frame = tree.frames[shown][depth];
  *pcs = &a->samples[shown].pcs[frame];
  return a->samples[shown].depth - frame;
}
