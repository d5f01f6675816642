/* SPDX-License-Identifier: MIT
 *
 * Finds the lists of free memory of glibc's allocator (malloc/malloc.c: struct malloc_state of the
 * main arena, in libc's data). The ends of these lists, and `top`, point to the start of a free
 * chunk, which is in the last bytes of the previous block. As roots, these pointers would keep
 * leaked blocks reachable.
 *
 * The lists are recognized by their shape: 127 pairs of words; in an empty list both words point 16
 * bytes before the pair. Before the pairs are `last_remainder`, `top` and ten more lists.
 */
#include "os/os.h"
#include "sensor/leaks/reachability.h"
#include "sensor/leaks/leaks.h"

#define BINS        127u
#define EMPTY_LEAST 48u
#define BEFORE      (12u * 8u)
#define PIECE_WORDS 512u

typedef struct finder {
  uint64_t first, last; /* empty lists found so far */
  uint32_t empty;
} finder_t;

static void see_pair(finder_t *f, uint64_t at) {
  if (!f->empty || at - f->first >= BINS * 16) *f = (finder_t){.first = at};
  f->last = at;
  f->empty++;
}

/* The last list, of the largest blocks, is almost always empty. */
bool leaks_find_bins(uint64_t start, uint64_t end, uint64_t *from, uint64_t *to) {
  uint64_t words[PIECE_WORDS + 1];
  finder_t f = {0};
  for (uint64_t at = start; at + 16 <= end; at += PIECE_WORDS * 8) {
    uint64_t want = end - at < sizeof words ? end - at : sizeof words;
    ssize_t got = os_read_memory(at, words, want);
    for (uint64_t i = 0; got >= 16 && i + 1 < (uint64_t)got / 8 && i < PIECE_WORDS; i++)
      if (words[i] == at + 8 * i - 16 && words[i + 1] == words[i]) see_pair(&f, at + 8 * i);
    if (f.empty >= EMPTY_LEAST && at > f.first + BINS * 16) break;
  }
  *to = f.last + 16;
  *from = *to - BINS * 16 - BEFORE;
  return f.empty >= EMPTY_LEAST && *from >= start && f.last >= f.first;
}
