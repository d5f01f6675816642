/* SPDX-License-Identifier: MIT
 *
 * Trampolines: code before and after any function, whatever its arguments and results are.
 *
 * A trampoline_t says where to go on (`target`) and what to call. It is entered through its thunk,
 * an address that is called in place of the target (an import slot, a method's implementation), or
 * by a jump to trampoline_address(TRAMPOLINE_BODY) with the trampoline_t in r11 (x86_64) or x17
 * (aarch64) and everything else as it is at a function's first instruction (a patched function; the
 * target is then what lies behind the patch). Thunks are code of our own text with ordinary CFI:
 * there is never a page that is both writable and executable, or one that is made executable.
 *
 * What happens at a call:
 *   1. All argument registers are put aside, and `before` is called.
 *   2. When it says no, the target is entered by a jump: no frame, nothing after it.
 *   3. When it says yes, the return address is taken off the stack and kept in a call_t, the target
 *      is called with the stack exactly as its caller left it, and the frame register (rbp, x29)
 *      points to the call_t, whose first words are a frame record. The target keeps that register,
 *      as every function does; so CFI finds the caller through it, frame pointers do as well, and
 *      calls and returns stay paired for the CPU.
 *   4. When it returns, the result registers are put aside, the frame is an ordinary one again, and
 *      `after` is called.
 * The unwinders see one frame, `sonde_trampoline`, between target and caller.
 *
 * What `before` and `after` may do. They are called with the vector, x87 and mask registers of the
 * program alive in them: they must be compiled for general registers alone, with all they call
 * (-mgeneral-regs-only; src/CMakeLists.txt has the list of such files), or go through
 * arch_call_keeping (arch/keep.h), which is meant for what is rare. They call nothing of the
 * program's libraries. errno and the signal mask stay as they are. They may run on any stack, in a
 * signal handler too.
 *
 * The call_t's of a thread are kept apart from its stack, in blocks that a fork copies and that are
 * never unmapped: 64 bytes a call that is under way, 4 KB for the first 60, 64 MB for all. A thread
 * finds its own by one initial-exec pointer. Calls need not end in the reverse order of their
 * begin: coroutines may come and go, and end on another thread.
 *
 * Signals: while a thread is inside `before` or `after`, or between them and the bookkeeping,
 * its hooked calls go straight on, unseen, and are counted (trampoline_missed): what `before` calls
 * does not come back to it. Entry and exit are missed together.
 *
 * A call that is left by longjmp, or whose coroutine vanishes, ends when its thread makes the next
 * hooked call further out: `after` is told CALL_LOST then. One that an exception leaves ends in
 * time, with CALL_THROWN. A target that goes on in another hooked function by a tail call ends
 * there (CALL_TAIL), and the other takes its place.
 *
 * Cost, all in, without what `before` and `after` do: about 6 ns a call.
 *
 * Refused (trampoline_ready says why): under a hardware shadow stack.
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
  CALL_TAIL,   /* it went on in another hooked function, which returns in its place */
  CALL_THROWN, /* an exception left it, or pthread_exit, or a cancellation */
  CALL_LOST,   /* it will not return; noticed now, it ended earlier */
} call_end_t;

/* What to call. Static: it must stay valid for ever. */
typedef struct trampoline_handlers {
  /* CALL is filled in but for `data`. ARGUMENTS are the integer argument registers in their order,
   * six on x86_64, eight on aarch64. False: go straight on, `after` is not called, no frame is
   * added. */
  bool (*before)(call_t *call, const uint64_t *arguments);
  void (*after)(call_t *call, call_end_t end);
  /* NULL, or all that is done before and after a call, in one function each, of hook/call_stack.h
   * and what BEFORE and AFTER do: for calls of which nothing is unusual, and whose trampolines are
   * not TRAMPOLINE_ENTRY_ONLY. They end in trampoline_enter_slow and trampoline_leave_slow where
   * something is, and nothing has been done yet. */
  call_t *(*enter)(const trampoline_t *trampoline, uint64_t sp, uint64_t fp,
                   uint64_t return_address, const uint64_t *arguments,
                   const struct trampoline_handlers *calls);
  void (*leave)(call_t *call);
} trampoline_handlers_t;

