/* SPDX-License-Identifier: MIT
 *
 * The block through which the command and an attached agent talk: data only. The command maps it
 * into the program beside the agent, fills it, and starts a thread there that calls
 * sonde_attach_run. The block stays where it is until the agent is unmapped, so the agent may keep
 * a pointer to it between two calls.
 *
 * The command writes all fields but `state`, `status` and `message` before each call. The agent
 * writes these three; `state` is last, with release order.
 */
#ifndef SONDE_AGENT_ATTACH_BLOCK_H
#define SONDE_AGENT_ATTACH_BLOCK_H

#include <stdint.h>

#define ATTACH_MESSAGE_MAX  256u
#define ATTACH_SETTINGS_MAX 4096u
#define ATTACH_PATH_MAX     4096u
#define ATTACH_CALLS_MAX    128u

/* Values of `request`. */
#define ATTACH_START UINT64_C(1)
#define ATTACH_STOP  UINT64_C(2)
/* After ATTACH_STOP, when no other thread is in the agent's image: the agent unmaps its memory. The
 * command then unmaps the image. */
#define ATTACH_RELEASE UINT64_C(3)
/* While the command has stopped all other threads: the agent copies the process for a search for
 * leaks (record/leaks.h). */
#define ATTACH_COPY UINT64_C(4)

/* Values of `state`; 0 before the thread starts. */
#define ATTACH_RUNNING 1u
#define ATTACH_DONE    2u

typedef struct attach_block {
  uint64_t size;                    /* of this structure */
  uint64_t image_start, image_size; /* the agent's mapping: headers to the end of .bss */
  uint64_t stack_start, stack_size; /* of the thread that calls sonde_attach_run */
  uint64_t request;                 /* ATTACH_… */
  uint32_t state;                   /* ATTACH_RUNNING, then ATTACH_DONE */
  int32_t status;                   /* 0 or a negative errno */
  int32_t loader_pid;               /* of the command in the program's pid namespace; 0: unknown */
  uint32_t filter_count;            /* seccomp filters that the command has read; 0: none */
  uint8_t forbidden[ATTACH_CALLS_MAX]; /* 1: one forbids this row of os/linux/calls/table.h */
  /* The reason, if status is not 0. After ATTACH_STOP: why the agent can never be unmapped. */
  char message[ATTACH_MESSAGE_MAX];
  char settings[ATTACH_SETTINGS_MAX]; /* as in SONDE_RECORD */
  char path[ATTACH_PATH_MAX];         /* the agent's file, for names and the build-id */
} attach_block_t;

/* The agent's entry point, which it exports. The command calls it in a thread of its own, which the
 * C library does not know: the thread pointer refers to a few zeroed pages, all signals are blocked
 * but those of faults, and the thread may have been cloned from one that holds any lock. So the
 * function makes only system calls. The agent's initializers (DT_INIT_ARRAY) run once, before the
 * first call. The thread ends when the function returns. */
void sonde_attach_run(attach_block_t *block);

#endif
