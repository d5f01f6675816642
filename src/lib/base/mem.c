/* SPDX-License-Identifier: MIT
 *
 * memcpy and its family for libsonde-agent.so, which links no libc. Compilers emit calls to these
 * four functions even in freestanding code, so the agent must define them. They are hidden, so the
 * program never calls them. libsonde and the tests use those of libc.
 *
 * Copies on the hot paths are short: they copy eight bytes at a time, then the rest. Copies of
 * LONG_BYTES and more use the string instructions of x86_64.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

/* A word at any address; it may alias an object of any type. */
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
    copy_upwards(to, from, size); /* TO is below FROM, or they do not overlap */
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

/* clang replaces memcmp by bcmp where the code tests for equality only. */
int bcmp(const void *a, const void *b, size_t size);
int bcmp(const void *a, const void *b, size_t size) { return memcmp(a, b, size); }
