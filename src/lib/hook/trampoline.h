/* SPDX-License-Identifier: MIT
 *
 * Trampolines: code before and after any function, whatever its arguments and results are.
 *
 * A trampoline_t contains the address of the function (`target`) and its handlers. There are two
 * ways to enter a trampoline. Its thunk is an address that is called in place of the target: in an
 * import slot, or as a method's implementation. A patched function jumps to
 * trampoline_address(TRAMPOLINE_BODY) with the trampoline_t in r11 (x86_64) or x17 (aarch64); all
 * other registers are as at the function's first instruction, and the target is the code behind the
 * patch. A function whose entry was moved (hook/entry.h) jumps to TRAMPOLINE_MOVED, which preserves
 * r11 as well. Thunks are code of sonde's text section with ordinary CFI: no page is ever writable
 * and executable, or made executable.
 *
 * A call runs in these steps:
 *   1. All argument registers are saved, and `before` is called.
 *   2. If `before` returns false, the target is entered by a jump: no frame, no `after`.
 *   3. If `before` returns true, the return address is taken off the stack and kept in a call_t.
 *      The target is called with the stack exactly as its caller left it, and the frame register
 *      (rbp, x29) points to the call_t, whose first words are a frame record. The target preserves
 *      that register, as every function does. So CFI and frame pointers find the caller, and calls
 *      and returns stay paired for the CPU.
 *   4. When the target returns, the result registers are saved, the frame is an ordinary one again,
 *      and `after` is called.
 * Unwinders see one frame, `sonde_trampoline`, between target and caller.
 *
 * Handlers run while the vector, x87 and mask registers contain the program's values. So they, and
 * all functions that they call, are compiled for general registers only (-mgeneral-regs-only;
 * src/CMakeLists.txt), or use arch_call_keeping (arch/keep.h) for rare work. Handlers call no
 * library of the program and preserve errno and the signal mask. They may run on any stack, also in
 * a signal handler.
 *
 * Memory: the call_t's of a thread are not on its stack, but in blocks that a fork copies and that
 * are never unmapped: 64 bytes for each call in progress, 4 KB for the first 60, 64 MB in total. A
 * thread finds its own through an initial-exec TLS pointer. Calls need not end in reverse order:
 * coroutines may switch, and a call may end on another thread.
 *
 * Signals: while a thread is in a handler or in the bookkeeping around it, its hooked calls go
 * directly to their targets and are counted as missed. A missed call has neither entry nor exit.
 *
 * A call that longjmp leaves, or whose coroutine vanishes, ends when its thread makes the next
 * hooked call further out: `after` gets CALL_LOST then. A call that an exception leaves ends in
 * time, with CALL_THROWN. If a target tail-calls another hooked function, its call ends there
 * (CALL_TAIL) and the other takes its place. If a target is itself the thunk or the patched entry
 * of another trampoline, both calls are in progress, with the same stack pointer.
 *
 * Cost: about 6 ns for a call, without the handlers' work.
 *
 * Trampolines are refused under a hardware shadow stack (trampoline_ready returns the reason).
 */
#ifndef SONDE_HOOK_TRAMPOLINE_H
#define SONDE_HOOK_TRAMPOLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/trampoline.h"
#include "base/bits.h"

typedef struct trampoline trampoline_t;
typedef struct call call_t;

/* How a call ended. */
typedef enum call_end {
  CALL_RETURNED,
  CALL_TAIL,   /* it tail-called another hooked function, which returns in its place */
  CALL_THROWN, /* left by an exception, pthread_exit or a cancellation */
  CALL_LOST,   /* it will not return; it ended at an unknown earlier time */
} call_end_t;

/* The handlers. Must stay valid forever. */
typedef struct trampoline_handlers {
  /* CALL is complete except for `data`. ARGUMENTS are the integer argument registers in order: six
   * on x86_64, eight on aarch64. Returns false to enter the target directly, without a frame and
   * `after`. */
  bool (*before)(call_t *call, const uint64_t *arguments);
  void (*after)(call_t *call, call_end_t end);
  /* NULL, or functions that combine the bookkeeping of hook/call_stack.h and the work of `before`
   * and `after` for ordinary calls. They call trampoline_enter_slow and trampoline_leave_slow for
   * all others, before they have changed anything. Not for TRAMPOLINE_ENTRY_ONLY. RESULTS are two
   * integer result registers. */
  call_t *(*enter)(const trampoline_t *trampoline, uint64_t sp, uint64_t fp,
                   uint64_t return_address, const uint64_t *arguments,
                   const struct trampoline_handlers *calls);
  void (*leave)(call_t *call, const uint64_t *results);
} trampoline_handlers_t;

