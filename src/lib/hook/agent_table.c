/* SPDX-License-Identifier: MIT */
#include "hook/agent_table.h"

#include "os/os.h"

const agent_table_t agent_table_absent;
const agent_table_t *agent_table_found;

NOINLINE const agent_table_t *agent_table_find(void) {
  static const char *const names[] = {AGENT_TABLE_NAME};
  uint64_t address = 0;
  os_symbols(0, names, &address, 1);
  const agent_table_t *t = (const agent_table_t *)(uintptr_t)address;
  if (!t || t->version != AGENT_TABLE_VERSION || t->size < sizeof *t) t = &agent_table_absent;
  if (t->prepare) t->prepare();
  store_release(&agent_table_found, t);
  return t;
}
