/* SPDX-License-Identifier: MIT
 *
 * The .sonde format as C declarations, for both ends. docs/format.md is the description; where the
 * two differ, one of them is a bug. All numbers are little endian.
 */
#ifndef SONDE_RECORD_FORMAT_H
#define SONDE_RECORD_FORMAT_H

#include <stdint.h>
#include <string.h>

#include "base/bits.h"

#define RECORD_MAGIC       "SONDE\r\n\x1a" /* 8 bytes; like PNG's, shows a copy in text mode */
#define RECORD_VERSION     0
#define RECORD_HEADER_SIZE 4096
#define RECORD_BYTE_ORDER  0x01020304u

/* Bits of record_header_t.features. */
#define RECORD_FEATURE_PACKED  UINT64_C(1) /* chunks are packed */
#define RECORD_FEATURE_SUMMARY UINT64_C(2) /* there are no events, but what they add up to */
#define RECORD_FEATURES        (RECORD_FEATURE_PACKED | RECORD_FEATURE_SUMMARY)

typedef enum record_clock {
  RECORD_CLOCK_NONE = 0,
  RECORD_CLOCK_TSC = 1,       /* x86 time stamp counter */
  RECORD_CLOCK_CNTVCT = 2,    /* aarch64 virtual counter */
  RECORD_CLOCK_MONOTONIC = 3, /* nanoseconds of clock_gettime(CLOCK_MONOTONIC) */
} record_clock_t;

typedef enum record_state {
  RECORD_OPEN = 0,     /* being written, or its recorder was killed */
  RECORD_FINISHED = 1, /* the program ended and the open chunks were collected */
} record_state_t;

/* Why nothing more was recorded although the program went on. X(name, value, text). */
#define RECORD_STOP_TABLE(X)                                                                       \
  X(RECORD_STOP_NONE, 0, "it was not stopped")                                                     \
  X(RECORD_STOP_DISK_FULL, 1, "the disk is full")                                                  \
  X(RECORD_STOP_FILE_LIMIT, 2, "the limit on file size (RLIMIT_FSIZE) was reached")                \
  X(RECORD_STOP_IO, 3, "the file could not be written")                                            \
  X(RECORD_STOP_LOST_FILE, 4, "the program closed the file and it could not be opened again")      \
  X(RECORD_STOP_LIMIT, 5, "the size limit of the recording was reached")                           \
  X(RECORD_STOP_REQUESTED, 6, "it was asked to stop")

typedef enum record_stop {
#define RECORD_STOP_ENUM(name, value, text) name = value,
  RECORD_STOP_TABLE(RECORD_STOP_ENUM)
#undef RECORD_STOP_ENUM
} record_stop_t;

#define RECORD_STATUS_UNKNOWN UINT32_MAX /* it was no child of the recorder's */

/* At offset 0, followed by zeros up to header_size. */
typedef struct record_header {
  char magic[8];
  uint16_t version;
  uint16_t reserved;
  uint32_t header_size; /* chunks start here */
  uint64_t features;    /* RECORD_FEATURE_…; a reader that does not know a bit refuses the file */
  uint32_t byte_order;  /* RECORD_BYTE_ORDER */
  uint32_t machine;     /* ELF e_machine: 62 x86_64, 183 aarch64 */
  uint32_t clock;       /* record_clock_t */
  uint32_t clock_shift; /* times in chunks are the counter shifted right by this */
  uint64_t start_ticks; /* the counter, unshifted, … */
  uint64_t start_monotonic_ns; /* … at the same moment */
  uint64_t start_realtime_ns;
  uint64_t end_ticks; /* the same at the end; 0 while it is open */
  uint64_t end_monotonic_ns;
  uint32_t pid;
  uint32_t state;            /* record_state_t */
  uint32_t exit_status;      /* as wait(2) gives it, once finished; RECORD_STATUS_UNKNOWN */
  uint32_t stop_reason;      /* record_stop_t */
  uint64_t lost_events;      /* dropped for want of room, or in chunks that could not be written */
  uint64_t lost_stacks;      /* events recorded with stack 0, because the capture failed */
  uint64_t lost_definitions; /* records of tables that could not be written */
  uint32_t recorder_pid;     /* while open the scratch is … */
  int32_t shm_fd;            /* … /proc/recorder_pid/fd/shm_fd */
  uint32_t exec_count;       /* programs that ran in this process, by execve */
  uint32_t mode;             /* what was recorded at the start: RECORD_… bits */
  /* Chunks in this part of the file, which are not of tables, make room for newer ones: */
  uint64_t ring_start, ring_bytes; /* 0: there is none */
  uint64_t ring_written;           /* bytes, in all */
} record_header_t;

