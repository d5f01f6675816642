/* SPDX-License-Identifier: MIT
 *
 * The scratch: memory that the recorder made (a sealed memfd) and the program fills. It outlives
 * the program, so a kill loses nothing that was committed; the recorder collects the open chunks.
 *
 * Layout: shm_control_t, then pages that are handed out as slots of 1, 4, 16 or 64 pages. A
 * slot's boundaries never change once it was handed out, so the directory of slots, one byte a
 * page, is true at any instant; whether a slot holds a chunk is told by the magic at its start.
 *
 * The recorder writes the first part before the program starts. Later it changes `mode`,
 * `sample_bytes` and `sample_interval_ns`, and adds 1 to `request` when something in it needs work
 * inside the program, which sees that at its next slow moment (writer_poll). The program writes the
 * rest, with atomics, from all its threads.
 */
#ifndef SONDE_RECORD_SHM_H
#define SONDE_RECORD_SHM_H

#include "record/format.h"
#include "record/shm_audit.h"
#include "record/shm_loops.h"

#define SHM_MAGIC   UINT64_C(0x3163732d65646e73) /* "snde-sc1" */
#define SHM_PAGE    4096u
#define SHM_PAGES   16384u /* 64 MB of addresses; memory only where it was used */
#define SHM_CLASSES 4u

typedef struct shm_control {
  /* the recorder's */
  uint64_t magic;
  uint32_t clock; /* record_clock_t */
  uint32_t clock_shift;
  uint32_t mode; /* RECORD_… bits; any time */
  uint32_t recorder_pid;
  int32_t shm_fd, file_fd; /* as descriptors of the recorder */
  uint64_t file_device, file_inode;
  uint64_t limit_bytes;            /* of the file; 0: none */
  uint64_t ring_start, ring_bytes; /* with a limit: the part of the file for all but tables */
  uint64_t sample_interval_ns;     /* of RECORD_SAMPLES: CPU time between two samples of a thread */
  uint64_t sample_bytes;           /* of RECORD_SAMPLED_BLOCKS: one block in so many bytes */
  uint32_t pid;                    /* of the program */
  uint32_t trace_generation;       /* odd: calls are traced; grows with each switch */
  uint32_t request;
  int32_t live_fd;   /* as a descriptor of the recorder: the table of live blocks, live_table.h */
  int32_t policy_fd; /* of RECORD_AUDIT: a file with the flat policy, then its YAML */
  uint32_t policy_size;    /* of that file; 0: there is none */
  char trace_pattern[512]; /* sensor/trace/imports.h; empty: no imports are traced */
  uint64_t calibrated_ticks[2], calibrated_ns[2]; /* as in the header: start and end */
  int32_t leaks_fd;     /* as a descriptor of the recorder: the exchange, record/leaks.h */
  uint32_t leaks_state; /* LEAKS_REQUESTED: a thread of the program is to begin; LEAKS_ACCEPTED: one
                           has */
  char recorder_name[80]; /* of the recorder's socket (recorder/control.h); "": it has none */
  /* the program's */
  uint32_t exec_index;  /* how many programs have begun to record here */
  uint32_t stop_reason; /* record_stop_t */
  uint64_t file_end;    /* where the next chunk goes */
  uint64_t ring_at;     /* bytes given out of the ring so far, see shm_reserve */
  uint64_t lost_events, lost_stacks, lost_definitions;
  uint64_t unknown_frees; /* in mode `live`: of blocks that were given out before it */
  uint32_t pages_used;
  uint32_t orphaned;                      /* the recorder was found dead; tables have been saved */
  uint32_t live_levels;                   /* of the table of live blocks */
  uint32_t imports_timed, imports_called; /* functions: with start and end; called, no more */
  uint32_t imports_left, imports_over;    /* left alone; more than there are trampolines for */
  uint32_t methods_timed, messages_left;  /* sensor/trace/objc_lookups.h */
  uint32_t code_patched, code_unnamed, code_refused, code_small; /* sensor/trace/code.h */
  char code_why[128];        /* why no code could be changed; empty: see above */
  char imports_refused[128]; /* why trampolines cannot be used; empty: they can */
  char emulator[16];         /* what executes the program in its own way, unseen; empty: none,
                                agent/emulator.c */
  uint32_t own_malloc;   /* the executable defines malloc, which comes before any preloaded one */
  uint32_t executing;    /* the program has called exec, which has not failed, and no agent has
                            begun in the one that replaces it */
  char agent_path[4096]; /* what was preloaded, to hand on over execve */
  uint8_t slot_class[SHM_PAGES]; /* class + 1 of the slot that starts at the page, or 0 */
  shm_loops_t stall;
  shm_audit_t audit;
} shm_control_t;

#define SHM_CONTROL_PAGES ((uint32_t)((sizeof(shm_control_t) + SHM_PAGE - 1) / SHM_PAGE))
#define SHM_BYTES         ((uint64_t)SHM_PAGES * SHM_PAGE)

/* The clock as the header has it. */
static inline void shm_calibrate(shm_control_t *c, const record_header_t *h) {
  c->calibrated_ticks[0] = h->start_ticks;
  c->calibrated_ns[0] = h->start_monotonic_ns;
  c->calibrated_ticks[1] = h->end_ticks;
  c->calibrated_ns[1] = h->end_monotonic_ns;
}

/* A time of an event, in shifted ticks, as nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t shm_monotonic_ns(const shm_control_t *c, uint64_t ticks) {
  uint64_t span = c->calibrated_ticks[1] - c->calibrated_ticks[0];
  uint64_t ns = c->calibrated_ns[1] - c->calibrated_ns[0];
  uint64_t since = (ticks << c->clock_shift) - c->calibrated_ticks[0];
  for (; span >> 31; span >>= 1) /* so that nothing below overflows: 31 bits are precise enough */
    ns >>= 1;
  if (!span || (int64_t)since < 0) return c->calibrated_ns[0];
  return c->calibrated_ns[0] + since / span * ns + since % span * ns / span;
}

/* Does a chunk of TYPE and SIZE lie in the ring? Tables never do. */
static inline bool shm_in_ring(const shm_control_t *c, uint32_t type, uint32_t size) {
  return c->ring_bytes && size <= c->ring_bytes && type != CHUNK_TABLES;
}

/* Room in the ring for SIZE bytes: its offset in the file, and in *PLACE what ring_at counts. The
 * oldest chunks are overwritten, in the order in which they were written, so that what is left has
 * no holes. A chunk does not go round the ring's end: *PASSED bytes before it are left over there,
 * which whoever writes makes zeros, or a chunk of the lap before would stay in them. */
static inline uint64_t shm_reserve_ring(shm_control_t *c, uint32_t size, uint64_t *place,
                                        uint64_t *passed) {
  uint64_t ring = c->ring_bytes, at = load_relaxed(&c->ring_at);
  do
    *passed = at % ring + size > ring ? ring - at % ring : 0;
  while (!cas_acq_rel(&c->ring_at, &at, at + *passed + size));
  *place = at + *passed;
  return c->ring_start + *place % ring;
}

/* Room in the file for a chunk of TYPE and SIZE: its offset. */
static inline uint64_t shm_reserve(shm_control_t *c, uint32_t type, uint32_t size) {
  uint64_t place, passed;
  if (shm_in_ring(c, type, size)) return shm_reserve_ring(c, size, &place, &passed);
  return __atomic_fetch_add(&c->file_end, size, __ATOMIC_ACQ_REL);
}

/* Pages of a slot of class C. */
static inline uint32_t shm_class_pages(uint32_t c) { return 1u << (2 * c); }

#endif
