/* SPDX-License-Identifier: MIT
 *
 * The in-process writer of the .sonde format: what a sensor needs to record an event.
 *
 *   stream_t *s = writer_enter(RECORD_BLOCKS);    the calling thread's stream; NULL: not recording
 *   event_put_new(s, …);                          record/event.h
 *   writer_leave(s);
 *
 * Cost of an event: one thread-local load, two loads of the thread's state (one cache line), one
 * load of the mode in the control page, and the stores of the record. No atomic read-modify-write,
 * no system call, no lock. A full chunk costs one fstat, one getrlimit and one pwrite for 4 to 256
 * KB.
 *
 * Threads: only its thread writes a stream. A signal handler that interrupts its thread between
 * enter and leave gets the thread's second stream; events of a third level are dropped and counted.
 *
 * fork: a child finds all state zeroed (MADV_WIPEONFORK) and the shared buffers unmapped
 * (MADV_DONTFORK). So at its next event the child sees that it is not recording. A vfork child
 * shares its parent's memory, and its events are recorded as its parent's.
 */
#ifndef SONDE_RECORD_WRITER_H
#define SONDE_RECORD_WRITER_H

#include "arch/arch.h"
#include "os/os.h"
#include "os/thread_slot.h"
#include "record/format.h"
#include "record/settings.h"
#include "record/shm.h"

/* An open chunk and the state of its delta coding. */
typedef struct stream {
  uint8_t *next;         /* the next record */
  uint8_t *limit;        /* a record fits if next is below; both NULL: no chunk is open */
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
  uint64_t sampling; /* the sampling rate recorded in the chunk */
  uint64_t dropped;  /* records dropped in a gap; for a user who resets it */
  struct writer *writer;
  uint32_t *predicted; /* of the writer: the stack that follows another one */
} stream_t;

#define WRITER_LEVELS 2
/* The value of `depth` while the thread records nothing: writer_mute. */
#define WRITER_MUTED 255u

/* A thread's state. */
typedef struct writer {
  shm_control_t *control; /* NULL: not recording, or this is a child of fork */
  uint64_t sampled_as;  /* only sampled blocks are recorded while `mode_word` is this; 0: unknown */
  int64_t until_sample; /* bytes to the next sampled block */
  uint32_t depth;       /* levels in use */
  bool cycles;          /* the clock is the cycle counter */
  uint8_t clock_shift;
  pid_t tid;
  uint64_t realloc_old;  /* the block that a running realloc was called with; 0: none */
  shm_loop_t *loop;      /* NULL, or the thread is an event loop: sensor/stall/stall.h */
  struct writer *next;   /* all threads */
  uint64_t sample_bytes; /* the rate of until_sample */
  uint64_t random;
  stream_t events[WRITER_LEVELS];
  stream_t tables[WRITER_LEVELS];
  stream_t *more[WRITER_LEVELS]; /* a sensor's own streams, closed when the thread has ended */
  struct audit_thread *audit;    /* of sensor/audit/audit.c; NULL until used */
  /* of sensor/linux/sample.c: what the last tick took, when the next one may be recorded (of the
   * thread's CPU clock), and the ticks that were left out since, and their time */
  int64_t tick_ns, no_tick_until_ns;
  uint64_t left_out_ns;
  uint32_t left_out;
  uint32_t predicted[WRITER_LEVELS][PREDICTOR_ENTRIES];
} writer_t;

#if defined(SLOT_BY_CALL)
#define writer_tls ((writer_t *)os_thread_slot(SLOT_WRITER))
#else
extern __thread writer_t *writer_tls SLOT_MODEL;
#endif

/* Attaches to the recording of SETTINGS (record/settings.h). Called once, before there are threads,
 * and again in a child of fork that is recorded. Returns 0 or a negative SONDE_E…; then nothing is
 * recorded and writer_enter returns NULL. */
int writer_start(const char *settings);

