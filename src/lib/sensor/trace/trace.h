/* SPDX-License-Identifier: MIT
 *
 * The call tracer: one stream of events, "entered" and "exited", per thread. Providers report the
 * events: compiler hooks, patched XRay sleds and function entries, and trampolines around imported
 * functions or messages.
 *
 * A provider does this, in a function of its own that the program's code calls or jumps to:
 *
 *   uint32_t generation = trace_on();       one to three loads
 *   if (!generation) return;                tracing is off
 *   trace_enter(generation, function, sp, call_site, hook_site);     at the start of a call
 *   trace_exit(generation, function, sp, false);        at its end, and before a tail call
 *
 * FUNCTION identifies the called function: the address of its code, or another address inside an
 * image, named by trace_name. SP identifies the call by its stack frame: the stack pointer of the
 * caller at the call (the CFA), or any value ordered like it, lower for inner calls. An exit passes
 * the SP of its enter. Several calls may share one SP: functions inlined into another, and tail
 * calls. The later of them is then inside the earlier one.
 *
 * If the compiler's exit hook is a tail call, the frame is already popped and SP is the caller's:
 * the provider then passes FRAME_POPPED.
 *
 * Pairing. Each thread keeps a stack of open calls (trace_call_t). An exit ends the innermost call
 * with its FUNCTION and SP. Calls left without an exit (longjmp, an exception through code without
 * hooks) are detected at the next event with an SP further out; the stream then records how many
 * calls ended in this way. So the stream is a sequence of well-nested calls, and a reader needs
 * only a stack. Calls that are open when the thread ends have no exit. A call with the SP of an
 * open call is not inside it (a loop around setjmp that calls again after longjmp) if CALL_SITE,
 * the return address of the physical frame, differs, or if HOOK_SITE, the place of the hook in the
 * function, is the same. Providers that see every exit pass 0, 0.
 *
 * Threads and signals. A stream is written by its thread only. A handler that interrupts an event
 * uses a second state with its own stream; at a third level events are dropped and counted. If the
 * handler jumps out, the next event has an SP further out and takes over the busy state. A forked
 * child finds all of this zeroed but the open calls. It is not traced unless children are recorded;
 * then its stream begins with the calls that its thread was in (trace_restart). Calls of a vfork
 * child count for its parent.
 *
 * Cost. The minimum is one clock reading and one store. Events are encoded as in the file
 * (docs/format.md, "Chunks of calls"), usually 4 bytes for an enter and 2 for an exit, so a full
 * chunk only needs to be written. The rest of the fast path (a look-up in a small cache from
 * function to id, the call stack) does not depend on the clock value and executes in parallel. No
 * atomic instruction; one to three system calls per 4 to 256 KB.
 *
 * trace_enter and trace_exit compile with -mgeneral-regs-only and use no vector register. Their
 * slow parts, if KEEP is true, save all vector registers. trace_enter, trace_exit and their slow
 * parts call no code of the program and do not change errno.
 */
#ifndef SONDE_SENSOR_TRACE_TRACE_H
#define SONDE_SENSOR_TRACE_TRACE_H

#include "arch/arch.h"
#include "arch/keep.h"
#include "base/bits.h"
#include "os/os.h"
#include "os/thread_slot.h"
#include "record/writer.h"

/* The clock of trace chunks: the counter shifted right by this, 1 to 2 ns a unit. */
#if defined(__x86_64__)
#define TRACE_CLOCK_SHIFT 2
#else
#define TRACE_CLOCK_SHIFT 0
#endif

/* A call that the thread is in. */
typedef struct trace_call {
  uint64_t function, sp, call_site, hook_site;
  /* with a filter: its enter; NULL: it is not recorded */
  uint8_t *record;
} trace_call_t;

/* Deeper calls are not recorded; their events are counted as lost. */
#define TRACE_CALLS_MAX  (1u << 18)
#define TRACE_CACHE_BITS 8
/* Set in no address of the program. */
#define TRACE_LONG_ENTER (UINT64_C(1) << 63)
/* A frame is rarely larger. */
#define TRACE_NEAR (UINT64_C(1) << 20)

