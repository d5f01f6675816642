/* SPDX-License-Identifier: MIT
 *
 * The shared buffers: memory that the recorder created (a sealed memfd) and the program fills. It
 * outlives the program, so a kill loses no complete record: the recorder saves the unfinished
 * chunks.
 *
 * Layout: shm_control_t, then pages that are allocated as slots of 1, 4, 16 or 64 pages. The
 * boundaries of an allocated slot never change. So the directory of slots, one byte a page, is
 * valid at any instant. A slot contains a chunk if it starts with the chunk magic.
 *
 * The recorder writes the first part of the control page before the program starts. Later it
 * changes `mode`, `sample_bytes`, `sample_interval_ns` and `pace`, and increments `request` when
 * the program has work to do; the program polls `request` on its slow paths (writer_poll). All
 * threads of the program write the rest with atomic operations.
 */
#ifndef SONDE_RECORD_SHM_H
#define SONDE_RECORD_SHM_H

#include "hook/move.h"
#include "os/os.h"
#include "record/format.h"
#include "record/shared/asked.h"
#include "record/shared/audit.h"
#include "record/shared/code.h"
#include "record/shared/loops.h"
#include "record/thread_table.h"

#define SHM_MAGIC    UINT64_C(0x3163732d65646e73) /* "snde-sc1" */
#define SHM_PAGE     4096u
#define SHM_PAGES    16384u /* 64 MB of addresses; only used pages take memory */
#define SHM_CLASSES  4u
#define SLOT_DRAINED 0x4e415244u /* "DRAN", where a chunk has its magic; all else is 0 */

/* Tells the program that the recorder has ended: an entry of the recorder's list of robust futexes
 * (recorder/life.h). */
typedef struct shm_life {
  uint64_t next;  /* the next entry of that list (set_robust_list(2)) */
  uint32_t owner; /* a thread of the recorder; SHM_OWNER_DIED: it has ended; 0: unknown */
} shm_life_t;

#define SHM_OWNER_DIED 0x40000000u
#define SHM_SOCKET_MAX 80u
#define SHM_TOKEN_MAX  36u

/* Values of `executing`. In another network namespace the recorder's socket cannot be reached. */
#define SHM_EXECUTING       1u
#define SHM_EXECUTING_APART 2u

/* Calls that are shorter or deeper are not recorded (sensor/trace/filter.h); 0: all are. */
typedef struct shm_call_filter {
  uint64_t least_ns;
  uint32_t depth;
} shm_call_filter_t;

