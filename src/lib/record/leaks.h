/* SPDX-License-Identifier: MIT
 *
 * What three parties pass to each other for one look at the memory graph: the program, which makes
 * a copy of itself; the copy, which searches its own memory; and whoever asked, who knows which
 * blocks there are. It is a memfd of the recorder's, mapped by all three.
 *
 * Layout: leaks_exchange_t, then what the asker puts there (blocks, ordered by address), then what
 * the copy answers. Offsets are from the start. `state` goes forward only; each step is one
 * party's:
 *
 *   ASKED     the recorder sends the program its question
 *   TAKEN     a thread of the program has begun to hold the others
 *   HELD      they are held; `time` is this moment. The recorder sets aside what is live
 *   KEPT      ... and has done so
 *   COPIED    the copy has been made and the program goes on
 *   READY     the asker has put the blocks there
 *   DONE      the copy has answered, and ends
 *   FAILED    with `error`: a SONDE_E…, or LEAKS_ERRNO less an errno
 */
#ifndef SONDE_RECORD_LEAKS_H
#define SONDE_RECORD_LEAKS_H

#include <stdint.h>

#define LEAKS_MAGIC     UINT64_C(0x31736b61656c6e73) /* "snleaks1" */
#define LEAKS_ERRNO     (-1000)
#define LEAKS_THREADS   4096u
#define LEAKS_REGISTERS 33u
#define LEAKS_SP        255u  /* as the number of a register: the stack pointer */
#define LEAKS_REFERRERS 4096u /* an answer holds no more */

enum {
  LEAKS_REQUESTED = 1,
  LEAKS_ACCEPTED,
  LEAKS_STOPPED,
  LEAKS_RECORDED,
  LEAKS_COPIED,
  LEAKS_READY,
  LEAKS_DONE,
  LEAKS_FAILED
};

/* How a thread's registers were come by. */
typedef enum leaks_how {
  LEAKS_THREAD_NONE,     /* a free place, or a thread that has ended meanwhile */
  LEAKS_THREAD_SIGNALED, /* on the way to the next */
  LEAKS_THREAD_STOPPED,  /* by signal: all of them */
  LEAKS_THREAD_RESUMED,  /* the same, and it has gone on */
  LEAKS_THREAD_SPILLED,  /* it is blocked in a call whose hook keeps them on the stack */
  LEAKS_THREAD_UNKNOWN,  /* it is blocked, and no signal may disturb it: only sp is known */
  LEAKS_THREAD_RUNNING,  /* it could not be held, and may have run while the copy was made */
} leaks_thread_state_t;

typedef struct leaks_thread {
  uint32_t tid, state;            /* leaks_thread_state_t */
  int64_t call;                   /* the system call it is blocked in; -1: none */
  uint64_t sp, pc;                /* sp 0: not known */
  uint64_t pointer;               /* of its thread-local storage; 0: not known */
  uint64_t vectors, vectors_size; /* where its vector registers were saved; 0: not known */
  uint64_t registers[LEAKS_REGISTERS];
  uint32_t register_count;
  uint32_t reserved;
  int64_t progress; /* as it was looked at: os_thread_progress */
} leaks_thread_t;

/* What holds a block. */
typedef enum leaks_holder {
  LEAKS_BY_NOTHING,
  LEAKS_BY_REGISTER, /* `where` is the number of the thread << 8 | that of the register */
  LEAKS_BY_STACK,    /* the others: `where` is the address of the word */
  LEAKS_BY_TLS,
  LEAKS_BY_DATA,    /* of an image */
  LEAKS_BY_MAPPING, /* any other memory that the program can write to */
  LEAKS_BY_BLOCK,   /* another block */
  LEAKS_HOLDERS
} leaks_holder_t;

typedef enum leaks_verdict {
  LEAKS_REACHED,
  LEAKS_LEAKED,   /* nothing points to it */
  LEAKS_CYCLE,    /* nothing but what it leads to itself points to it */
  LEAKS_INDIRECT, /* a lost block points to it, or one that is held so; `owner` is the lost one */
  LEAKS_GONE,     /* there is no memory at its address */
  LEAKS_VERDICTS
} leaks_verdict_t;

typedef struct leaks_block {
  uint64_t address, size;
  uint64_t where; /* of the word by which it was first reached */
  uint32_t owner; /* of LEAKS_INDIRECT: index of a block */
  uint8_t verdict, holder;
  uint16_t reserved;
} leaks_block_t;

_Static_assert(sizeof(leaks_block_t) == 32, "two a cache line");

/* A word that points into the block that was asked for. */
typedef struct leaks_referrer {
  uint64_t where, value;
  uint32_t holder; /* leaks_holder_t */
  uint32_t index;  /* of LEAKS_BY_BLOCK: of the block; of a stack or a register: of the thread */
} leaks_referrer_t;

typedef struct leaks_exchange {
  uint64_t magic, size; /* of the whole, as mapped */
  uint32_t state;       /* LEAKS_…; a futex that processes share */
  int32_t error;
  uint32_t recorder_pid, requester_pid, copy_pid;
  uint32_t tries; /* rounds of holding until all threads were where they could be copied */
  uint64_t time;  /* shifted ticks: what is searched is the memory of this moment */
  uint64_t pause_ns,
      copying_ns; /* of the program in all; of that, in the system call that copies */
  uint32_t thread_count;
  uint32_t reallocating; /* threads that were inside a realloc all the time: that block is in
                            neither place */
  /* the recorder's: the thread that it has called, and the call that this was blocked in */
  uint32_t called;
  int64_t call; /* -1: none */
  uint64_t call_arguments[6], call_sp, call_pc;
  /* the asker's */
  uint64_t wanted; /* the address whose referrers are wanted; 0: none */
  uint64_t blocks_at, block_count;
  uint64_t answers_at; /* room behind the blocks for leaks_referrer_t, LEAKS_REFERRERS of them */
  uint32_t late;       /* 1: blocks were given out that are not among these */
  /* the copy's */
  uint32_t roots_skipped; /* mappings that could not be read, or more than there is room for */
  uint64_t referrer_count, referrers_over;
  uint64_t root_bytes, block_bytes; /* searched */
  uint64_t scan_ns, tls_bytes;      /* tls_bytes: of the images' thread-local storage */
  leaks_thread_t threads[LEAKS_THREADS];
} leaks_exchange_t;

#endif
