/* SPDX-License-Identifier: MIT
 *
 * A window over the memory of this process. os_readable verifies each page before the first read.
 */
#include "capture/stack_window.h"

#include "os/os.h"

/* No frame is larger. A greater distance means a damaged stack. */
#define REACH_MAX (64u << 20)
/* A frame may lie this many pages below the end of a stack that overflowed. */
#define OVERFLOW_PAGES 16

bool stack_window_probe(uint64_t from, uint64_t to) {
  for (uint64_t page = from; page < to; page += STACK_WINDOW_PAGE)
    if (!os_readable(page)) return false;
  return true;
}

static bool reach(stack_window_t *w, uint64_t address) {
  if (address < w->hi || address % 8 || address - w->hi > REACH_MAX) return false;
  uint64_t end = ALIGN_DOWN(address, STACK_WINDOW_PAGE) + STACK_WINDOW_PAGE;
  if (!stack_window_probe(w->hi, end)) return false;
  w->hi = end;
  return true;
}

static bool move(stack_window_t *w, uint64_t sp) {
  uint64_t page = ALIGN_DOWN(sp - 8, STACK_WINDOW_PAGE);
  /* After a stack overflow SP itself may lie in the guard below the stack. */
  for (int i = 0; i <= OVERFLOW_PAGES; i++, page += STACK_WINDOW_PAGE) {
    if (!os_readable(page)) continue;
    w->lo = page;
    w->hi = page + STACK_WINDOW_PAGE;
    return true;
  }
  return false;
}

stack_window_t stack_window_of_process(void) {
  return (stack_window_t){.reach = reach, .move = move};
}