/* An entry of a thread's cache of functions. */

typedef struct trace_cached {
  /* its address; with TRACE_LONG_ENTER if `word` is 0 */
  uint64_t function;
  /* the 4-byte enter without the time; 0: its id is 0 or too large */
  uint32_t word;
  /* 0: its calls are not recorded */
  uint32_t id;
} trace_cached_t;

/* The state of a thread, or of a signal handler that interrupted the tracer in that thread. */
typedef struct trace_thread {
  /* stack pointer of the event in progress; 0: none */
  uint64_t busy;
  /* the innermost call; calls[0] means none */
  trace_call_t *top;
  /* count of images added by the loader at which `known` was filled; and its current value */
  uint64_t adds;
  const uint64_t *adds_now;
  /* the generation in which the fast path is allowed; 0: none */
  uint32_t fast_generation;
  /* the same for the fast path with a filter (filter.h): one of the two is 0 */
  uint32_t filtered_generation;
  /* the generation that the open calls belong to */
  uint32_t generation;
  /* open calls beyond TRACE_CALLS_MAX */
  uint32_t too_deep;
  stream_t stream;
  trace_call_t *calls;
  /* events lost since the last one that was written */
  uint64_t lost;
  /* the filter: calls that are deeper, or shorter in units of the clock, are not recorded; 0: all
   * are */
  uint64_t deepest, least;
  /* the innermost call whose enter may be in an earlier chunk */
  trace_call_t *flushed;
  /* for signal handlers */
  struct trace_thread *inner;
  trace_cached_t known[1u << TRACE_CACHE_BITS];
  /* it measures the cost of a call: see measure_once */
  bool measures;
} trace_thread_t;

/* In a page that a child of fork finds zeroed. */
typedef struct trace_gate {
  /* odd: tracing is on; incremented by each switch. NULL in a forked child */
  const uint32_t *generation;
} trace_gate_t;

/* NULL: trace_prepare was not called. */
extern HIDDEN trace_gate_t *trace_gate;
#if defined(SLOT_BY_CALL)
#define trace_tls ((trace_thread_t *)os_thread_slot(SLOT_TRACE))
#else
extern __thread trace_thread_t *trace_tls SLOT_MODEL;
#endif

/* Prepares the tracer: once, after a recording is attached (record/writer.h), while the process has
 * one thread. Returns 0 or a negative SONDE_E…. */
int trace_prepare(void);

/* The recording ends for this process, which goes on and may be recorded again: the threads' states
 * are reset. Tracing is off. Returns false if a thread is still in an event after TIMEOUT_NS. */
bool trace_leave_program(uint64_t timeout_ns);

/* Switches tracing on or off, as the recorder also does. Open calls are forgotten. Any thread. */
void trace_switch(bool on);

/* The calling thread is about to set its stack pointer to SP (longjmp, a caught exception): ends
 * the calls that are deeper. */
void trace_unwound(uint64_t sp);

/* Names the address FUNCTION in the recording, instead of its symbol. */
void trace_name(uint64_t function, const char *name);

/* The name that trace_name gave FUNCTION, if the program records itself; NULL: none. */
const char *trace_kept_name(uint64_t function);

/* Records all names again, in the recording of a forked child. */
void trace_names_again(void);

/* The calling thread is about to fork (NOW), or has forked and is in the parent. */
void trace_fork(bool now);
/* In a forked child whose own recording is attached: its thread's open calls begin there. */
void trace_restart(const shm_control_t *control);

/* The current generation; 0: tracing is off. */
static ALWAYS_INLINE uint32_t trace_on(void) {
  const trace_gate_t *gate = trace_gate;
  if (LIKELY(!gate) || UNLIKELY(!gate->generation)) return 0;
  uint32_t generation = load_relaxed(gate->generation);
  return generation & 1 ? generation : 0;
}

/* The slow parts. */
NOINLINE void trace_enter_slow(uint64_t function, uint64_t sp, uint64_t call_site,
                               uint64_t hook_site);
