/* SPDX-License-Identifier: MIT
 *
 * Finds the stacks of threads that have ended. glibc keeps their memory for later threads
 * (nptl/allocatestack.c). Their old words would keep leaked blocks reachable.
 *
 * A stack that glibc mapped has a struct pthread (nptl/descr.h) near its end. It is recognized by
 * what no other data has at once:
 *   - the list node refers to neighbors that refer back, so glibc still uses the structure;
 *   - the list of robust mutexes is empty: both words refer to the list;
 *   - the kernel has cleared the thread id, so the thread has ended;
 *   - the members stackblock, stackblock_size and guardsize describe a stack around it.
 * A stack that the program supplied has no guard and is not found: the program may reuse it.
 *
 * The structure itself is not part of the result: it holds what pthread_join(3) returns. On x86_64
 * thread-local variables are below it, on aarch64 above.
 */
#include "os/os.h"
#include "sensor/leaks/leaks.h"

/* The header of struct pthread, which the list node follows. */
#if defined(__x86_64__)
#define HEADER_BYTES 704u
#else
#define HEADER_BYTES 192u
#endif

#define ALIGNMENT    64u
#define PAGE         4096u
#define MEMBER_BYTES 2304u /* the stack's members are within as many bytes */
#define NODE_BYTES   48u

/* Offsets from the list node. */
enum { NODE_ID = 16, NODE_ROBUST_LAST = 24, NODE_ROBUST_FIRST = 32 };

static uint64_t word(uint64_t address) { return *(const uint64_t *)(uintptr_t)address; }

static bool is_word(uint64_t address, uint64_t value) {
  uint64_t found;
  return os_read_memory(address, &found, sizeof found) == (ssize_t)sizeof found && found == value;
}

static bool has_ended(uint64_t node) {
  uint64_t robust = node + NODE_ROBUST_FIRST;
  return word(robust) == robust && word(node + NODE_ROBUST_LAST) == robust &&
         (int32_t)word(node + NODE_ID) <= 0 && is_word(word(node) + 8, node) &&
         is_word(word(node + 8), node);
}

/* The lowest address of the stack that the members of the structure from FROM to TO describe; 0:
 * none. */
static uint64_t find_stack(uint64_t from, uint64_t to) {
  for (uint64_t at = from; at + 24 <= to; at += 8) {
    uint64_t block = word(at), size = word(at + 8), guard = word(at + 16);
    if (block && block < from && from - block < size && guard && guard < from - block &&
        (block | size | guard) % PAGE == 0)
      return block + guard;
  }
  return 0;
}

void leaks_find_ended(uint64_t start, uint64_t end,
                      void (*found)(uint64_t start, uint64_t end, void *context), void *context) {
  for (uint64_t at = ALIGN_UP(start, (uint64_t)ALIGNMENT);
       at < end && end - at > HEADER_BYTES + NODE_BYTES; at += ALIGNMENT) {
    uint64_t node = at + HEADER_BYTES;
    if (word(node + NODE_ROBUST_FIRST) != node + NODE_ROBUST_FIRST || !has_ended(node)) continue;
    uint64_t low = find_stack(at, end - at < MEMBER_BYTES ? end : at + MEMBER_BYTES);
    if (low >= start && low < at) found(low, at, context);
  }
}
