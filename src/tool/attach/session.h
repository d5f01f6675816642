/* SPDX-License-Identifier: MIT
 *
 * What the parts of attach share: the program, the object, and the places in its mapping.
 *
 * All stops are made by a process of its own, the tracer: when it ends, for any reason, the kernel
 * releases what it traced. What it finds out is in memory shared with the command.
 */
#ifndef SONDE_ATTACH_SESSION_H
#define SONDE_ATTACH_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/attach.h"
#include "attach/cpu.h"
#include "attach/filters.h"
#include "attach/object.h"
#include "target/access.h"
#include "target/process.h"

/* The name of the agent's thread. */
#define SESSION_THREAD_NAME "sonde-attach"

/* Places in the mapping, relative to its start. The image is first. */
typedef struct layout {
  uint64_t block;
  uint64_t area, tls; /* of the agent's thread: its thread pointer is `tls` */
  uint64_t frame;     /* the signal frame of the thread that starts it */
  uint64_t stub;
  uint64_t guard, stack, stack_end;
  uint64_t size;
} layout_t;

/* A wait that was interrupted for a loan. Meanwhile it may be a restart_syscall(2). */
typedef struct interrupted {
  pid_t tid;
  uint64_t pc, sp;
  long call; /* -1: none */
} interrupted_t;

/* Written by the tracer. */
typedef struct shared {
  uint64_t base;   /* of the mapping; 0: none */
  bool is_started; /* the initializers have run */
  bool is_broken;  /* the agent faulted or hung */
  bool succeeded;
  interrupted_t last;
  filters_t filters;
  problem_t problem;
  attach_pauses_t pauses;
} shared_t;

/* What the tracer does around a run of the agent, while the agent's thread OWN is stopped: END also
 * if BEGIN fails. */
typedef struct around {
  bool (*begin)(struct attach *attach, pid_t own, problem_t *problem);
  void (*end)(struct attach *attach);
  void *context;
} around_t;

struct attach {
  pid_t pid;
  const around_t *around; /* NULL: nothing */
  target_t *target;
  int memory_fd; /* /proc/PID/mem */
  int lock_fd;   /* one command at a time attaches */
  cpu_code_t code;
  object_t object;
  char object_path[4096];
  layout_t layout;
  shared_t *shared;
};

bool session_write(const attach_t *attach, uint64_t address, const void *data, size_t size);
bool session_read(const attach_t *attach, uint64_t address, void *out, size_t size);

#endif
