/* SPDX-License-Identifier: MIT
 *
 * unit/capture/stress_test.c for ten million captures, each compared with both oracles.
 */
#define STRESS_CAPTURES  1000000L
#define STRESS_PROCESSES 10
#define STRESS_FULL_EACH 1
#include "unit/capture/stress_test.c"