typedef struct shm_control {
  /* ---- written by the recorder; descriptors are the recorder's ---- */
  uint64_t magic;
  uint32_t clock; /* record_clock_t */
  uint32_t clock_shift;
  /* What is recorded. One load of the word tells whether it has changed. */
  union {
    struct {
      uint32_t mode;         /* RECORD_… bits; may change at any time */
      uint32_t rate_changes; /* of `sample_bytes`; incremented after each */
    };
    uint64_t mode_word;
  };
  uint32_t recorder_pid;
  int32_t shm_fd, file_fd;
  uint64_t file_device, file_inode;
  uint64_t limit_bytes; /* of the file; 0: none */
  uint64_t ring_start,
      ring_bytes;              /* the part of the file for all chunks but tables; see format.h */
  uint64_t sample_interval_ns; /* CPU time of a thread that a sample stands for */
  uint64_t sample_bytes;       /* RECORD_SAMPLED_BLOCKS: one sample per this many bytes */
  uint32_t pace;     /* samples and readings are 2^pace times as far apart: monitor/budget.h */
  uint64_t sonde_ns; /* CPU time of sonde itself, in the recorder and in the program */
  uint32_t pid;      /* of the program, as the recorder sees it */
  uint32_t trace_generation; /* odd: calls are traced; each switch increments it */
  uint32_t request;          /* each request increments it */
  int32_t live_fd;           /* the table of live blocks: live_table.h */
  int32_t policy_fd;         /* the compiled policy (sensor/audit/policy.h), then its YAML */
  uint32_t policy_size;      /* of that file; 0: none */
  uint32_t python_lines;     /* 1: frequent events have the lines of all Python frames */
  char trace_pattern[4096];  /* sensor/trace/imports.h; empty: no imports are traced */
  char trace_given[512];     /* the pattern as the user gave it, for messages */
  uint32_t trace_waits;      /* 1: so are imports that can block: sensor/trace/wait_names.h */
  shm_call_filter_t trace_filter;
  /* The two clocks at the start and at the last update, as in the header. */
  uint64_t calibrated_ticks[2], calibrated_ns[2];
  int32_t leaks_fd;      /* memory shared for a search for leaks: record/leaks.h */
  int32_t exit_leaks_fd; /* the same for the search at the end of the program; 0: none */
  uint32_t leaks_state;  /* LEAKS_REQUESTED, then LEAKS_ACCEPTED by a thread of the program */
  shm_asked_t asked[SHM_ASKED]; /* the program takes entries, too */
  uint32_t unread_filter; /* 1: the program has a seccomp filter that the agent has not read */
  uint32_t
      from_outside; /* 1: there is no agent in the program (recorder/monitor/outside/observed.h) */
  uint32_t follows_async; /* 1: stacks follow Swift's async functions */
  /* The recorder's control socket (recorder/control.h) and its token (record/settings.h); "": none.
   */
  char recorder_name[SHM_SOCKET_MAX], token[SHM_TOKEN_MAX];
  shm_life_t life;

  /* ---- written by the program ---- */
  uint32_t exec_index;   /* programs that have started to record here */
  uint32_t own_pid;      /* of the program, as it sees itself: in another pid namespace not `pid` */
  uint32_t request_seen; /* the last `request` that the program acted on */
  uint32_t takes_signals; /* 1: a signal of the recorder makes the program read `request` */
  uint32_t stop_reason;   /* record_stop_t; in a gap, its reason */
  uint64_t file_end;      /* offset of the next chunk */
  uint64_t ring_at;       /* bytes of the ring allocated so far, in total: shm_reserve */
  uint64_t lost_events, lost_stacks, lost_definitions;
  uint64_t sampler_ns;    /* CPU time for samples of CPU time, as far as it can be measured */
  uint64_t blocks_chosen; /* sampled blocks */
  /* Gaps (see below): their number, the reason of the last one, the total time of those that
   * have ended; the start of the last one and the time of the next attempt to write. */
  uint32_t gaps, gap_reason;
  uint64_t gaps_ns, gap_start_ns, gap_retry_ns;
  uint32_t gap_rewrite;   /* 1: definitions were lost in a gap and must be written again */
  uint64_t unknown_frees; /* in mode `live`: frees of blocks allocated before it */
  uint32_t pages_used;
  uint32_t orphaned;    /* the recorder was found dead; tables have been saved */
  uint32_t live_levels; /* of the table of live blocks */
  /* Imported functions: traced with start and end; traced at the start only; not traced; beyond the
   * limit. */
  uint32_t imports_timed, imports_called, imports_left, imports_over;
  uint32_t methods_timed, messages_left;                         /* sensor/trace/objc_lookups.h */
  uint32_t code_patched, code_unnamed, code_refused, code_small; /* sensor/trace/code.h */
  uint32_t code_moved, code_unmoved[MOVE_FAULT_COUNT];           /* hook/move.h */
  char code_why[128];        /* why code cannot be patched; empty: it can */
  char imports_refused[128]; /* why trampolines cannot be used; empty: they can */
  char emulator[16];         /* the emulator that executes the program; empty: none */
  uint32_t own_malloc; /* 1: an image before the agent defines malloc, so the agent's is unused */
  /* 1: the program has called exec, and no agent has started in the new program yet. */
  uint32_t executing;
  /* The seccomp filters that the agent has read or that were there before it. */
  uint32_t seccomp_known;
  /* 1: the program cannot write chunks. It leaves them closed in their slots; the recorder writes
   * them and sets their magic to SLOT_DRAINED. */
  uint32_t handed_over;
  uint64_t trampoline_pc;        /* the return address in frames of trampolines */
  uint64_t call_states;          /* call_stack_states (hook/call_stack.h) */
  uint8_t slot_class[SHM_PAGES]; /* class + 1 of the slot that starts at the page, or 0 */
  shm_loops_t stall;
  shm_audit_t audit;
  shm_threads_t threads;
  shm_code_t code;
} shm_control_t;

