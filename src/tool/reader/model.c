/* SPDX-License-Identifier: MIT */
#include "reader/model.h"

#include <stdlib.h>
#include <string.h>

enum {
  /* entries of each context table; a collision only makes a guess worse */
  CONTEXTS = 1 << 16,
  /* symbols that followed one symbol, the last one first */
  FOLLOWERS = 4,
  /* size classes of 16 bytes; larger sizes share the last */
  CLASSES = 4096,
};

typedef struct symbol_state {
  uint64_t sizes[MODEL_SIZES]; /* last first */
  uint32_t newest, oldest;     /* live blocks that it allocated */
  uint32_t source;             /* the place of the symbol whose block it freed last */
  uint32_t after;              /* the block allocated after the one it freed last */
  uint64_t freed;              /* the address of that */
  uint64_t step;               /* from the one freed before by this symbol to it */
  uint64_t from_any;           /* from the one freed before by any symbol to it */
} symbol_state_t;

typedef struct block {
  uint64_t address;
  uint32_t size_class, symbol;   /* symbol: place of its state */
  uint32_t newer, older;         /* live blocks in the order of allocation */
  uint32_t newer_own, older_own; /* those of the same symbol */
  bool live;
} block_t;

typedef struct hole {
  uint64_t address;
  uint32_t next;
} hole_t;

#define GROWING(type, name)                                                                        \
  struct {                                                                                         \
    type *items;                                                                                   \
    uint32_t count, capacity;                                                                      \
  } name

struct model {
  uint64_t last[3]; /* symbols, the latest first */
  uint64_t by_three[CONTEXTS], by_two[CONTEXTS], by_one[CONTEXTS][FOLLOWERS];
  symbol_state_t symbols[CONTEXTS];
  GROWING(block_t, blocks); /* number 0: none */
  GROWING(hole_t, holes);   /* likewise */
  uint32_t *slots;          /* address to number of its live block */
  uint32_t mask;
  uint32_t newest, after_freed, before_freed; /* blocks */
  uint64_t last_freed, end_of_last, end_of_fresh;
  uint32_t hole_of_class[CLASSES];
};

/* ---- memory ------------------------------------------------------------------------------- */

static bool grow(void **items, size_t size, uint32_t count, uint32_t *capacity) {
  if (count < *capacity) return true;
  uint32_t bigger = *capacity ? *capacity * 2 : 1024;
  void *grown = bigger > *capacity ? realloc(*items, bigger * size) : NULL;
  if (!grown) return false;
  *items = grown;
  *capacity = bigger;
  return true;
}
#define GROW(t) grow((void **)&(t).items, sizeof *(t).items, (t).count, &(t).capacity)

model_t *model_new(void) {
  model_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->mask = 4095;
  m->slots = calloc((size_t)m->mask + 1, sizeof *m->slots);
  if (m->slots && GROW(m->blocks) && GROW(m->holes)) {
    m->blocks.items[0] = (block_t){0};
    m->holes.items[0] = (hole_t){0};
    m->blocks.count = m->holes.count = 1;
    return m;
  }
  model_free(m);
  return NULL;
}

void model_free(model_t *m) {
  if (!m) return;
  free(m->blocks.items);
  free(m->holes.items);
  free(m->slots);
  free(m);
}

/* ---- symbols ------------------------------------------------------------------------------ */

static uint32_t place_of(uint64_t x) {
  x *= UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(x >> 48);
}

static uint32_t place_of_two(const model_t *m) {
  return place_of(m->last[0] * 3 + m->last[1] * UINT64_C(0xd6e8feb86659fd93));
}

static uint32_t place_of_three(const model_t *m) {
  return place_of(m->last[0] * 3 + m->last[1] * UINT64_C(0xd6e8feb86659fd93) +
                  m->last[2] * UINT64_C(0xa0761d6478bd642f));
}

void model_symbols(const model_t *m, uint64_t *out) {
  out[0] = m->by_three[place_of_three(m)];
  out[1] = m->by_two[place_of_two(m)];
  memcpy(out + 2, m->by_one[place_of(m->last[0])], sizeof m->by_one[0]);
}

