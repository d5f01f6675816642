/* SPDX-License-Identifier: MIT
 *
 * The number of uncertain leaks: a register with unknown content may reference one leaked block,
 * and through that block others. So of the leaked blocks of one stack, at most as many are
 * uncertain as there are such registers. If a thread may have run during the copy, its stack is
 * unknown, and all blocks are uncertain.
 */
#include "analysis/malloc/leaks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bits.h"
#include "reader/reader.h"
#include "sonde/status.h"

#if defined(__aarch64__)
#define CALLEE_SAVED_REGISTERS 11 /* x19 … x29: AAPCS64 */
#else
#define CALLEE_SAVED_REGISTERS 6 /* rbx, rbp, r12 … r15: psABI 3.2.1 */
#endif

/* ---- blocks ------------------------------------------------------------------------------- */

typedef struct entry {
  leaks_block_t block;
  uint32_t stack;
} block_stack_t;

static int by_address(const void *a, const void *b) {
  uint64_t x = ((const block_stack_t *)a)->block.address,
           y = ((const block_stack_t *)b)->block.address;
  return x < y ? -1 : x > y;
}

/* Separates overlapping blocks. A block whose free is missing may reach into a later one, so the
 * block with the lower address is shortened. */
static void separate(leaks_t *l, const block_stack_t *entries) {
  for (uint64_t i = 0; i < l->count; i++) {
    l->blocks[i] = entries[i].block;
    l->stacks[i] = entries[i].stack;
    uint64_t capacity = i + 1 < l->count ? entries[i + 1].block.address - l->blocks[i].address
                                         : UINT64_MAX - l->blocks[i].address;
    if (l->blocks[i].size > capacity) l->blocks[i].size = capacity;
    l->live.bytes += l->blocks[i].size;
  }
  l->live.count = l->count;
}

int leaks_collect(leaks_t *l, const replay_t *replay) {
  uint64_t count = replay->blocks.count;
  block_stack_t *entries = malloc((count + 1) * sizeof *entries);
  l->blocks = malloc((count + 1) * sizeof *l->blocks);
  l->stacks = malloc((count + 1) * sizeof *l->stacks);
  if (!entries || !l->blocks || !l->stacks) {
    free(entries);
    return SONDE_ENOMEM;
  }
  size_t at = 0;
  for (const live_block_t *b; (b = live_set_next(&replay->blocks, &at)) && l->count < count;) {
    entries[l->count++] =
        (block_stack_t){{.address = b->address, .size = b->size}, replay->stacks[b->stack].stack};
  }
  qsort(entries, l->count, sizeof *entries, by_address);
  separate(l, entries);
  free(entries);
  return 0;
}

bool leaks_log_is_complete(const replay_t *replay) {
  const reader_damage_t *d = reader_damage(replay->reader);
  bool complete = !d->dropped_chunks && !d->missing_chunks && !d->damaged_chunks && !d->bad_records;
  return replay->mode & RECORD_LIVE || (complete && !reader_header(replay->reader)->lost_events);
}

bool leaks_has_unrecorded(const replay_t *replay) {
  const record_header_t *h = reader_header(replay->reader);
  return !(h->mode & (RECORD_BLOCKS | RECORD_LIVE)) || replay->switches || h->lost_events;
}

int leaks_send(leaks_t *l) {
  leaks_exchange_t *x = l->exchange;
  uint64_t at = ALIGN_UP((uint64_t)sizeof *x, UINT64_C(4096)), bytes = l->count * sizeof *l->blocks;
  uint64_t answers = LEAKS_REFERRERS * sizeof(leaks_referrer_t);
  if (l->size < at + answers || bytes > l->size - at - answers) return SONDE_EFULL;
  memcpy((uint8_t *)x + at, l->blocks, bytes);
  x->blocks_at = l->blocks_at = at;
  x->block_count = l->count;
  x->answers_at = l->answers_at = at + bytes;
  return 0;
}

/* ---- verdicts ----------------------------------------------------------------------------- */

static bool is_lost(const leaks_block_t *b) {
  return b->verdict == LEAKS_LEAKED || b->verdict == LEAKS_CYCLE;
}

static bool is_valid(const leaks_t *l, uint64_t i, const leaks_block_t *answer) {
  const leaks_block_t *b = &l->blocks[i];
  if (answer->address != b->address || answer->size != b->size ||
      answer->verdict >= LEAKS_VERDICTS || answer->holder >= LEAKS_HOLDERS)
    return false;
  return answer->verdict != LEAKS_INDIRECT || answer->owner < l->count;
}

static int by_stack(const void *a, const void *b) {
  uint32_t x = ((const leaks_stack_t *)a)->stack, y = ((const leaks_stack_t *)b)->stack;
  return x < y ? -1 : x > y;
}

