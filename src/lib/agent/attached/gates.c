/* SPDX-License-Identifier: MIT
 *
 * One mapping: a page of code, then a page with one word for each gate. The code page begins with a
 * mark, by which a later agent finds it in the list of mappings. The kernel writes the code through
 * /proc/self/mem, so no page is ever writable and executable.
 *
 * Used by the thread of the agent's start and end; gates themselves are used by any thread.
 */
#include "agent/attached/gates.h"

#include "base/bits.h"
#include "os/os.h"

#include <string.h>
#include <sys/mman.h>

/* The largest page of both CPUs, so that the two parts have pages of their own. */
#if defined(__x86_64__)
#define PART_BYTES 4096u
#else
#define PART_BYTES 65536u
#endif

typedef struct mark {
  char name[8];
  uint64_t signature;
} mark_t;
_Static_assert(sizeof(mark_t) == GATE_BYTES, "in place of the first gate");
_Static_assert((GATES_MAX + 1) * GATE_BYTES <= 4096, "gates are in one page");

static const char name[8] = "snde-gt1";
static uint64_t gates; /* address of the mapping; 0: none */

static uint64_t *word_of(uint32_t number) {
  return (uint64_t *)(uintptr_t)(gates + PART_BYTES) + number;
}

static uint64_t code_of(uint32_t number) { return gates + (number + 1) * (uint64_t)GATE_BYTES; }

void *gate_address(uint32_t number) { return (void *)(uintptr_t)code_of(number); }

void gate_lead(uint32_t number, uint64_t function) { store_release(word_of(number), function); }

/* ---- gates of an agent that has left -------------------------------------------------------- */

typedef struct search {
  uint64_t signature, found;
} search_t;

static bool look(const os_region_t *region, void *context) {
  search_t *s = context;
  mark_t mark;
  if (region->inode || region->protection != (PROT_READ | PROT_EXEC) ||
      region->end - region->start != PART_BYTES ||
      os_read_memory(region->start, &mark, sizeof mark) != sizeof mark ||
      memcmp(mark.name, name, sizeof name) != 0 || mark.signature != s->signature)
    return true;
  s->found = region->start;
  return false;
}

/* ---- new gates ------------------------------------------------------------------------------ */

static bool write_code(uint64_t signature) {
  static uint8_t code[(GATES_MAX + 1) * GATE_BYTES];
  mark_t mark = {.signature = signature};
  memcpy(mark.name, name, sizeof name);
  memcpy(code, &mark, sizeof mark);
  for (uint32_t i = 0; i < GATES_MAX; i++)
    gate_write(code + (i + 1) * GATE_BYTES, code_of(i), (uint64_t)(uintptr_t)word_of(i));
  int memory = os_own_memory_open();
  if (memory < 0) return false;
  bool written = os_pwrite(memory, code, sizeof code, gates) == sizeof code;
  os_close(memory);
  return written;
}

bool gates_prepare(uint64_t signature) {
  search_t s = {signature, gates};
  if (!gates) (void)os_regions(look, &s);
  gates = s.found;
  if (gates) return true;
  gates = (uint64_t)(uintptr_t)os_map_code(2 * PART_BYTES);
  if (!gates) return false;
  if (os_protect(gates + PART_BYTES, gates + 2 * PART_BYTES, PROT_READ | PROT_WRITE) == 0 &&
      write_code(signature) && os_sync_code())
    return true;
  os_unmap((void *)(uintptr_t)gates, 2 * PART_BYTES);
  gates = 0;
  return false;
}
