/* SPDX-License-Identifier: MIT
 *
 * The evaluation of a predictor, and the large tables.
 */
#include "capture/predictor.h"

#include "os/os.h"

static uint32_t large_tables;

static prediction_t *map_large_table(void) {
  if (load_relaxed(&large_tables) >= PREDICTOR_LARGE_TABLES_MAX ||
      add_relaxed(&large_tables, 1) >= PREDICTOR_LARGE_TABLES_MAX)
    return NULL;
  return os_map(PREDICTOR_LARGE_SIZE * sizeof(prediction_t));
}

/* A handler may jump out of here after any store, so the table must have COUNT predictions at each
 * instruction. */
static bool grow(predictor_t *predictor) {
  prediction_t *larger = map_large_table();
  if (!larger) return false;
  predictor->table = larger;
  signal_fence();
  predictor->count = PREDICTOR_LARGE_SIZE;
  return true;
}

void predictor_evaluate(predictor_t *predictor) {
  bool bad = predictor->right < PREDICTOR_RIGHT_MIN,
       good = predictor->right / PREDICTOR_GOOD_RATIO >= predictor->wrong;
  predictor->right = predictor->wrong = 0;
  if (PREDICTOR_ENABLED && predictor->count == PREDICTOR_OWN_SIZE && !good && grow(predictor))
    return;
  if (bad) predictor->paused = PREDICTOR_PAUSE;
}

#if defined(SONDE_DEBUG)

bool prediction_is_valid(const prediction_t *prediction) {
  return prediction->count >= 1 && prediction->count <= PREDICTION_WORDS && prediction->id != 0 &&
         prediction_distance(prediction->words[0]) == 0 &&
         !(prediction->words[prediction->count - 1] & PREDICTION_CHAINED);
}

/* `table` is stored before `count`, so a large table may have the count of a small one. */
bool predictor_is_valid(const predictor_t *predictor) {
  if (predictor->count == 0) return true;
  bool has_table =
      predictor->table &&
      (predictor->count == PREDICTOR_OWN_SIZE ||
       (predictor->count == PREDICTOR_LARGE_SIZE && predictor->table != predictor->own));
  return has_table && predictor->paused <= PREDICTOR_PAUSE &&
         predictor->wrong < PREDICTOR_WRONG_MAX;
}

#endif
