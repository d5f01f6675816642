/* SPDX-License-Identifier: MIT */
#include "os/key_place.h"

#include "arch/arch.h"
#include "base/bits.h"
#include "os/os.h"

#define KEYS       32u
#define PAIR_WORDS 2u
#define ARRAY      (KEYS * PAIR_WORDS)

/* The part of the structure that is searched, in words from the thread pointer. Each version of
 * glibc has the array there. */
#if defined(__x86_64__)
#define FIRST 32
#else
#define FIRST (-288)
#endif
#define STATE_WORDS 192u

int64_t os_key_place(uint32_t key, uint64_t value) {
  uint64_t words[STATE_WORDS], pointer = arch_thread_pointer();
  uint64_t start = pointer + (uint64_t)(FIRST * (int64_t)sizeof words[0]);
  if (key >= KEYS || os_read_memory(start, words, sizeof words) != (ssize_t)sizeof words) return 0;
  for (uint32_t i = 0; i + ARRAY < STATE_WORDS; i++) {
    uint32_t at = i + key * PAIR_WORDS + 1;
    if (words[i + ARRAY] == start + i * sizeof words[0] && words[at] == value)
      return (int64_t)(start + at * sizeof words[0] - pointer);
  }
  return 0;
}