/* The general entry and exit of a call. */
call_t *trampoline_enter_slow(const trampoline_t *trampoline, uint64_t sp, uint64_t fp,
                              uint64_t return_address, const uint64_t *arguments,
                              const trampoline_handlers_t *calls);
void trampoline_leave_slow(call_t *call);

struct trampoline {
  uint64_t target;                    /* the function to call; may change at any time */
  const trampoline_handlers_t *calls; /* NULL: enter the target directly, at the cost of a jump */
  uint64_t function; /* identifies the function; initially the key of trampoline_new */
  uint32_t flags;    /* TRAMPOLINE_… */
  uint32_t data;     /* for the user */
};

/* Only `before` is called, whatever it returns, with a temporary call_t: for functions that return
 * twice or never, or inspect their caller. */
#define TRAMPOLINE_ENTRY_ONLY 1u

/* The trampoline is inside its function. If a call came through another trampoline for the same
 * function, such as an import's, that trampoline has reported the call. */
#define TRAMPOLINE_INSIDE 2u

/* Of one that is inside: the number of older patches of the same function that it leads through. */
#define TRAMPOLINE_DEPTH_SHIFT 8

_Static_assert(sizeof(trampoline_t) == 1 << TRAMPOLINE_SHIFT, "the thunks index by it");

/* A call in progress. */
struct call {
  uint64_t caller_fp, return_address; /* the caller's; return_address is its pc */
  const trampoline_t *trampoline;
  uint64_t sp;           /* the caller's stack pointer after the call */
  uint64_t data;         /* for the handlers */
  call_t *outer, *inner; /* the previous and next calls of the same thread */
  struct calls *owner;
};
_Static_assert(offsetof(struct trampoline, target) == TRAMPOLINE_TARGET, "assembly");
_Static_assert(offsetof(struct trampoline, calls) == TRAMPOLINE_CALLS, "assembly");
_Static_assert(offsetof(struct call, caller_fp) == CALL_CALLER_FP, "assembly");
_Static_assert(offsetof(struct call, return_address) == CALL_RETURN_ADDRESS, "assembly");
_Static_assert(offsetof(struct call, trampoline) == CALL_TRAMPOLINE, "assembly");
_Static_assert(offsetof(struct call, sp) == CALL_SP, "capture/walk.c");
_Static_assert(sizeof(struct call) == CALL_BYTES, "a cache line");

/* Prepares trampolines. Returns NULL if they can be used, otherwise the reason, a static text. Any
 * thread, not in a signal handler. */
const char *trampoline_ready(void);

/* The trampoline for FUNCTION, created at the first call. A new one has FUNCTION as its target and
 * `function`, and no handlers: set the other fields first, then call trampoline_set. It is never
 * freed, since pointers to its thunk may exist anywhere. NULL if all are in use. */
trampoline_t *trampoline_new(uint64_t function);

/* The existing trampoline for FUNCTION, or NULL. */
trampoline_t *trampoline_find(uint64_t function);

/* Removes the handlers CALLS from all trampolines of this table that have them. */
void trampolines_retire(const trampoline_handlers_t *calls);

/* True once there is a trampoline: the program may have copied the address of its thunk. */
bool trampoline_exists(void);

/* The address to call in place of the target. */
uint64_t trampoline_thunk(const trampoline_t *trampoline);

/* Sets the handlers, or NULL: then calls in progress end without `after`. */
static inline void trampoline_set(trampoline_t *trampoline, const trampoline_handlers_t *calls) {
  store_release(&trampoline->calls, calls);
}

/* The calling thread's innermost call in progress, or NULL. Follow `outer` until `sp` is
 * UINT64_MAX. */
const call_t *trampoline_innermost(void);

#endif
