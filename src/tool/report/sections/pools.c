/* SPDX-License-Identifier: MIT
 *
 * Section `pools`: blocks of the program's own allocators (sonde_alloc_event, sonde_free_event).
 * Their memory is also part of malloc blocks or mappings, so they are counted separately.
 */
#include <stdlib.h>

#include "analysis/malloc/live_set.h"
#include "base/array.h"
#include "report/json.h"
#include "report/table.h"
#include "sonde/status.h"
#include "reader/body.h"

enum { BRIEF_STACKS = 3 };

typedef struct pool_stack {
  uint32_t stack;
  counts_t allocated, live;
} pool_stack_t;

static const column_t columns[] = {
    {"live", "live", UNIT_BLOCKS, FIELD(pool_stack_t, live)},
    {"allocated", "allocated", UNIT_BLOCKS, FIELD(pool_stack_t, allocated)},
    {NULL, "blocks", UNIT_COUNT, FIELD(pool_stack_t, allocated.count)},
    {"stack", "stack", UNIT_STACK, FIELD(pool_stack_t, stack)},
    {0}};

typedef struct pools {
  live_set_t blocks;
  pool_stack_t *stacks;
  size_t count, capacity;
  counts_t allocated, live;
  uint64_t freed, unknown_frees;
  bool recorded;   /* now */
  bool incomplete; /* pools were not recorded at the start, or not all the time */
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
  p->incomplete = !p->recorded;
  if (live_set_init(&p->blocks)) return p;
  free(p);
  return NULL;
}

/* A linear search: pools are recorded from a few stacks. NULL: out of memory. */
static pool_stack_t *stack_of(pools_t *p, uint32_t stack) {
  for (size_t i = p->count; i-- > 0;)
    if (p->stacks[i].stack == stack) return &p->stacks[i];
  if (!ARRAY_GROW(p->stacks, p->count, p->capacity)) return NULL;
  p->stacks[p->count] = (pool_stack_t){.stack = stack};
  return &p->stacks[p->count++];
}

static void remove_block(pools_t *p, live_block_t *block) {
  pool_stack_t *s = &p->stacks[block->stack];
  s->live.count--;
  s->live.bytes -= block->size;
  p->live.count--;
  p->live.bytes -= block->size;
  live_set_remove(&p->blocks, block);
}

static bool add_block(pools_t *p, uint64_t address, uint64_t size, uint32_t stack) {
  pool_stack_t *s = stack_of(p, stack);
  live_block_t *old = live_set_find(&p->blocks, address);
  if (!s) return false;
  if (old) remove_block(p, old);
  live_block_t block = {.address = address,
                        .size = size < LIVE_SIZE_MAX ? size & LIVE_SIZE_MAX : LIVE_SIZE_MAX,
                        .stack = (uint32_t)(s - p->stacks)};
  if (!live_set_add(&p->blocks, &block)) return false;
  counts_t *all[] = {&s->allocated, &s->live, &p->allocated, &p->live};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    all[i]->count++;
    all[i]->bytes += block.size;
  }
  return true;
}

/* Blocks that were live before recording is switched on again may have been freed meanwhile. */
static void switch_mode(pools_t *p, uint32_t mode) {
  bool on = mode & RECORD_BLOCKS;
  p->incomplete |= on != p->recorded;
  size_t at = 0;
  for (live_block_t *block; on && !p->recorded && (block = live_set_next(&p->blocks, &at));)
    remove_block(p, block);
  p->recorded = on;
}

static bool add_event(void *state, const record_event_t *e) {
  pools_t *p = state;
  uint64_t n[4];
  if (e->kind != EVENT_EXTENDED) return true;
  if (e->subtype == EXTENDED_MODE && body_numbers(e, n, 1)) switch_mode(p, (uint32_t)n[0]);
  if (e->subtype != EXTENDED_POOL || !body_numbers(e, n, 4) || !n[1]) return true;
  if (n[0] == POOL_ALLOCATED) return add_block(p, n[1], n[2], (uint32_t)n[3]);
  if (n[0] != POOL_FREED) return true;
  live_block_t *block = live_set_find(&p->blocks, n[1]);
  p->freed++;
  if (block)
    remove_block(p, block);
  else if (!p->incomplete)
    p->unknown_frees++;
  return true;
}

static bool has_data(const report_t *r, void *state) {
  const pools_t *p = state;
  (void)r;
  return p->allocated.count || p->freed;
}

static int by_live(const void *left, const void *right) {
  const pool_stack_t *a = left, *b = right;
  if (a->live.bytes != b->live.bytes) return a->live.bytes < b->live.bytes ? 1 : -1;
  if (a->allocated.bytes != b->allocated.bytes)
    return a->allocated.bytes < b->allocated.bytes ? 1 : -1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* Sorts the stacks. Blocks refer to stacks by index, so no block may be added afterwards. */
static table_t ranked_stacks(pools_t *p) {
  if (p->count) qsort(p->stacks, p->count, sizeof *p->stacks, by_live);
  return (table_t){TABLE(columns, p->stacks, p->count)};
}

static int print_text(const report_t *r, void *state, FILE *out) {
  pools_t *p = state;
  char a[24], b[24], c[24];
  const table_t stacks = ranked_stacks(p);
  fprintf(out, "\n%spools, as reported by the program%s\n", r->bold, r->plain);
  fprintf(out, "  allocated  %s in %s block%s; %s freed\n",
          report_bytes((int64_t)p->allocated.bytes, a), report_count(p->allocated.count, b),
          report_plural(p->allocated.count), report_count(p->freed, c));
  fprintf(out, "  live       %s in %s block%s\n", report_bytes((int64_t)p->live.bytes, a),
          report_count(p->live.count, b), report_plural(p->live.count));
  if (p->unknown_frees)
    fprintf(out, "  invalid    %s frees of blocks that were not allocated\n",
            report_count(p->unknown_frees, a));
  if (p->count) table_text(r, &stacks, report_rows(r, BRIEF_STACKS), "stacks", out);
  return 0;
}

static json_object *make_json(const report_t *r, void *state) {
  pools_t *p = state;
  const table_t stacks = ranked_stacks(p);
  json_object *o = json_new_object();
  json_add(o, "allocated", report_counts_json(p->allocated));
  json_add(o, "live", report_counts_json(p->live));
  json_add_count(o, "freed", p->freed);
  json_add_count(o, "unknown_frees", p->unknown_frees);
  json_add(o, "stacks", table_json(r, &stacks, r->top));
  return o;
}

const report_section_t section_pools = {.name = "pools",
                                        .start = start,
                                        .event = add_event,
                                        .has_data = has_data,
                                        .text = print_text,
                                        .json = make_json,
                                        .end = end};
