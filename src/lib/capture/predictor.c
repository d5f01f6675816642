/* SPDX-License-Identifier: MIT */
#include "capture/predictor.h"

#include "os/os.h"

static uint32_t lent;

static prediction_t *borrow(void) {
  if (load_relaxed(&lent) >= PREDICTOR_LENDING || add_relaxed(&lent, 1) >= PREDICTOR_LENDING)
    return NULL;
  return os_map(PREDICTOR_LENT * sizeof(prediction_t));
}

/* A handler may jump out of here after any of the stores: at each moment the table has as many tips
 * as are counted. */
static bool grow(predictor_t *tips) {
  prediction_t *larger = borrow();
  if (!larger) return false;
  tips->table = larger;
  signal_fence();
  tips->count = PREDICTOR_LENT;
  return true;
}

void predictor_judge(predictor_t *tips) {
  bool bad = tips->right < PREDICTOR_RIGHT, good = tips->right / PREDICTOR_GOOD >= tips->wrong;
  tips->right = tips->wrong = 0;
  if (PREDICTOR_ARE_MADE && tips->count == TIPS && !good && grow(tips)) return;
  if (bad) tips->rest = PREDICTOR_REST;
}
