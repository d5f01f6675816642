/* SPDX-License-Identifier: MIT
 *
 * The .sonde format as C declarations, for writers and readers. docs/format.md describes it; a
 * difference between the two is a bug. All numbers are little endian.
 */
#ifndef SONDE_RECORD_FORMAT_H
#define SONDE_RECORD_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bits.h"

/* 8 bytes; as in PNG, the line ends reveal a copy in text mode. */
#define RECORD_MAGIC       "SONDE\r\n\x1a"
#define RECORD_VERSION     0
#define RECORD_HEADER_SIZE 4096
#define RECORD_BYTE_ORDER  0x01020304u

/* Bits of record_header_t.features. */
#define RECORD_FEATURE_PACKED  UINT64_C(1) /* chunks are packed */
#define RECORD_FEATURE_SUMMARY UINT64_C(2) /* totals instead of events */
#define RECORD_FEATURES        (RECORD_FEATURE_PACKED | RECORD_FEATURE_SUMMARY)

typedef enum record_clock {
  RECORD_CLOCK_NONE = 0,
  RECORD_CLOCK_TSC = 1,       /* x86 time stamp counter */
  RECORD_CLOCK_CNTVCT = 2,    /* aarch64 virtual counter */
  RECORD_CLOCK_MONOTONIC = 3, /* nanoseconds of clock_gettime(CLOCK_MONOTONIC) */
} record_clock_t;

typedef enum record_state {
  RECORD_OPEN = 0,     /* being written, or the recorder was killed */
  RECORD_FINISHED = 1, /* the program ended and its open chunks were collected */
} record_state_t;

/* Why recording stopped before the program ended. X(name, value, text). */
#define RECORD_STOP_TABLE(X)                                                                       \
  X(RECORD_STOP_NONE, 0, "it was not stopped")                                                     \
  X(RECORD_STOP_DISK_FULL, 1, "the disk is full")                                                  \
  X(RECORD_STOP_FILE_LIMIT, 2, "the limit on file size (RLIMIT_FSIZE) was reached")                \
  X(RECORD_STOP_IO, 3, "the file could not be written")                                            \
  X(RECORD_STOP_LOST_FILE, 4, "the program closed the file and it could not be opened again")      \
  X(RECORD_STOP_LIMIT, 5, "the size limit of the recording was reached")                           \
  X(RECORD_STOP_REQUESTED, 6, "a request stopped it")                                              \
  X(RECORD_STOP_RECORDER, 7, "the recorder was killed")                                            \
  X(RECORD_STOP_SECCOMP, 8, "a seccomp filter of the program")                                     \
  X(RECORD_STOP_UNREAD_FILTER, 9, "a seccomp filter that sonde could not read")                    \
  X(RECORD_STOP_SPACE, 10, "less disk space is left than stays free (--keep-free)")                \
  X(RECORD_STOP_QUOTA, 11, "the disk quota is used up")

typedef enum record_stop {
#define RECORD_STOP_ENUM(name, value, text) name = value,
  RECORD_STOP_TABLE(RECORD_STOP_ENUM)
#undef RECORD_STOP_ENUM
} record_stop_t;

/* What is not recorded because a seccomp filter of the program forbids system calls of sonde.
 * X(name, value, JSON key, text) */
#define RECORD_SECCOMP_TABLE(X)                                                                    \
  X(SECCOMP_STOPS_ALL, 1, "everything", "nothing is recorded")                                     \
  X(SECCOMP_STOPS_TICKS, 2, "samples", "CPU time is not sampled")                                  \
  X(SECCOMP_STOPS_CRASH, 4, "crashes", "crashes are not recorded")                                 \
  X(SECCOMP_STOPS_THREADS, 8, "new-threads", "threads created later are not recorded")             \
  X(SECCOMP_STOPS_TIMERS, 16, "new-timers", "threads created later are not sampled")               \
  X(SECCOMP_STOPS_NAMES, 32, "thread-names", "threads created later have no name")                 \
  X(SECCOMP_STOPS_LOOPS, 64, "new-loops", "event loops that start later are not monitored")        \
  X(SECCOMP_STOPS_HOOKS, 128, "new-hooks", "libraries loaded later are not hooked")                \
  X(SECCOMP_STOPS_LEAKS, 256, "leaks", "'sonde leaks' cannot search the process")                  \
  X(SECCOMP_STOPS_CHILDREN, 512, "children", "forked children are not recorded")