#define SHM_CONTROL_PAGES ((uint32_t)((sizeof(shm_control_t) + SHM_PAGE - 1) / SHM_PAGE))
#define SHM_BYTES         ((uint64_t)SHM_PAGES * SHM_PAGE)
/* What is allocated when recording starts, besides the first bytes of `threads` and `code`. Entries
 * of threads are allocated when they are claimed. Most programs generate no code; the pages for it,
 * two thirds of the control pages, are allocated by their first use. */
#define SHM_POPULATED_BYTES (offsetof(shm_control_t, audit) + offsetof(shm_audit_t, threads))

/* CPU time of a thread between two of its samples. */
static inline uint64_t shm_sample_pause_ns(const shm_control_t *c) {
  return load_relaxed(&c->sample_interval_ns) << load_relaxed(&c->pace);
}

/* Copies the clock of the header. */
static inline void shm_calibrate(shm_control_t *c, const record_header_t *h) {
  c->calibrated_ticks[0] = h->start_ticks;
  c->calibrated_ns[0] = h->start_monotonic_ns;
  c->calibrated_ticks[1] = h->end_ticks;
  c->calibrated_ns[1] = h->end_monotonic_ns;
}

/* Converts the time of an event to nanoseconds of CLOCK_MONOTONIC. TICKS is the clock shifted right
 * by `clock_shift`, as in events. */
static inline uint64_t shm_monotonic_ns(const shm_control_t *c, uint64_t ticks) {
  uint64_t span = c->calibrated_ticks[1] - c->calibrated_ticks[0];
  uint64_t ns = c->calibrated_ns[1] - c->calibrated_ns[0];
  uint64_t since = (ticks << c->clock_shift) - c->calibrated_ticks[0];
  for (; span >> 31; span >>= 1) /* avoids overflow below; 31 bits are precise enough */
    ns >>= 1;
  if (!span || (int64_t)since < 0) return c->calibrated_ns[0];
  return c->calibrated_ns[0] + since / span * ns + since % span * ns / span;
}

/* True if a chunk of TYPE and SIZE is written to the ring. Tables never are. */
static inline bool shm_in_ring(const shm_control_t *c, uint32_t type, uint32_t size) {
  return c->ring_bytes && size <= c->ring_bytes && type != CHUNK_TABLES;
}

/* Allocates SIZE bytes of the ring. Returns the offset in the file. *PLACE is the same position as
 * a count of ring bytes, like `ring_at`. The oldest chunks are overwritten in the order in which
 * they were written, so the remaining ones have no gaps. A chunk does not wrap around the ring's
 * end. If it does not fit before the end, it begins at the ring's start, and the last *PASSED bytes
 * of the ring stay unused. The caller fills these bytes with zeros, because they may hold an old
 * chunk. */
static inline uint64_t shm_reserve_ring(shm_control_t *c, uint32_t size, uint64_t *place,
                                        uint64_t *passed) {
  uint64_t ring = c->ring_bytes, at = load_relaxed(&c->ring_at);
  do
    *passed = at % ring + size > ring ? ring - at % ring : 0;
  while (!cas_acq_rel(&c->ring_at, &at, at + *passed + size));
  *place = at + *passed;
  return c->ring_start + *place % ring;
}

