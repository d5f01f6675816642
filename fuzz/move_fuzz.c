/* SPDX-License-Identifier: MIT
 *
 * The entries of functions that are patched: any bytes are scanned, judged and moved. What is moved
 * must keep its promises: the moved instructions are whole and lie in the function, the new code
 * fits the stub, and nothing else is written.
 *
 *   byte 0     the length of the first function
 *   the rest   code of two functions
 */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "hook/move.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROOM   4096u
#define GUARD  64u
#define MARKER 0xa5

/* The code, then the stubs with bytes around that must not change. */
static uint8_t *memory;

static void check(bool holds) {
  if (!holds) __builtin_trap();
}

static void check_moved(const moved_t *m, uint64_t start, uint64_t end) {
  uint8_t at = 0;
  check(m->place >= start && m->count >= 1 && m->count <= MOVE_COUNT_MAX);
  check(m->bytes >= MOVE_UNIT && m->place + m->bytes <= end);
  for (unsigned i = 0; i < m->count; i++) {
    check(m->from[i] < m->bytes && (i == 0 ? m->from[i] == 0 : m->from[i] > at));
    at = m->from[i];
  }
}

static void check_stub(const moved_t *m, const uint8_t *stub, uint64_t target) {
  uint64_t start = (uint64_t)(uintptr_t)stub;
  check(target >= start && target + m->size <= start + MOVE_STUB_BYTES);
  for (unsigned i = 0; i < m->count; i++)
    check(m->to[i] <= m->size && (i == 0 ? m->to[i] == 0 : m->to[i] > m->to[i - 1]));
  for (unsigned i = 0; i < GUARD; i++)
    check(stub[-1 - (int)i] == MARKER && stub[MOVE_STUB_BYTES + i] == MARKER);
}

static void move(uint64_t start, uint64_t end, uint64_t limit, const move_map_t *map) {
  moved_t moved = {0};
  uint64_t target = 0, stub = (uint64_t)(uintptr_t)memory + ROOM + GUARD;
  uint8_t jump[MOVE_JUMP_BYTES_MAX];
  if (move_look(start, end, limit, map, &moved) != MOVE_OK) return;
  check_moved(&moved, start, limit);
  (void)move_leads_out(moved.place, map);
  memset(memory + ROOM, MARKER, 2 * GUARD + MOVE_STUB_BYTES);
  if (move_write(&moved, stub, stub, stub, &target) != MOVE_OK) return;
  check_stub(&moved, (const uint8_t *)(uintptr_t)stub, target);
  uint32_t bytes = move_jump(moved.place, stub, jump);
  check(bytes >= MOVE_UNIT && bytes <= MOVE_JUMP_BYTES_MAX && moved.place + bytes <= limit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t into[ROOM / 8 + 1], by_branch[ROOM / 8 + 1];
  if (!memory)
    memory = mmap(NULL, ROOM + 2 * GUARD + MOVE_STUB_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (size < 3 || size - 1 > ROOM) return 0;
  uint64_t low = (uint64_t)(uintptr_t)memory, high = low + (size - 1) / MOVE_UNIT * MOVE_UNIT;
  uint64_t middle = low + data[0] / MOVE_UNIT * MOVE_UNIT;
  move_map_t map = {low, high, into, by_branch};
  if (middle <= low || middle >= high) return 0;
  memcpy(memory, data + 1, size - 1);
  memset(into, 0, sizeof into);
  memset(by_branch, 0, sizeof by_branch);
  bool known = move_scan(low, middle, &map), rest_known = move_scan(middle, high, &map);
  (void)move_is_stub(low);
  if (known) move(low, middle, middle, &map);
  if (rest_known) move(middle, high, high, &map);
  return 0;
}
