/* SPDX-License-Identifier: MIT
 *
 * Blocks near each other form an extent. A word outside every extent, the usual case, costs a
 * search among a few extents; inside one, a table by page gives the first block to compare.
 *
 * `verdict` is also used for marking: UNSEEN until a block is reached.
 */
#include "sensor/leaks/reachability.h"

#include <string.h>

#include "os/os.h"

#define PAGE_BITS 12u
/* An extent ends if no block follows within this many bytes. */
#define EXTENT_GAP  (UINT64_C(1) << 20)
#define EXTENTS_MAX 65536u
#define UNSEEN      255u
/* Not reached, and referenced by a block that is not reached. */
#define POINTED 254u

static uint64_t end_of(const leaks_block_t *b) { return b->address + (b->size ? b->size : 1); }

/* ---- look-up by address ---------------------------------------------------------------------- */

static bool in_order(const leaks_block_t *blocks, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    if (!blocks[i].address || end_of(&blocks[i]) < blocks[i].address) return false;
    if (i && blocks[i].address < end_of(&blocks[i - 1])) return false;
  }
  return true;
}

/* Fills OUT with the extents; returns the number of their pages. If there are too many extents, the
 * last one extends to the last block. */
static uint64_t find_extents(const leaks_block_t *blocks, uint64_t count,
                             reachability_extent_t *out, uint32_t *extents) {
  uint64_t pages = 0;
  reachability_extent_t *e = NULL;
  *extents = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (!e || (blocks[i].address - e->end > EXTENT_GAP && blocks[i].address > e->end &&
               *extents < EXTENTS_MAX)) {
      if (e) pages += (e->end - e->start + (1u << PAGE_BITS) - 1) >> PAGE_BITS;
      e = &out[(*extents)++];
      e->start = ALIGN_DOWN(blocks[i].address, UINT64_C(1) << PAGE_BITS);
      e->first_page = (uint32_t)pages;
    }
    e->end = end_of(&blocks[i]);
  }
  if (e) pages += (e->end - e->start + (1u << PAGE_BITS) - 1) >> PAGE_BITS;
  return pages;
}

static void fill_pages(reachability_t *g) {
  uint32_t block = 0;
  for (uint32_t n = 0; n < g->extent_count; n++) {
    const reachability_extent_t *e = &g->extents[n];
    uint32_t *page = &g->pages[e->first_page];
    for (uint64_t at = e->start; at < e->end; at += UINT64_C(1) << PAGE_BITS) {
      while (end_of(&g->blocks[block]) <= at)
        block++;
      *page++ = block;
    }
  }
}

