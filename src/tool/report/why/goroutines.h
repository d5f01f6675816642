/* SPDX-License-Identifier: MIT
 *
 * Where the goroutines of a running Go program wait: a goroutine that waits has no thread, so the
 * threads do not show it. Linux only.
 */
#ifndef SONDE_REPORT_WHY_GOROUTINES_H
#define SONDE_REPORT_WHY_GOROUTINES_H

#include "report/stacks/stacks.h"
#include "report/why/why.h"

/* The function F of the code NAMED. */
typedef why_function_t why_function_of_t(const symbolized_pc_t *named, const symbol_frame_t *f);

/* Adds a note about the goroutines of TARGET, whose threads were captured, to the findings of WHY.
 * It replaces a note about a thread that waits. Nothing if it is no Go program, or its runtime is
 * not known. */
void why_goroutines(why_report_t *why, target_t *target, stack_symbolizer_t *symbolizer,
                    why_function_of_t *function_of);

#endif
