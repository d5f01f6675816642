/* SPDX-License-Identifier: MIT
 *
 * Memory graphs from arbitrary bytes. Byte 0: bit 0 set: the rest is the file. Else the rest is
 * data in a property list, packed by the method in bits 1-2, so that the fuzzer need not find the
 * containers. For any input the images are sorted, and a property list that passes the check has a
 * bounded tree.
 */
#include <plist/plist.h>
#include <stdlib.h>
#include <string.h>

#include "import/memgraph.h"

static void check(int ok) {
  if (!ok) abort();
}

static void read_graph(const uint8_t *data, size_t size) {
  memgraph_t graph;
  const char *wrong = memgraph_read(&graph, data, size);
  for (size_t i = 0; i + 1 < graph.images.count; i++)
    check(graph.images.items[i].start < graph.images.items[i + 1].start &&
          graph.images.items[i].end <= graph.images.items[i + 1].start);
  check(!wrong || !graph.images.count);
  if (graph.log) check(graph.log >= data && graph.log_size <= (size_t)(data + size - graph.log));
  if (graph.table.nodes) /* like a table in a separate file */
    check(apple_table_is(graph.table_bytes, 16) && graph.table.count > 0);
  memgraph_free(&graph);
}

/* DATA as an entry of a list, with its header. */
static void read_packed(const uint8_t *data, size_t size, unsigned how) {
  const uint32_t header[] = {16, (uint32_t)size, (uint32_t)size * (how == 1 ? 8 : 1), how << 16};
  char *entry = malloc(sizeof header + size), *list = NULL;
  uint32_t length = 0;
  check(entry != NULL);
  memcpy(entry, header, sizeof header);
  memcpy(entry + sizeof header, data, size);
  plist_t root = plist_new_data(entry, sizeof header + size);
  plist_to_bin(root, &list, &length);
  read_graph((const uint8_t *)list, length);
  plist_free(root);
  free(list);
  free(entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  if (data[0] & 1)
    read_graph(data + 1, size - 1);
  else
    read_packed(data + 1, size - 1, data[0] >> 1 & 3);
  return 0;
}
