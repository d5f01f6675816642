/* SPDX-License-Identifier: MIT
 *
 * memcpy and its family for the one library that stands on no libc: libsonde-agent.so. Compilers
 * emit calls to these four whatever they are told, so they must exist; they are hidden, so a
 * program into which the agent is preloaded never meets them. libsonde and the tests use libc's.
 *
 * Copies on the hot paths are short: eight bytes at a time, then the rest. What is long (a page and
 * more) goes to the string instructions where the CPU has them.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

/* A word at any address that may alias anything. */
typedef struct word {
  uint64_t value;
} __attribute__((packed, may_alias)) word_t;

enum { WORD = sizeof(word_t), LONG_BYTES = 2048 };

HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t size);
HIDDEN void *memmove(void *to, const void *from, size_t size);
HIDDEN void *memset(void *to, int byte, size_t size);
HIDDEN int memcmp(const void *a, const void *b, size_t size);

static ALWAYS_INLINE bool copy_long(uint8_t *to, const uint8_t *from, size_t size) {
#if defined(__x86_64__)
  if (size < LONG_BYTES) return false;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
  return true;
#else
  (void)to, (void)from, (void)size;
  return false;
#endif
}

static ALWAYS_INLINE bool fill_long(uint8_t *to, int byte, size_t size) {
#if defined(__x86_64__)
  if (size < LONG_BYTES) return false;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
  return true;
#else
  (void)to, (void)byte, (void)size;
  return false;
#endif
}

static void copy_upwards(uint8_t *to, const uint8_t *from, size_t size) {
  for (; size >= WORD; to += WORD, from += WORD, size -= WORD)
    ((word_t *)to)->value = ((const word_t *)from)->value;
  for (; size; size--)
    *to++ = *from++;
}

static void copy_downwards(uint8_t *to, const uint8_t *from, size_t size) {
  while (size >= WORD) {
    size -= WORD;
    ((word_t *)(to + size))->value = ((const word_t *)(from + size))->value;
  }
  while (size) {
    size--;
    to[size] = from[size];
  }
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
  if (!copy_long(to, from, size)) copy_upwards(to, from, size);
  return to;
}

void *memmove(void *to, const void *from, size_t size) {
  if ((uintptr_t)to - (uintptr_t)from >= size)
    copy_upwards(to, from, size); /* below it, or beside it */
  else
    copy_downwards(to, from, size);
  return to;
}

void *memset(void *to, int byte, size_t size) {
  uint8_t *next = to;
  const uint64_t word = 0x0101010101010101u * (uint8_t)byte;
  if (fill_long(next, byte, size)) return to;
  for (; size >= WORD; next += WORD, size -= WORD)
    ((word_t *)next)->value = word;
  for (; size; size--)
    *next++ = (uint8_t)byte;
  return to;
}

int memcmp(const void *a, const void *b, size_t size) {
  const uint8_t *x = a, *y = b;
  for (; size >= WORD; x += WORD, y += WORD, size -= WORD)
    if (((const word_t *)x)->value != ((const word_t *)y)->value) break;
  for (; size; x++, y++, size--)
    if (*x != *y) return *x - *y;
  return 0;
}

/* What clang makes of a memcmp of which only equality is asked. */
int bcmp(const void *a, const void *b, size_t size);
int bcmp(const void *a, const void *b, size_t size) { return memcmp(a, b, size); }
