/* SPDX-License-Identifier: MIT
 *
 * The inside end of the .sonde format: what a sensor needs to record one event.
 *
 *   stream_t *s = writer_enter(RECORD_BLOCKS);   the calling thread's stream, or NULL: not
 * recording event_put(s, …);                            write_event.h writer_leave(s);
 *
 * The hot path, per event: one thread-local load, two loads of the thread's state (one line), one
 * of the control page's mode, then the stores of the record itself. No atomic read-modify-write, no
 * system call, no lock. A full chunk costs one fstat, one getrlimit and one pwrite per 4 to 256 KB.
 *
 * Threads: a stream is written by its thread only. A signal handler that interrupts its thread
 * between enter and leave gets the thread's second stream; a third level is dropped and counted.
 *
 * fork: all state lies in memory that a child finds zeroed (MADV_WIPEONFORK) and the scratch is not
 * mapped there at all (MADV_DONTFORK), so a child, whoever made it, sees at its next event that it
 * is not recording. A vfork child shares its parent's memory and its events are its parent's.
 */
#ifndef SONDE_RECORD_WRITER_H
#define SONDE_RECORD_WRITER_H

#include "arch/arch.h"
#include "os/os.h"
#include "os/thread_slot.h"
#include "record/format.h"
#include "record/shm.h"

/* An open chunk and what the next record is coded against. */
typedef struct stream {
  uint8_t *next;         /* where the next record goes */
  uint8_t *limit;        /* below this there is room for one; both NULL: no chunk is open */
  uint64_t last_time;    /* shifted ticks */
  uint64_t last_address; /* shifted */
  uint32_t last_stack;
  uint32_t records;
  uint8_t address_shift;
  uint8_t slot_class;
  uint16_t type; /* chunk_type_t */
  uint32_t id, sequence;
  chunk_header_t *chunk;
  uint64_t open_time;
  uint64_t sampling; /* as the chunk says it */
  struct writer *writer;
} stream_t;

#define WRITER_LEVELS 2
#define WRITER_MUTED                                                                               \
  255u /* as `depth`: what the thread does now is part of a call that is recorded */

/* A thread's state. */
typedef struct writer {
  shm_control_t *control; /* NULL: not recording, or this is a child of fork */
  uint32_t depth;         /* levels in use */
  bool cycles;            /* the clock is the cycle counter */
  uint8_t clock_shift;
  pid_t tid;
  uint64_t realloc_old;  /* the block that a realloc under way has been given; 0: none */
  shm_loop_t *loop;      /* of an event loop: see sensor/stall/stall.h; else NULL */
  struct writer *next;   /* all of them */
  uint64_t sample_bytes; /* the rate that UNTIL was drawn for */
  int64_t until_sample;  /* bytes to the next sampled block */
  uint64_t random;
  stream_t events[WRITER_LEVELS];
  stream_t tables[WRITER_LEVELS];
  stream_t *more[WRITER_LEVELS]; /* streams of a sensor's own, closed when the thread has ended */
  struct audit_thread *audit;    /* sensor/audit/audit.c's; NULL until it needs it */
  uint32_t predicted[WRITER_LEVELS][PREDICTOR_ENTRIES];
} writer_t;

#if defined(__APPLE__)
#define writer_tls ((writer_t *)os_thread_slot(SLOT_WRITER))
#else
extern __thread writer_t *writer_tls SLOT_MODEL;
#endif

/* Attaches to the recording that SETTINGS names, as the recorder wrote them:
 * "recorder-pid:scratch-fd:file-fd", and more that is not for here. Called once, before there are
 * threads, and once more in a child that joins. Returns 0 or a negative
 * SONDE_E…; then nothing is recorded and every writer_enter says so. */
int writer_start(const char *settings);

/* The same, by numbers: the recorder's process and its descriptors. */
int writer_attach(uint32_t recorder, uint32_t shm_fd, uint32_t file_fd);

/* Closes every thread's chunks into the file. Only for the end of the program when no recorder is
 * left to collect them; other threads must not be recording any more. */
void writer_finish(void);

/* After the mode was changed: waits until every thread has left the events that it may have begun
 * under the old one, at most TIMEOUT_NS. False when one has not. */
bool writer_quiesce(uint64_t timeout_ns);

/* After writer_finish, while nothing is recorded: streams begin anew, in another file. */
void writer_restart(void);

/* The control page, or NULL when this process is not recording. */
shm_control_t *writer_control(void);

/* The first event of a thread, and every event of a child of fork. */
NOINLINE writer_t *writer_enter_slow(void);
NOINLINE void writer_lost_event(shm_control_t *control);

/* Gives the stream its number and records whose it is, where that has not been done: for events
 * that go elsewhere but into a chunk. */
NOINLINE void writer_define_stream(stream_t *stream);

/* Called when the recorder has asked for something that needs work inside the program (`request` of
 * the control page); by whatever thread notices, one at a time. NULL: nobody listens. */
extern HIDDEN void (*writer_on_request)(shm_control_t *control);

