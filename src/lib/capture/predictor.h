/* SPDX-License-Identifier: MIT
 *
 * The predictor: innermost parts of stacks captured before, so that a repeated stack needs no walk.
 *
 * A program in a loop captures the same few stacks in the same order, none of them twice in a row.
 * The frame cache (capture/frame_cache.h) then walks two to five new frames each time. A prediction
 * represents such a run of frames. It holds the words of memory that prove the run (return
 * addresses, and the saved frame pointers that rules read), the entry of the cache that the run
 * joins, and the id of the whole stack. The previous stack's id, the caller's pc and its stack
 * pointer select the prediction. The selected prediction is correct 99 times of 100 in sqlite3,
 * perl and python3.
 *
 * The selection proves nothing; the words do. By induction from the innermost frame: pc, stack
 * pointer and, where it matters, frame pointer are compared. A frame's rule leads from them to one
 * next slot, which the prediction names. If that slot's content is unchanged, the caller is the
 * same. The last slot is that of the joined entry. That entry must still have the same slot, frame
 * pointer and stack id, and everything further out must be unchanged (frame_cache_first_changed). A
 * word is read only after all words before it were equal, so it belongs to the current stack and is
 * readable. Rules do not change within an epoch of the loader. When the epoch changes, all
 * predictions are cleared.
 *
 * A correct prediction costs two or three cache lines of its own (128 bytes each), and seven
 * instructions and a line of the program's stack for each word. It stores only the id, and its only
 * unpredictable branch depends on the number of words.
 *
 * Nearly all wrong predictions have one cause: another stack's prediction has the same place in the
 * table. A thread's own table has 48 predictions; with it python3 predicts 78 of 100 stacks, with
 * 256 it predicts 93, with 1024 it predicts 99. So a thread with fewer than twenty correct
 * predictions for each wrong one gets a table of 1024. The process has a few such tables, since few
 * threads are busy and a thread's own state is limited to 16 KB. A thread keeps its table; the
 * table stays with the state when another thread takes the state over.
 *
 * If most predictions are wrong even so (compilers have tens of thousands of stacks), the predictor
 * costs more than it saves. So it counts its results, and after a bad period it pauses: it neither
 * uses nor adds predictions.
 *
 * Threads: only the owning thread uses its predictor. The predictor works only on machines where a
 * call pushes the return address, since there the innermost frame has a slot.
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

/* Predictions in a thread's own table. */
#define PREDICTOR_OWN_SIZE 48
/* Predictions in a large table. */
#define PREDICTOR_LARGE_SIZE 1024
/* Large tables of a process: 1 MB at most. */
#define PREDICTOR_LARGE_TABLES_MAX 8
#define PREDICTION_WORDS           11

/* A word holds its distance from the innermost slot, in words of 8 bytes, above its content. In
 * code with frame pointers the word below a slot holds the address of the word below the next slot.
 * That takes one bit and no word of its own. */
#define PREDICTION_CONTENT_BITS 48
#define PREDICTION_CONTENT      (((uint64_t)1 << PREDICTION_CONTENT_BITS) - 1)
#define PREDICTION_CHAINED      ((uint64_t)1 << 63)
#define PREDICTION_DISTANCE_MAX 32767

/* Wrong predictions before an evaluation. */
#define PREDICTOR_WRONG_MAX 192
/* With fewer correct predictions at an evaluation, the predictor pauses. */
#define PREDICTOR_RIGHT_MIN 64
/* Length of a pause, in captures. */
#define PREDICTOR_PAUSE 4096
/* Correct predictions for each wrong one. With fewer, the thread needs a large table. */
#define PREDICTOR_GOOD_RATIO 20

typedef struct prediction {
  /* Stack pointer of the innermost frame after its return; 0: empty. */
  uint64_t sp;
  /* Frame pointer of that frame, if `fp_live`. */
  uint64_t fp;
  /* Frame pointer of the joined entry. */
  uint64_t join_fp;
  /* Id of the whole stack. */
  uint32_t id;
  /* Id of the stack from the joined entry outward. */
  uint32_t join_id;
  /* Number of the joined entry, and the distance of its slot in words. */
  uint16_t join, join_words;
  uint8_t count;
  bool fp_live;
  uint16_t unused;
  /* The first word is the pc, whose distance is 0. */
  uint64_t words[PREDICTION_WORDS];
} prediction_t;

_Static_assert(sizeof(prediction_t) == 128, "a prediction is two cache lines");

typedef struct predictor {
  /* Id of the previous stack. */
  uint32_t last;
  /* Predictions since the last evaluation. */
  uint32_t right, wrong;
  /* Remaining captures of a pause. */
  uint32_t paused;
  /* OWN or a large table; it has at least COUNT predictions. */
  prediction_t *table;
  /* 0 before the first capture. */
  uint32_t count;
  prediction_t own[PREDICTOR_OWN_SIZE] __attribute__((aligned(64)));
} predictor_t;

/* Returns the place of the prediction for a stack that starts at PC and SP. */
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

/* Adds the word at ADDRESS to PREDICTION. Returns false if it is full or cannot express the word.
 */
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

/* Evaluates the predictor after PREDICTOR_WRONG_MAX wrong predictions: it continues, pauses or gets
 * a large table. */
NOINLINE void predictor_evaluate(predictor_t *predictor);

/* Counts a wrong prediction, or a capture of a pause. Returns true if a prediction should be added.
 */
static ALWAYS_INLINE bool predictor_count_wrong(predictor_t *predictor) {
  if (predictor->paused) {
    predictor->paused--;
    return false;
  }
  if (++predictor->wrong >= PREDICTOR_WRONG_MAX) predictor_evaluate(predictor);
  return predictor->paused == 0;
}

/* Called before the first capture of a thread, which may have taken over another thread's state. */
static inline void predictor_init(predictor_t *predictor) {
  if (predictor->count) return;
  predictor->table = predictor->own;
  predictor->count = PREDICTOR_OWN_SIZE;
}

static inline void predictor_clear(predictor_t *predictor) {
  for (uint32_t i = 0; i < predictor->count; i++)
    predictor->table[i].sp = 0;
}

#if defined(SONDE_DEBUG)
/* True if PREDICTION, apart from its stack pointer, is complete. */
bool prediction_is_valid(const prediction_t *prediction);
/* True if PREDICTOR's table fits its size and its counters are in range. */
bool predictor_is_valid(const predictor_t *predictor);
#endif

#endif
