/* SPDX-License-Identifier: MIT
 *
 * The sensitive system calls that the tracer of coverage.h sees: classifies each and counts equal
 * ones. Memory use is proportional to the number of different calls, which is limited. The tracer's
 * only thread uses it.
 */
#ifndef SONDE_RECORDER_MONITOR_COVERAGE_CALLS_H
#define SONDE_RECORDER_MONITOR_COVERAGE_CALLS_H

#include "base/hash.h"
#include "recorder/monitor/coverage.h"
#include "recorder/monitor/writer.h"
#include "target/sensitive.h"
#include "target/walk.h"

/* A thread that is stopped at the entry of a system call. */
typedef struct stopped_call {
  pid_t tid;
  uint64_t number, arguments[6];
  uint64_t pc, sp;
} stopped_call_t;

/* The program's memory, read anew each time. */
typedef struct remote_memory {
  /* must be first */
  memory_t memory;
  pid_t pid;
} remote_memory_t;

typedef struct coverage_row coverage_row_t;

/* A call that has not returned: its thread, and its row + 1. */
typedef struct coverage_open {
  pid_t tid;
  uint32_t row;
} coverage_open_t;

typedef struct coverage_calls {
  recording_t *recording;
  monitor_writer_t *writer;
  const coverage_options_t *options;
  pid_t pid;
  bool wanted[SENSITIVE_NUMBERS];
  /* arguments that the policy does not keep (sensitive_withheld) */
  uint8_t withheld[SENSITIVE_NUMBERS];
  remote_memory_t memory;
  /* NULL: opened when a stack is needed */
  target_t *target;
  walk_t walk;
  /* the agent's code; 0: not yet found */
  uint64_t agent_start, agent_end;
  coverage_row_t *rows;
  size_t count, capacity;
  hash_index_t index;
  coverage_open_t *open;
  size_t open_count, open_capacity;
} coverage_calls_t;

bool coverage_calls_open(coverage_calls_t *c, recording_t *recording, pid_t pid,
                         const coverage_options_t *options);
void coverage_calls_close(coverage_calls_t *c);

/* Whether CALL is sensitive and must be passed to coverage_calls_add. */
bool coverage_calls_wants(const coverage_calls_t *c, const stopped_call_t *call);
void coverage_calls_add(coverage_calls_t *c, const stopped_call_t *call);

/* After the call that thread TID made last: it returned VALUE, which is -errno if it FAILED. */
void coverage_calls_returned(coverage_calls_t *c, pid_t tid, int64_t value, bool failed);

/* After images may have been mapped or unmapped. */
void coverage_calls_moved(coverage_calls_t *c);

/* Writes and clears the counts: at the end and after an exec. */
void coverage_calls_flush(coverage_calls_t *c);

#endif
