/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/intercept.h for floating-point values. They return them in vector
 * registers, so this file is not compiled for general registers only; callbacks may use all
 * registers.
 */
#include "sensor/intercept/intercept.h"

#include <string.h>

#include "base/bits.h"

#if defined(__x86_64__)
#define RESULT_VECTORS 2u
#else
#define RESULT_VECTORS 4u
#endif

static uint64_t argument(const sonde_call_t *call, unsigned number) {
  return call->arguments && number < ARCH_VECTOR_WORDS / 2 ? call->vectors[2 * number] : 0;
}

static uint64_t result(const sonde_call_t *call, unsigned number) {
  return call->results && number < RESULT_VECTORS ? call->vectors[2 * number] : 0;
}

static double as_double(uint64_t word) {
  double value;
  memcpy(&value, &word, sizeof value);
  return value;
}

static float as_float(uint64_t word) {
  uint32_t low = (uint32_t)word;
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}

double sonde_call_argument_double(const sonde_call_t *call, unsigned number) {
  return as_double(argument(call, number));
}
float sonde_call_argument_float(const sonde_call_t *call, unsigned number) {
  return as_float(argument(call, number));
}
double sonde_call_result_double(const sonde_call_t *call, unsigned number) {
  return as_double(result(call, number));
}
float sonde_call_result_float(const sonde_call_t *call, unsigned number) {
  return as_float(result(call, number));
}
