/* SPDX-License-Identifier: MIT
 *
 * Samples of a running thread of another process, at each interval of its CPU time, from the kernel
 * (perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK). A sample has the thread's registers in user mode
 * and a copy of the innermost part of its stack. The kernel makes it in its timer interrupt, so the
 * thread is neither signalled nor stopped, whatever signals it blocks.
 */
#ifndef SONDE_TARGET_PERF_TICKS_H
#define SONDE_TARGET_PERF_TICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind/machine.h"

typedef struct perf_ticks {
  /* -1: closed */
  int fd;
  /* the ring buffer and its size, with the kernel's page in front */
  uint8_t *map;
  size_t bytes;
  /* of the stack, in a sample */
  uint32_t stack_bytes;
  /* of a record that wraps around the end of the ring */
  uint8_t *copy;
} perf_ticks_t;

typedef struct perf_tick {
  /* of CLOCK_MONOTONIC */
  uint64_t time_ns;
  /* CPU time of the thread since perf_ticks_open */
  uint64_t cpu_ns;
  regs_t regs;
  /* the memory at the stack pointer */
  const void *stack;
  size_t stack_size;
} perf_tick_t;

/* Starts sampling the thread TID at each INTERVAL_NS of its CPU time. False with errno if the
 * system refuses it or the thread has ended. */
bool perf_ticks_open(perf_ticks_t *ticks, pid_t tid, uint64_t interval_ns);

/* Changes the interval. */
void perf_ticks_set_interval(const perf_ticks_t *ticks, uint64_t interval_ns);

/* Calls EACH for the samples since the last call. TICK is valid during the call. */
void perf_ticks_read(perf_ticks_t *ticks, void (*each)(void *context, const perf_tick_t *tick),
                     void *context);

/* CPU time of the thread since perf_ticks_open; also of an ended thread. */
uint64_t perf_ticks_cpu_ns(const perf_ticks_t *ticks);
void perf_ticks_close(perf_ticks_t *ticks);

#endif
