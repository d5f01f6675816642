/* SPDX-License-Identifier: MIT */
#include "target/interpreter/stack_words.h"

#include <stdlib.h>

#include "base/load.h"

#define STACK_MAX   (UINT64_C(1) << 20)
#define PIECE_BYTES 4096u
#define SLOTS       16384u /* a power of two */

/* Values that were passed: a hash table of which at most a half is used. */
typedef struct seen {
  uint64_t *slots;
  size_t count;
} seen_t;

static bool is_new(seen_t *s, uint64_t word) {
  size_t i = (size_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (SLOTS - 1);
  for (; s->slots[i]; i = (i + 1) & (SLOTS - 1))
    if (s->slots[i] == word) return false;
  if (s->count == SLOTS / 2) return false;
  s->slots[i] = word;
  s->count++;
  return true;
}

void stack_words_each(memory_t *memory, uint64_t start, uint64_t end,
                      void (*each)(void *context, uint64_t word), void *context) {
  uint8_t piece[PIECE_BYTES];
  uint64_t stop = end > start && end - start > STACK_MAX ? start + STACK_MAX : end;
  seen_t seen = {.slots = start < stop ? calloc(SLOTS, sizeof *seen.slots) : NULL};
  for (uint64_t at = start, size; seen.slots && at < stop; at += size) {
    size = PIECE_BYTES - at % PIECE_BYTES;
    if (size > stop - at) size = stop - at;
    if (!memory->read(memory, at, piece, (size_t)size)) break;
    for (uint64_t i = 0; i + 8 <= size; i += 8) {
      uint64_t word = load64(piece + i);
      if (stack_word_is_address(start, end, word) && is_new(&seen, word)) each(context, word);
    }
  }
  free(seen.slots);
}