void model_symbol_was(model_t *m, uint64_t symbol) {
  uint64_t *followers = m->by_one[place_of(m->last[0])];
  int i = 0;
  while (i < FOLLOWERS - 1 && followers[i] != symbol)
    i++;
  memmove(followers + 1, followers, (size_t)i * sizeof *followers);
  followers[0] = symbol;
  m->by_two[place_of_two(m)] = symbol;
  m->by_three[place_of_three(m)] = symbol;
  m->last[2] = m->last[1];
  m->last[1] = m->last[0];
  m->last[0] = symbol;
}

static symbol_state_t *state_of(model_t *m, uint64_t symbol) {
  return &m->symbols[place_of(symbol)];
}

/* ---- sizes -------------------------------------------------------------------------------- */

void model_sizes(model_t *m, uint64_t symbol, uint64_t *out) {
  memcpy(out, state_of(m, symbol)->sizes, sizeof m->symbols[0].sizes);
}

void model_size_was(model_t *m, uint64_t symbol, uint64_t size) {
  uint64_t *sizes = state_of(m, symbol)->sizes;
  int i = 0;
  while (i < MODEL_SIZES - 1 && sizes[i] != size)
    i++;
  memmove(sizes + 1, sizes, (size_t)i * sizeof *sizes);
  sizes[0] = size;
}

/* ---- live blocks -------------------------------------------------------------------------- */

static uint32_t slot_of(const model_t *m, uint64_t address) {
  return (uint32_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 24) & m->mask;
}

static uint32_t find_block(const model_t *m, uint64_t address) {
  for (uint32_t i = slot_of(m, address); m->slots[i]; i = (i + 1) & m->mask)
    if (m->blocks.items[m->slots[i]].address == address) return m->slots[i];
  return 0;
}

static void put_slot(model_t *m, uint32_t number) {
  uint32_t i = slot_of(m, m->blocks.items[number].address);
  while (m->slots[i])
    i = (i + 1) & m->mask;
  m->slots[i] = number;
}

/* Slots are never removed: an address keeps its block, live or freed. */
static bool reserve_slot(model_t *m) {
  if (2 * (uint64_t)m->blocks.count < m->mask) return true;
  if (m->mask >= UINT32_MAX / 2) return false;
  uint32_t *old = m->slots, mask = m->mask;
  uint32_t *slots = calloc(2 * (size_t)mask + 2, sizeof *slots);
  if (!slots) return false;
  m->slots = slots;
  m->mask = 2 * mask + 1;
  for (uint32_t n = 1; n < m->blocks.count; n++)
    put_slot(m, n);
  free(old);
  return true;
}

static void link_block(model_t *m, uint32_t number) {
  block_t *blocks = m->blocks.items, *b = &blocks[number];
  symbol_state_t *s = &m->symbols[b->symbol];
  b->older = m->newest;
  b->newer = 0;
  if (m->newest) blocks[m->newest].newer = number;
  m->newest = number;
  b->older_own = s->newest;
  b->newer_own = 0;
  if (s->newest)
    blocks[s->newest].newer_own = number;
  else
    s->oldest = number;
  s->newest = number;
  b->live = true;
}

static void unlink_block(model_t *m, uint32_t number) {
  block_t *blocks = m->blocks.items, *b = &blocks[number];
  symbol_state_t *s = &m->symbols[b->symbol];
  if (b->newer)
    blocks[b->newer].older = b->older;
  else
    m->newest = b->older;
  if (b->older) blocks[b->older].newer = b->newer;
  if (b->newer_own)
    blocks[b->newer_own].older_own = b->older_own;
  else
    s->newest = b->older_own;
  if (b->older_own)
    blocks[b->older_own].newer_own = b->newer_own;
  else
    s->oldest = b->newer_own;
  b->live = false;
}

/* ---- new blocks --------------------------------------------------------------------------- */

/* The space of a block of SIZE in most allocators: eight bytes more, rounded up to 16. */
static uint64_t whole_size(uint64_t size) {
  uint64_t whole = (size + 8 + 15) & ~UINT64_C(15);
  return whole < 32 ? 32 : whole;
}

static uint32_t class_of(uint64_t size) {
  uint64_t c = whole_size(size) >> 4;
  return c < CLASSES ? (uint32_t)c : CLASSES - 1;
}

