/* SPDX-License-Identifier: MIT
 *
 * Arbitrary answers of a ClickHouse server, as rows of the table that the first byte chooses: the
 * rows are read, and written again they are the same bytes, or the answer is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "sonde/status.h"
#include "store/clickhouse/row_binary.h"

typedef struct reading {
  row_bytes_t again;
  size_t columns;
} reading_t;

static bool take(void *context, const store_value_t *values) {
  reading_t *r = context;
  for (size_t i = 0; i < r->columns; i++)
    if (!row_bytes_put(&r->again, &values[i])) abort();
  return true;
}

/* A length may have needless zeros, which are not written again. */
static void read_rows(const store_table_t *table, const uint8_t *data, size_t size) {
  store_kind_t kinds[STORE_COLUMNS_MAX];
  reading_t r = {.columns = store_column_count(table)};
  for (size_t i = 0; i < r.columns; i++)
    kinds[i] = table->columns[i].kind;
  int status = row_bytes_read(data, size, kinds, r.columns, take, &r);
  if (status != 0 && status != SONDE_EINVAL) abort();
  if (r.again.size > size) abort();
  if (status == 0 && r.again.size == size && size && memcmp(r.again.data, data, size) != 0) abort();
  free(r.again.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  uint8_t *copy = malloc(size); /* of the rows alone, so that a read behind them is found */
  if (!copy) abort();
  memcpy(copy, data + 1, size - 1);
  read_rows(&store_tables[data[0] % STORE_TABLE_COUNT], copy, size - 1);
  free(copy);
  return 0;
}
