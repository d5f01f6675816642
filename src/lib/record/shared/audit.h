/* SPDX-License-Identifier: MIT
 *
 * The audited calls that each thread has entered, in the shared buffers. While the recorder watches
 * system calls, it uses these entries to attribute a system call to an audited function.
 *
 * A hook sees when its function is entered, not when it returns. So an entry keeps the location of
 * the return address: the call is in progress as long as that word is unchanged and the system call
 * is made deeper in the stack. A new call of the same thread removes entries that are no further
 * out than itself.
 *
 * A thread writes its own entry. The recorder reads it while that thread is stopped.
 */
#ifndef SONDE_RECORD_SHARED_AUDIT_H
#define SONDE_RECORD_SHARED_AUDIT_H

#include <stdint.h>

#define SHM_AUDITED 512u /* threads */
#define SHM_ENTERED 5u

typedef struct shm_entered {
  uint64_t sp; /* the caller's stack pointer after the call */
  uint64_t return_address;
  uint32_t function; /* its number in the policy */
  uint32_t reserved;
} shm_entered_t;

typedef struct shm_audited {
  uint32_t tid;   /* 0: unused */
  uint32_t count; /* calls entered, outermost first; if too many, the outermost and the newest */
  shm_entered_t entered[SHM_ENTERED];
} shm_audited_t;

_Static_assert(sizeof(shm_audited_t) == 128, "two cache lines");

typedef struct shm_audit {
  uint32_t watched; /* set by the recorder: system calls are watched */
  uint32_t ready; /* set by the program: its functions are hooked; the recorder resets it at exec */
  uint32_t used;  /* entries requested; more than SHM_AUDITED: threads without an entry */
  uint32_t reserved;
  shm_audited_t threads[SHM_AUDITED];
} shm_audit_t;

#endif