int writer_attach(const settings_t *settings);

/* Writes every thread's open chunks to the file. Only at the end of the program, if no recorder
 * collects them; other threads must not be recording. */
void writer_finish(void);

/* True if a recorder collects the open chunks of CONTROL's recording. */
bool writer_has_recorder(const shm_control_t *control);

/* After writer_finish: completes the header of a recording whose recorder has ended. */
void writer_finish_header(void);

/* After a change of the mode: waits until all events that started under the old mode are recorded,
 * for at most TIMEOUT_NS. Returns false on timeout. */
bool writer_quiesce(uint64_t timeout_ns);

/* After writer_finish, while nothing is recorded: resets all streams for another file. */
void writer_restart(void);

/* From now on this process makes no system call to write chunks: the recorder writes them. */
void writer_hand_over(void);

/* Ends the recording of this process for REASON. */
void writer_stop(record_stop_t reason);

/* Whether this process is the one that CONTROL describes, not a child of it. CONTROL may be NULL.
 */
bool writer_is_of_process(const shm_control_t *control);

/* The control page; NULL if this process is not recording. */
shm_control_t *writer_control(void);

/* The first event of a thread, and every event of a child of fork. */
NOINLINE writer_t *writer_enter_slow(void);
NOINLINE void writer_lost_event(shm_control_t *control);

/* Allocates the stream's number and records its thread, unless that is done: for events that are
 * not written to a chunk of the stream. */
NOINLINE void writer_define_stream(stream_t *stream);

/* Called when the recorder has incremented `request` of the control page, by one thread at a time.
 * NULL: requests are ignored. */
extern HIDDEN void (*writer_on_request)(shm_control_t *control);

/* Called at the first event of a forked child. Returns true if it has started a recording of the
 * child (writer_start). NULL: children are not recorded. */
extern HIDDEN bool (*writer_on_fork)(void);

/* Called after a gap in which definitions were lost (record/shm.h), inside an event. It writes all
 * definitions again. */
extern HIDDEN void (*writer_on_gap_end)(void);

/* Polls the recorder's requests: when a chunk is opened, and when an event is not recorded. */
NOINLINE void writer_poll(shm_control_t *control);

/* Makes space for EVENT_MAX_BYTES in a stream of events, or for BYTES in a stream of tables. On
 * failure returns false; the caller counts the lost event. In a gap (record/shm.h) the events of a
 * full chunk are dropped and counted, and the chunk is used again. */
NOINLINE bool writer_reserve(stream_t *stream, uint32_t bytes);

static ALWAYS_INLINE uint64_t writer_now(const writer_t *w) {
  return (LIKELY(w->cycles) ? arch_cycles() : os_monotonic_ns()) >> w->clock_shift;
}

/* As writer_enter; sets *MODE to all that is recorded. */
static ALWAYS_INLINE stream_t *writer_enter_in_mode(uint32_t kind, uint32_t *mode) {
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
  w->depth = depth + 1; /* before the mode is read: see writer_quiesce */
  signal_fence();
  *mode = load_relaxed(&w->control->mode);
  if (UNLIKELY(!(*mode & kind))) {
    w->depth = depth;
    writer_poll(w->control);
    return NULL;
  }
  stream_t *s = &w->events[depth];
  KEEP_POINTER(s);
  return s;
}

/* The calling thread's stream of events; NULL if KIND (RECORD_…) is not recorded. */
static ALWAYS_INLINE stream_t *writer_enter(uint32_t kind) {
  uint32_t mode;
  return writer_enter_in_mode(kind, &mode);
}

static ALWAYS_INLINE void writer_leave(stream_t *stream) {
  signal_fence();
  stream->writer->depth--;
}

/* Records the new NAME of thread TID, any thread of the process, for each of its streams. */
void writer_thread_renamed(pid_t tid, const char *name);

