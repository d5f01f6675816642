/* SPDX-License-Identifier: MIT
 *
 * ClickHouse's RowBinary, the form of rows in requests and answers: numbers of 8 bytes, little
 * endian, and texts with their length (LEB128).
 */
#ifndef SONDE_STORE_CLICKHOUSE_ROW_BINARY_H
#define SONDE_STORE_CLICKHOUSE_ROW_BINARY_H

#include "store/schema.h"

typedef struct row_bytes {
  uint8_t *data;
  size_t size, capacity;
} row_bytes_t;

/* Appends a value. False: out of memory. */
bool row_bytes_put(row_bytes_t *bytes, const store_value_t *value);

/* Takes the values of a row; texts are valid during the call. False: it cannot keep them. */
typedef bool (*row_take_t)(void *context, const store_value_t *values);

/* Calls TAKE for each row of COUNT values, of KINDS; DATA may be any bytes. 0; SONDE_EINVAL: they
 * end within a row; SONDE_ENOMEM: TAKE returned false. */
int row_bytes_read(const uint8_t *data, size_t size, const store_kind_t *kinds, size_t count,
                   row_take_t take, void *context);

#endif
