/* SPDX-License-Identifier: MIT
 *
 * What equal calls returned: how many succeeded, and with which errors the others failed.
 */
#ifndef SONDE_BASE_CALL_RESULTS_H
#define SONDE_BASE_CALL_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

enum { CALL_ERRORS_KEPT = 4 };

typedef struct call_results {
  uint64_t succeeded, failed;
  int64_t value; /* of the first call that succeeded */
  bool varies;   /* another one returned another value */
  struct {
    uint32_t number; /* of the machine of the recording */
    uint64_t calls;
  } errors[CALL_ERRORS_KEPT]; /* other errors count in `failed` only */
} call_results_t;

/* Adds CALLS calls that failed with errno ERROR. */
static inline void call_results_add_failed(call_results_t *r, uint32_t error, uint64_t calls) {
  r->failed += calls;
  for (int i = 0; i < CALL_ERRORS_KEPT; i++) {
    if (r->errors[i].calls && r->errors[i].number != error) continue;
    r->errors[i].number = error;
    r->errors[i].calls += calls;
    return;
  }
}

/* Adds CALLS calls that succeeded and returned VALUE, or various values. */
static inline void call_results_add_succeeded(call_results_t *r, int64_t value, bool varies,
                                              uint64_t calls) {
  if (!calls) return;
  if (!r->succeeded) r->value = value;
  r->varies |= varies || r->value != value;
  r->succeeded += calls;
}

static inline void call_results_add(call_results_t *r, const call_results_t *other) {
  uint64_t counted = 0;
  call_results_add_succeeded(r, other->value, other->varies, other->succeeded);
  for (int i = 0; i < CALL_ERRORS_KEPT && other->errors[i].calls; i++) {
    call_results_add_failed(r, other->errors[i].number, other->errors[i].calls);
    counted += other->errors[i].calls;
  }
  r->failed += other->failed - counted;
}

#endif
