/* SPDX-License-Identifier: MIT
 *
 * Unpacks packed chunks. They are untrusted: sizes are checked before memory is allocated, a column
 * that ends early yields zeros and rejects the chunk, and output is limited to the announced size.
 */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/varint.h"
#include "reader/packed.h"

typedef struct column {
  /* PADDING zeros behind */
  uint8_t *bytes;
  const uint8_t *p, *end;
} column_t;

typedef struct unpacker {
  column_t columns[COLUMNS];
  model_t *model;
  /* the next byte to write, and the end */
  uint8_t *out, *limit;
  bool bad;
  uint64_t last_literal;
  /* the writer's state for the current chunk */
  uint64_t address;
  uint32_t stack, guesses[PREDICTOR_ENTRIES];
} unpacker_t;

enum { PADDING = 16 };

/* ---- columns ------------------------------------------------------------------------------ */

static unsigned get_byte(unpacker_t *u, packed_column_t which) {
  column_t *c = &u->columns[which];
  if (c->p >= c->end) {
    u->bad = true;
    return 0;
  }
  return *c->p++;
}

static uint64_t get_number(unpacker_t *u, packed_column_t which) {
  uint64_t value = 0;
  column_t *c = &u->columns[which];
  if (!varint_get(&c->p, c->end, &value)) u->bad = true;
  return value;
}

static uint64_t get_planes(unpacker_t *u, packed_column_t first, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; i++)
    value |= (uint64_t)get_byte(u, first + (packed_column_t)i) << 8 * i;
  return value;
}

/* ---- facts -------------------------------------------------------------------------------- */

static uint64_t get_symbol(unpacker_t *u, unsigned control) {
  uint64_t guesses[MODEL_SYMBOLS + 2] = {0}, symbol;
  unsigned code = control & CONTROL_MASK;
  if (code < MODEL_SYMBOLS) {
    model_symbols(u->model, guesses);
    symbol = guesses[code];
  } else {
    unsigned kind = get_byte(u, COLUMN_KINDS) & EVENT_KIND_MASK;
    u->last_literal += (uint64_t)unzigzag(get_planes(u, COLUMN_STACKS_0, 4));
    u->last_literal &= UINT32_MAX;
    symbol = u->last_literal << 3 | kind;
  }
  model_symbol_was(u->model, symbol);
  return symbol;
}

static uint64_t get_size(unpacker_t *u, unsigned control, uint64_t symbol) {
  uint64_t guesses[MODEL_SIZES], size;
  unsigned code = control >> CONTROL_SIZE_SHIFT;
  if (code < MODEL_SIZES) {
    model_sizes(u->model, symbol, guesses);
    size = guesses[code];
  } else {
    size = get_number(u, COLUMN_SIZES);
  }
  model_size_was(u->model, symbol, size);
  return size;
}

static uint64_t get_literal(unpacker_t *u, uint64_t base) {
  uint64_t planes = get_planes(u, COLUMN_ADDRESSES_0, 5);
  if (planes >> 32 == ADDRESS_LONG) planes = get_number(u, COLUMN_LONG_ADDRESSES);
  return base + (uint64_t)unzigzag(planes);
}

static uint64_t get_new(unpacker_t *u, unsigned code, uint64_t symbol, uint64_t size,
                        unsigned shift) {
  uint64_t guesses[MODEL_ADDRESSES + 2], address;
  if (code < MODEL_ADDRESSES) {
    model_new_addresses(u->model, size, guesses);
    address = guesses[code];
  } else if (code == MODEL_RANKED) {
    address = model_place(u->model, size, get_byte(u, COLUMN_RANKS));
  } else {
    address = get_literal(u, model_new_base(u->model));
  }
  if (!model_new_was(u->model, symbol, size, shift, address)) u->bad = true;
  return address;
}

static uint64_t get_freed(unpacker_t *u, unsigned code, uint64_t symbol) {
  uint64_t guesses[MODEL_FREES + 1], address;
  if (code < MODEL_FREES) {
    model_freed_addresses(u->model, symbol, guesses);
    address = guesses[code];
  } else {
    address = get_literal(u, model_freed_base(u->model));
  }
  if (!model_freed_was(u->model, symbol, address)) u->bad = true;
  return address;
}

/* ---- records, as the writer writes them --------------------------------------------------- */

static void put_number(unpacker_t *u, uint64_t value) { u->out += varint_put(u->out, value); }

static void put_address(unpacker_t *u, uint64_t address) {
  put_number(u, zigzag((int64_t)(address - u->address)));
  u->address = address;
}

static void put_stack(unpacker_t *u, uint8_t *head, uint32_t stack) {
  uint32_t *guess = &u->guesses[predictor_index(u->stack)];
  u->stack = stack;
  if (*guess == stack) {
    *head |= EVENT_PREDICTED;
    return;
  }
  *guess = stack;
  put_number(u, stack);
}

static void put_time(unpacker_t *u, uint8_t *head) {
  uint64_t delta = get_byte(u, COLUMN_TIMES);
  if (delta == TIME_LONG) delta = get_number(u, COLUMN_LONG_TIMES);
  if (delta < EVENT_TIME_MORE) {
    *head |= (uint8_t)(delta << EVENT_TIME_SHIFT);
    return;
  }
  *head |= EVENT_TIME_MORE << EVENT_TIME_SHIFT;
  put_number(u, delta - EVENT_TIME_MORE);
}

/* Copies subtype, length and body unchanged. */
static void put_extended(unpacker_t *u) {
  column_t *c = &u->columns[COLUMN_BODIES];
  const uint8_t *begin = c->p;
  get_byte(u, COLUMN_BODIES);
  uint64_t size = get_number(u, COLUMN_BODIES);
  if (u->bad || size > (uint64_t)(c->end - c->p) ||
      (uint64_t)(c->p - begin) + size > (uint64_t)(u->limit - u->out)) {
    u->bad = true;
    return;
  }
  c->p += size;
  memcpy(u->out, begin, (size_t)(c->p - begin));
  u->out += c->p - begin;
}

