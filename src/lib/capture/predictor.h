/* SPDX-License-Identifier: MIT
 *
 * Tips: the innermost parts of stacks seen before, so that a stack that comes again is not walked
 * again.
 *
 * A program in a loop captures the same few stacks in the same order, none of them twice in a row:
 * the frame cache (capture/frame_cache.h) then walks two to five fresh frames each time. A tip
 * stands for such a run of frames: the words of memory that prove it (return addresses, and the
 * saved frame pointers that rules consume), the entry of the cache at which it joins, and the id of
 * the whole stack. Which tip to try is a guess from the stack before this one, the caller's pc and
 * its stack pointer. It is right 99 times of 100 in sqlite3, perl and python3.
 *
 * A guess proves nothing, its words do. By induction from the innermost frame: (pc, stack pointer,
 * and frame pointer where it matters) are compared; a frame's rule leads from them to one next
 * slot, which is one that the tip names; when that holds what it held, the caller is the same. The
 * last slot is that of the entry where the tip joins; that entry must be there with the same slot,
 * frame pointer and stack id, and everything further out must be as it was
 * (frame_cache_first_changed). A word is read only after all before it were found equal, so it is
 * one of the stack as it is now, and readable. Rules do not change while the loader's epoch does
 * not; when it does, all tips go.
 *
 * A look at a tip that is right costs two or three cache lines of ours (128 bytes each tip), seven
 * instructions and a line of the program's own stack for each word, no store but that of the id,
 * and no branch that depends on anything but the number of words.
 *
 * A guess that fails nearly always fails for want of room: the place is taken by another stack's
 * tip. A thread's own table holds 48, with which python3 guesses 78 of 100 stacks; with 256 it
 * guesses 93, with 1024 it guesses 99. So a thread that guesses fewer than twenty for each that
 * fails is lent a table of 1024. The process has a few of them, since busy threads are few and no
 * thread is to hold more than 16 KB of its own. Who was lent one keeps it; it goes on with the
 * state to the thread that takes the state over.
 *
 * Where guesses are mostly wrong even so (compilers, which come by tens of thousands), the look
 * costs more than it gains. So hits are counted, and after a bad stretch tips rest for a while:
 * neither tried nor made.
 *
 * Tips are made for machines that push the return address, where the innermost frame has a slot.
 */
#ifndef SONDE_CAPTURE_PREDICTOR_H
#define SONDE_CAPTURE_PREDICTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

#if defined(__x86_64__)
#define PREDICTOR_ENABLED true
#else
#define PREDICTOR_ENABLED false
#endif

#define PREDICTOR_OWN_SIZE         48   /* of a thread's own */
#define PREDICTOR_LARGE_SIZE       1024 /* of a table that is lent */
#define PREDICTOR_LARGE_TABLES_MAX 8    /* so many such tables has a process: 1 MB at most */
#define PREDICTION_WORDS           11

/* A word is its distance from the innermost slot, in words of 8 bytes, above its content. In code
 * with frame pointers the word below a slot holds the address of the word below the next one: that
 * takes no word of its own, but a bit. */
#define PREDICTION_CONTENT_BITS 48
#define PREDICTION_CONTENT      (((uint64_t)1 << PREDICTION_CONTENT_BITS) - 1)
#define PREDICTION_CHAINED      ((uint64_t)1 << 63)
#define PREDICTION_DISTANCE_MAX 32767

#define PREDICTOR_WRONG_MAX 192  /* after so many wrong guesses tips are judged */
#define PREDICTOR_RIGHT_MIN 64   /* fewer right ones meanwhile: they rest */
#define PREDICTOR_PAUSE     4096 /* captures */
#define PREDICTOR_GOOD_RATIO                                                                       \
  20 /* for each wrong guess: with fewer right ones a larger table is asked for */

typedef struct prediction {
  uint64_t sp;               /* of the innermost frame after its return; 0: no tip */
  uint64_t fp;               /* and its frame pointer, if `live` */
  uint64_t join_fp;          /* the joined entry's */
  uint32_t id;               /* of the whole stack */
  uint32_t join_id;          /* of the stack from the joined entry outward */
  uint16_t join, join_words; /* the entry's number; its slot as a distance */
  uint8_t count;
  bool fp_live;
  uint16_t unused;
  uint64_t words[PREDICTION_WORDS]; /* the first is the pc; no tip's distance to it is above 0 */
} prediction_t;

_Static_assert(sizeof(prediction_t) == 128, "a tip is two cache lines");

typedef struct predictor {
  uint32_t last;         /* the stack id before this one */
  uint32_t right, wrong; /* guesses in this stretch */
  uint32_t paused;       /* captures until they are tried again */
  prediction_t *table;   /* OWN or a larger one, of at least COUNT tips */
  uint32_t count;        /* 0: nothing was captured yet */
  prediction_t own[PREDICTOR_OWN_SIZE] __attribute__((aligned(64)));
} predictor_t;

/* Where the tip is that would stand for the stack that PC and SP begin. */
static ALWAYS_INLINE prediction_t *predictor_at(const predictor_t *predictor, uint64_t pc,
                                                uint64_t sp) {
  uint64_t hash = (pc ^ (uint64_t)predictor->last << 24) * UINT64_C(0x9e3779b97f4a7c15) +
                  sp * UINT64_C(0xd6e8feb86659fd93);
  return &predictor->table[(hash >> 32) * predictor->count >> 32];
}

static ALWAYS_INLINE uint64_t prediction_distance(uint64_t word) {
  return (word & ~PREDICTION_CHAINED) >> PREDICTION_CONTENT_BITS;
}
static ALWAYS_INLINE uint64_t prediction_content(uint64_t word) {
  return word & PREDICTION_CONTENT;
}

/* Adds the word at ADDRESS to TIP; false when it has no room or cannot express it. */
static inline bool prediction_add(prediction_t *prediction, uint64_t innermost_slot,
                                  uint64_t address, uint64_t content, bool chained) {
  uint64_t distance = (address - innermost_slot) / 8;
  if (prediction->count == PREDICTION_WORDS || distance > PREDICTION_DISTANCE_MAX ||
      content > PREDICTION_CONTENT)
    return false;
  prediction->words[prediction->count++] =
      (chained ? PREDICTION_CHAINED : 0) | distance << PREDICTION_CONTENT_BITS | content;
  return true;
}

/* After PREDICTOR_WRONG_MAX wrong guesses: whether they go on, rest, or get more room. */
NOINLINE void predictor_evaluate(predictor_t *predictor);

/* Counts a wrong guess, or a capture of the rest. True when a tip should be made. */
static ALWAYS_INLINE bool predictor_count_wrong(predictor_t *predictor) {
  if (predictor->paused) {
    predictor->paused--;
    return false;
  }
  if (++predictor->wrong >= PREDICTOR_WRONG_MAX) predictor_evaluate(predictor);
  return predictor->paused == 0;
}

/* Before the first capture, of a thread that may have taken over another one's state. */
static inline void predictor_init(predictor_t *predictor) {
  if (predictor->count) return;
  predictor->table = predictor->own;
  predictor->count = PREDICTOR_OWN_SIZE;
}

static inline void predictor_clear(predictor_t *predictor) {
  for (uint32_t i = 0; i < predictor->count; i++)
    predictor->table[i].sp = 0;
}

#endif
