/* SPDX-License-Identifier: MIT
 *
 * The call tracer: one stream of events a thread, "entered" and "left", from whatever notices calls
 * (compiler hooks, patched sleds, trampolines around imported functions or messages).
 *
 * A provider, inside a function of its own that the program's code calls or jumps to:
 *
 *   uint32_t generation = trace_on();       a load or three
 *   if (!generation) return;                tracing is off
 *   trace_enter(generation, function, sp, call_site, hook_site);     at the start of a call
 *   trace_exit(generation, function, sp, false);        at its end, and before a tail call
 *
 * FUNCTION is an address that stands for what is called: that of its code, or of anything else in
 * an image that was given a name by trace_name. SP tells which call it is, by the stack: the stack
 * pointer of the call's caller (the CFA) or any value that lies as those do, lower for inner calls;
 * an exit is given the same SP as its enter. Of calls that share one SP, as inlined functions do
 * and as a function does with the one it ends in, the later one is inside the earlier one.
 *
 * A hook that the compiler made the function jump to at its very end finds the frame gone, and SP
 * where its caller had it: then FRAME_GONE.
 *
 * What is paired how: each thread keeps the calls it is in (trace_call_t). An exit ends the
 * innermost call that is its own, by FUNCTION and SP. Calls that were left without an exit
 * (longjmp, an exception through code without hooks) are noticed at the next event whose SP lies
 * further out; the stream then says how many ended so. So the stream itself is a sequence of
 * well-nested calls, and a reader needs no more than a stack. Calls still open when the thread ends
 * have no exit. Two calls of one SP that are not inside each other (a loop around setjmp that calls
 * again after longjmp) are told apart by CALL_SITE, the return address of the physical frame, and
 * HOOK_SITE, where in the function the hook stands; providers that see each exit pass 0, 0.
 *
 * Threads and signals: a stream is written by its thread alone. A handler that interrupts the hot
 * path has a second state with a stream of its own; a third level is dropped and counted. If the
 * handler jumps out, the stack pointer tells, and the state is taken over. A child of fork finds
 * all of this zeroed and is not traced; a vfork child's calls are its parent's.
 *
 * Cost: what cannot be less is one read of the clock and one store. The event is coded as it will
 * stand in the file (docs/format.md, "Chunks of calls"): 4 bytes for an enter, 2 for an exit as a
 * rule, so nothing is left to do when a chunk is full but to write it. The rest of the hot path (a
 * look into a small table from function to id, the call stack) depends on nothing that the clock
 * says and runs beside it. No atomic instruction; a system call or three per 4 to 256 KB.
 *
 * trace_enter and trace_exit need general registers only; compiled so (-mgeneral-regs-only) they
 * touch no vector register: their slow parts, reached where KEEP is true, save them all. They call
 * nothing of the program's and change no errno.
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
} trace_call_t;

#define TRACE_CALLS_MAX  (1u << 18) /* what is as deep is not recorded, and its events counted */
#define TRACE_CACHE_BITS 8
#define TRACE_APART      (UINT64_C(1) << 63) /* no address of the program's has it */
#define TRACE_NEAR       (UINT64_C(1) << 20) /* a frame is rarely larger */

typedef struct trace_cached {
  uint64_t function; /* TRACE_APART is set: its enter is not to be coded in 4 bytes */
  uint32_t word;     /* of its enter, without the time; 0: see above */
  uint32_t id;       /* 0: its calls are not recorded */
} trace_cached_t;

/* A thread's state, or that of a signal handler which interrupted the thread in here. */
typedef struct trace_thread {
  uint64_t busy;       /* the stack pointer of who is in here; 0: nobody */
  trace_call_t *top;   /* the innermost call; the first one of the array stands for none */
  uint64_t adds;       /* of the loader, for which KNOWN holds */
  const uint64_t *now; /* where it is now */
  uint32_t quick;      /* the generation in which the hot path may be gone; 0: none */
  uint32_t generation; /* the one that the calls are of */
  uint32_t too_deep;   /* calls beyond TRACE_CALLS_MAX that the thread is in */
  stream_t stream;
  trace_call_t *calls;
  uint64_t lost;              /* events since the last that could be written */
  struct trace_thread *inner; /* of signal handlers */
  trace_cached_t known[1u << TRACE_CACHE_BITS];
} trace_thread_t;

