/* SPDX-License-Identifier: MIT
 *
 * Changes code of a running program while all its threads are stopped, for the agent in it
 * (hook/move.h).
 */
#ifndef SONDE_ATTACH_CHANGE_H
#define SONDE_ATTACH_CHANGE_H

#include "hook/move.h"
#include "target/target.h"

#define CHANGE_COUNT_MAX (1u << 20)

typedef struct change_result {
  uint32_t made;
  uint32_t occupied; /* not made, because a thread is there or may return there */
  uint32_t unequal;  /* not made, because the code was another */
  uint64_t pause_ns; /* from the first stop to the last release */
} change_result_t;

/* Makes the COUNT changes of the list at ADDRESS in the memory of process PID, at most
 * CHANGE_COUNT_MAX. False with PROBLEM if the threads cannot be stopped or the list is invalid;
 * then nothing is changed. */
bool change_code(pid_t pid, uint64_t address, uint32_t count, change_result_t *result,
                 problem_t *problem);

#endif