NOINLINE void trace_exit_slow(uint64_t function, uint64_t sp, uint64_t frame_popped,
                              uint64_t unused);

/* The fast path with a filter (filter.c), for a thread with the current generation in
 * `filtered_generation`. False: nothing has changed. */
NOINLINE bool trace_enter_filtered(uint64_t function, uint64_t key, uint64_t sp, uint64_t call_site,
                                   uint64_t hook_site);
NOINLINE bool trace_exit_filtered(uint64_t function, uint64_t sp, bool frame_popped);

/* The compiler hooks (compiler_hooks.c). */
void trace_hook_enter(void *function, void *call_site);
void trace_hook_exit(void *function, void *call_site);

/* ---- the fast path --------------------------------------------------------------------------- */

#define TRACE_EXIT_2     1u /* low bits of a record's first byte */
#define TRACE_ENTER_4    2u
#define TRACE_SHORT_TIME (UINT64_C(1) << 14)
#define TRACE_LONG_TIME  (UINT64_C(1) << 36) /* of CALL_8_ENTER */

static ALWAYS_INLINE uint64_t trace_cycle_clock(void) { return arch_cycles() >> TRACE_CLOCK_SHIFT; }

static ALWAYS_INLINE unsigned trace_hash(uint64_t function) {
  return (unsigned)(function * UINT64_C(0x9e3779b97f4a7c15) >> (64 - TRACE_CACHE_BITS));
}

/* True if T may take the fast path in GENERATION. */
static ALWAYS_INLINE bool trace_can_go_fast(const trace_thread_t *t, uint32_t generation) {
  return LIKELY(t != NULL) && LIKELY(!t->busy) && LIKELY(t->fast_generation == generation);
}

/* The same for the current generation, with fewer loads than trace_on. A fork zeroes both
 * `fast_generation` and the gate, so if the first is not 0 the gate is set. */
static ALWAYS_INLINE bool trace_can_go_fast_now(const trace_thread_t *t) {
  return LIKELY(t != NULL) && LIKELY(!t->busy) && LIKELY(t->fast_generation) &&
         LIKELY(t->fast_generation == load_relaxed(trace_gate->generation));
}

static ALWAYS_INLINE bool trace_is_filtered(const trace_thread_t *t, uint32_t generation) {
  return t && !t->busy && t->filtered_generation == generation;
}

/* As trace_can_go_fast_now. */
static ALWAYS_INLINE bool trace_is_filtered_now(const trace_thread_t *t) {
  return t && !t->busy && t->filtered_generation &&
         t->filtered_generation == load_relaxed(trace_gate->generation);
}

/* Records the event if it is of the usual kind. False: nothing has changed. */
static ALWAYS_INLINE bool trace_try_enter(trace_thread_t *t, uint64_t function, uint64_t key,
                                          uint64_t sp, uint64_t call_site, uint64_t hook_site) {
  t->busy = sp;
  signal_fence();
  const trace_cached_t *known = &t->known[trace_hash(function)];
  trace_call_t *call = t->top;
  stream_t *s = &t->stream;
  /* The call is strictly inside the innermost one, its function is cached, the event fits. */
  if (LIKELY(call->sp - sp - 1 < TRACE_NEAR) && LIKELY(known->function == function) &&
      LIKELY(load_relaxed(t->adds_now) == t->adds) && LIKELY(s->next < s->limit)) {
    call[1].function = key;
    call[1].sp = sp;
    call[1].call_site = call_site;
    call[1].hook_site = hook_site;
    uint64_t now = trace_cycle_clock(), passed = now - s->last_time;
    if (LIKELY(passed < TRACE_SHORT_TIME)) {
      uint32_t word = known->word | (uint32_t)passed << 18;
      memcpy(s->next, &word, 4);
      s->last_time = now;
      s->next += 4;
      s->records++;
      t->top = call + 1;
      signal_fence();
      t->busy = 0;
      return true;
    }
  }
  t->busy = 0;
  return false;
}

