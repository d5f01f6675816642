/* SPDX-License-Identifier: MIT
 *
 * The exchange: the memory through which the three parties of a leak search communicate. The
 * parties are the program, which forks a copy of itself; the copy, which searches its own memory;
 * and the requester, which knows the blocks. The exchange is a memfd of the recorder, mapped by all
 * three.
 *
 * Layout: leaks_exchange_t, then the requester's blocks, ordered by address, then the results of
 * the copy. Offsets are from the start. `state` only increases; one party sets each value:
 *
 *   REQUESTED  the recorder sends the request to the program
 *   ACCEPTED   a thread of the program has started to stop the others
 *   STOPPED    the other threads are stopped; `time` is set. The recorder saves the live blocks
 *   RECORDED   the recorder has saved the live blocks
 *   COPIED     the copy exists and the program continues
 *   READY      the requester has stored the blocks
 *   DONE       the copy has stored the results and exits
 *   FAILED     with `error`: a SONDE_E…, or LEAKS_ERRNO minus an errno
 *
 * In a program with an attached agent, a tracer stops the threads before it runs the agent, which
 * then enters STOPPED. The tracer has written the threads. Their vector registers are behind the
 * head: `vectors` is an offset there, until the program replaces it.
 *
 * At the end of a program, the recorder has created the exchange when the program started, and
 * sends no request. The recorder is the requester, too. It stores the blocks after the end.
 */
#ifndef SONDE_RECORD_LEAKS_H
#define SONDE_RECORD_LEAKS_H

#include <stdint.h>

#define LEAKS_MAGIC     UINT64_C(0x31736b61656c6e73) /* "snleaks1" */
#define LEAKS_ERRNO     (-1000)
#define LEAKS_THREADS   4096u
#define LEAKS_TRIES     40u /* to find no thread inside a realloc */
#define LEAKS_REGISTERS 33u
#define LEAKS_SP        255u  /* the register number of the stack pointer */
#define LEAKS_REFERRERS 4096u /* maximum in one result */

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

/* How the registers of a thread are known. */
typedef enum leaks_thread_state {
  LEAKS_THREAD_NONE,     /* a free entry, or the thread has ended */
  LEAKS_THREAD_SIGNALED, /* not yet */
  LEAKS_THREAD_STOPPED,  /* from its signal handler: all of them */
  LEAKS_THREAD_RESUMED,  /* as STOPPED, and the thread continues */
  LEAKS_THREAD_SPILLED,  /* it is blocked in a call whose hook keeps them on the stack */
  LEAKS_THREAD_UNKNOWN,  /* it is blocked and must not be signaled: only sp is known */
  LEAKS_THREAD_RUNNING,  /* it could not be stopped, and may have run during the copy */
} leaks_thread_state_t;

typedef struct leaks_thread {
  uint32_t tid, state;            /* leaks_thread_state_t */
  int64_t call;                   /* the system call that blocks it; -1: none */
  uint64_t sp, pc;                /* sp 0: unknown */
  uint64_t pointer;               /* of its thread-local storage; 0: unknown */
  uint64_t vectors, vectors_size; /* its saved vector registers; 0: unknown */
  uint64_t registers[LEAKS_REGISTERS];
  uint32_t register_count;
  uint32_t reserved;
  int64_t progress; /* os_thread_progress_exact at that time */
} leaks_thread_t;

/* What references a block. */
typedef enum leaks_holder {
  LEAKS_BY_NOTHING,
  LEAKS_BY_REGISTER, /* `where` is the index of the thread << 8 | the register number */
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
  LEAKS_CYCLE,    /* only blocks reachable from itself point to it */
  LEAKS_INDIRECT, /* reachable only from the leaked block `owner` */
  LEAKS_GONE,     /* no memory is mapped at its address */
  LEAKS_VERDICTS
} leaks_verdict_t;

typedef struct leaks_block {
  uint64_t address, size;
  uint64_t where; /* address of the word through which it was first reached */
  uint32_t owner; /* of LEAKS_INDIRECT: the index of a block */
  uint8_t verdict, holder;
  uint16_t reserved;
} leaks_block_t;

_Static_assert(sizeof(leaks_block_t) == 32, "two a cache line");

/* A word that points into the requested block. */
typedef struct leaks_referrer {
  uint64_t where, value;
  uint32_t holder; /* leaks_holder_t */
  uint32_t index;  /* LEAKS_BY_BLOCK: of the block; stack or register: of the thread */
} leaks_referrer_t;

typedef struct leaks_exchange {
  uint64_t magic, size; /* of the whole mapping */
  uint32_t state;       /* LEAKS_…; a futex that processes share */
  int32_t error;
  /* recorder_pid is 0 if the program cannot see the recorder (pid_namespaces(7)) */
  uint32_t recorder_pid, requester_pid, copy_pid;
  uint32_t tries; /* attempts to stop all threads at points where they can be copied */
  uint64_t time;  /* shifted ticks of the copy */
  /* How long the program was stopped; how much of that in the fork system call. */
  uint64_t pause_ns, copying_ns;
  uint32_t thread_count;
  /* Threads that were inside a realloc at every attempt: the block of that realloc is known at
   * neither address. */
  uint32_t reallocating;
  /* The requester's. */
  uint64_t wanted; /* the address whose referrers are requested; 0: none */
  uint64_t blocks_at, block_count;
  uint64_t answers_at; /* space behind the blocks for LEAKS_REFERRERS of leaks_referrer_t */
  uint32_t late;       /* 1: blocks were allocated that are not among these */
  /* The copy's. */
  uint32_t roots_skipped; /* mappings that could not be read or exceeded the table */
  uint64_t referrer_count, referrers_over;
  uint64_t root_bytes, block_bytes; /* searched */
  uint64_t scan_ns, tls_bytes;      /* tls_bytes: of the images' thread-local storage */
  leaks_thread_t threads[LEAKS_THREADS];
} leaks_exchange_t;

#endif