enum {
#define RECORD_SECCOMP_ENUM(name, value, key, text) name = value,
  RECORD_SECCOMP_TABLE(RECORD_SECCOMP_ENUM)
#undef RECORD_SECCOMP_ENUM
};

/* The exit status is unknown: the program was not a child of the recorder. */
#define RECORD_STATUS_UNKNOWN UINT32_MAX
/* The program still ran when its recording ended. */
#define RECORD_STATUS_RUNNING (UINT32_MAX - 1)
/* Whether STATUS is as from wait(2). */
#define RECORD_STATUS_IS_KNOWN(status) ((status) < RECORD_STATUS_RUNNING)

/* The header at offset 0, followed by zeros up to header_size. */
typedef struct record_header {
  char magic[8];
  uint16_t version;
  uint16_t reserved;
  uint32_t header_size; /* offset of the first chunk */
  /* RECORD_FEATURE_…; a reader refuses a file with an unknown bit. */
  uint64_t features;
  uint32_t byte_order;  /* RECORD_BYTE_ORDER */
  uint32_t machine;     /* ELF e_machine: 62 x86_64, 183 aarch64 */
  uint32_t clock;       /* record_clock_t */
  uint32_t clock_shift; /* times in chunks are the counter shifted right by this */
  /* The unshifted counter and two clocks, read at the same time at the start; then again every
   * second and at the end. The end values are 0 before the first update. */
  uint64_t start_ticks;
  uint64_t start_monotonic_ns;
  uint64_t start_realtime_ns;
  uint64_t end_ticks;
  uint64_t end_monotonic_ns;
  uint32_t pid;
  uint32_t state;            /* record_state_t */
  uint32_t exit_status;      /* as from wait(2), once finished; or RECORD_STATUS_UNKNOWN */
  uint32_t stop_reason;      /* record_stop_t */
  uint64_t lost_events;      /* dropped without a buffer, or in chunks that could not be written */
  uint64_t lost_stacks;      /* events recorded with stack 0 because the capture failed */
  uint64_t lost_definitions; /* records of tables that could not be written */
  /* While the file is open, the shared buffers are /proc/RECORDER_PID/fd/SHM_FD. */
  uint32_t recorder_pid;
  int32_t shm_fd;
  uint32_t exec_count; /* programs that ran in this process, by execve */
  uint32_t mode;       /* what was recorded at the start: RECORD_… bits */
  /* The part of the file in which newer chunks overwrite the oldest ones; tables are never there.
   * ring_bytes 0: there is none. */
  uint64_t ring_start, ring_bytes;
  uint64_t ring_written; /* bytes in total */
  /* The namespace of both pids: inode of the recorder's /proc/self/ns/pid; 0: unknown,
   * or a system without such namespaces. */
  uint64_t pid_space;
  /* Times in which the file could not be written: how many, why the last one, nanoseconds in total.
   */
  uint32_t gaps, gap_reason;
  uint64_t gaps_ns;
  /* The least size of the complete file: a shorter one is truncated. 0: unknown. */
  uint64_t file_bytes;
} record_header_t;

/* In `file_bytes`: the file is not complete yet. */
#define RECORD_INCOMPLETE UINT64_MAX

_Static_assert(sizeof(record_header_t) == 192, "docs/format.md says 192");

/* ---- chunks ------------------------------------------------------------------------------- */

#define CHUNK_MAGIC     0x4b4e4843u /* "CHNK" */
#define CHUNK_MAX_BYTES (1u << 20)

typedef enum chunk_type {
  CHUNK_EVENTS = 1,
  CHUNK_TABLES = 2,
  CHUNK_CALLS = 3,   /* of the call tracer: sensor/trace/trace.h */
  CHUNK_SUMMARY = 6, /* analysis/summary/summary.h */
} chunk_type_t;

#define CHUNK_CLOSED      1u /* used, records and checksum are valid */
#define CHUNK_COLLECTED   2u /* closed by the recorder, not by the program */
#define CHUNK_HANDED_OVER 8u /* in the shared buffers only: the recorder writes the chunk */
#define CHUNK_PACKED      4u /* contains `records` chunks of its stream: reader/packed.h */