static ALWAYS_INLINE bool trace_try_exit(trace_thread_t *t, uint64_t function, uint64_t sp,
                                         bool frame_popped) {
  t->busy = sp;
  signal_fence();
  uint64_t now = trace_cycle_clock();
  stream_t *s = &t->stream;
  uint64_t passed = now - s->last_time;
  trace_call_t *call = t->top;
  uint8_t *next = s->next;
  bool is_it = frame_popped ? call->sp < sp && call[-1].sp >= sp : call->sp == sp;
  if (LIKELY(is_it) && LIKELY(call->function == function) && LIKELY(passed < TRACE_SHORT_TIME) &&
      LIKELY(next < s->limit)) {
    uint16_t word = (uint16_t)(passed << 2 | TRACE_EXIT_2);
    memcpy(next, &word, 2);
    s->last_time = now;
    s->next = next + 2;
    s->records++;
    t->top = call - 1;
    signal_fence();
    t->busy = 0;
    return true;
  }
  t->busy = 0;
  return false;
}

static ALWAYS_INLINE void trace_enter_(uint32_t generation, uint64_t function, uint64_t key,
                                       uint64_t sp, uint64_t call_site, uint64_t hook_site,
                                       bool keep) {
  trace_thread_t *t = trace_tls;
  if (trace_can_go_fast(t, generation) &&
      trace_try_enter(t, function, key, sp, call_site, hook_site))
    return;
  if (trace_is_filtered(t, generation) &&
      trace_enter_filtered(function, key, sp, call_site, hook_site))
    return;
  if (keep)
    arch_call_keeping(function, sp, call_site, hook_site, trace_enter_slow);
  else
    trace_enter_slow(function, sp, call_site, hook_site);
}

static ALWAYS_INLINE void trace_exit_(uint32_t generation, uint64_t function, uint64_t sp,
                                      bool frame_popped, bool keep) {
  trace_thread_t *t = trace_tls;
  if (trace_can_go_fast(t, generation) && trace_try_exit(t, function, sp, frame_popped)) return;
  if (trace_is_filtered(t, generation) && trace_exit_filtered(function, sp, frame_popped)) return;
  if (keep)
    arch_call_keeping(function, sp, frame_popped, 0, trace_exit_slow);
  else
    trace_exit_slow(function, sp, frame_popped, 0);
}

/* For providers that are called like functions. GENERATION is from trace_on, not 0. */
static ALWAYS_INLINE void trace_enter(uint32_t generation, uint64_t function, uint64_t sp,
                                      uint64_t call_site, uint64_t hook_site) {
  trace_enter_(generation, function, function, sp, call_site, hook_site, false);
}
static ALWAYS_INLINE void trace_exit(uint32_t generation, uint64_t function, uint64_t sp,
                                     bool frame_popped) {
  trace_exit_(generation, function, sp, frame_popped, false);
}

/* For providers that must preserve vector registers: trampolines and sleds. A trampoline's SP is
 * the caller's stack pointer after the call. Another call or event with that SP means that this
 * call has ended. TRACE_CALLER is the call site of such calls. */
#define TRACE_CALLER 2u
static ALWAYS_INLINE void trace_enter_keeping(uint32_t generation, uint64_t function, uint64_t sp) {
  trace_enter_(generation, function, function, sp, TRACE_CALLER, 0, true);
}
static ALWAYS_INLINE void trace_exit_keeping(uint32_t generation, uint64_t function, uint64_t sp) {
  trace_exit_(generation, function, sp, false, true);
}

/* For sleds, whose exit only knows the address of the return address, which is SP: if two calls
 * have the same SP, the earlier one has ended. ADDRESS is in the function. TRACE_SLED is the
 * function of such calls. */
#define TRACE_SLED 1u
static ALWAYS_INLINE void trace_enter_sled(uint32_t generation, uint64_t address, uint64_t sp) {
  trace_enter_(generation, address, TRACE_SLED, sp, TRACE_SLED, 0, true);
}
static ALWAYS_INLINE void trace_exit_sled(uint32_t generation, uint64_t sp) {
  trace_exit_(generation, TRACE_SLED, sp, false, true);
}

#endif
