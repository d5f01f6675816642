/* SPDX-License-Identifier: MIT
 *
 * Which thread of a program may be borrowed: one that waits in a system call which goes on
 * unnoticed after a stop.
 */
#ifndef SONDE_ATTACH_CHOOSE_H
#define SONDE_ATTACH_CHOOSE_H

#include "target/process.h"

/* The fitness of a thread. */
typedef enum fitness {
  /* the kernel continues its call exactly as before */
  FIT_EXACT,
  /* its call has no timeout and starts again; or it runs */
  FIT_RESTARTED,
  /* its call starts again with its whole timeout, so it is stopped just after the call began */
  FIT_TIMED,
  /* never: a transfer that would end early, or an uninterruptible wait */
  FIT_NEVER,
} fitness_t;

/* The fitness of a thread in system call NUMBER with ARGS; -1: it runs. */
fitness_t choose_fitness(long number, const uint64_t args[6]);

/* The fitness of the thread TID of TARGET now. */
fitness_t choose_fitness_of(target_t *target, pid_t tid);

/* The best thread of TARGET, which is alive, and its fitness. 0: none. */
pid_t choose_thread(target_t *target, fitness_t *fitness);

/* Waits until the thread TID of fitness FIT_TIMED begins to wait, at most 200 ms. */
void choose_wait(target_t *target, pid_t tid);

#endif
