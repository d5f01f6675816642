/* SPDX-License-Identifier: MIT
 *
 * A sample stands for the time from the middle to the one before to the middle to the next, the
 * first one from the turn's beginning, the last one to its end. Functions are told apart by where
 * their symbols begin; code without a symbol is one function an image.
 */
#include "sensor/stall/attribution.h"

#include <string.h>

#include "sensor/stall/hot_path.h"
#include "sonde/name.h"

static attribution_t blames[ATTRIBUTIONS];

/* The samples as paths of functions, outermost first, and where each stands in its sample. */
static struct {
  hot_path_stack_t paths[ATTRIBUTION_SAMPLES];
  uint64_t functions[ATTRIBUTION_SAMPLES][ATTRIBUTION_DEPTH];
  uint16_t frames[ATTRIBUTION_SAMPLES][ATTRIBUTION_DEPTH];
  bool set[ATTRIBUTION_SAMPLES];
} tree;

attribution_t *attribution_acquire(void) {
  for (int i = 0; i < ATTRIBUTIONS; i++) {
    if (blames[i].taken) continue;
    blames[i].taken = true;
    blames[i].count = 0;
    return &blames[i];
  }
  return NULL;
}

void attribution_release(attribution_t *blame) {
  if (blame) blame->taken = false;
}

/* Every second one goes; the rest stand for their time. */
static void thin_out(attribution_t *blame) {
  int kept = 0;
  for (int i = 1; i < blame->count; i += 2)
    memcpy(&blame->samples[kept++], &blame->samples[i], sizeof *blame->samples);
  blame->count = kept;
}

void attribution_add(attribution_t *blame, uint64_t time_ns, const uintptr_t *pcs, int count) {
  if (count <= 0) return;
  if (count > ATTRIBUTION_DEPTH) count = ATTRIBUTION_DEPTH;
  if (blame->count == ATTRIBUTION_SAMPLES) thin_out(blame);
  blame->samples[blame->count].time_ns = time_ns;
  blame->samples[blame->count].depth = count;
  memcpy(blame->samples[blame->count].pcs, pcs, (size_t)count * sizeof *pcs);
  blame->count++;
}

/* ---- the tree ----------------------------------------------------------------------------- */

static int name_of(const attribution_t *blame, int sample, int frame, sonde_name_t *name) {
  return sonde_name(blame->samples[sample].pcs[frame], frame ? 0 : SONDE_NAME_EXACT, name);
}

static uint64_t function_of(const attribution_t *blame, int sample, int frame) {
  sonde_name_t name;
  int status = name_of(blame, sample, frame, &name);
  uintptr_t pc = blame->samples[sample].pcs[frame];
  if (status == 0) return pc - name.symbol_offset;
  return status == SONDE_ESTRIPPED ? name.image_id : pc;
}

static uint64_t weight_of(const attribution_t *blame, int i, uint64_t began, uint64_t now) {
  uint64_t time = blame->samples[i].time_ns;
  uint64_t from = i ? (blame->samples[i - 1].time_ns + time) / 2 : began;
  uint64_t to = i + 1 < blame->count ? (time + blame->samples[i + 1].time_ns) / 2 : now;
  return to > from ? to - from : 0;
}

/* A recursion is one function, however deep it was at that moment; it stands where it is innermost.
 */
static void make_path(const attribution_t *blame, int i) {
  int depth = 0;
  uint64_t *functions = tree.functions[i];
  for (int frame = blame->samples[i].depth; frame-- > 0;) {
    uint64_t function = function_of(blame, i, frame);
    if (!depth || functions[depth - 1] != function) functions[depth++] = function;
    tree.frames[i][depth - 1] = (uint16_t)frame;
  }
  tree.paths[i].functions = functions;
  tree.paths[i].depth = depth;
}

/* The innermost function of PATH from DEPTH outward that is not the system's; DEPTH when there is
 * none. */
static int innermost_own(const attribution_t *blame, int path, int depth) {
  sonde_name_t name;
  for (int at = depth; at >= 0; at--)
    if (name_of(blame, path, tree.frames[path][at], &name) == 0 &&
        !(name.image_flags & SONDE_IMAGE_SYSTEM))
      return at;
  return depth;
}

static int heaviest_through(const attribution_t *blame, int model, int depth) {
  int best = model;
  for (int i = 0; i < blame->count; i++)
    if (hot_path_matches(&tree.paths[i], &tree.paths[model], depth) &&
        tree.paths[i].weight > tree.paths[best].weight)
      best = i;
  return best;
}

int attribution_find(const attribution_t *blame, uint64_t began_ns, uint64_t now_ns,
                     const uintptr_t **pcs, int *percent) {
  size_t count = (size_t)blame->count;
  for (int i = 0; i < blame->count; i++) {
    make_path(blame, i);
    tree.paths[i].weight = weight_of(blame, i, began_ns, now_ns);
  }
  hot_path_t c = hot_path_find(tree.paths, count, tree.set);
  if (c.depth < 0) return 0;
  int depth = innermost_own(blame, (int)c.path, c.depth);
  uint64_t weight = hot_path_weight(tree.paths, count, &tree.paths[c.path], depth);
  *percent = (int)(100 * weight / c.total);
  int shown = heaviest_through(blame, (int)c.path, depth), frame = tree.frames[shown][depth];
  *pcs = &blame->samples[shown].pcs[frame];
  return blame->samples[shown].depth - frame;
}
