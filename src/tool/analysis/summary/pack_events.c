/* SPDX-License-Identifier: MIT
 *
 * One control byte per event holds which predictions of the model were right. Values that were not
 * predicted go to the columns of literals. The packer then checks that unpacking yields the same
 * bytes. So if an event is not in its shortest form, the only effect is that its chunk is packed
 * less well.
 */
#include "analysis/summary/pack_events.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/array.h"
#include "base/varint.h"

bool bytes_add(byte_buffer_t *b, const void *data, size_t size) {
  if (!size) return true;
  if (!ARRAY_RESERVE(b->items, b->count + size, b->capacity)) return false;
  memcpy(b->items + b->count, data, size);
  b->count += size;
  return true;
}

bool bytes_number(byte_buffer_t *b, uint64_t number) {
  uint8_t text[16];
  return bytes_add(b, text, varint_put(text, number));
}

bool bytes_squeeze(byte_buffer_t *b, const void *data, size_t size, int level) {
  size_t most = ZSTD_compressBound(size);
  if (!ARRAY_RESERVE(b->items, b->count + most, b->capacity)) return false;
  size_t got = ZSTD_compress(b->items + b->count, most, data, size, level);
  if (ZSTD_isError(got)) return false;
  b->count += got;
  return true;
}

/* ---- columns ------------------------------------------------------------------------------ */

typedef struct packer {
  byte_buffer_t columns[COLUMNS];
  model_t *model;
  bool bad;
  uint64_t last_literal;
  /* The writer's state in the current chunk. */
  uint64_t address;
  uint32_t stack, guesses[PREDICTOR_ENTRIES];
  unsigned shift;
} packer_t;

static void put_byte(packer_t *k, packed_column_t which, unsigned value) {
  uint8_t byte = (uint8_t)value;
  if (!bytes_add(&k->columns[which], &byte, 1)) k->bad = true;
}

static void put_number(packer_t *k, packed_column_t which, uint64_t value) {
  if (!bytes_number(&k->columns[which], value)) k->bad = true;
}

static void put_planes(packer_t *k, packed_column_t first, int count, uint64_t value) {
  for (int i = 0; i < count; i++)
    put_byte(k, first + (packed_column_t)i, (unsigned)(value >> 8 * i & 255));
}

/* The index of VALUE among COUNT guesses; COUNT when it is not there. */
static unsigned index_of(uint64_t value, const uint64_t *guesses, unsigned count) {
  unsigned i = 0;
  while (i < count && guesses[i] != value)
    i++;
  return i;
}

/* ---- fields: each function returns the field's code for the control byte -------------------- */

static unsigned pack_symbol(packer_t *k, uint64_t symbol) {
  uint64_t guesses[MODEL_SYMBOLS];
  model_symbols(k->model, guesses);
  unsigned code = index_of(symbol, guesses, MODEL_SYMBOLS);
  if (code == MODEL_SYMBOLS) {
    int32_t step = (int32_t)(uint32_t)((symbol >> 3) - k->last_literal);
    put_byte(k, COLUMN_KINDS, symbol & EVENT_KIND_MASK);
    put_planes(k, COLUMN_STACKS_0, 4, (uint32_t)step << 1 ^ (uint32_t)(step >> 31));
    k->last_literal = symbol >> 3;
  }
  model_symbol_was(k->model, symbol);
  return code;
}

static unsigned pack_size(packer_t *k, uint64_t symbol, uint64_t size) {
  uint64_t guesses[MODEL_SIZES];
  model_sizes(k->model, symbol, guesses);
  unsigned code = index_of(size, guesses, MODEL_SIZES);
  if (code == MODEL_SIZES) put_number(k, COLUMN_SIZES, size);
  model_size_was(k->model, symbol, size);
  return code;
}

static void pack_literal(packer_t *k, uint64_t address, uint64_t base) {
  uint64_t step = zigzag((int64_t)(address - base));
  if (step >> 32 < ADDRESS_LONG) {
    put_planes(k, COLUMN_ADDRESSES_0, 5, step);
    return;
  }
  put_planes(k, COLUMN_ADDRESSES_0, 5, (uint64_t)ADDRESS_LONG << 32);
  put_number(k, COLUMN_LONG_ADDRESSES, step);
}

static unsigned pack_new(packer_t *k, uint64_t symbol, uint64_t size, uint64_t address) {
  uint64_t guesses[MODEL_ADDRESSES];
  model_new_addresses(k->model, size, guesses);
  unsigned code = index_of(address, guesses, MODEL_ADDRESSES);
  if (code == MODEL_ADDRESSES) {
    int rank = model_rank(k->model, size, address);
    if (rank >= 0) {
      code = MODEL_RANKED;
      put_byte(k, COLUMN_RANKS, (unsigned)rank);
    } else {
      code = MODEL_LITERAL;
      pack_literal(k, address, model_new_base(k->model));
    }
  }
  if (!model_new_was(k->model, symbol, size, k->shift, address)) k->bad = true;
  return code;
}

static unsigned pack_freed(packer_t *k, uint64_t symbol, uint64_t address) {
  uint64_t guesses[MODEL_FREES];
  model_freed_addresses(k->model, symbol, guesses);
  unsigned code = index_of(address, guesses, MODEL_FREES);
  if (code == MODEL_FREES) pack_literal(k, address, model_freed_base(k->model));
  if (!model_freed_was(k->model, symbol, address)) k->bad = true;
  return code;
}