typedef struct chunk_header {
  uint32_t magic;
  uint16_t type;
  uint16_t flags;
  uint32_t size; /* of the whole chunk including this header; a multiple of 8 */
  uint32_t used; /* bytes of the payload that contain records */
  uint32_t stream;
  uint32_t sequence;     /* 0, 1, 2, … within the stream */
  uint64_t base_time;    /* shifted ticks; times are deltas from here */
  uint64_t base_address; /* shifted; addresses are deltas from here */
  uint64_t close_time;   /* shifted ticks when it was closed */
  uint16_t exec_index;   /* program N of this process: 1, 2, … */
  uint8_t address_shift; /* addresses are stored shifted right by this */
  uint8_t reserved;
  uint32_t records;  /* in a closed chunk; 0 in a collected one */
  uint64_t checksum; /* of a closed chunk: chunk_checksum of all bytes, with 0 in this field */
} chunk_header_t;

_Static_assert(sizeof(chunk_header_t) == 64, "docs/format.md says 64");

/* ---- records of a chunk of events --------------------------------------------------------- */

/* First byte: bits 0-2 kind; bit 3 the stack equals the predicted one; bits 4-7 the time delta,
 * where EVENT_TIME_MORE means that a varint with the rest follows. */
typedef enum event_kind {
  EVENT_NONE = 0, /* the end of the committed records */
  EVENT_MALLOC = 1,
  EVENT_FREE = 2,
  EVENT_REALLOC = 3,
  EVENT_CALLOC = 4,
  EVENT_ALIGNED = 5,
  EVENT_EXTENDED = 6, /* byte subtype, varint length, body */
  EVENT_SAMPLE = 7,   /* a tick of the thread's CPU time */
} event_kind_t;

#define EVENT_KIND_MASK  7u
#define EVENT_PREDICTED  8u
#define EVENT_TIME_SHIFT 4
#define EVENT_TIME_MORE  15u
/* The longest record that is not extended, including bytes that the writer touches behind it. */
#define EVENT_MAX_BYTES 64u

/* The index of a stream's prediction for the stack that follows the stack PREVIOUS. */
#define PREDICTOR_ENTRIES 256u
static inline uint32_t predictor_index(uint32_t previous) {
  return (previous * UINT32_C(2654435761)) >> 24;
}

/* ---- what is recorded --------------------------------------------------------------------- */

/* A set of bits. */
#define RECORD_BLOCKS         1u          /* every block */
#define RECORD_MAPPINGS       2u          /* memory mappings: mmap, munmap, mremap, brk */
#define RECORD_SAMPLES        4u          /* samples of CPU time */
#define RECORD_SAMPLED_BLOCKS 8u          /* blocks sampled by bytes: sensor/malloc/sampled.h */
#define RECORD_LIVE           16u         /* live blocks without history: sensor/malloc/live.h */
#define RECORD_STALLS         0x100u      /* sensor/stall/stall.h */
#define RECORD_CALLS          0x1000u     /* sensor/trace/trace.h; trace_generation switches it */
#define RECORD_AUDIT          0x10000u    /* calls of audited functions: sensor/audit/audit.h */
#define RECORD_FROM_OUTSIDE   0x40000000u /* nothing: there is no agent in the program */
#define RECORD_SWITCHING      0x80000000u /* nothing: the program is changing the mode */
#define RECORD_ANY_BLOCKS     (RECORD_BLOCKS | RECORD_SAMPLED_BLOCKS | RECORD_LIVE)

/* ---- extended records --------------------------------------------------------------------- */

/* Streams that no thread of the program writes: the recorder's, and one for each monitor. */
#define RECORDER_STREAM 0
#define MONITOR_STREAM  0x80000000u

