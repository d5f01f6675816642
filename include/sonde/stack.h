/* SPDX-License-Identifier: MIT
 *
 * The calling thread's stack, as program counters or as one id.
 *
 * Any thread may call these functions, also in a signal handler, inside malloc and after fork,
 * unless a declaration says otherwise. They do not call malloc or the dynamic loader, and take no
 * lock that the program may hold. They do not write to the program's stack frames, and preserve
 * errno.
 *
 * A stack is listed innermost first. Entry 0 is the address that the capturing function returns to.
 * All entries are return addresses (the call is before them) with two exceptions: the pc of a
 * context that the caller passed and the pc that a signal interrupted are exact.
 */
#ifndef SONDE_STACK_H
#define SONDE_STACK_H

#include <stdint.h>
#include <sys/types.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The status of a stack: how it ends. */
typedef enum sonde_stack_status {
  /* The stack reaches the thread's entry, and each frame was unwound by its rule. */
  SONDE_STACK_COMPLETE = 0,
  /* The frames are correct, but the stack has more frames than the array holds. */
  SONDE_STACK_TRUNCATED = 1,
  /* Unwinding ended early: no rule, unreadable memory or an impossible frame. `reason` says why. */
  SONDE_STACK_BROKEN = 2,
  /* There are no frames. `reason` says why. */
  SONDE_STACK_UNAVAILABLE = 3,
} sonde_stack_status_t;

/* Facts about a captured stack; a set of bits. */

/* At least one frame has no unwind rule; its caller was found from its code or by frame pointer. */
#define SONDE_FLAG_HEURISTIC 1u
/* The frame register was inferred from the stack and the machine code, not read. */
#define SONDE_FLAG_INFERRED 2u
/* The stack contains a signal frame. */
#define SONDE_FLAG_SIGNAL_FRAME 4u
/* The thread captured its own stack in the handler of a signal that sonde sent. */
#define SONDE_FLAG_SIGNALED 8u
/* The stack contains a Swift async frame. */
#define SONDE_FLAG_ASYNC 16u

/* How to treat Swift's async functions. Their frames are on the thread's stack only while they run;
 * their callers are in a chain of contexts on the heap. Bit 60 of the saved frame pointer marks an
 * async frame. */
typedef enum sonde_async {
  /* Capture the thread's stack and do not look for async frames. */
  SONDE_ASYNC_IGNORE = 0,
  /* Capture the thread's stack and set SONDE_FLAG_ASYNC if it contains an async frame. */
  SONDE_ASYNC_DETECT = 1,
  /* From the innermost async frame on, capture the async calls instead. Each such entry is the
   * address at which its function resumes, plus 1, so that it reads as a return address. */
  SONDE_ASYNC_FOLLOW = 2,
} sonde_async_t;

/* The input and output of one capture. Zero it, then set the inputs. */
typedef struct sonde_capture {
  /* In: memory of the caller for MAX program counters. */
  uintptr_t *pcs;
  /* In: capacity of PCS; > 0. */
  int max;
  /* In: number of innermost frames to leave out; >= 0. */
  int skip;
  /* In: the ucontext_t to start at (third argument of an SA_SIGINFO handler). NULL: start at the
   * caller. */
  const void *ucontext;
  /* In: the frame to start at, if pc is not 0 and ucontext is NULL. */
  uintptr_t pc, sp, fp;
  /* In: how to treat async frames. */
  sonde_async_t async;
  /* Out: program counters written. */
  int count;
  /* Out. */
  sonde_stack_status_t status;
  /* Out: a SONDE_E… for SONDE_STACK_BROKEN and SONDE_STACK_UNAVAILABLE; otherwise 0. */
  int reason;
  /* Out: SONDE_FLAG_…. */
  unsigned flags;
  /* Out: with SONDE_FLAG_ASYNC, the id of the Swift task that the thread runs; 0 if it runs none or
   * the id is unknown. Known on Apple's systems only: there libpthread keeps the task in a slot of
   * its own. */
  uint64_t async_task;
} sonde_capture_t;

/* Writes the calling thread's stack, at most MAX entries, to PCS. Returns the number of entries
 * written, or SONDE_EINVAL. */
SONDE_API int sonde_stack(uintptr_t *pcs, int max);

/* As sonde_stack, with a choice of the first frame, and with the status. Returns the count, which
 * is also in CAPTURE, or SONDE_EINVAL or SONDE_ENOMEM. */
SONDE_API int sonde_capture(sonde_capture_t *capture);

/* Sets *ID to the id of the calling thread's stack; an id is never 0. Equal stacks have equal ids
 * and different stacks have different ids, for the life of the process and in its forked children.
 * Returns 0; SONDE_EFULL if the table of stacks is full; SONDE_ENOMEM; SONDE_EINVAL. */
SONDE_API int sonde_stack_id(uint32_t *id);

/* Sets how stack ids treat Swift's async functions: SONDE_ASYNC_IGNORE, the default, or
 * SONDE_ASYNC_FOLLOW. It holds for sonde_stack_id and for all that records stacks by id: the malloc
 * log, the audit and samples. The stall and CPU monitors of the program follow it too. Call it
 * before the process's first stack id, in any thread, not in a signal handler. While async
 * functions are followed, each id needs a walk of the whole stack. Of an async stack with more than
 * 256 frames the innermost are kept. Under `sonde record`, the option
 * --async decides for the recording. Returns 0; SONDE_EBUSY if there are stack ids already;
 * SONDE_EINVAL. */
SONDE_API int sonde_stack_async(sonde_async_t how);

/* For sonde_stack_id_of: PCS[0] is exact, as in a stack of another thread. Without this flag it is
 * a return address. */
#define SONDE_STACK_EXACT 1u
/* For sonde_stack_id_of: outer frames are missing (a status other than SONDE_STACK_COMPLETE). The
 * stack then differs from the complete stack with the same frames, and its text says so. */
#define SONDE_STACK_PARTIAL 2u

/* Sets *ID to the id of a stack that was captured before, of this or another thread: COUNT program
 * counters, innermost first, as sonde_capture_thread and the other functions write them. FLAGS are
 * SONDE_STACK_…. The id is that of sonde_stack_id for the same stack, so it counts equal stacks and
 * has a text (sonde_stack_text). The images of the stack must still be loaded. Any thread, also in
 * a signal handler, inside malloc and after fork. Costs two table look-ups and a search of the
 * images for each frame. Returns 0; SONDE_EFULL if the table of stacks is full; SONDE_ENOMEM;
 * SONDE_EINVAL if COUNT is not above 0, a pointer is NULL or FLAGS has other bits. */
SONDE_API int sonde_stack_id_of(const uintptr_t *pcs, int count, unsigned flags, uint32_t *id);

/* Writes the program counters of the stack ID to PCS, at most MAX, starting at the innermost.
 * Returns the number written; SONDE_ENOTFOUND if there is no such stack; SONDE_EINVAL. */
SONDE_API int sonde_stack_of_id(uint32_t id, uintptr_t *pcs, int max);

#ifdef __cplusplus
}
#endif
#endif