/* Whatever there may be to do before and after a call. */
call_t *trampoline_enter_slow(const trampoline_t *trampoline, uint64_t sp, uint64_t fp,
                              uint64_t return_address, const uint64_t *arguments,
                              const trampoline_handlers_t *calls);
void trampoline_leave_slow(call_t *call);

struct trampoline {
  uint64_t target;                    /* where to go on; it may change while calls come */
  const trampoline_handlers_t *calls; /* NULL: go straight on, at the cost of a jump */
  uint64_t function; /* which function this is: what it was taken for, unless set */
  uint32_t flags;    /* TRAMPOLINE_… */
  uint32_t data;     /* yours */
};

/* `before` alone is called, whatever it returns, with a call_t of which nothing is kept: for
 * functions that return twice or never, or look at their caller. */
#define TRAMPOLINE_ENTRY_ONLY 1u

/* It stands inside its function: a call that came through another trampoline for the same function,
 * as one that was imported does, has been told of. */
#define TRAMPOLINE_INSIDE 2u

_Static_assert(sizeof(trampoline_t) == 1 << TRAMPOLINE_SHIFT, "as the thunks have it");

/* A call that is under way. */
struct call {
  uint64_t caller_fp, return_address; /* of the caller; its pc is the latter */
  const trampoline_t *trampoline;
  uint64_t sp;           /* the stack pointer that the caller has when the call is over */
  uint64_t data;         /* for `before` and `after` */
  call_t *outer, *inner; /* the calls of the same thread that began before and after it */
  struct calls *owner;
};
_Static_assert(offsetof(struct trampoline, target) == TRAMPOLINE_TARGET, "assembly");
_Static_assert(offsetof(struct trampoline, calls) == TRAMPOLINE_CALLS, "assembly");
_Static_assert(offsetof(struct call, caller_fp) == CALL_CALLER_FP, "assembly");
_Static_assert(offsetof(struct call, return_address) == CALL_RETURN_ADDRESS, "assembly");
_Static_assert(offsetof(struct call, trampoline) == CALL_TRAMPOLINE, "assembly");
_Static_assert(sizeof(struct call) == 64, "a cache line");

/* Prepares what trampolines need. NULL: they can be used; else why not, in words. Any thread, not
 * in a signal handler; the answer of the first call holds. */
const char *trampoline_ready(void);

/* A trampoline of the table, which has a thunk, for FUNCTION; the same one for the same function.
 * When it is new its target and its `function` are the function and its calls are NULL: set the
 * rest first, then trampoline_set. It is never given back, since a pointer to its thunk may live on
 * anywhere. NULL when all are in use. */
trampoline_t *trampoline_new(uint64_t function);

/* The trampoline that was taken for FUNCTION, or NULL. */
trampoline_t *trampoline_find(uint64_t function);

/* The address to call in place of the target. */
uint64_t trampoline_thunk(const trampoline_t *trampoline);

/* The trampoline whose thunk is at ADDRESS, or NULL. */
trampoline_t *trampoline_of_thunk(uint64_t address);

/* From now on CALLS are called, or nothing (NULL): nobody is told then of the end of calls that
 * are under way. */
static inline void trampoline_set(trampoline_t *trampoline, const trampoline_handlers_t *calls) {
  store_release(&trampoline->calls, calls);
}

/* The calling thread's innermost call under way, NULL when there is none; go outward by `outer`,
 * until `sp` is UINT64_MAX. */
const call_t *trampoline_innermost(void);

/* Calls that went straight on because their thread was busy with another one, or because there was
 * no memory; of all threads. */
uint64_t trampoline_missed(void);

#endif
