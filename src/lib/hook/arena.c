/* SPDX-License-Identifier: MIT
 *
 * Memory of the hooks. Blocks of hooks and symbols are reused and never unmapped, so that a handle
 * can be validated. Two arrays grow by copying. Used under the lock of hook.c.
 */
#include "base/bits.h"
#include "hook/internal.h"

#define BLOCK_BYTES (64u << 10)

/* A block starts with a link to the previous one; hooks_is_hook walks the blocks. */
typedef struct block {
  struct block *previous;
  sonde_hook_t hooks[(BLOCK_BYTES - 64) / sizeof(sonde_hook_t)];
} block_t;

static block_t *hook_blocks;

void hooks_free_hook(hooks_t *h, sonde_hook_t *hook) {
  hook->symbol = NULL;
  hook->next = h->free_hooks;
  h->free_hooks = hook;
}

sonde_hook_t *hooks_new_hook(hooks_t *h) {
  if (!h->free_hooks) {
    block_t *block = os_map(sizeof *block);
    if (!block) return NULL;
    block->previous = hook_blocks;
    hook_blocks = block;
    for (uint32_t i = 0; i < ARRAY_COUNT(block->hooks); i++)
      hooks_free_hook(h, &block->hooks[i]);
  }
  sonde_hook_t *hook = h->free_hooks;
  h->free_hooks = hook->next;
  return hook;
}

bool hooks_is_hook(const sonde_hook_t *hook) {
  for (const block_t *b = hook_blocks; b; b = b->previous) {
    uintptr_t offset = (uintptr_t)hook - (uintptr_t)b->hooks;
    if (offset < sizeof b->hooks) return offset % sizeof *hook == 0 && hook->symbol != NULL;
  }
  return false;
}

uint32_t hooks_hash(const char *name) {
  uint32_t hash = 5381;
  for (; *name; name++)
    hash = hash * 33 + (uint8_t)*name;
  return hash ^ hash >> 15;
}

/* Memory for texts is allocated from blocks and stays with its symbol. A reused symbol whose texts
 * are longer than before gets memory of at least twice the size. */
static char *text_block;
static uint32_t text_left;

static char *alloc_text(uint32_t bytes) {
  if (bytes > text_left) {
    char *block = os_map(BLOCK_BYTES);
    if (!block) return NULL;
    text_block = block;
    text_left = BLOCK_BYTES;
  }
  char *text = text_block;
  text_block += bytes;
  text_left -= bytes;
  return text;
}

static uint32_t text_length(const char *text) {
  uint32_t n = 0;
  while (text[n])
    n++;
  return n;
}

bool hooks_name_symbol(symbol_t *symbol, const char *name, const char *version) {
  uint32_t first = text_length(name) + 1, second = text_length(version) + 1, bytes = 32;
  while (bytes < first + second)
    bytes *= 2;
  if (bytes > symbol->text_bytes) {
    char *text = bytes <= BLOCK_BYTES ? alloc_text(bytes) : NULL;
    if (!text) return false;
    symbol->name = text;
    symbol->text_bytes = bytes;
  }
  symbol->version = symbol->name + first;
  __builtin_memcpy(symbol->name, name, first);
  __builtin_memcpy(symbol->version, version, second);
  symbol->hash = hooks_hash(name);
  return true;
}

static void add_symbol(hooks_t *h, symbol_t *symbol) {
  symbol_t **bucket = &h->buckets[symbol->hash % HOOK_BUCKETS];
  symbol->next = h->symbols;
  h->symbols = symbol;
  symbol->same_hash = *bucket;
  *bucket = symbol;
}

static void forget_symbol(hooks_t *h, symbol_t *symbol) {
  symbol_t **link = &h->symbols;
  while (*link && *link != symbol)
    link = &(*link)->next;
  if (!*link) return; /* it is not in the list */
  *link = symbol->next;
  link = &h->buckets[symbol->hash % HOOK_BUCKETS];
  while (*link != symbol)
    link = &(*link)->same_hash;
  *link = symbol->same_hash;
}

symbol_t *hooks_intern(hooks_t *h, symbol_t *fresh) {
  for (symbol_t *s = hooks_bucket(h, fresh->hash); s; s = s->same_hash)
    if (s->original == fresh->original && import_slots_text_equal(s->name, fresh->name)) {
      hooks_free_symbol(h, fresh);
      return s;
    }
  add_symbol(h, fresh);
  return fresh;
}

symbol_t *hooks_new_symbol(hooks_t *h) {
  if (!h->free_symbols) {
    symbol_t *block = os_map(BLOCK_BYTES);
    if (!block) return NULL;
    for (uint32_t i = 0; i < BLOCK_BYTES / sizeof *block; i++) {
      block[i].next = h->free_symbols;
      h->free_symbols = &block[i];
    }
  }
  symbol_t *symbol = h->free_symbols;
  h->free_symbols = symbol->next;
  symbol->first = NULL;
  symbol->slots = HOOK_NONE;
  symbol->is_new = true;
  symbol->owner = 0;
  return symbol;
}

/* Doubles the CAPACITY (in entries of SIZE) of *ARRAY; the first allocation has 16 KB. */
static bool grow(void **array, uint32_t *capacity, size_t size) {
  uint32_t more = *capacity ? *capacity * 2 : (uint32_t)(16384 / size);
  void *fresh = more > *capacity ? os_map(more * size) : NULL;
  if (!fresh) return false;
  if (*array) {
    __builtin_memcpy(fresh, *array, *capacity * size);
    os_unmap(*array, *capacity * size);
  }
  *array = fresh;
  *capacity = more;
  return true;
}

place_t *hooks_new_place(hooks_t *h, symbol_t *symbol) {
  uint32_t number = h->free_place;
  if (number != HOOK_NONE) {
    h->free_place = h->places[number].next;
  } else {
    if (h->place_count == h->place_capacity &&
        !grow((void **)&h->places, &h->place_capacity, sizeof *h->places))
      return NULL;
    number = h->place_count++;
  }
  place_t *place = &h->places[number];
  place->symbol = symbol;
  place->next = symbol->slots;
  symbol->slots = number;
  return place;
}

bool hooks_add_image(hooks_t *h, const os_image_t *image) {
  if (h->image_count == h->image_capacity &&
      !grow((void **)&h->images, &h->image_capacity, sizeof *h->images))
    return false;
  known_image_t *known = &h->images[h->image_count++];
  *known = (known_image_t){.image = *image, .number = h->next_number++, .is_present = true};
  known->path_hash = hooks_hash(image_path(image));
  known->has_slots = import_slots_read(&known->slots, image);
  return true;
}

void hooks_free_symbol(hooks_t *h, symbol_t *symbol) {
  while (symbol->slots != HOOK_NONE) {
    uint32_t number = symbol->slots;
    symbol->slots = h->places[number].next;
    h->places[number].symbol = NULL;
    h->places[number].next = h->free_place;
    h->free_place = number;
  }
  forget_symbol(h, symbol);
  symbol->next = h->free_symbols;
  h->free_symbols = symbol;
  if (h->symbols) return;
  h->place_count = 0; /* no symbol is left: new places are in order again */
  h->free_place = HOOK_NONE;
}
