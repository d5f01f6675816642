/* SPDX-License-Identifier: MIT
 *
 * What a program tells the recorder of its audited calls while system calls are watched, in the
 * scratch: which of them each thread has entered, so that a system call can be told to be theirs.
 *
 * A hook knows when its function is entered, not when it returns. So what is kept of a call is
 * where its return address lies: as long as that word is what it was, and a system call is made
 * from deeper in the stack, the call is under way. Calls that are no deeper than a new one of the
 * same thread are over and are forgotten then.
 *
 * A place is written by its thread and read by the recorder while that thread is stopped.
 */
#ifndef SONDE_RECORD_SHM_AUDIT_H
#define SONDE_RECORD_SHM_AUDIT_H

#include <stdint.h>

#define SHM_AUDITED 512u /* threads */
#define SHM_ENTERED 5u

typedef struct shm_entered {
  uint64_t sp; /* that the caller has when the call is over */
  uint64_t return_address;
  uint32_t function; /* its number in the policy */
  uint32_t reserved;
} shm_entered_t;

typedef struct shm_audited {
  uint32_t tid;   /* 0: nobody's */
  uint32_t count; /* calls entered, outermost first; of more, the newest and the outermost */
  shm_entered_t entered[SHM_ENTERED];
} shm_audited_t;

_Static_assert(sizeof(shm_audited_t) == 128, "two cache lines");

typedef struct shm_audit {
  uint32_t watched; /* by the recorder: system calls are watched */
  uint32_t ready;   /* by the program: its functions are hooked; 0 again by the recorder at exec */
  uint32_t used;    /* places given out; more than there are: threads that found none */
  uint32_t reserved;
  shm_audited_t threads[SHM_AUDITED];
} shm_audit_t;

#endif