uint64_t model_place(const model_t *m, uint64_t size, unsigned rank) {
  uint32_t hole = m->hole_of_class[class_of(size)];
  for (; hole && rank; rank--)
    hole = m->holes.items[hole].next;
  return m->holes.items[hole].address;
}

void model_new_addresses(model_t *m, uint64_t size, uint64_t *out) {
  out[0] = model_place(m, size, 0);
  out[1] = m->end_of_fresh;
  out[2] = model_place(m, size, 1);
  out[3] = m->end_of_last;
  out[4] = m->last_freed;
  out[5] = model_place(m, size, 2);
}

int model_rank(const model_t *m, uint64_t size, uint64_t address) {
  uint32_t hole = m->hole_of_class[class_of(size)];
  for (int rank = 0; hole && rank < MODEL_RANKS; rank++, hole = m->holes.items[hole].next)
    if (m->holes.items[hole].address == address) return rank;
  return -1;
}

uint64_t model_new_base(const model_t *m) { return m->end_of_fresh; }

/* Removes ADDRESS from the free places of its class, if it is near the front. */
static bool fill_hole(model_t *m, uint32_t size_class, uint64_t address) {
  uint32_t *link = &m->hole_of_class[size_class];
  for (int i = 0; *link && i < MODEL_RANKS; i++, link = &m->holes.items[*link].next)
    if (m->holes.items[*link].address == address) {
      *link = m->holes.items[*link].next;
      return true;
    }
  return false;
}

bool model_new_was(model_t *m, uint64_t symbol, uint64_t size, unsigned shift, uint64_t address) {
  uint64_t end = address + (whole_size(size) >> shift);
  if (!fill_hole(m, class_of(size), address)) m->end_of_fresh = end;
  m->end_of_last = end;
  uint32_t number = find_block(m, address);
  if (!number) {
    if (!reserve_slot(m) || !GROW(m->blocks)) return false;
    number = m->blocks.count++;
    m->blocks.items[number] = (block_t){.address = address};
    put_slot(m, number);
  } else if (m->blocks.items[number].live) {
    unlink_block(m, number);
  }
  m->blocks.items[number].size_class = class_of(size);
  m->blocks.items[number].symbol = place_of(symbol);
  link_block(m, number);
  return true;
}

/* ---- freed blocks ------------------------------------------------------------------------- */

/* The address of block NUMBER while it is live, else 0. */
static uint64_t live_address(const model_t *m, uint32_t number) {
  const block_t *b = &m->blocks.items[number];
  return number && b->live ? b->address : 0;
}

void model_freed_addresses(model_t *m, uint64_t symbol, uint64_t *out) {
  const symbol_state_t *s = state_of(m, symbol), *source = &m->symbols[s->source];
  out[0] = live_address(m, source->newest);
  out[1] = live_address(m, s->after);
  out[2] = m->last_freed + s->from_any;
  out[3] = live_address(m, m->after_freed);
  out[4] = live_address(m, m->before_freed);
  out[5] = live_address(m, source->oldest);
  out[6] = s->freed + s->step;
}

uint64_t model_freed_base(const model_t *m) { return m->last_freed; }

static bool add_hole(model_t *m, uint32_t size_class, uint64_t address) {
  if (!GROW(m->holes)) return false;
  uint32_t hole = m->holes.count++;
  m->holes.items[hole] = (hole_t){address, m->hole_of_class[size_class]};
  m->hole_of_class[size_class] = hole;
  return true;
}

bool model_freed_was(model_t *m, uint64_t symbol, uint64_t address) {
  symbol_state_t *s = state_of(m, symbol);
  s->step = address - s->freed;
  s->from_any = address - m->last_freed;
  s->freed = m->last_freed = address;
  uint32_t number = find_block(m, address);
  block_t *b = &m->blocks.items[number];
  if (!number || !b->live) {
    s->after = m->after_freed = m->before_freed = 0;
    return true;
  }
  s->source = b->symbol;
  s->after = m->after_freed = b->newer;
  m->before_freed = b->older;
  unlink_block(m, number);
  return add_hole(m, b->size_class, address);
}