/* Subtypes of EVENT_EXTENDED; docs/format.md describes the bodies. */
typedef enum extended_subtype {
  EXTENDED_SAMPLING = 1,  /* the sampling rate of blocks, for the rest of the chunk */
  EXTENDED_MODE = 2,      /* the mode (RECORD_… bits) and the sampling rate from now on */
  EXTENDED_SNAPSHOT = 3,  /* the live blocks follow in EXTENDED_BLOCKS */
  EXTENDED_BLOCKS = 4,    /* live blocks of a snapshot */
  EXTENDED_MARKER = 5,    /* a named time */
  EXTENDED_MAPPING = 6,   /* a change of a memory mapping */
  EXTENDED_MAPS = 7,      /* a checkpoint: lines of /proc/PID/maps */
  EXTENDED_POOL = 8,      /* a block of the program's own allocator */
  EXTENDED_PROCESS = 9,   /* a process of the run, in the recording of the first one */
  EXTENDED_CHILDREN = 10, /* the program had children, which are not recorded */
  EXTENDED_SEARCHED = 11, /* the memory of the program was searched for leaks when it exited */
  EXTENDED_LEAKED = 12,   /* what that search found, by stack */
  EXTENDED_STALL = 32,    /* 32 to 47 are written by the recorder's monitors */
  EXTENDED_STALL_SAMPLE = 33,
  EXTENDED_STALL_LOCK = 34,
  EXTENDED_STALL_END = 35,
  EXTENDED_LOOP = 36,
  EXTENDED_UNSAMPLED = 37,
  EXTENDED_CPU_EPISODE = 40,
  EXTENDED_CPU_THREAD = 41,
  EXTENDED_CPU_PROCESS = 42,
  EXTENDED_THREAD_TIME = 43,  /* a thread's CPU time: sampled, and not sampled by cause */
  EXTENDED_PROCESS_TIME = 44, /* the process's CPU time, and how many threads it had */
  EXTENDED_USAGE = 45,        /* resources that the process uses: those that changed */
  EXTENDED_WALL = 46,
  EXTENDED_WALL_THREAD = 47,
  EXTENDED_AUDIT = 48,        /* a call of an audited function */
  EXTENDED_AUDIT_REPEAT = 49, /* the same call again */
  EXTENDED_SYSCALL = 50,      /* equal sensitive system calls */
  EXTENDED_COVERAGE = 51,     /* the end of the system call monitor */
  EXTENDED_AUDIT_RESULT = 52, /* the end of an audited call that returned */
  EXTENDED_CRASH = 64,        /* a fatal signal that the program caused */
  EXTENDED_THREAD = 65,       /* another thread at the time of the crash */
} extended_subtype_t;

typedef enum pool_call { POOL_ALLOCATED = 1, POOL_FREED = 2 } pool_call_t;

typedef enum mapping_call {
  MAPPING_CREATED = 1, /* mmap, or brk upwards */
  MAPPING_REMOVED = 2, /* munmap, or brk downwards */
  MAPPING_MOVED = 3,   /* mremap: the old mapping was replaced by this one */
} mapping_call_t;

typedef enum snapshot_reason {
  SNAPSHOT_REQUESTED = 1,
  SNAPSHOT_MODE = 2, /* the mode `live` ended here */
  SNAPSHOT_END = 3,  /* the program ended */
} snapshot_reason_t;

/* Which of the audit's hooks observed a sensitive system call. */
typedef enum coverage_class {
  COVERAGE_EARLY = 1,       /* none could: the agent was not ready */
  COVERAGE_HOOKED = 2,      /* the hook of the function that made it */
  COVERAGE_BELOW = 3,       /* none: the stack shows the caller */
  COVERAGE_UNEXPLAINED = 4, /* none, and the stack is not complete */
  COVERAGE_OWN = 5,         /* the agent made it */
  COVERAGE_CLASSES
} coverage_class_t;

/* Why CPU time has no samples. X(name, value, key in JSON, text after "1.23 s "). */
#define NO_SAMPLE_TABLE(X)                                                                         \
  X(NO_SAMPLE_BEFORE, 0, "before", "before sampling started")                                      \
  X(NO_SAMPLE_OFF, 1, "off", "while sampling was off")                                             \
  X(NO_SAMPLE_LAST, 2, "last_interval", "after the last sample of a thread")                       \
  X(NO_SAMPLE_BLOCKED, 3, "signal_blocked", "in threads that block SIGURG")                        \
  X(NO_SAMPLE_REPLACED, 4, "handler_replaced", "in threads whose SIGURG handler was replaced")     \
  X(NO_SAMPLE_FILTER, 5, "seccomp", "in threads with a seccomp filter")                            \
  X(NO_SAMPLE_NO_TIMER, 6, "no_timer", "in threads that got no timer")                             \
  X(NO_SAMPLE_NO_AGENT, 7, "no_agent", "in a program that did not load the agent")                 \
  X(NO_SAMPLE_KERNEL, 8, "kernel_thread", "in kernel threads of the process (io_uring)")           \
  X(NO_SAMPLE_LOST, 9, "lost", "of samples that were left out or lost")                            \
  X(NO_SAMPLE_UNSEEN, 10, "unseen", "at the end of threads, or in threads that were not seen")     \
  X(NO_SAMPLE_REFUSED, 11, "refused", "in threads that the system does not let sonde sample")

