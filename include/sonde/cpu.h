/* SPDX-License-Identifier: MIT
 *
 * Reports threads of this program that use much CPU time for long, with the code that used it.
 *
 * The monitor reads the CPU time of each thread. A thread that exceeds the limit is sampled about
 * 20 times a second, so a program below the limit is never sampled. `sonde record --cpu` does the
 * same from the recorder, without code in the program.
 */
#ifndef SONDE_CPU_H
#define SONDE_CPU_H

#include <stdint.h>
#include <sys/types.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A function in the call tree of an episode. The array has a function before its callees, and the
 * callees of a function by CPU time, largest first. */
typedef struct sonde_cpu_node {
  /* an address in the function, for sonde_name with SONDE_NAME_EXACT: in the call to the callee of
   * its first sample, or where that sample was taken */
  uintptr_t pc;
  /* 0: the function is outermost */
  int depth;
  /* index of the caller; -1: outermost */
  int caller;
  /* CPU time of the function with its callees, and of the function alone */
  uint64_t cpu_ns, self_ns;
} sonde_cpu_node_t;

/* Excessive use by one thread. The array and the name are valid until the callback returns. */
typedef struct sonde_cpu_episode {
  pid_t tid;
  const char *name;
  /* how long the episode lasted, and the CPU time that the thread used in it */
  uint64_t length_ns, cpu_ns;
  /* the CPU time that stacks represent: less than CPU_NS by the time before the first sample and
   * the time in UNKNOWN_NS */
  uint64_t sampled_ns;
  /* CPU time for which no stack could be captured */
  uint64_t unknown_ns;
  uint32_t samples;
  /* the call tree; functions beyond the first 1,024 are counted in their callers */
  const sonde_cpu_node_t *nodes;
  int count;
  /* threads that were not watched, because more than 4,096 exist */
  uint32_t unwatched;
} sonde_cpu_episode_t;

/* Called in the thread that called sonde_cpu_monitor; may do whatever that thread may do. */
typedef void sonde_cpu_call_t(const sonde_cpu_episode_t *episode, void *context);

/* Watches all threads of this program but the calling one. CALL is called for each thread that uses
 * more than PERCENT (1 to 100) of one CPU, on average, for SECONDS (1 to 86,400). For the same time
 * after a call, no other episode of that thread is reported. An episode is dropped as soon as its
 * average is below half of PERCENT.
 *
 * The function occupies the calling thread, which should be a thread of its own, until
 * sonde_cpu_monitor_stop. That thread wakes ten times in SECONDS, but at least once and at most ten
 * times a second, and more often while it samples. A thread is sampled as sonde_capture_thread does
 * it, only while it runs: on Linux it gets SIGURG, on Apple's systems it is suspended for a moment.
 * Eight threads are sampled at a time. The function allocates 600 KB by mmap, of which it uses what
 * it needs.
 *
 * Returns 0 after sonde_cpu_monitor_stop; SONDE_EINVAL; SONDE_EBUSY if a monitor runs;
 * SONDE_ENOMEM; SONDE_EUNSUPPORTED if the system does not report the CPU time of threads. Do not
 * call it in a signal handler. A forked child has no monitor, and cannot start one. */
SONDE_API int sonde_cpu_monitor(uint32_t percent, uint32_t seconds, sonde_cpu_call_t *call,
                                void *context);

/* Makes sonde_cpu_monitor return, now or when it is next called. Returns 0. Any thread may call
 * this function, also in a signal handler and in the callback. */
SONDE_API int sonde_cpu_monitor_stop(void);

/* Writes an episode to the descriptor FD: a line about the thread, and a line for each function
 * with at least 1 % of the sampled CPU time, indented by depth:
 *   thread 4711 "worker" used 97 % of a CPU for 60 s; 1,180 samples
 *    98 %  main  (/usr/bin/app+0x1250)
 *    91 %    sort_all  (/usr/bin/app+0x1180)
 * Returns the number of lines; SONDE_EINVAL; SONDE_EIO if writing fails. Any thread may call this
 * function with an episode that is valid. */
SONDE_API int sonde_cpu_print(int fd, const sonde_cpu_episode_t *episode);

#ifdef __cplusplus
}
#endif
#endif