/* Allocates space in the file for a chunk of TYPE and SIZE. Returns its offset. */
static inline uint64_t shm_reserve(shm_control_t *c, uint32_t type, uint32_t size) {
  uint64_t place, passed;
  if (shm_in_ring(c, type, size)) return shm_reserve_ring(c, size, &place, &passed);
  return __atomic_fetch_add(&c->file_end, size, __ATOMIC_ACQ_REL);
}

/* The number of pages of a slot of class C. */
static inline uint32_t shm_class_pages(uint32_t c) { return 1u << (2 * c); }

/* ---- gaps ---------------------------------------------------------------------------------- */

/* A gap: the file cannot be written now, but perhaps later (a full disk, a limit on its size, a
 * failing device). The program's threads and the recorder share it through the control page.
 *
 * The write that fails begins the gap. Until a write succeeds, the writers try again every
 * GAP_RETRY_NS, one thread each time. In between, a full chunk costs a reading of the clock: its
 * events are dropped and counted, and its thread fills it again. Definitions are never dropped
 * from a chunk. Those that found no space are written again after the gap.
 */
#define GAP_RETRY_NS UINT64_C(250000000)

/* True if a recording that stopped for REASON may continue. */
static inline bool gap_may_end(uint32_t reason) {
  return reason == RECORD_STOP_DISK_FULL || reason == RECORD_STOP_QUOTA ||
         reason == RECORD_STOP_FILE_LIMIT || reason == RECORD_STOP_IO;
}

/* True if a chunk should be written now. In a gap, one caller in GAP_RETRY_NS gets true. */
static inline bool gap_should_write(shm_control_t *c) {
  uint32_t reason = load_acquire(&c->stop_reason);
  if (LIKELY(reason == RECORD_STOP_NONE)) return true;
  if (!gap_may_end(reason)) return false;
  uint64_t now = os_monotonic_ns(), at = load_relaxed(&c->gap_retry_ns);
  return now >= at && cas_acq_rel(&c->gap_retry_ns, &at, now + GAP_RETRY_NS);
}

/* Makes the next call of gap_should_write return true: at the end of the program. */
static inline void gap_retry_now(shm_control_t *c) { store_release(&c->gap_retry_ns, 0); }

/* A write failed for REASON. */
static inline void gap_begin(shm_control_t *c, uint32_t reason) {
  uint32_t none = RECORD_STOP_NONE;
  uint64_t now = os_monotonic_ns();
  store_relaxed(&c->gap_retry_ns, now + GAP_RETRY_NS);
  if (!cas_acq_rel(&c->stop_reason, &none, reason)) return;
  store_relaxed(&c->gap_start_ns, now);
  store_relaxed(&c->gap_reason, reason);
  add_relaxed(&c->gaps, 1);
}

/* A write succeeded. */
static inline void gap_end(shm_control_t *c) {
  uint32_t reason = load_relaxed(&c->stop_reason);
  if (LIKELY(!gap_may_end(reason))) return;
  uint64_t start_ns = load_relaxed(&c->gap_start_ns);
  if (!cas_acq_rel(&c->stop_reason, &reason, (uint32_t)RECORD_STOP_NONE)) return;
  add_relaxed(&c->gaps_ns, os_monotonic_ns() - start_ns);
  if (load_relaxed(&c->lost_definitions)) store_release(&c->gap_rewrite, 1u);
}

/* Returns the place of a chunk whose write failed: its bytes become zeros, and the next chunk uses
 * the place if no other chunk was allocated behind it. */
static inline void gap_give_back(shm_control_t *c, int fd, uint64_t offset, uint32_t size) {
  uint64_t end = offset + size;
  (void)os_file_punch(fd, offset, size);
  (void)cas_acq_rel(&c->file_end, &end, offset);
}

#endif