typedef enum no_sample_cause {
#define NO_SAMPLE_ENUM(name, value, key, text) name = value,
  NO_SAMPLE_TABLE(NO_SAMPLE_ENUM)
#undef NO_SAMPLE_ENUM
      NO_SAMPLE_CAUSES
} no_sample_cause_t;

/* The resources of EXTENDED_USAGE. X(name, number, key in JSON). Faults, times, switches and events
 * of a cgroup are totals since the process or the cgroup began; the others are amounts. */
#define USAGE_TABLE(X)                                                                             \
  X(USAGE_RSS, 1, "rss_bytes")                                                                     \
  X(USAGE_PEAK_RSS, 2, "peak_rss_bytes")   /* as the kernel knows it: between readings, too */     \
  X(USAGE_ANONYMOUS, 3, "anonymous_bytes") /* the part of USAGE_RSS that is not from files */      \
  X(USAGE_SWAP, 4, "swap_bytes")                                                                   \
  X(USAGE_MINOR_FAULTS, 5, "minor_faults")                                                         \
  X(USAGE_MAJOR_FAULTS, 6, "major_faults")                                                         \
  X(USAGE_DESCRIPTORS, 7, "descriptors")                                                           \
  X(USAGE_THREADS, 8, "threads")                                                                   \
  X(USAGE_USER_TIME, 9, "user_ns")                                                                 \
  X(USAGE_SYSTEM_TIME, 10, "system_ns")                                                            \
  X(USAGE_VOLUNTARY, 11, "voluntary_switches")                                                     \
  X(USAGE_INVOLUNTARY, 12, "involuntary_switches")                                                 \
  X(USAGE_CGROUP_MEMORY, 13, "cgroup_memory_bytes")                                                \
  X(USAGE_CGROUP_LIMIT, 14, "cgroup_memory_limit_bytes") /* the smallest of the hierarchy */       \
  X(USAGE_CGROUP_OOM, 15, "cgroup_oom_events")                                                     \
  X(USAGE_CGROUP_OOM_KILLS, 16, "cgroup_oom_kills")                                                \
  X(USAGE_CGROUP_CPU, 17, "cgroup_cpu_limit_permille") /* thousandths of one CPU */                \
  X(USAGE_CGROUP_THROTTLED, 18, "cgroup_throttled_ns")                                             \
  X(USAGE_SONDE, 19, "sonde_ns") /* CPU time of the recorder, and of samples in the program */     \
  /* descriptors by kind, of the last time when their count was 32 or had doubled */               \
  X(USAGE_READ_FILES, 20, "descriptors_files_read")                                                \
  X(USAGE_WRITTEN_FILES, 21, "descriptors_files_written") /* or both */                            \
  X(USAGE_SOCKETS, 22, "descriptors_sockets")                                                      \
  X(USAGE_PIPES, 23, "descriptors_pipes")                                                          \
  X(USAGE_EPOLLS, 24, "descriptors_epoll")                                                         \
  X(USAGE_TIMERS, 25, "descriptors_timers")                                                        \
  X(USAGE_EVENTS, 26, "descriptors_eventfd")                                                       \
  X(USAGE_OTHER_DESCRIPTORS, 27, "descriptors_other")                                              \
  X(USAGE_MACHINE_MEMORY, 28, "machine_memory_bytes") /* of all of the machine; does not change */

typedef enum usage_field {
#define USAGE_ENUM(name, number, key) name = number,
  USAGE_TABLE(USAGE_ENUM)
#undef USAGE_ENUM
      USAGE_FIELDS /* numbers are below this */
} usage_field_t;