/* The recording ends for this process, which continues and may get another one by writer_start. The
 * mode is 0. Returns false if a thread is still in an event after TIMEOUT_NS. The shared buffers
 * stay mapped, since a thread may be about to read the mode; those of the next recording take their
 * place. */
bool writer_leave_program(uint64_t timeout_ns);

/* The calling thread records nothing until writer_unmute, which takes the returned value. */
uint32_t writer_mute(void);
void writer_unmute(uint32_t muted);

/* ---- records of tables; true: the record is in the stream --------------------------------- */

/* Records the executable and its arguments, as in /proc. */
void writer_process(void);
bool writer_image(uint32_t id, uint64_t start, uint64_t end, uint64_t slide,
                  const uint8_t *build_id, uint32_t build_id_size, const char *path);
bool writer_unloaded(uint32_t id);
bool writer_frame(uint32_t id, uint64_t pc, uint32_t image, uint32_t flags);
/* The name of the Python frame ID. */
bool writer_python(uint32_t id, uint32_t line, const char *function, const char *file);
bool writer_node(uint32_t id, uint32_t parent, uint32_t frame);
/* Of Python programs (capture/python/python_event.h): a node of a chain with flags CHAIN_…, a
 * native stack with its chain, a frame that is a call of the evaluator. */
bool writer_chain(uint32_t id, uint32_t parent, uint32_t frame, uint32_t flags);
bool writer_merged(uint32_t id, uint32_t native, uint32_t chain);
bool writer_python_call(uint32_t frame);
/* A record of a sensor; SIZE is at most TABLE_BODY_MAX. */
bool writer_record(table_type_t type, const void *body, uint32_t size);
/* Records the calling thread, TID, whose stream of LEVEL is EVENTS, with its current name. */
bool writer_thread_record(const stream_t *events, pid_t tid, uint32_t level);
/* Records any thread, with NAME; the kernel keeps THREAD_NAME_MAX bytes of a name. */
#define THREAD_NAME_MAX 15u
bool writer_thread_name(const stream_t *events, pid_t tid, uint32_t level, const char *name);
/* A record of COUNT (at most 16) numbers, then TEXT if it is not NULL. */
bool writer_table(table_type_t type, const uint64_t *values, uint32_t count, const char *text);

/* ---- between the files of the writer ------------------------------------------------------ */

#define RING_WRITERS 16u

typedef struct writer_global {
  shm_control_t *control; /* NULL in a child of fork */
  int file_fd;
  uint32_t next_stream;
  uint32_t exec_index;
  uint32_t requests_seen;
  bool fork_tried;                  /* writer_on_fork was called */
  shm_control_t *left;              /* of the last recording that ended by writer_leave_program */
  writer_t *writers;                /* all that exist, also of ended threads */
  writer_t *reclaim_next;           /* where the search for an ended thread's state continues */
  uint64_t free_slots[SHM_CLASSES]; /* tag << 32 | page; 0 none */
  uint32_t slot_next[SHM_PAGES];
  uint64_t ring_positions[RING_WRITERS]; /* shm.c; 0: free */
} writer_global_t;

extern HIDDEN writer_global_t *writer_global;

/* Opens the recorder's descriptor FD in this process. Returns a negative value on failure. */
int writer_open_of_recorder(const shm_control_t *control, int fd);

/* Allocates a zeroed slot of SLOT_CLASS; NULL if there is none. A new slot is taken from the end
 * only if SPARE more slots of its size remain. */
void *writer_slot_alloc(uint32_t slot_class, uint32_t spare);
/* Frees a slot; its bytes must be 0. */
void writer_slot_free(void *slot, uint32_t slot_class);

/* Appends SIZE bytes to the file. On failure returns false and sets the stop reason. */
bool writer_append(const void *data, uint32_t size);

/* Writes the stream's open chunk, if any, to the file and frees its slot. In a gap, events are
 * dropped instead. Returns false if the chunk stays open. */
bool writer_close(stream_t *stream);

#endif