/* In a page that a child of fork finds zeroed. */
typedef struct trace_gate {
  const uint32_t *generation; /* odd: tracing is on; grows with each switch. NULL: it cannot be */
} trace_gate_t;

extern HIDDEN trace_gate_t *trace_gate; /* NULL: never prepared */
#if defined(__APPLE__)
#define trace_tls ((trace_thread_t *)os_thread_slot(SLOT_TRACE))
#else
extern __thread trace_thread_t *trace_tls SLOT_MODEL;
#endif

/* Prepares the tracer, once a recording was attached to (record/writer.h) and before there are
 * threads. 0 or a negative SONDE_E…. */
int trace_prepare(void);

/* Switches tracing on or off, as the recorder does from outside; calls that are open then are
 * forgotten. Any thread. */
void trace_switch(bool on);

/* The calling thread's stack pointer is about to become SP: calls deeper than that have ended. */
void trace_unwound(uint64_t sp);

/* Gives the address FUNCTION a NAME in the recording, in place of its symbol's. */
void trace_name(uint64_t function, const char *name);

/* The generation of the tracing that is on; 0: it is off. */
static ALWAYS_INLINE uint32_t trace_on(void) {
  const trace_gate_t *gate = trace_gate;
  if (LIKELY(!gate) || UNLIKELY(!gate->generation)) return 0;
  uint32_t generation = load_relaxed(gate->generation);
  return generation & 1 ? generation : 0;
}

/* Everything the inline parts do not do. */
NOINLINE void trace_enter_slow(uint64_t function, uint64_t sp, uint64_t call_site,
                               uint64_t hook_site);
NOINLINE void trace_exit_slow(uint64_t function, uint64_t sp, uint64_t frame_gone, uint64_t unused);

/* The compiler hooks (trace_hooks.c). */
void trace_hook_enter(void *function, void *call_site);
void trace_hook_exit(void *function, void *call_site);

/* ---- the hot path -------------------------------------------------------------------------- */

#define TRACE_EXIT_2     1u /* low bits of a record's first byte */
#define TRACE_ENTER_4    2u
#define TRACE_SHORT_TIME (UINT64_C(1) << 14)

static ALWAYS_INLINE uint64_t trace_cycle_clock(void) { return arch_cycles() >> TRACE_CLOCK_SHIFT; }

static ALWAYS_INLINE unsigned trace_hash(uint64_t function) {
  return (unsigned)(function * UINT64_C(0x9e3779b97f4a7c15) >> (64 - TRACE_CACHE_BITS));
}

/* May T's hot path be gone, while GENERATION is on? */
static ALWAYS_INLINE bool trace_can_go_fast(const trace_thread_t *t, uint32_t generation) {
  return LIKELY(t != NULL) && LIKELY(!t->busy) && LIKELY(t->quick == generation);
}

/* The same for whatever is on now, with fewer loads than trace_on: who has a generation in `quick`
 * is not a child of fork, where both it and the gate are zeroed. */
static ALWAYS_INLINE bool trace_can_go_fast_now(const trace_thread_t *t) {
  return LIKELY(t != NULL) && LIKELY(!t->busy) && LIKELY(t->quick) &&
         LIKELY(t->quick == load_relaxed(trace_gate->generation));
}