/* How a stall ended. */
typedef enum stall_ending {
  STALL_ENDED = 0,  /* the loop waited again */
  STALL_MOVED = 1,  /* the thread's wait site turned out to be elsewhere */
  STALL_EXITED = 2, /* the thread or the process exited */
  STALL_KILLED = 3, /* a signal ended the process */
  STALL_EXEC = 4,   /* the process replaced its program */
} stall_ending_t;

/* ---- records of a chunk of calls ------------------------------------------------------------ */

/* Numbers of 2, 4 or 8 bytes; the first byte is never 0. Times count from the previous record, in
 * units of the clock shifted right by the chunk's address_shift. */
#define CALL_KIND_MASK 3u
#define CALL_EXIT_2    1u /* time 14 bits << 2 */
#define CALL_ENTER_4   2u /* frame id 16 bits << 2, time 14 bits << 18 */
#define CALL_OTHER     3u /* see below */
#define CALL_8_BYTES   4u /* of CALL_OTHER: the record has 8 bytes, otherwise 4 */

#define CALL_SUBKIND(word) ((unsigned)((word) >> 3 & 7))
#define CALL_4_EXIT        0u /* time 26 bits << 6 */
#define CALL_4_UNWOUND     1u /* this many innermost calls ended without an exit; 26 bits << 6 */
#define CALL_4_UNMATCHED   2u /* an exit whose enter was not recorded; time as in CALL_4_EXIT */
#define CALL_8_ENTER       0u /* frame id 22 bits << 6, time 36 bits << 28 */
#define CALL_8_TIME        1u /* time 58 bits << 6 */
#define CALL_8_LOST        2u /* number of events missing here; 58 bits << 6 */
#define CALL_8_DEPTH       3u /* number of calls open here; all others were dropped; << 6 */
#define CALL_FRAME_MAX     ((1u << 22) - 1)

/* ---- records of a chunk of tables --------------------------------------------------------- */

/* One byte of type, varint length of the body, body. Unknown types are skipped. */
typedef enum table_type {
  TABLE_NONE = 0,         /* the end of the committed records */
  TABLE_PROCESS = 1,      /* pid, then strings to the end: executable, arguments */
  TABLE_IMAGE = 2,        /* id, time, start, end, slide, build-id string, path string */
  TABLE_UNLOADED = 3,     /* image id, time */
  TABLE_THREAD = 4,       /* stream of its events, tid, time, level, name string */
  TABLE_FRAME = 5,        /* id, pc, image id (0: none), flags */
  TABLE_NODE = 6,         /* id, parent id, frame id */
  TABLE_CHAIN = 7,        /* Python frames alone: id, parent id, frame id (0: none), flags */
  TABLE_MERGED = 8,       /* id, id of a native stack, id of a chain */
  TABLE_PYTHON_CALL = 9,  /* frame id of a call of Python's evaluator */
  TABLE_FRAME_NAME = 16,  /* frame id, name string: the name of its calls */
  TABLE_TRACER = 17,      /* cost of tracing a call: in total, and inside it; clock units * 256 */
  TABLE_SECCOMP = 18,     /* a seccomp filter that the program installed: agent/seccomp.c */
  TABLE_PATCHED = 19,     /* why functions are not patched (MOVE_…), 0: they are; their number */
  TABLE_CALL_LIMITS = 20, /* the least duration of a recorded call in ns, the depth; 0: no limit */
  TABLE_FUNCTIONS = 24,   /* frame id, then its functions: names and lines, of sonde pack --names */
  TABLE_CODE = 25, /* generated code: address, size, earliest, latest, number, flags, name string */
  TABLE_OUTSIDE = 26,     /* of a program without the agent, after others: its RECORD_… bits */
  TABLE_POLICY = 48,      /* the next part of the flat audit policy: sensor/audit/policy.h */
  TABLE_POLICY_TEXT = 49, /* the next part of its YAML */
  TABLE_AUDITED = 50,     /* number of a function; 1 if it is hooked */
} table_type_t;

#define CHAIN_ENDS_CALL                                                                            \
  1u /* of TABLE_CHAIN: the outermost Python frame of a call of the evaluator */