/* Called at the first event of a forked child; true when it has begun a recording of its own
 * (writer_start). NULL: children are not recorded. */
extern HIDDEN bool (*writer_on_fork)(void);

/* Looks whether something was asked. Where a chunk is opened, and where an event is not recorded.
 */
NOINLINE void writer_poll(shm_control_t *control);

/* Makes room for EVENT_MAX_BYTES in a stream of events, or for BYTES in one of tables. False when
 * there is none; the caller counts the loss. */
NOINLINE bool writer_reserve(stream_t *stream, uint32_t bytes);

static ALWAYS_INLINE uint64_t writer_now(const writer_t *w) {
  return (LIKELY(w->cycles) ? arch_cycles() : os_monotonic_ns()) >> w->clock_shift;
}

/* The calling thread's stream of events for a sensor of KIND (RECORD_…), or NULL. */
static ALWAYS_INLINE stream_t *writer_enter(uint32_t kind) {
  writer_t *w = writer_tls;
  if (UNLIKELY(!w || !w->control)) {
    w = writer_enter_slow();
    if (!w) return NULL;
  }
  uint32_t depth = w->depth;
  if (UNLIKELY(depth >= WRITER_LEVELS)) {
    if (depth != WRITER_MUTED && load_relaxed(&w->control->mode) & kind)
      writer_lost_event(w->control);
    return NULL;
  }
  w->depth = depth + 1; /* before the mode is looked at: see writer_quiesce */
  signal_fence();
  if (UNLIKELY(!(load_relaxed(&w->control->mode) & kind))) {
    w->depth = depth;
    writer_poll(w->control);
    return NULL;
  }
  stream_t *s = &w->events[depth];
  KEEP_POINTER(s);
  return s;
}

static ALWAYS_INLINE void writer_leave(stream_t *stream) {
  signal_fence();
  stream->writer->depth--;
}

/* The thread of TID, any of the process, has got NAME. Each of its streams says so, if it has any.
 */
void writer_thread_renamed(pid_t tid, const char *name);

/* Until writer_unmute the calling thread records nothing. Returns what to hand to writer_unmute. */
uint32_t writer_mute(void);
void writer_unmute(uint32_t muted);

/* ---- records of the tables: each is in the stream when its function returns true ----------- */

/* Text of the process: the executable and its arguments, as /proc tells them. */
void writer_process(void);
bool writer_image(uint32_t id, uint64_t start, uint64_t end, uint64_t slide,
                  const uint8_t *build_id, uint32_t build_id_size, const char *path);
bool writer_unloaded(uint32_t id);
bool writer_frame(uint32_t id, uint64_t pc, uint32_t image, uint32_t flags);
bool writer_node(uint32_t id, uint32_t parent, uint32_t frame);
/* A record of a sensor's own, of SIZE bytes, at most TABLE_BODY_MAX. */
bool writer_record(table_type_t type, const void *body, uint32_t size);
/* The thread of TID, the calling one, whose stream of LEVEL is EVENTS, by the name it has now. */
bool writer_thread_record(const stream_t *events, pid_t tid, uint32_t level);
/* Any thread, by NAME; the kernel keeps no more than THREAD_NAME_MAX bytes of one. */
#define THREAD_NAME_MAX 15u
bool writer_thread_name(const stream_t *events, pid_t tid, uint32_t level, const char *name);
/* A record of COUNT (at most 16) numbers, then TEXT where that is not NULL. */
bool writer_table(table_type_t type, const uint64_t *values, uint32_t count, const char *text);

/* ---- between the files of the writer ------------------------------------------------------ */

#define RING_WRITERS 16u

typedef struct writer_global {
  shm_control_t *control; /* NULL in a child of fork */
  int file_fd;
  uint32_t next_stream;
  uint32_t exec_index;
  uint32_t requests_seen;
  bool join_tried;                  /* of writer_on_fork */
  writer_t *writers;                /* all that were ever made */
  writer_t *look;                   /* where the search for a dead thread's state goes on */
  uint64_t free_slots[SHM_CLASSES]; /* tag << 32 | page; 0 none */
  uint32_t slot_next[SHM_PAGES];
  uint64_t ring_marks[RING_WRITERS]; /* write_scratch.c; 0: free */
} writer_global_t;

extern HIDDEN writer_global_t *writer_global;

/* Opens descriptor FD of the recorder as one of ours; negative where that fails. */
int writer_open_of_recorder(const shm_control_t *control, int fd);

/* A slot of CLASS, zeroed and backed by memory; NULL when there is none. A new one is made only
 * while there is room for SPARE more of its size. */
void *writer_slot_alloc(uint32_t slot_class, uint32_t spare);
/* Gives back a slot, whose bytes are 0 again. */
void writer_slot_free(void *slot, uint32_t slot_class);

/* Appends SIZE bytes to the file; false when it could not, and then the reason is in the control.
 */
bool writer_append(const void *data, uint32_t size);

/* Closes the stream's chunk, if it has one, into the file, and gives its slot back. False when the
 * file could not be written; then the chunk stays open. */
bool writer_close(stream_t *stream);

#endif
