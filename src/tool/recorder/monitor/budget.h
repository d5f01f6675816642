/* SPDX-License-Identifier: MIT
 *
 * `--budget`: keeps the CPU time of sonde itself below a share of one CPU, or of the program's CPU
 * time if that is more.
 *
 * Sonde's CPU time is that of the recorder, which the kernel counts, and that of samples in the
 * program. A sample of CPU time is measured in its signal handler, and a sampled block is
 * estimated. What is not counted: the hooks of calls that are not sampled.
 *
 * If the share exceeds the budget over some seconds, the pace rises: with each step all samples and
 * readings are twice as far apart, and each sample stands for twice as much. A share far beyond the
 * budget is noticed after a second, and takes several steps at a time. The pace falls again by one
 * when the share has long been far below the budget.
 *
 * With --follow, one budget is for the sum of all recorded processes, which have the same pace.
 */
#ifndef SONDE_RECORDER_MONITOR_BUDGET_H
#define SONDE_RECORDER_MONITOR_BUDGET_H

#include "recorder/follow.h"

typedef struct budget {
  uint32_t permille; /* of one CPU; 0: no limit */
  /* when the last window began */
  uint64_t began_ns, used_ns, program_ns;
  unsigned calm; /* windows far below the budget, in a row */
  bool has_noted;
} budget_t;

/* The pace after PACE for a SHARE beyond the BUDGET: one step, and further ones as long as half as
 * much would still be twice the budget. */
uint32_t budget_slower(uint32_t pace, double share, double budget);

/* Call it once a second. Updates `sonde_ns` of the recording of CONTROL, and the pace of it and of
 * the recordings of FOLLOW, which may be NULL. */
void budget_refresh(budget_t *budget, control_t *control, follow_t *follow);

#endif