_Static_assert(sizeof(record_header_t) == 160, "docs/format.md says 160");

/* ---- chunks ------------------------------------------------------------------------------- */

#define CHUNK_MAGIC     0x4b4e4843u /* "CHNK" */
#define CHUNK_MAX_BYTES (1u << 20)

typedef enum chunk_type {
  CHUNK_EVENTS = 1,
  CHUNK_TABLES = 2,
  CHUNK_SUMMARY = 6, /* analysis/summary/summary.h */
  CHUNK_CALLS = 3,   /* of the call tracer: src/lib/sensor/trace/trace.h */
} chunk_type_t;

#define CHUNK_CLOSED    1u /* used, events and checksum are valid */
#define CHUNK_COLLECTED 2u /* closed by the recorder, not by the program */
#define CHUNK_PACKED    4u /* stands for `records` chunks of its stream: reader/packed.h */

typedef struct chunk_header {
  uint32_t magic;
  uint16_t type;
  uint16_t flags;
  uint32_t size; /* of the whole chunk, this header included; a multiple of 8 */
  uint32_t used; /* payload bytes that hold records */
  uint32_t stream;
  uint32_t sequence;     /* 0, 1, 2, … within the stream */
  uint64_t base_time;    /* shifted ticks; times are deltas from here */
  uint64_t base_address; /* shifted; addresses are deltas from here */
  uint64_t close_time;   /* shifted ticks when it was closed */
  uint16_t exec_index;   /* which program of this process: 1, 2, … */
  uint8_t address_shift; /* addresses are stored shifted right by this */
  uint8_t reserved;
  uint32_t records;  /* how many a closed chunk holds; 0 when it was collected */
  uint64_t checksum; /* chunk_checksum over header (with 0 here) and payload, once closed */
} chunk_header_t;

_Static_assert(sizeof(chunk_header_t) == 64, "docs/format.md says 64");

/* ---- records of a chunk of events --------------------------------------------------------- */

/* First byte: bits 0-2 kind, bit 3 the stack is the predicted one, bits 4-7 the time delta, where
 * EVENT_TIME_MORE says that a varint of the rest follows. */
typedef enum event_kind {
  EVENT_NONE = 0, /* the end of what was committed */
  EVENT_MALLOC = 1,
  EVENT_FREE = 2,
  EVENT_REALLOC = 3,
  EVENT_CALLOC = 4,
  EVENT_ALIGNED = 5,
  EVENT_EXTENDED = 6, /* byte subtype, varint length, body */
  EVENT_SAMPLE = 7,   /* a tick of the thread's CPU time */
} event_kind_t;

/* Subtypes of EVENT_EXTENDED. */
#define EXTENDED_SAMPLING                                                                          \
  1 /* varint: from here on in this chunk blocks are sampled, one in so many                       \
       bytes; 0, as at the start of a chunk: every event */

/* What is recorded; a set of bits. */
#define RECORD_BLOCKS         1u     /* every block */
#define RECORD_MAPPINGS       2u     /* regions of memory: mmap and its kin */
#define RECORD_SAMPLES        4u     /* where threads use the CPU */
#define RECORD_SAMPLED_BLOCKS 8u     /* blocks chosen by their bytes, see sensor/malloc/sampled.h */
#define RECORD_LIVE           16u    /* live blocks without history, see sensor/malloc/live.h */
#define RECORD_STALLS         0x100u /* see sensor/stall/stall.h */
#define RECORD_CALLS          0x1000u     /* see sensor/trace/trace.h; trace_generation says when */
#define RECORD_AUDIT          0x10000u    /* calls that a policy names, see sensor/audit/audit.h */
#define RECORD_SWITCHING      0x80000000u /* nothing; the mode is being changed inside */
#define RECORD_ANY_BLOCKS     (RECORD_BLOCKS | RECORD_SAMPLED_BLOCKS | RECORD_LIVE)

/* Written by the recorder, into its own stream: */
#define RECORDER_STREAM 0
#define MONITOR_STREAM  0x80000000u /* what its monitors see from outside; one stream each */
#define EXTENDED_MODE                                                                              \
  2 /* varints: what is recorded from now on (RECORD_…), the rate of RECORD_SAMPLED_BLOCKS */
