/* SPDX-License-Identifier: MIT */
#include "capture/predictor.h"

#include "os/os.h"

static uint32_t lent;

static prediction_t *borrow(void) {
  if (load_relaxed(&lent) >= PREDICTOR_LARGE_TABLES_MAX ||
      add_relaxed(&lent, 1) >= PREDICTOR_LARGE_TABLES_MAX)
    return NULL;
  return os_map(PREDICTOR_LARGE * sizeof(prediction_t));
}

/* A handler may jump out of here after any of the stores: at each moment the table has as many tips
 * as are counted. */
static bool grow(predictor_t *tips) {
  prediction_t *larger = borrow();
  if (!larger) return false;
  tips->table = larger;
  signal_fence();
  tips->count = PREDICTOR_LARGE;
  return true;
}

void predictor_evaluate(predictor_t *tips) {
  bool bad = tips->right < PREDICTOR_RIGHT_MIN,
       good = tips->right / PREDICTOR_GOOD_RATIO >= tips->wrong;
  tips->right = tips->wrong = 0;
  if (PREDICTOR_ENABLED && tips->count == PREDICTOR_OWN && !good && grow(tips)) return;
  if (bad) tips->rest = PREDICTOR_PAUSE;
}