static void put_record(unpacker_t *u, unsigned shift) {
  unsigned control = get_byte(u, COLUMN_CONTROL);
  unsigned code = control >> CONTROL_ADDRESS_SHIFT & CONTROL_MASK;
  uint64_t symbol = get_symbol(u, control), size;
  unsigned kind = (unsigned)symbol & EVENT_KIND_MASK;
  uint8_t *head = u->out++;
  *head = (uint8_t)kind;
  put_time(u, head);
  switch (kind) {
  case EVENT_FREE: put_address(u, get_freed(u, code, symbol)); break;
  case EVENT_MALLOC:
  case EVENT_CALLOC:
  case EVENT_ALIGNED:
    size = get_size(u, control, symbol);
    put_address(u, get_new(u, code, symbol, size, shift));
    put_number(u, size);
    break;
  case EVENT_REALLOC:
    put_number(u, get_number(u, COLUMN_NUMBERS));
    size = get_size(u, control, symbol);
    put_address(u, get_freed(u, code, symbol));
    put_address(u, get_new(u, get_byte(u, COLUMN_MOVES) & CONTROL_MASK, symbol, size, shift));
    put_number(u, size);
    break;
  case EVENT_SAMPLE: put_number(u, get_number(u, COLUMN_NUMBERS)); break;
  case EVENT_EXTENDED: put_extended(u); return;
  default: u->bad = true; return;
  }
  put_stack(u, head, (uint32_t)(symbol >> 3));
}

/* ---- chunks ------------------------------------------------------------------------------- */

/* Restores a chunk: its header, then a varint with the count of its records. */
static void put_chunk(unpacker_t *u) {
  chunk_header_t h;
  column_t *c = &u->columns[COLUMN_HEADERS];
  uint8_t *start = u->out;
  if ((size_t)(c->end - c->p) < sizeof h || (size_t)(u->limit - u->out) < sizeof h) {
    u->bad = true;
    return;
  }
  memcpy(&h, c->p, sizeof h);
  c->p += sizeof h;
  uint64_t records = get_number(u, COLUMN_HEADERS);
  if (h.address_shift >= 64) u->bad = true;
  u->address = h.base_address;
  u->stack = 0;
  memset(u->guesses, 0, sizeof u->guesses);
  u->out += sizeof h;
  for (; records && !u->bad; records--) {
    put_record(u, h.address_shift); /* the buffer has space for one record beyond the limit */
    if (u->out > u->limit) u->bad = true;
  }
  h.used = (uint32_t)((size_t)(u->out - start) - sizeof h);
  while ((u->out - start) % 8)
    *u->out++ = 0;
  h.size = (uint32_t)(u->out - start);
  memcpy(start, &h, sizeof h);
}

static bool expand(const uint8_t *packed, size_t packed_size, uint8_t *out, size_t size) {
  size_t got = ZSTD_decompress(out, size, packed, packed_size);
  return !ZSTD_isError(got) && got == size;
}

static bool read_columns(unpacker_t *u, const uint8_t *p, const uint8_t *end) {
  uint64_t raw, packed;
  for (int i = 0; i < COLUMNS; i++) {
    if (!varint_get(&p, end, &raw) || !varint_get(&p, end, &packed) || raw > PACKED_UNPACKED_MAX ||
        packed > (uint64_t)(end - p))
      return false;
    column_t *c = &u->columns[i];
    c->bytes = malloc((size_t)raw + PADDING);
    if (!c->bytes || (raw && !expand(p, (size_t)packed, c->bytes, (size_t)raw))) return false;
    memset(c->bytes + raw, 0, PADDING);
    c->p = c->bytes;
    c->end = c->bytes + raw;
    p += packed;
  }
  return true;
}

static bool unpack_columns(const uint8_t *p, const uint8_t *end, uint8_t *out, size_t size) {
  unpacker_t *u = calloc(1, sizeof *u);
  bool good = u && (u->model = model_new()) && read_columns(u, p, end);
  if (good) {
    u->out = out;
    u->limit = out + size;
    while (!u->bad && u->columns[COLUMN_HEADERS].p < u->columns[COLUMN_HEADERS].end)
      put_chunk(u);
    good = !u->bad && u->out == u->limit;
  }
  for (int i = 0; u && i < COLUMNS; i++)
    free(u->columns[i].bytes);
  if (u) model_free(u->model);
  free(u);
  return good;
}

size_t packed_unpack(const uint8_t *payload, size_t size, uint8_t **out, size_t *capacity,
                     size_t padding) {
  const uint8_t *p = payload, *end = payload + size;
  uint64_t unpacked;
  if (p == end) return 0;
  uint8_t mode = *p++;
  if (!varint_get(&p, end, &unpacked) || !unpacked || unpacked > PACKED_UNPACKED_MAX) return 0;
  size_t need = (size_t)unpacked + EVENT_MAX_BYTES + padding;
  if (*capacity < need) {
    free(*out);
    *out = malloc(need);
    *capacity = *out ? need : 0;
    if (!*out) return 0;
  }
  bool good = mode == PACKED_PLAIN     ? expand(p, (size_t)(end - p), *out, (size_t)unpacked)
              : mode == PACKED_COLUMNS ? unpack_columns(p, end, *out, (size_t)unpacked)
                                       : false;
  if (!good) return 0;
  memset(*out + unpacked, 0, *capacity - (size_t)unpacked);
  return (size_t)unpacked;
}
