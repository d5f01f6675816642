/* SPDX-License-Identifier: MIT */
#include "store/clickhouse/row_binary.h"

#include <string.h>

#include "base/array.h"
#include "sonde/status.h"

static bool put_bytes(row_bytes_t *b, const void *data, size_t size) {
  if (!ARRAY_RESERVE(b->data, b->size + size + 1, b->capacity)) return false;
  if (size) memcpy(b->data + b->size, data, size);
  b->size += size;
  return true;
}

bool row_bytes_put(row_bytes_t *b, const store_value_t *v) {
  if (v->kind == STORE_INTEGER) return put_bytes(b, &v->integer, sizeof v->integer);
  if (v->kind == STORE_REAL) return put_bytes(b, &v->real, sizeof v->real);
  uint8_t length[10];
  size_t count = 0;
  for (uint64_t rest = v->size; !count || rest; rest >>= 7)
    length[count++] = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
  return put_bytes(b, length, count) && put_bytes(b, v->bytes, v->size);
}

/* These read a value at *AT, and return false if the bytes end before it. Texts have no terminating
 * 0: they are bound to statements with their size. */
static bool get_text(const uint8_t *data, size_t size, size_t *at, store_value_t *out) {
  uint64_t length = 0;
  unsigned shift = 0;
  do {
    if (*at >= size || shift > 56) return false;
    length |= (uint64_t)(data[*at] & 127) << shift;
    shift += 7;
  } while (data[(*at)++] & 128);
  if (length > size - *at) return false;
  out->bytes = data + *at;
  out->size = length;
  *at += length;
  return true;
}

static bool get_value(const uint8_t *data, size_t size, size_t *at, store_kind_t kind,
                      store_value_t *out) {
  *out = (store_value_t){.kind = kind};
  if (kind == STORE_TEXT || kind == STORE_BYTES) return get_text(data, size, at, out);
  if (size - *at < 8) return false;
  memcpy(kind == STORE_REAL ? (void *)&out->real : (void *)&out->integer, data + *at, 8);
  *at += 8;
  return true;
}

int row_bytes_read(const uint8_t *data, size_t size, const store_kind_t *kinds, size_t count,
                   row_take_t take, void *context) {
  store_value_t values[STORE_COLUMNS_MAX];
  for (size_t at = 0; at < size;) {
    for (size_t i = 0; i < count; i++)
      if (!get_value(data, size, &at, kinds[i], &values[i])) return SONDE_EINVAL;
    if (!take(context, values)) return SONDE_ENOMEM;
  }
  return 0;
}
