/* SPDX-License-Identifier: MIT
 *
 * The report of blocks that the program itself told of (sonde_alloc_event, sonde_free_event): of
 * pools and arenas. Their memory is part of blocks or regions, so they are counted apart.
 */
#include <stdlib.h>

#include "analysis/malloc/live_set.h"
#include "report/json.h"
#include "report/report.h"
#include "sonde/status.h"
#include "reader/body.h"

enum { BRIEF_STACKS = 3 };

typedef struct pool_stack {
  uint32_t stack;
  counts_t given, live;
} pool_stack_t;

typedef struct pools {
  live_set_t blocks;
  pool_stack_t *stacks;
  size_t count, room;
  counts_t given, live;
  uint64_t taken, unknown;
  bool recorded, late; /* at this moment; not from the start, or not all the time */
} pools_t;

static void end(void *state) {
  pools_t *p = state;
  live_set_free(&p->blocks);
  free(p->stacks);
  free(p);
}

static void *start(const report_t *r) {
  pools_t *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->recorded = reader_header(r->reader)->mode & RECORD_BLOCKS;
  p->late = !p->recorded;
  if (live_set_init(&p->blocks)) return p;
  free(p);
  return NULL;
}

/* Programs tell of pools from a few places. */
static pool_stack_t *stack_of(pools_t *p, uint32_t stack) {
  for (size_t i = p->count; i-- > 0;)
    if (p->stacks[i].stack == stack) return &p->stacks[i];
  if (p->count == p->room) {
    size_t room = p->room ? 2 * p->room : 32;
    pool_stack_t *grown = realloc(p->stacks, room * sizeof *grown);
    if (!grown) return NULL;
    p->stacks = grown;
    p->room = room;
  }
  p->stacks[p->count] = (pool_stack_t){.stack = stack};
  return &p->stacks[p->count++];
}

static void forget(pools_t *p, live_block_t *block) {
  pool_stack_t *s = &p->stacks[block->stack];
  s->live.count--;
  s->live.bytes -= block->size;
  p->live.count--;
  p->live.bytes -= block->size;
  live_set_remove(&p->blocks, block);
}

static bool give(pools_t *p, uint64_t address, uint64_t size, uint32_t stack) {
  pool_stack_t *s = stack_of(p, stack);
  live_block_t *old = live_set_find(&p->blocks, address);
  if (!s) return false;
  if (old) forget(p, old);
  live_block_t block = {.address = address,
                        .size = size < LIVE_SIZE_MAX ? size & LIVE_SIZE_MAX : LIVE_SIZE_MAX,
                        .stack = (uint32_t)(s - p->stacks)};
  if (!live_set_add(&p->blocks, &block)) return false;
  counts_t *all[] = {&s->given, &s->live, &p->given, &p->live};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    all[i]->count++;
    all[i]->bytes += block.size;
  }
  return true;
}

/* What was live before cannot be followed. */
static void switch_mode(pools_t *p, uint32_t mode) {
  bool on = mode & RECORD_BLOCKS;
  p->late |= on != p->recorded;
  for (size_t i = 0; on && !p->recorded && p->blocks.count; i = (i + 1) & p->blocks.mask)
    while (p->blocks.places[i].address)
      forget(p, &p->blocks.places[i]);
  p->recorded = on;
}

static bool take_event(void *state, const record_event_t *e) {
  pools_t *p = state;
  uint64_t n[4];
  if (e->kind != EVENT_EXTENDED) return true;
  if (e->subtype == EXTENDED_MODE && body_numbers(e, n, 1)) switch_mode(p, (uint32_t)n[0]);
  if (e->subtype != EXTENDED_POOL || !body_numbers(e, n, 4) || !n[1]) return true;
  if (n[0] == POOL_ALLOCATED) return give(p, n[1], n[2], (uint32_t)n[3]);
  if (n[0] != POOL_FREED) return true;
  live_block_t *block = live_set_find(&p->blocks, n[1]);
  p->taken++;
  if (block)
    forget(p, block);
  else if (!p->late)
    p->unknown++;
  return true;
}

static bool holds(const report_t *r, void *state) {
  const pools_t *p = state;
  (void)r;
  return p->given.count || p->taken;
}

static int by_live(const void *left, const void *right) {
  const pool_stack_t *a = left, *b = right;
  if (a->live.bytes != b->live.bytes) return a->live.bytes < b->live.bytes ? 1 : -1;
  if (a->given.bytes != b->given.bytes) return a->given.bytes < b->given.bytes ? 1 : -1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* The blocks name stacks by their places, which are lost with this. */
static void rank(pools_t *p) {
  if (p->count) qsort(p->stacks, p->count, sizeof *p->stacks, by_live);
}

static int print_text(const report_t *r, void *state, FILE *out) {
  pools_t *p = state;
  char a[24], b[24], c[24];
  rank(p);
  fprintf(out, "\n%spools, as the program told%s\n", r->bold, r->plain);
  fprintf(out, "  given out  %s in %s blocks; %s taken back\n",
          report_bytes((int64_t)p->given.bytes, a), report_count(p->given.count, b),
          report_count(p->taken, c));
  fprintf(out, "  left       %s in %s blocks\n", report_bytes((int64_t)p->live.bytes, a),
          report_count(p->live.count, b));
  if (p->unknown)
    fprintf(out, "  odd        %s taken back that were not given out\n",
            report_count(p->unknown, a));
  uint32_t rows = r->brief ? BRIEF_STACKS : r->top;
  for (size_t i = 0; i < p->count && i < rows; i++) {
    const pool_stack_t *s = &p->stacks[i];
    if (!s->given.count) continue;
    report_left_text(r, s->live.bytes, s->given.bytes, s->given.count, "blocks", s->stack, out);
  }
  return 0;
}

static json_object *make_json(const report_t *r, void *state) {
  pools_t *p = state;
  json_object *o = json_object_new_object(), *stacks = json_object_new_array();
  rank(p);
  json_object_object_add(o, "given", report_tally_json(p->given));
  json_object_object_add(o, "live", report_tally_json(p->live));
  json_add_count(o, "taken", p->taken);
  json_add_count(o, "unknown", p->unknown);
  for (size_t i = 0; i < p->count && i < r->top; i++) {
    json_object *s = json_object_new_object();
    json_add_count(s, "stack", p->stacks[i].stack);
    json_object_object_add(s, "given", report_tally_json(p->stacks[i].given));
    json_object_object_add(s, "live", report_tally_json(p->stacks[i].live));
    json_object_object_add(s, "frames", report_frames_json(r, p->stacks[i].stack, NULL));
    json_object_array_add(stacks, s);
  }
  json_object_object_add(o, "stacks", stacks);
  return o;
}

const report_section_t section_pools = {.name = "pools",
                                        .start = start,
                                        .event = take_event,
                                        .holds = holds,
                                        .text = print_text,
                                        .json = make_json,
                                        .end = end};