#define EXTENDED_SNAPSHOT                                                                          \
  3 /* varints: why (snapshot_reason_t); frees, so far, of blocks given out before the mode `live` \
       was on. The blocks that were live at this time follow, and there were no others */
#define EXTENDED_BLOCKS                                                                            \
  4 /* varints, for each block: its address less the one before (zigzag; at first 0), size, stack, \
       stream of its thread, ticks before this record's time (zigzag) when it was given out */
#define EXTENDED_MARKER 5 /* a string, the name; a varint, the stack */

#define EXTENDED_MAPPING                                                                           \
  6 /* varints: call (mapping_call_t), address, size, stack, old address, old size, protection,    \
       flags, offset; a string, the path of the file */
#define EXTENDED_MAPS                                                                              \
  7 /* a checkpoint: a varint, 1 in its first part, else 0; a string, lines of /proc/PID/maps */

#define EXTENDED_POOL                                                                              \
  8 /* varints: call (pool_call_t), address, size, stack: of an allocator of the program's own */

typedef enum pool_call { POOL_ALLOCATED = 1, POOL_FREED = 2 } pool_call_t;

/* The program was ended by a signal of its own making: */
#define EXTENDED_CRASH                                                                             \
  64 /* varints: signal, code, address (of a fault), tid, stack; si_… of sigaction(2) */
#define EXTENDED_THREAD                                                                            \
  65 /* another thread at that moment; varints: tid, state (a character of proc(5)), stack; a      \
        string, its name */

typedef enum mapping_call {
  MAPPING_CREATED = 1, /* mmap, or brk upwards */
  MAPPING_REMOVED = 2, /* munmap, or brk downwards */
  MAPPING_MOVED = 3,   /* mremap: the old region went, this one came */
} mapping_call_t;

typedef enum snapshot_reason {
  SNAPSHOT_REQUESTED = 1,
  SNAPSHOT_MODE = 2, /* the mode `live` ended here */
  SNAPSHOT_END = 3,  /* the program ended */
} snapshot_reason_t;
#define EXTENDED_AUDIT        48 /* a call of an audited function: docs/format.md */
#define EXTENDED_AUDIT_REPEAT 49 /* the same call again: varint, how far back its record begins */
#define EXTENDED_SYSCALL                                                                           \
  50 /* sensitive system calls: varints: class, number, audited function + 1, stack, count, times  \
        of the first and the last; a string, arguments */
#define EXTENDED_COVERAGE                                                                          \
  51 /* the end of watching them; varints: io_uring operations, calls of another architecture,     \
        threads that found no place, 1 when the program was let go before it gained rights */
/* Of stalls, 32 to 47; written by the recorder. Bodies: docs/format.md. */
#define EXTENDED_STALL        32
#define EXTENDED_STALL_SAMPLE 33
#define EXTENDED_STALL_LOCK   34
#define EXTENDED_STALL_END    35
#define EXTENDED_LOOP         36
#define EXTENDED_UNSAMPLED    37
#define EXTENDED_CPU_EPISODE  40
#define EXTENDED_CPU_THREAD   41
#define EXTENDED_CPU_PROCESS  42
#define EXTENDED_WALL         46
#define EXTENDED_WALL_THREAD  47

/* Which of the audit's hooks had seen a sensitive system call. */
typedef enum coverage_class {
  COVERAGE_EARLY = 1,       /* none could: the agent was not ready */
  COVERAGE_HOOKED = 2,      /* that of the function it was made for */
  COVERAGE_BELOW = 3,       /* none: its stack tells where it comes from */
  COVERAGE_UNEXPLAINED = 4, /* none, and its stack is not known in whole */
  COVERAGE_OWN = 5,         /* the agent made it */
  COVERAGE_CLASSES
} coverage_class_t;

/* How a stall ended. */
typedef enum stall_ending {
  STALL_ENDED = 0,  /* the loop waited again */
  STALL_MOVED = 1,  /* the thread turned out to wait in another place */
  STALL_EXITED = 2, /* the thread or the process ended of itself */
  STALL_KILLED = 3, /* the process was ended by a signal */
  STALL_EXEC = 4,   /* the process replaced its program */
} stall_ending_t;

#define EVENT_KIND_MASK  7u
#define EVENT_PREDICTED  8u
#define EVENT_TIME_SHIFT 4
#define EVENT_TIME_MORE  15u
#define EVENT_MAX_BYTES                                                                            \
  64u /* no record but an extended one is longer, what the writer touches                          \
        beyond its end included */

