/* SPDX-License-Identifier: MIT
 *
 * unit/capture/step_test.c with more rounds and a deeper stack.
 */
#define STEP_STRIDE 1
#define STEP_DEEP   600
#include "unit/capture/step_test.c"