/* The event, when it is one of the usual kind. False: nothing has changed. */
static ALWAYS_INLINE bool trace_try_enter(trace_thread_t *t, uint64_t function, uint64_t key,
                                          uint64_t sp, uint64_t call_site, uint64_t hook_site) {
  t->busy = sp;
  signal_fence();
  const trace_cached_t *known = &t->known[trace_hash(function)];
  trace_call_t *call = t->top;
  stream_t *s = &t->stream;
  uint32_t word = known->word;
  uint8_t *next = s->next;
  /* Strictly inside the innermost call, a function that is known, room for the event. */
  if (LIKELY(call->sp - sp - 1 < TRACE_NEAR) && LIKELY(known->function == function) &&
      LIKELY(load_relaxed(t->now) == t->adds) && LIKELY(next < s->limit)) {
    call[1].function = key;
    call[1].sp = sp;
    call[1].call_site = call_site;
    call[1].hook_site = hook_site;
    uint64_t now = trace_cycle_clock(), passed = now - s->last_time;
    if (LIKELY(passed < TRACE_SHORT_TIME)) {
      word |= (uint32_t)passed << 18;
      memcpy(next, &word, 4);
      s->last_time = now;
      s->next = next + 4;
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
                                         bool frame_gone) {
  t->busy = sp;
  signal_fence();
  uint64_t now = trace_cycle_clock();
  stream_t *s = &t->stream;
  uint64_t passed = now - s->last_time;
  trace_call_t *call = t->top;
  uint8_t *next = s->next;
  bool is_it = frame_gone ? call->sp < sp && call[-1].sp >= sp : call->sp == sp;
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
  if (keep)
    arch_call_keeping(function, sp, call_site, hook_site, trace_enter_slow);
  else
    trace_enter_slow(function, sp, call_site, hook_site);
}

static ALWAYS_INLINE void trace_exit_(uint32_t generation, uint64_t function, uint64_t sp,
                                      bool frame_gone, bool keep) {
  trace_thread_t *t = trace_tls;
  if (trace_can_go_fast(t, generation) && trace_try_exit(t, function, sp, frame_gone)) return;
  if (keep)
    arch_call_keeping(function, sp, frame_gone, 0, trace_exit_slow);
  else
    trace_exit_slow(function, sp, frame_gone, 0);
}

/* For providers that are called as functions are. GENERATION is what trace_on said, not 0. */
static ALWAYS_INLINE void trace_enter(uint32_t generation, uint64_t function, uint64_t sp,
                                      uint64_t call_site, uint64_t hook_site) {
  trace_enter_(generation, function, function, sp, call_site, hook_site, false);
}
static ALWAYS_INLINE void trace_exit(uint32_t generation, uint64_t function, uint64_t sp,
                                     bool frame_gone) {
  trace_exit_(generation, function, sp, frame_gone, false);
}

/* For providers that must keep vector registers as they are: trampolines and sleds. A trampoline's
 * SP is that of the caller when it goes on: once that has another call, or another event there,
 * this one has ended. */
#define TRACE_CALLER 2u /* stands for the call site of such a call */
static ALWAYS_INLINE void trace_enter_keeping(uint32_t generation, uint64_t function, uint64_t sp) {
  trace_enter_(generation, function, function, sp, TRACE_CALLER, 0, true);
}
static ALWAYS_INLINE void trace_exit_keeping(uint32_t generation, uint64_t function, uint64_t sp) {
  trace_exit_(generation, function, sp, false, true);
}

/* For sleds, whose exit knows nothing but the address of the return address, which is SP: of two
 * calls that have the same one the earlier has ended. ADDRESS lies in the function. */
#define TRACE_SLED 1u /* stands for the function of such a call */
static ALWAYS_INLINE void trace_enter_sled(uint32_t generation, uint64_t address, uint64_t sp) {
  trace_enter_(generation, address, TRACE_SLED, sp, TRACE_SLED, 0, true);
}
static ALWAYS_INLINE void trace_exit_sled(uint32_t generation, uint64_t sp) {
  trace_exit_(generation, TRACE_SLED, sp, false, true);
}

#endif