/* Where a stream keeps its guess of the stack that follows the stack PREVIOUS. */
#define PREDICTOR_ENTRIES 256u
static inline uint32_t predictor_index(uint32_t previous) {
  return (previous * UINT32_C(2654435761)) >> 24;
}

/* ---- records of a chunk of calls ------------------------------------------------------------ */

/* Numbers of 2, 4 or 8 bytes; the first byte is never 0. Times are units of the clock shifted right
 * by the chunk's address_shift, since the record before. */
#define CALL_KIND_MASK 3u
#define CALL_EXIT_2    1u /* time 14 bits << 2 */
#define CALL_ENTER_4   2u /* frame id 16 bits << 2, time 14 bits << 18 */
#define CALL_OTHER     3u /* see below */
#define CALL_8_BYTES   4u /* of CALL_OTHER: 8 bytes, else 4 */

#define CALL_SUBKIND(word) ((unsigned)((word) >> 3 & 7))
#define CALL_4_EXIT        0u /* time 26 bits << 6 */
#define CALL_4_UNWOUND     1u /* the innermost so many calls have ended without exit; 26 bits << 6 */
#define CALL_4_UNMATCHED   2u /* an exit whose enter was not recorded; time as of an exit */
#define CALL_8_ENTER       0u /* frame id 22 bits << 6, time 36 bits << 28 */
#define CALL_8_TIME        1u /* time 58 bits << 6 */
#define CALL_8_LOST        2u /* so many events are missing here; 58 bits << 6 */
#define CALL_8_DEPTH       3u /* the calls that are open here, all others were forgotten; << 6 */
#define CALL_FRAME_MAX     ((1u << 22) - 1)

/* ---- records of a chunk of tables --------------------------------------------------------- */

/* One byte of type, varint length of the body, body. Unknown types are skipped. */
typedef enum table_type {
  TABLE_NONE = 0,         /* the end of what was committed */
  TABLE_PROCESS = 1,      /* pid, then strings to the end: executable, arguments */
  TABLE_IMAGE = 2,        /* id, time, start, end, slide, build-id string, path string */
  TABLE_UNLOADED = 3,     /* image id, time */
  TABLE_THREAD = 4,       /* stream of its events, tid, time, level, name string */
  TABLE_FRAME = 5,        /* id, pc, image id (0: none), flags */
  TABLE_NODE = 6,         /* id, parent id, frame id */
  TABLE_FRAME_NAME = 16,  /* frame id, name string: what calls of it are called */
  TABLE_TRACER = 17,      /* what tracing a call costs: in all, and within it; clock * 256 */
  TABLE_POLICY = 48,      /* the next part of the flat audit policy: sensor/audit/policy.h */
  TABLE_POLICY_TEXT = 49, /* the next part of its YAML */
  TABLE_AUDITED = 50,     /* number of a function, 1 when it is hooked */
} table_type_t;

#define FRAME_EXACT 1u /* the pc itself, not a return address behind a call */

/* Frames without an image whose pc is one of these are no frames: */
#define FRAME_PC_BROKEN    1 /* outermost: the walk ended before the thread's first frame */
#define FRAME_PC_TRUNCATED 2 /* frames were left out here */

#define TABLE_BODY_MAX   4608u /* a path of 4096 bytes, a build-id and some numbers */
#define TABLE_RECORD_MAX (TABLE_BODY_MAX + 16u)

/* ---- checksum ----------------------------------------------------------------------------- */

/* Over SIZE bytes, a multiple of 8. Four lanes, so that it keeps up with a memory copy: word i
 * goes to lane i mod 4 as lane = (lane ^ word) * K, lane ^= lane >> 32. */
static inline uint64_t checksum_mix(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return lane ^ lane >> 32;
}

static inline uint64_t chunk_checksum(const void *data, uint64_t size) {
  const uint8_t *p = data;
  uint64_t a = 1, b = 2, c = 3, d = 4, words[4]; /* by name: gcc keeps an array in memory */
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

/* The text of a stop reason. */
static inline const char *record_stop_text(uint32_t reason) {
  switch (reason) {
#define STOP_TEXT(name, value, text)                                                               \
  case name: return text;
    RECORD_STOP_TABLE(STOP_TEXT)
#undef STOP_TEXT
  default: return "for a reason that a later version knows";
  }
}

#endif
