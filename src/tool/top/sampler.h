/* SPDX-License-Identifier: MIT
 *
 * Reads a running process from outside: the counters of its threads, the stacks of blocked threads
 * in place, and samples of running ones. These come from the kernel (target/perf_ticks.h); if it
 * refuses that, a running thread is stopped for some microseconds. One thread uses a sampler.
 */
#ifndef SONDE_TOP_SAMPLER_H
#define SONDE_TOP_SAMPLER_H

#include "target/target.h"
#include "top/model.h"

typedef struct top_sampler top_sampler_t;

/* Opens process PID. NULL with PROBLEM on failure. */
top_sampler_t *top_sampler_open(pid_t pid, problem_t *problem);
void top_sampler_close(top_sampler_t *sampler);

/* Adds the samples since the last call to MODEL. Call it every TOP_STEP_NS. */
#define TOP_STEP_NS UINT64_C(250000000)
void top_sampler_step(top_sampler_t *sampler, top_model_t *model);

/* Reads the counters, and the calls of blocked threads. False if the program has ended. */
bool top_sampler_read(top_sampler_t *sampler, top_model_t *model);

/* Reads the stack of thread MODEL->stack.tid. */
void top_sampler_read_stack(top_sampler_t *sampler, top_model_t *model);

/* CPU time of this process. */
uint64_t top_own_cpu_ns(void);

/* The functions of COUNT frames of the program, as top_names. */
int top_sampler_names(top_sampler_t *sampler, const frame_t *frames, uint32_t count,
                      top_frame_t *out, int max);

#endif