static const reachability_extent_t *extent_of(const reachability_t *g, uint64_t address) {
  uint32_t low = 0, high = g->extent_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (g->extents[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  const reachability_extent_t *e = &g->extents[low];
  return low < g->extent_count && address >= e->start ? e : NULL;
}

uint32_t reachability_find(const reachability_t *g, uint64_t address) {
  if (!g->extent_count || address < g->extents[0].start ||
      address >= g->extents[g->extent_count - 1].end)
    return REACHABILITY_NONE;
  const reachability_extent_t *e = extent_of(g, address);
  if (!e) return REACHABILITY_NONE;
  uint32_t i = g->pages[e->first_page + ((address - e->start) >> PAGE_BITS)];
  for (; i < g->count && g->blocks[i].address <= address; i++)
    if (address < end_of(&g->blocks[i])) return i;
  return REACHABILITY_NONE;
}

bool reachability_open(reachability_t *g, leaks_block_t *blocks, uint64_t count,
                       reachability_read_t *read, void *context) {
  memset(g, 0, sizeof *g);
  if (count >= POINTED << 24 || !in_order(blocks, count)) return false;
  uint64_t extent_bytes = (EXTENTS_MAX + 1) * sizeof(reachability_extent_t);
  uint64_t fixed = extent_bytes + REACHABILITY_PIECE + ALIGN_UP(count * 4, UINT64_C(64));
  uint8_t *memory = os_map(fixed);
  if (!memory) return false;
  g->blocks = blocks;
  g->count = (uint32_t)count;
  g->read = read;
  g->context = context;
  g->wanted = REACHABILITY_NONE;
  g->extents = (reachability_extent_t *)(void *)memory;
  g->buffer = memory + extent_bytes;
  g->waiting = (uint32_t *)(void *)(g->buffer + REACHABILITY_PIECE);
  uint64_t pages = find_extents(blocks, count, g->extents, &g->extent_count);
  g->pages = pages >> 31 ? NULL : os_map(pages * sizeof *g->pages + 64);
  if (!g->pages) {
    os_unmap(memory, fixed);
    return false;
  }
  fill_pages(g);
  for (uint64_t i = 0; i < count; i++) {
    blocks[i].verdict = UNSEEN;
    blocks[i].holder = LEAKS_BY_NOTHING;
    blocks[i].where = 0;
    blocks[i].owner = REACHABILITY_NONE;
  }
  return true;
}

/* ---- reading words --------------------------------------------------------------------------- */

/* Calls EACH for every aligned word of memory whose value lies in a block. */
typedef void each_word_t(reachability_t *g, uint32_t block, uint64_t value, uint64_t where,
                         uint64_t with);

static uint64_t each_word(reachability_t *g, uint64_t start, uint64_t end, each_word_t *each,
                          uint64_t with) {
  uint64_t done = 0;
  start = ALIGN_UP(start, UINT64_C(8));
  for (uint64_t at = start; at + 8 <= end;) {
    uint64_t got = 0, want = end - at < REACHABILITY_PIECE ? end - at : REACHABILITY_PIECE;
    const uint64_t *words = g->read(g->context, at, want, g->buffer, &got);
    if (!words || got < 8) {
      /* This page is unreadable; the next may be readable. */
      at = ALIGN_DOWN(at, UINT64_C(4096)) + 4096;
      continue;
    }
    got = ALIGN_DOWN(got, UINT64_C(8));
    for (uint64_t i = 0; i < got / 8; i++) {
      uint32_t block = reachability_find(g, words[i]);
      if (UNLIKELY(block != REACHABILITY_NONE)) each(g, block, words[i], at + 8 * i, with);
    }
    at += got;
    done += got;
  }
  return done;
}

/* ---- marking --------------------------------------------------------------------------------- */

void reachability_mark(reachability_t *g, uint32_t index, uint64_t where, leaks_holder_t holder) {
  leaks_block_t *b = &g->blocks[index];
  if (b->verdict != UNSEEN) return;
  b->verdict = LEAKS_REACHED;
  b->holder = (uint8_t)holder;
  b->where = where;
  g->waiting[g->waiting_count++] = index; /* each block waits once at most */
}

static void mark(reachability_t *g, uint32_t block, uint64_t value, uint64_t where,
                 uint64_t holder) {
  (void)value;
  reachability_mark(g, block, where, (leaks_holder_t)holder);
}

static void mark_waiting(reachability_t *g) {
  while (g->waiting_count) {
    const leaks_block_t *b = &g->blocks[g->waiting[--g->waiting_count]];
    g->block_bytes += each_word(g, b->address, b->address + b->size, mark, LEAKS_BY_BLOCK);
  }
}

static void report_reference(reachability_t *g, uint32_t block, uint64_t value, uint64_t where,
                             uint64_t with) {
  if (block == g->wanted)
    g->refers(g->context, where, value, (leaks_holder_t)(with & 255), (uint32_t)(with >> 8));
}

void reachability_word(reachability_t *g, uint64_t value, uint64_t where, leaks_holder_t holder) {
  uint32_t block = reachability_find(g, value);
  if (block == REACHABILITY_NONE) return;
  if (g->refers) {
    report_reference(g, block, value, where, (uint64_t)holder | where >> 8 << 8);
    return;
  }
  reachability_mark(g, block, where, holder);
  mark_waiting(g);
}

uint64_t reachability_root(reachability_t *g, uint64_t start, uint64_t end, leaks_holder_t holder,
                           uint32_t index) {
  if (g->refers)
    return each_word(g, start, end, report_reference, (uint64_t)holder | (uint64_t)index << 8);
  uint64_t bytes = each_word(g, start, end, mark, holder);
  mark_waiting(g);
  return bytes;
}

void reachability_list_referrers(reachability_t *g, uint32_t wanted,
                                 void (*refers)(void *context, uint64_t where, uint64_t value,
                                                leaks_holder_t holder, uint32_t index)) {
  g->wanted = wanted;
  g->refers = refers;
}

void reachability_search_blocks(reachability_t *g) {
  for (uint32_t i = 0; i < g->count; i++) {
    const leaks_block_t *b = &g->blocks[i];
    (void)each_word(g, b->address, b->address + b->size, report_reference,
                    (uint64_t)LEAKS_BY_BLOCK | (uint64_t)i << 8);
  }
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static void point(reachability_t *g, uint32_t block, uint64_t value, uint64_t where,
                  uint64_t from) {
  (void)value;
  leaks_block_t *b = &g->blocks[block];
  if (block == from || b->verdict != UNSEEN) return;
  b->verdict = POINTED;
  b->where = where;
  b->holder = LEAKS_BY_BLOCK;
}

/* A block that an earlier one called a cycle of its own may only hang on this one. */
static void own(reachability_t *g, uint32_t block, uint64_t value, uint64_t where, uint64_t owner) {
  (void)value;
  leaks_block_t *b = &g->blocks[block];
  if (b->verdict != POINTED && (b->verdict != LEAKS_CYCLE || block == owner)) return;
  b->verdict = LEAKS_INDIRECT;
  b->owner = (uint32_t)owner;
  b->where = where;
  g->waiting[g->waiting_count++] = block;
}

/* BLOCK is leaked, and with it the blocks that it leads to. */
static void set_leaked(reachability_t *g, uint32_t block, leaks_verdict_t verdict) {
  g->blocks[block].verdict = (uint8_t)verdict;
  g->waiting[g->waiting_count++] = block;
  while (g->waiting_count) {
    const leaks_block_t *b = &g->blocks[g->waiting[--g->waiting_count]];
    (void)each_word(g, b->address, b->address + b->size, own, block);
  }
}

/* An owner that turned out to be owned itself is replaced by its own. */
static void set_owners(reachability_t *g) {
  for (uint32_t i = 0; i < g->count; i++) {
    uint32_t owner = g->blocks[i].owner;
    if (g->blocks[i].verdict != LEAKS_INDIRECT) continue;
    while (g->blocks[owner].verdict == LEAKS_INDIRECT)
      owner = g->blocks[owner].owner;
    g->blocks[i].owner = owner;
  }
}

void reachability_judge(reachability_t *g) {
  for (uint32_t i = 0; i < g->count; i++) {
    const leaks_block_t *b = &g->blocks[i];
    if (b->verdict == UNSEEN || b->verdict == POINTED)
      g->block_bytes += each_word(g, b->address, b->address + b->size, point, i);
  }
  for (uint32_t i = 0; i < g->count; i++)
    if (g->blocks[i].verdict == UNSEEN) set_leaked(g, i, LEAKS_LEAKED);
  for (uint32_t i = 0; i < g->count; i++)
    if (g->blocks[i].verdict == POINTED) set_leaked(g, i, LEAKS_CYCLE);
  set_owners(g);
}