/* ---- records ------------------------------------------------------------------------------ */

static uint64_t read_address(packer_t *k, const uint8_t **p) {
  return k->address += (uint64_t)unzigzag(varint_get_padded(p));
}

static uint32_t read_stack(packer_t *k, const uint8_t **p, unsigned head) {
  uint32_t *guess = &k->guesses[predictor_index(k->stack)];
  k->stack = head & EVENT_PREDICTED ? *guess : (uint32_t)varint_get_padded(p);
  return *guess = k->stack;
}

static void put_time(packer_t *k, uint64_t delta) {
  put_byte(k, COLUMN_TIMES, delta < TIME_LONG ? (unsigned)delta : TIME_LONG);
  if (delta >= TIME_LONG) put_number(k, COLUMN_LONG_TIMES, delta);
}

static const uint8_t *pack_extended(packer_t *k, const uint8_t *p, const uint8_t *end) {
  const uint8_t *body = p + 1;
  unsigned subtype = *p;
  uint64_t size = varint_get_padded(&body);
  if (body > end || size > (uint64_t)(end - body)) {
    k->bad = true;
    return end;
  }
  put_byte(k, COLUMN_CONTROL, pack_symbol(k, (uint64_t)subtype << 3 | EVENT_EXTENDED));
  if (!bytes_add(&k->columns[COLUMN_BODIES], p, (size_t)(body + size - p))) k->bad = true;
  return body + size;
}

/* Packs one record. Each of its fields may be read up to 9 bytes beyond END. Returns the address
 * after the record. */
static const uint8_t *pack_record(packer_t *k, const uint8_t *p, const uint8_t *end) {
  unsigned head = *p++, kind = head & EVENT_KIND_MASK, address_code = 0, size_code = 0;
  uint64_t delta = head >> EVENT_TIME_SHIFT, took = 0, first = 0, second = 0, size = 0;
  if (delta == EVENT_TIME_MORE) delta += varint_get_padded(&p);
  put_time(k, delta);
  if (kind == EVENT_EXTENDED) return pack_extended(k, p, end);
  if (kind == EVENT_REALLOC || kind == EVENT_SAMPLE) took = varint_get_padded(&p);
  if (kind != EVENT_SAMPLE) first = read_address(k, &p);
  if (kind == EVENT_REALLOC) second = read_address(k, &p);
  if (kind != EVENT_SAMPLE && kind != EVENT_FREE) size = varint_get_padded(&p);
  uint64_t symbol = (uint64_t)read_stack(k, &p, head) << 3 | kind;
  unsigned control = pack_symbol(k, symbol);
  if (kind == EVENT_REALLOC || kind == EVENT_SAMPLE) put_number(k, COLUMN_NUMBERS, took);
  if (kind != EVENT_SAMPLE && kind != EVENT_FREE) size_code = pack_size(k, symbol, size);
  if (kind == EVENT_FREE || kind == EVENT_REALLOC)
    address_code = pack_freed(k, symbol, first);
  else if (kind != EVENT_SAMPLE)
    address_code = pack_new(k, symbol, size, first);
  if (kind == EVENT_REALLOC) put_byte(k, COLUMN_MOVES, pack_new(k, symbol, size, second));
  put_byte(k, COLUMN_CONTROL,
           control | address_code << CONTROL_ADDRESS_SHIFT | size_code << CONTROL_SIZE_SHIFT);
  if (p > end) k->bad = true;
  return p;
}

static const uint8_t *pack_chunk(packer_t *k, const uint8_t *p, const uint8_t *limit) {
  chunk_header_t h;
  uint64_t records = 0;
  memcpy(&h, p, sizeof h);
  const uint8_t *next = p + h.size, *end = p + sizeof h + h.used;
  if (h.size < sizeof h || next > limit || end > next) {
    k->bad = true;
    return limit;
  }
  k->address = h.base_address;
  k->shift = h.address_shift;
  k->stack = 0;
  memset(k->guesses, 0, sizeof k->guesses);
  for (p += sizeof h; p < end && *p != EVENT_NONE && !k->bad; records++)
    p = pack_record(k, p, end);
  if (p != end || !bytes_add(&k->columns[COLUMN_HEADERS], &h, sizeof h)) k->bad = true;
  put_number(k, COLUMN_HEADERS, records);
  return next;
}

bool pack_events(const uint8_t *chunks, size_t size, int level, byte_buffer_t *out) {
  packer_t *k = calloc(1, sizeof *k);
  bool good = k && (k->model = model_new());
  for (const uint8_t *p = chunks, *limit = chunks + size; good && p < limit && !k->bad;)
    p = pack_chunk(k, p, limit);
  good = good && !k->bad;
  for (int i = 0; good && i < COLUMNS; i++) {
    byte_buffer_t *c = &k->columns[i], squeezed = {0};
    good = (!c->count || bytes_squeeze(&squeezed, c->items, c->count, level)) &&
           bytes_number(out, c->count) && bytes_number(out, squeezed.count) &&
           bytes_add(out, squeezed.items, squeezed.count);
    free(squeezed.items);
  }
  for (int i = 0; k && i < COLUMNS; i++)
    free(k->columns[i].items);
  if (k) model_free(k->model);
  free(k);
  return good;
}
