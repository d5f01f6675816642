/* SPDX-License-Identifier: MIT
 *
 * The sensitive system calls that a tracer has seen: each told to be an audited call's or not,
 * equal ones counted. Memory follows the different ones, of which there is a greatest number.
 */
#ifndef SONDE_RECORDER_MONITOR_COVERAGE_CALLS_H
#define SONDE_RECORDER_MONITOR_COVERAGE_CALLS_H

#include "recorder/monitor/writer.h"
#include "target/sensitive.h"
#include "target/walk.h"

/* A thread that stands at the entry of a system call. */
typedef struct stopped_call {
  pid_t tid;
  uint64_t number, arguments[6];
  uint64_t pc, sp;
} stopped_call_t;

/* The program's memory, never from a copy. */
typedef struct remote_memory {
  memory_t memory; /* first */
  pid_t pid;
} remote_memory_t;

typedef struct coverage_row coverage_row_t;

typedef struct coverage_calls {
  recording_t *recording;
  monitor_writer_t *writer;
  const audit_policy_t *policy;
  pid_t pid;
  bool wanted[SENSITIVE_NUMBERS];
  remote_memory_t memory;
  target_t *target; /* NULL: to be opened when a stack is wanted */
  walk_t walk;
  uint64_t agent_start, agent_end; /* where our own code lies; 0: not found so far */
  coverage_row_t *rows;
  size_t count, room;
  uint32_t *slots;
  size_t mask;
} coverage_calls_t;

bool coverage_calls_open(coverage_calls_t *c, recording_t *recording, pid_t pid,
                         const audit_policy_t *policy);
void coverage_calls_close(coverage_calls_t *c);

/* Whether coverage_calls_add wants to see NUMBER. */
bool coverage_calls_wants(const coverage_calls_t *c, uint64_t number);
void coverage_calls_add(coverage_calls_t *c, const stopped_call_t *call);

/* Code may have come or gone. */
void coverage_calls_moved(coverage_calls_t *c);

/* Writes what was counted so far and begins anew: at the end, and when the program has been
 * replaced by another one (which is ready later). */
void coverage_calls_flush(coverage_calls_t *c);

#endif