#define FUNCTION_INLINED 1u /* of a function in TABLE_FUNCTIONS: into the next one */

#define CODE_EXACT_TIME 1u /* of TABLE_CODE: the time is the compiler's own */

#define FRAME_EXACT      1u /* the pc itself, not a return address */
#define FRAME_TRAMPOLINE 2u /* a frame of sonde's own between a function and its caller */

/* A frame without an image and with one of these pcs marks an incomplete stack. */
#define FRAME_PC_BROKEN    1 /* outermost: the walk ended before the thread's first frame */
#define FRAME_PC_TRUNCATED 2 /* frames were left out here */

#define TABLE_BODY_MAX   4608u /* a path of 4096 bytes, a build-id and some numbers */
#define TABLE_RECORD_MAX (TABLE_BODY_MAX + 16u)

/* ---- checksum ----------------------------------------------------------------------------- */

/* The checksum of SIZE bytes, a multiple of 8. Word i is mixed into lane i mod 4 as
 * lane = (lane ^ word) * K, lane ^= lane >> 32. Four lanes make it as fast as a memory copy. */
static inline uint64_t checksum_mix(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return lane ^ lane >> 32;
}

static inline uint64_t chunk_checksum(const void *data, uint64_t size) {
  const uint8_t *p = data;
  uint64_t a = 1, b = 2, c = 3, d = 4, words[4]; /* not an array: gcc keeps that in memory */
  uint64_t i = 0;
  for (; i + 32 <= size; i += 32) {
    memcpy(words, p + i, 32);
    a = checksum_mix(a, words[0]);
    b = checksum_mix(b, words[1]);
    c = checksum_mix(c, words[2]);
    d = checksum_mix(d, words[3]);
  }
  uint64_t lanes[4] = {a, b, c, d};
  for (int k = 0; i + 8 <= size; i += 8, k++) {
    memcpy(words, p + i, 8);
    lanes[k] = checksum_mix(lanes[k], words[0]);
  }
  uint64_t sum = size;
  for (int k = 0; k < 4; k++)
    sum = checksum_mix(sum, lanes[k]);
  return sum;
}

/* Replaces the checksum field; CHUNK need not be aligned. Returns the old value. */
static inline uint64_t chunk_swap_checksum(void *chunk, uint64_t value) {
  uint8_t *field = (uint8_t *)chunk + offsetof(chunk_header_t, checksum);
  uint64_t old;
  memcpy(&old, field, sizeof old);
  memcpy(field, &value, sizeof value);
  return old;
}

/* Sets the checksum of a closed chunk of SIZE bytes. */
static inline void chunk_seal(void *chunk, uint64_t size) {
  (void)chunk_swap_checksum(chunk, 0);
  (void)chunk_swap_checksum(chunk, chunk_checksum(chunk, size));
}

/* True if the checksum of a closed chunk is right. Changes the chunk temporarily. */
static inline bool chunk_is_intact(void *chunk, uint64_t size) {
  uint64_t stored = chunk_swap_checksum(chunk, 0);
  bool intact = chunk_checksum(chunk, size) == stored;
  (void)chunk_swap_checksum(chunk, stored);
  return intact;
}

/* The text of a stop reason. */
static inline const char *record_stop_text(uint32_t reason) {
  switch (reason) {
#define STOP_TEXT(name, value, text)                                                               \
  case name: return text;
    RECORD_STOP_TABLE(STOP_TEXT)
#undef STOP_TEXT
  default: return "for a reason that this version does not know";
  }
}

/* ---- records of a summary, in a chunk of type CHUNK_SUMMARY
 * --------------------------------------------- */

typedef enum summary_record {
  SUMMARY_TOTALS = 1,
  SUMMARY_STACK = 2,
  SUMMARY_THREAD = 3,
  SUMMARY_SIZE = 4,
  SUMMARY_INVALID_FREE = 5,
  SUMMARY_SAMPLES = 6,
  SUMMARY_SAMPLE = 7,
  SUMMARY_CHECKPOINT = 8,
  SUMMARY_CPU_TIME = 9, /* of all threads together */
} summary_record_t;

/* The last number of a SUMMARY_SAMPLE whose merged ticks belong to its own stack. */
#define SAMPLE_OWN_MISSED 1u

#endif