static int by_bytes(const void *a, const void *b) {
  const leaks_stack_t *x = a, *y = b;
  if (x->total.bytes != y->total.bytes) return x->total.bytes > y->total.bytes ? -1 : 1;
  return by_stack(a, b);
}

static void add_lost(leaks_stack_t *s, const leaks_block_t *b) {
  counts_add(&s->lost, (counts_t){1, b->size});
  counts_add(&s->total, (counts_t){1, b->size});
  s->in_cycles += b->verdict == LEAKS_CYCLE;
  if (s->example && b->size <= s->example_size) return;
  s->example = b->address;
  s->example_size = b->size;
}

/* Makes an item of by_stack for each stack with a lost block. */
static bool list_stacks(leaks_t *l) {
  size_t count = 0;
  for (uint64_t i = 0; i < l->count; i++)
    count += is_lost(&l->blocks[i]);
  l->by_stack = calloc(count + 1, sizeof *l->by_stack);
  if (!l->by_stack) return false;
  for (uint64_t i = 0; i < l->count; i++)
    if (is_lost(&l->blocks[i])) l->by_stack[l->by_stack_count++].stack = l->stacks[i];
  qsort(l->by_stack, l->by_stack_count, sizeof *l->by_stack, by_stack);
  size_t kept = 0;
  for (size_t i = 0; i < l->by_stack_count; i++)
    if (!kept || l->by_stack[kept - 1].stack != l->by_stack[i].stack)
      l->by_stack[kept++] = l->by_stack[i];
  l->by_stack_count = kept;
  return true;
}

static leaks_stack_t *item_of(const leaks_t *l, uint32_t stack) {
  const leaks_stack_t wanted = {.stack = stack};
  return bsearch(&wanted, l->by_stack, l->by_stack_count, sizeof wanted, by_stack);
}

static void add_blocks(leaks_t *l) {
  for (uint64_t i = 0; i < l->count; i++) {
    const leaks_block_t *b = &l->blocks[i];
    if (is_lost(b)) {
      add_lost(item_of(l, l->stacks[i]), b);
      counts_add(&l->lost, (counts_t){1, b->size});
      counts_add(&l->total, (counts_t){1, b->size});
      l->in_cycles += b->verdict == LEAKS_CYCLE;
    } else if (b->verdict == LEAKS_INDIRECT) {
      leaks_stack_t *s = item_of(l, l->stacks[b->owner]);
      counts_add(&l->indirect, (counts_t){1, b->size});
      counts_add(&l->total, (counts_t){1, b->size});
      if (!s) continue;
      counts_add(&s->indirect, (counts_t){1, b->size});
      counts_add(&s->total, (counts_t){1, b->size});
    } else if (b->verdict == LEAKS_GONE) {
      l->unmapped++;
    } else {
      l->holders[b->holder]++;
    }
  }
}

uint64_t leaks_unknown_registers(uint64_t threads) { return threads * CALLEE_SAVED_REGISTERS; }

static void count_threads(leaks_t *l) {
  const leaks_exchange_t *x = l->exchange;
  for (uint32_t i = 0; i < x->thread_count && i < LEAKS_THREADS; i++) {
    l->unknown_threads += x->threads[i].state == LEAKS_THREAD_UNKNOWN;
    l->running_threads += x->threads[i].state == LEAKS_THREAD_RUNNING;
  }
  l->unknown_registers = leaks_unknown_registers(l->unknown_threads);
}

static void count_uncertain(leaks_t *l) {
  for (size_t i = 0; i < l->by_stack_count; i++) {
    leaks_stack_t *s = &l->by_stack[i];
    bool all =
        l->running_threads || l->exchange->reallocating || s->lost.count < l->unknown_registers;
    s->uncertain = all ? s->lost.count : l->unknown_registers;
  }
}

int leaks_receive(leaks_t *l) {
  const leaks_block_t *answers = (const void *)((const uint8_t *)l->exchange + l->blocks_at);
  for (uint64_t i = 0; i < l->count; i++) {
    leaks_block_t block = answers[i];
    if (!is_valid(l, i, &block)) return SONDE_EFORMAT;
    l->blocks[i] = block;
  }
  count_threads(l);
  if (!list_stacks(l)) return SONDE_ENOMEM;
  add_blocks(l);
  count_uncertain(l);
  qsort(l->by_stack, l->by_stack_count, sizeof *l->by_stack, by_bytes);
  return 0;
}

const leaks_block_t *leaks_find(const leaks_t *l, uint64_t address) {
  size_t after = ARRAY_SEARCH(l->count, i, l->blocks[i].address <= address);
  const leaks_block_t *b = after ? &l->blocks[after - 1] : NULL;
  return b && address - b->address < (b->size ? b->size : 1) ? b : NULL;
}

void leaks_free(leaks_t *l) {
  free(l->blocks);
  free(l->stacks);
  free(l->by_stack);
}
