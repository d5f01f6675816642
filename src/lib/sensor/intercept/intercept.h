/* SPDX-License-Identifier: MIT
 *
 * What the files of sonde/intercept.h share.
 */
#ifndef SONDE_SENSOR_INTERCEPT_INTERCEPT_H
#define SONDE_SENSOR_INTERCEPT_INTERCEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/keep.h"
#include "hook/trampoline.h"
#include "sonde/intercept.h"

/* During a callback. */
struct sonde_call {
  call_t *call;
  const uint64_t *arguments; /* NULL: not in `before` */
  const uint64_t *results;   /* NULL: it has not returned */
  uint64_t vectors[ARCH_VECTOR_WORDS];
};

/* Sets T up for interception NUMBER. */
void intercept_set(trampoline_t *t, uint32_t number);

/* False if FUNCTION returns twice, and interception NUMBER needs to know when it returns. */
bool intercept_accepts(uint32_t number, const char *function);

/* Patches the functions that the pattern TARGET selects for interception NUMBER. Returns their
 * number or a negative SONDE_E…. */
int intercept_code(const char *target, uint32_t number);

/* Restores them. Returns SONDE_OK or SONDE_EBUSY. */
int intercept_code_restore(uint32_t number);

#endif
