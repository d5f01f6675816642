/* SPDX-License-Identifier: MIT
 *
 * Tips: the innermost parts of stacks seen before, so that a stack that comes again is not walked
 * again.
 *
 * A program in a loop captures the same few stacks in the same order, none of them twice in a row:
 * the frame cache (unwind/cache.h) then walks two to five fresh frames each time. A tip stands for
 * such a run of frames: the words of memory that prove it (return addresses, and the saved frame
 * pointers that rules consume), the entry of the cache at which it joins, and the id of the whole
 * stack. Which tip to try is a guess from the stack before this one, the caller's pc and its stack
 * pointer. It is right 99 times of 100 in sqlite3 and perl and 78 in python3.
 *
 * A guess proves nothing, its words do. By induction from the innermost frame: (pc, stack pointer,
 * and frame pointer where it matters) are compared; a frame's rule leads from them to one next
 * slot, which is one that the tip names; when that holds what it held, the caller is the same. The
 * last slot is that of the entry where the tip joins; that entry must be there with the same slot,
 * frame pointer and stack id, and everything further out must be as it was (cache_first_changed).
 * A word is read only after all before it were found equal, so it is one of the stack as it is now,
 * and readable. Rules do not change while the loader's epoch does not; when it does, all tips go.
 *
 * A look at a tip that is right costs two or three cache lines of ours (128 bytes each tip), seven
 * instructions and a line of the program's own stack for each word, no store but that of the id,
 * and no branch that depends on anything but the number of words.
 *
 * Where guesses are mostly wrong (compilers: one in five is right), the look costs more than it
 * gains. So hits are counted, and after a bad stretch tips rest for a while: neither tried nor
 * made.
 *
 * Tips are made for machines that push the return address, where the innermost frame has a slot.
 */
#ifndef SONDE_UNWIND_TIPS_H
#define SONDE_UNWIND_TIPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

#define TIPS      48
#define TIP_WORDS 11

/* A word is its distance from the innermost slot, in words of 8 bytes, above its content. In code
 * with frame pointers the word below a slot holds the address of the word below the next one: that
 * takes no word of its own, but a bit. */
#define TIP_CONTENT_BITS 48
#define TIP_CONTENT      (((uint64_t)1 << TIP_CONTENT_BITS) - 1)
#define TIP_CHAINED      ((uint64_t)1 << 63)
#define TIP_DISTANCE_MAX 32767

#define TIPS_WRONG 192  /* after so many wrong guesses tips are judged */
#define TIPS_RIGHT 64   /* fewer right ones meanwhile: they rest */
#define TIPS_REST  4096 /* captures */

typedef struct tip {
  uint64_t sp;               /* of the innermost frame after its return; 0: no tip */
  uint64_t fp;               /* and its frame pointer, if `live` */
  uint64_t join_fp;          /* the joined entry's */
  uint32_t id;               /* of the whole stack */
  uint32_t join_id;          /* of the stack from the joined entry outward */
  uint16_t join, join_words; /* the entry's number; its slot as a distance */
  uint8_t count;
  bool live;
  uint16_t unused;
  uint64_t words[TIP_WORDS]; /* the first is the pc; no tip's distance to it is above 0 */
} tip_t;

_Static_assert(sizeof(tip_t) == 128, "a tip is two cache lines");

typedef struct tips {
  uint32_t last;         /* the stack id before this one */
  uint32_t right, wrong; /* guesses in this stretch */
  uint32_t rest;         /* captures until they are tried again */
  tip_t tips[TIPS];
} tips_t;

/* Where the tip is that would stand for the stack that PC and SP begin. */
static ALWAYS_INLINE uint32_t tips_index(uint32_t last, uint64_t pc, uint64_t sp) {
  uint64_t hash = (pc ^ (uint64_t)last << 24) * UINT64_C(0x9e3779b97f4a7c15) +
                  sp * UINT64_C(0xd6e8feb86659fd93);
  return (uint32_t)((hash >> 32) * TIPS >> 32);
}

static ALWAYS_INLINE uint64_t tip_distance(uint64_t word) {
  return (word & ~TIP_CHAINED) >> TIP_CONTENT_BITS;
}
static ALWAYS_INLINE uint64_t tip_content(uint64_t word) { return word & TIP_CONTENT; }

/* Adds the word at ADDRESS to TIP; false when it has no room or cannot express it. */
static inline bool tip_add(tip_t *tip, uint64_t innermost_slot, uint64_t address, uint64_t content,
                           bool chained) {
  uint64_t distance = (address - innermost_slot) / 8;
  if (tip->count == TIP_WORDS || distance > TIP_DISTANCE_MAX || content > TIP_CONTENT) return false;
  tip->words[tip->count++] = (chained ? TIP_CHAINED : 0) | distance << TIP_CONTENT_BITS | content;
  return true;
}

/* Counts a wrong guess, or a capture of the rest. True when a tip should be made. */
static ALWAYS_INLINE bool tips_count_wrong(tips_t *tips) {
  if (tips->rest) {
    tips->rest--;
    return false;
  }
  if (++tips->wrong < TIPS_WRONG) return true;
  tips->rest = tips->right < TIPS_RIGHT ? TIPS_REST : 0;
  tips->right = tips->wrong = 0;
  return tips->rest == 0;
}

static inline void tips_drop(tips_t *tips) {
  for (uint32_t i = 0; i < TIPS; i++)
    tips->tips[i].sp = 0;
}

#endif
